package store

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/understudy-mq/understudy/core"
	"github.com/understudy-mq/understudy/core/coretest"
	"github.com/understudy-mq/understudy/core/entry"
	"github.com/understudy-mq/understudy/core/message"
)

// broker is a group of the real machine with one session on one node, and its log.
type broker struct {
	t     testing.TB
	fs    vfs.FS
	dir   string
	db    *DB
	g     *Group
	log   *toyLog
	fx    []core.Effect
	tags  []uint64 // unsettled
	stamp int64
}

const brokerGroup = 1

var channelOne = entry.Ref{Session: 1, Epoch: 1, Channel: 1}

var brokerQueues = []string{"one", "two", "three"}

func newBroker(t testing.TB, fs vfs.FS) *broker {
	b := &broker{t: t, fs: fs, dir: "store", log: newToyLog()}
	b.open()
	t.Cleanup(func() { b.close() })
	return b
}

func (b *broker) open() {
	b.t.Helper()
	b.log.sums[0] = core.New(brokerGroup).Fingerprint()
	var err error
	b.db, err = Open(b.fs, b.dir, Options{Fatal: func(err error) { b.t.Errorf("fatal: %v", err) }})
	b.must(err)
	b.g, err = b.db.Group(brokerGroup, GroupOptions{
		ReadEntry: func(index uint64, offset, size int) ([]byte, error) { return b.log.read(index, offset, size) },
		OnEffects: func(_ uint64, fx *core.Effects) { b.fx = append(b.fx[:0], fx.List...) },
	})
	b.must(err)
}

func (b *broker) close() {
	if b.db != nil {
		b.must(b.db.Close())
	}
	b.db = nil
}

func (b *broker) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

func (b *broker) apply(incarnation, seq uint64, commands []byte) []core.Effect {
	b.t.Helper()
	b.stamp++
	b.fx = b.fx[:0] // where an entry has none, nobody is told
	data := coretest.Entry(b.stamp, entry.Batch{Node: incarnation, Incarnation: incarnation, Seq: seq, Commands: commands})
	i := b.log.append(data)
	b.must(b.g.Apply(i, 1, data))
	b.g.Round()
	b.log.note(i, b.g.Fingerprint())
	return b.fx
}

// batch applies commands as node 1's next batch and answers the effects.
func (b *broker) batch(commands []byte) []core.Effect {
	b.t.Helper()
	_, _, seq := b.g.Incarnation(1)
	return b.apply(1, seq+1, commands)
}

func (b *broker) do(cmds ...entry.Command) []core.Effect {
	b.t.Helper()
	return b.batch(encode(cmds...))
}

func encode(cmds ...entry.Command) (b []byte) {
	for _, c := range cmds {
		b = entry.Append(b, c)
	}
	return b
}

// setUp makes the session, its channel and the queues, bound to amq.fanout.
func (b *broker) setUp() {
	b.t.Helper()
	b.apply(0, 0, encode(&entry.NodeUp{Node: 1, Nonce: 1}, &entry.VhostCreate{ID: "v", Name: "/"}))
	b.do(&entry.Attach{Vhost: "/", Connection: "test"})
	b.do(&entry.ChannelOpen{Ref: channelOne})
	for i, q := range brokerQueues {
		dead := message.Table{{Key: "x-dead-letter-exchange", Value: ""}, {Key: "x-dead-letter-routing-key", Value: brokerQueues[(i+1)%len(brokerQueues)]}}
		b.do(&entry.QueueDeclare{Ref: channelOne, Name: q, Arguments: message.AppendTable(nil, dead)},
			&entry.QueueBind{Binding: entry.Binding{Ref: channelOne, Source: "amq.fanout", Destination: q}})
	}
}

// publishes is n publishes to one queue.
func publishes(n int, body string) (commands []byte) {
	x := entry.Publish{Ref: channelOne, Record: coretest.Record("", "one", nil, body)}
	for range n {
		commands = entry.AppendPublish(commands, &x)
	}
	return commands
}

// step does something at random.
func (b *broker) step(random func(int) int) {
	b.t.Helper()
	queue := brokerQueues[random(3)]
	switch random(8) {
	case 0, 1:
		for range 1 + random(8) {
			b.do(&entry.Publish{Ref: channelOne, Record: coretest.Record("", queue, nil, fmt.Sprint("direct ", b.stamp))})
		}
	case 2:
		b.do(&entry.Publish{Ref: channelOne, Record: coretest.Record("amq.fanout", "", nil, fmt.Sprint("fanout ", b.stamp))})
	case 3:
		b.do(&entry.Fragment{Ref: channelOne, Piece: fmt.Append(nil, "piece ", b.stamp)},
			&entry.Publish{Ref: channelOne, Fragmented: true, Record: coretest.Record("amq.fanout", "", nil, "rest")})
	case 4, 5:
		for range 1 + random(4) {
			b.got(b.do(&entry.Get{Ref: channelOne, Queue: queue}))
		}
	case 6, 7:
		if len(b.tags) > 0 {
			i := random(len(b.tags))
			outcome := []entry.Outcome{entry.Accepted, entry.Accepted, entry.Released, entry.Rejected}[random(4)]
			b.do(&entry.Settle{Ref: channelOne, Outcome: outcome, First: b.tags[i], Last: b.tags[i]})
			b.tags = append(b.tags[:i], b.tags[i+1:]...)
		}
	}
}

// got keeps delivery tags, and reads what was delivered.
func (b *broker) got(effects []core.Effect) {
	b.t.Helper()
	for i := range effects {
		if e := &effects[i]; e.Kind == core.EffectGot {
			b.tags = append(b.tags, e.Tag)
			b.intact(e.Loc, e.Size)
			for _, p := range e.Parts {
				b.intact(p.Loc, p.Size)
			}
		}
	}
}

// intact checks that a content can be read and is what the log once had.
func (b *broker) intact(loc message.Loc, size uint32) {
	b.t.Helper()
	got, err := b.g.Content(loc, size)
	b.must(err)
	b.log.mu.Lock()
	defer b.log.mu.Unlock()
	data := b.log.entries[loc.Index()]
	if want := data[loc.Offset() : loc.Offset()+int(size)]; !bytes.Equal(got, want) {
		b.t.Fatalf("content at entry %d offset %d is %q, was %q", loc.Index(), loc.Offset(), got, want)
	}
}

func (b *broker) allIntact() {
	b.t.Helper()
	at, _ := b.g.Applied()
	var refs []ref
	b.g.View(func(m *core.Machine) { refs = distinct(collectRefs(m, 0, at+1)) })
	for _, c := range refs {
		b.intact(c.loc, c.size)
	}
	b.g.m.TakeReferences(b.g.refs.add, b.g.refs.drop)
	r := rig{t: b.t, db: b.db, g: b.g}
	moved := 0
	for _, c := range refs {
		if c.loc.Index() < b.g.refs.floor {
			moved++
		}
	}
	if b.g.evac == nil && b.g.refs.moved != moved {
		b.t.Fatalf("%d moved contents are counted, there are %d", b.g.refs.moved, moved)
	}
	generation := b.g.where.Load().generation
	if n := r.count(contentKey(brokerGroup, generation, 0), contentEnd(brokerGroup, generation)); n < moved {
		b.t.Fatalf("%d contents in Pebble, %d are referred to", n, moved)
	}
}

func (b *broker) checkpoint() {
	b.t.Helper()
	done := make(chan error, 1)
	if !b.g.Checkpoint(func(err error) { done <- err }) {
		b.t.Fatal("a checkpoint is under way")
	}
	b.must(wait(b.t, done))
}

func (b *broker) evacuate(to uint64) {
	b.t.Helper()
	done := make(chan error, 1)
	b.g.Evacuate(0, to, func(err error) { done <- err })
	b.must(wait(b.t, done))
	b.log.truncate(to)
	b.g.Round()
}

// restart opens anew and applies what the log has beyond the newest checkpoint.
func (b *broker) restart() {
	b.t.Helper()
	b.close()
	b.open()
	at, _ := b.g.Applied()
	if got, want := b.g.Fingerprint(), b.log.sums[at]; got != want {
		b.t.Fatalf("reopened at %d with fingerprint %x, was %x", at, got, want)
	}
	for at++; at <= b.log.last; at++ {
		b.must(b.g.Apply(at, 1, b.log.entries[at]))
	}
	b.g.Round()
	if got, want := b.g.Fingerprint(), b.log.sums[b.log.last]; got != want {
		b.t.Fatalf("fingerprint after the replay %x, was %x", got, want)
	}
}

func TestCoreMachineSurvivesCheckpointsRestartsAndEvacuations(t *testing.T) {
	for seed := range uint64(6) {
		rng := newRNG(seed)
		b := newBroker(t, vfs.NewMem())
		b.setUp()
		for range 300 {
			b.step(rng.IntN)
			at, _ := b.g.Applied()
			switch rng.IntN(24) {
			case 0:
				b.checkpoint()
			case 1:
				b.restart()
				b.allIntact()
			case 2:
				b.evacuate(at + 1 - min(at, uint64(rng.IntN(30))))
				b.allIntact()
				if n, _ := b.g.Live(0, b.g.refs.floor); n != 0 {
					t.Fatalf("%d live below the floor", n)
				}
			}
		}
		b.drain()
	}
}

// drain takes everything out and checks that nothing is left behind.
func (b *broker) drain() {
	b.t.Helper()
	b.do(&entry.Recover{Ref: channelOne, Requeue: true})
	for _, q := range brokerQueues {
		b.do(&entry.QueuePurge{Ref: channelOne, Name: q})
	}
	b.checkpoint()
	r := rig{t: b.t, db: b.db, g: b.g}
	if n := r.count(contentKey(brokerGroup, 0, 0), contentEnd(brokerGroup, 0)); n != 0 {
		b.t.Fatalf("%d contents are left in Pebble by empty queues", n)
	}
	at, _ := b.g.Applied()
	if n, _ := b.g.Live(0, at+1); n != 0 {
		b.t.Fatalf("%d contents are live in empty queues", n)
	}
}

func TestCoreMachineTravelsBySnapshot(t *testing.T) {
	rng := newRNG(5)
	source := newBroker(t, vfs.NewMem())
	source.setUp()
	for i := range 200 {
		source.step(rng.IntN)
		if i == 100 {
			at, _ := source.g.Applied()
			source.evacuate(at)
		}
	}
	s, err := source.g.Snapshot()
	source.must(err)
	var stream bytes.Buffer
	_, err = s.WriteTo(&stream)
	source.must(err)
	source.must(s.Close())
	to := newBroker(t, vfs.NewMem())
	to.setUp()
	index, term, _, err := to.g.Stage(context.Background(), &stream)
	to.must(err)
	to.must(to.g.Install(index, term))
	// The log's copy is only compared with: every read of it fails.
	to.log = source.log.from(index+1, index)
	if to.g.Fingerprint() != source.g.Fingerprint() {
		t.Fatal("fingerprints differ")
	}
	to.allIntact()
	to.stamp, to.tags = source.stamp, source.tags
	for range 50 { // and the copy lives on
		to.step(rng.IntN)
	}
	to.restart()
	to.allIntact()
}

// What is consumed of a backlog is still in the row of its first chunk, and its content may have been moved out of the log and be gone.
func TestASnapshotOfAHalfConsumedBacklogNeedsNothingThatIsGone(t *testing.T) {
	source := newBroker(t, vfs.NewMem())
	source.setUp()
	source.batch(publishes(2000, "x"))
	source.checkpoint()
	at, _ := source.g.Applied()
	source.evacuate(at + 1)
	for range 7 {
		source.do(&entry.Get{Ref: channelOne, Queue: "one", NoAck: true})
	}
	source.do(&entry.Written{Ref: channelOne, Tag: 7})
	source.checkpoint()
	source.restart() // which knows of its first chunk what the row says
	s, err := source.g.Snapshot()
	source.must(err)
	defer s.Close()
	var stream bytes.Buffer
	_, err = s.WriteTo(&stream)
	source.must(err)
	to := newBroker(t, vfs.NewMem())
	index, term, _, err := to.g.Stage(context.Background(), &stream)
	to.must(err)
	to.must(to.g.Install(index, term))
	to.log = source.log.from(index+1, index)
	to.allIntact()
	if got, want := to.g.Fingerprint(), source.g.Fingerprint(); got != want {
		t.Errorf("the installed state has fingerprint %x, not %x", got, want)
	}
}

// BenchmarkCheckpoint is a checkpoint of 10,000 changed messages at the head and the tail of a backlog: its cost must
// not depend on the backlog.
func BenchmarkCheckpoint(bench *testing.B) {
	for _, backlog := range []int{100_000, 1_000_000} {
		bench.Run(fmt.Sprintf("ready=%d", backlog), func(bench *testing.B) { benchCheckpoint(bench, backlog) })
	}
}

func benchCheckpoint(bench *testing.B, backlog int) {
	b := newBroker(bench, vfs.NewMem())
	b.setUp()
	const perEntry = 1000
	for range backlog / perEntry {
		b.batch(publishes(perEntry, "0123456789"))
	}
	b.checkpoint()
	var size int
	b.db.o.Metrics.Checkpoint = func(_ uint64, bytes int, _ float64) { size = bytes }
	bench.ResetTimer()
	for range bench.N {
		bench.StopTimer()
		for range 5 {
			b.batch(publishes(perEntry, "0123456789"))
			var gets []byte
			for range perEntry {
				gets = entry.Append(gets, &entry.Get{Ref: channelOne, Queue: "one", NoAck: true})
			}
			b.batch(gets)
		}
		bench.StartTimer()
		b.checkpoint()
	}
	bench.ReportMetric(float64(size), "bytes")
}

// BenchmarkOpen is the opening of a group with a backlog at its newest checkpoint.
func BenchmarkOpen(bench *testing.B) {
	b := newBroker(bench, vfs.NewMem())
	b.setUp()
	const perEntry, ready = 1000, 1_000_000
	for range ready / perEntry {
		b.batch(publishes(perEntry, "0123456789"))
	}
	b.checkpoint()
	at := b.log.last
	b.evacuate(at / 2) // half of it moved out
	b.checkpoint()
	for bench.Loop() {
		b.close()
		b.open()
	}
	if got, _ := b.g.Applied(); got != at {
		bench.Fatalf("opened at %d, want %d", got, at)
	}
}
