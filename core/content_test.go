package core_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/understudy-mq/understudy/core"
	"github.com/understudy-mq/understudy/core/coretest"
	"github.com/understudy-mq/understudy/core/entry"
	"github.com/understudy-mq/understudy/core/message"
)

// journal keeps entries, as a log does, to read records back by Loc.
type journal struct {
	d       *coretest.Driver
	entries map[uint64][]byte
}

// apply applies one entry of two batches of node 1.
func (j *journal) apply(first, second []entry.Command) []core.Effect {
	_, _, seq := j.d.Machine.Incarnation(1)
	batch := func(n uint64, cmds []entry.Command) entry.Batch {
		b := entry.Batch{Node: 1, Incarnation: 1, Seq: seq + n}
		for _, c := range cmds {
			b.Commands = entry.Append(b.Commands, c)
		}
		return b
	}
	data := coretest.Entry(1, batch(1, first), batch(2, second))
	fx := j.d.Apply(data)
	j.entries[j.d.Index] = data
	return fx
}

func (j *journal) read(loc message.Loc, size uint32) []byte {
	return j.entries[loc.Index()][loc.Offset():][:size]
}

func TestLocFindsTheRecordAndItsPieces(t *testing.T) {
	j := &journal{d: started(t), entries: map[uint64][]byte{}}
	record := func(i int) []byte { return coretest.Record("", "q", nil, fmt.Sprintf("body %d", i)) }
	publish := func(i int) entry.Command { return &entry.Publish{Ref: ref, Record: record(i)} }
	j.apply([]entry.Command{publish(1), publish(2)}, []entry.Command{publish(3)})
	j.apply([]entry.Command{&entry.Fragment{Ref: ref, Piece: []byte("one")}},
		[]entry.Command{&entry.Fragment{Ref: ref, Piece: []byte("two")}, &entry.Publish{Ref: ref, Fragmented: true, Record: record(4)}})
	j.d.Restart()
	fx := j.apply([]entry.Command{&entry.Consume{Ref: ref, Queue: "q", Tag: "ct"}}, []entry.Command{publish(5), publish(6)})
	got := only(fx, core.EffectDelivered)
	if len(got) != 6 {
		t.Fatalf("%d deliveries, want 6", len(got))
	}
	for i := range got {
		e := &got[i]
		if !bytes.Equal(j.read(e.Loc, e.Size), record(i+1)) {
			t.Errorf("message %d is not at its Loc", i+1)
		}
		if carried := i >= 4; carried != (e.Record != nil) || carried && !bytes.Equal(e.Record, record(i+1)) {
			t.Errorf("message %d carries %q", i+1, e.Record)
		}
	}
	var body []byte
	for _, p := range got[3].Parts {
		body = append(body, j.read(p.Loc, p.Size)...)
	}
	if string(body) != "onetwo" {
		t.Errorf("the pieces are %q", body)
	}
}

func TestAQueuesBytesAreThoseOfItsMessagesAndTheirPieces(t *testing.T) {
	d := started(t)
	small := publish("tail")
	size := uint64(len(small.Record))
	big := size + uint64(len("onetwo"))
	for _, step := range []struct {
		name          string
		do            []entry.Command
		ready, flying uint64
	}{
		{"published", []entry.Command{&entry.Fragment{Ref: ref, Piece: []byte("one")}, &entry.Fragment{Ref: ref, Piece: []byte("two")},
			&entry.Publish{Ref: ref, Fragmented: true, Record: small.Record}, small}, big + size, 0},
		{"one in flight", []entry.Command{&entry.Get{Ref: ref, Queue: "q"}}, size, big},
		{"both in flight", []entry.Command{&entry.Get{Ref: ref, Queue: "q"}}, 0, big + size},
		{"one back", []entry.Command{&entry.Settle{Ref: ref, Outcome: entry.Released, First: 1, Last: 1}}, big, size},
		{"the other settled", []entry.Command{&entry.Settle{Ref: ref, First: 2, Last: 2}}, big, 0},
		{"taken without an ack", []entry.Command{&entry.Get{Ref: ref, Queue: "q", NoAck: true}}, 0, 0},
		{"purged", []entry.Command{small, &entry.QueuePurge{Ref: ref, Name: "q"}}, 0, 0},
	} {
		d.Batch(1, step.do...)
		for _, when := range []string{"", " and loaded"} {
			q, _ := d.Machine.Queue("/", "q")
			if q.ReadyBytes != step.ready || q.UnacknowledgedBytes != step.flying {
				t.Errorf("%s%s: %d bytes ready and %d in flight, want %d and %d", step.name, when, q.ReadyBytes, q.UnacknowledgedBytes, step.ready, step.flying)
			}
			d.Restart()
		}
	}
}
