package core_test

import (
	"bytes"
	"runtime"
	"slices"
	"testing"

	"github.com/understudy-mq/understudy/core"
	"github.com/understudy-mq/understudy/core/coretest"
	"github.com/understudy-mq/understudy/core/entry"
)

// TestDeadLettersOfAKindAreSmall: of a million dead letters that died alike, what is kept beside each takes little more than its place
// in the queue, also in a node that was started again.
func TestDeadLettersOfAKindAreSmall(t *testing.T) {
	const letters, bytesMax = 20_000, 250
	before := heap()
	m := buried(t, letters)
	each := (heap() - before) / letters
	if each > bytesMax {
		t.Errorf("a dead letter takes %d bytes, at most %d are allowed", each, bytesMax)
	}
	rows := [][2][]byte{}
	m.Checkpoint(func(k, v []byte) { rows = append(rows, [2][]byte{slices.Clone(k), slices.Clone(v)}) }, func([]byte) {})
	slices.SortFunc(rows, func(a, b [2][]byte) int { return bytes.Compare(a[0], b[0]) })
	before = heap()
	n := core.New(1)
	for _, r := range rows {
		if err := n.Load(r[0], r[1]); err != nil {
			t.Fatal(err)
		}
	}
	loaded := (heap() - before) / letters
	t.Logf("%d bytes each, %d once loaded", each, loaded)
	if loaded > bytesMax {
		t.Errorf("a dead letter takes %d bytes once it is loaded, at most %d are allowed", loaded, bytesMax)
	}
	if err := n.Loaded(); err != nil || n.Fingerprint() != m.Fingerprint() {
		t.Errorf("loaded: %v, fingerprint %x, want %x", err, n.Fingerprint(), m.Fingerprint())
	}
	runtime.KeepAlive(m)
	runtime.KeepAlive(rows)
}

// buried is a machine with that many dead letters in a queue, of two kinds in turn.
func buried(t *testing.T, letters int) *core.Machine {
	d := started(t)
	d.Batch(1, &entry.ExchangeDeclare{Ref: ref, Name: "x", Type: "fanout"})
	d.Batch(1, &entry.QueueDeclare{Ref: ref, Name: "dead"})
	for _, name := range []string{"a", "b"} {
		d.Batch(1, &entry.QueueDeclare{Ref: ref, Name: name, Arguments: table(
			"x-max-length", int32(0), "x-dead-letter-exchange", "", "x-dead-letter-routing-key", "dead")})
	}
	m, fx := d.Machine, core.Effects{}
	records := [][]byte{coretest.Record("", "a", nil, "x"), coretest.Record("", "b", nil, "x")}
	for i := range uint64(letters / 1000) {
		var commands []byte
		for j := range 1000 {
			commands = entry.AppendPublish(commands, &entry.Publish{Ref: ref, Record: records[j%2]})
		}
		_, _, seq := m.Incarnation(1)
		if err := m.Apply(1000+i, coretest.Entry(1+int64(i), entry.Batch{Node: 1, Incarnation: 1, Seq: seq + 1, Commands: commands}), &fx); err != nil {
			t.Fatal(err)
		}
		fx = core.Effects{}
	}
	if v, _ := m.Vhost("/"); v.Ready != uint64(letters) {
		t.Fatalf("%d dead letters, want %d", v.Ready, letters)
	}
	return m
}
