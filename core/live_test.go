package core_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/understudy-mq/understudy/core"
	"github.com/understudy-mq/understudy/core/coretest"
	"github.com/understudy-mq/understudy/core/entry"
	"github.com/understudy-mq/understudy/core/message"
)

// references lists the index of each live reference.
func references(m *core.Machine, from, to uint64) []uint64 {
	var at []uint64
	m.Contents(from, to, func(loc message.Loc, size uint32) { at = append(at, loc.Index()) })
	slices.Sort(at)
	return at
}

func TestLiveCountsReferencesPerRangeOfEntries(t *testing.T) {
	d := started(t)
	d.Index = 1000
	d.Batch(1, publish("at 1001"), publish("at 1001"))
	d.Index = 5000
	d.Batch(1, publish("at 5001"))
	if got := references(d.Machine, 0, 1<<40); !slices.Equal(got, []uint64{1001, 1001, 5001}) {
		t.Errorf("references at %v", got)
	}
	for _, x := range []struct {
		from, to uint64
		want     int
	}{{0, 1 << 40, 3}, {0, 768, 0}, {768, 1024, 2}, {1024, 4096, 0}, {4096, 5120, 1}, {5120, 9999, 0}, {7, 7, 0}, {9, 3, 0}} {
		if got, _ := d.Machine.Live(x.from, x.to); got != x.want {
			t.Errorf("Live(%d, %d) is %d, want %d", x.from, x.to, got, x.want)
		}
	}
	d.Restart()
	if got := d.Live(); got != 3 {
		t.Errorf("%d live after a restart, want 3", got)
	}
	_, size := d.Machine.Live(4096, 5120)
	if _, got := d.Machine.Live(0, 1<<40); size < 10 || got != 3*size {
		t.Errorf("%d bytes live, %d of them in one of three equal messages", got, size)
	}
	d.Batch(1, &entry.Get{Ref: ref, Queue: "q"})
	if got, _ := d.Machine.Live(768, 1024); got != 2 {
		t.Errorf("%d live while one is in flight, want 2", got)
	}
	d.Batch(1, &entry.Settle{Ref: ref, First: 1, Last: 1})
	if got, bytes := d.Machine.Live(768, 1024); got != 1 || bytes != size {
		t.Errorf("%d live after one was settled, %d bytes, want 1 and %d", got, bytes, size)
	}
}

func TestContentMovedOutOfTheLogIsReportedOncePerReferenceDropped(t *testing.T) {
	d := started(t)
	bind := entry.Binding{Ref: ref, Source: "amq.fanout", Destination: "q"}
	two := bind
	two.Destination = "q2"
	d.Batch(1, &entry.QueueDeclare{Ref: ref, Name: "q2"}, &entry.QueueBind{Binding: bind}, &entry.QueueBind{Binding: two})
	d.Index = 1000
	d.Batch(1, &entry.Publish{Ref: ref, Record: coretest.Record("amq.fanout", "", nil, "x")})
	d.Index = 2000
	d.Batch(1, publish("y"))
	d.Machine.SetFloor(1500)
	d.Machine.SetFloor(3) // never goes down
	if got, _ := d.Machine.Live(0, 1500); got != 0 {
		t.Errorf("%d live in the log below the floor, want none", got)
	}
	var dropped []uint64
	take := func() []uint64 {
		dropped = nil
		d.Machine.TakeReferences(func(message.Loc) { t.Error("a reference has begun") }, func(loc message.Loc) { dropped = append(dropped, loc.Index()) })
		return dropped
	}
	d.Batch(1, &entry.QueuePurge{Ref: ref, Name: "q"})
	if got := take(); !slices.Equal(got, []uint64{1001}) {
		t.Errorf("dropped %v, want one reference at 1001: what is above the floor is not reported", got)
	}
	d.Batch(1, &entry.Get{Ref: ref, Queue: "q2"}, &entry.Settle{Ref: ref, First: 1, Last: 1, Outcome: entry.Released})
	if got := take(); len(got) != 0 {
		t.Errorf("dropped %v by a message that came back", got)
	}
	d.Batch(1, &entry.QueueDelete{Ref: ref, Name: "q2"})
	if got := take(); !slices.Equal(got, []uint64{1001}) {
		t.Errorf("dropped %v, want the other reference at 1001", got)
	}
	if got := take(); len(got) != 0 {
		t.Errorf("%v reported twice", got)
	}
}

func TestRowsTellTheContentTheyReferTo(t *testing.T) {
	d := started(t)
	d.Index = 100
	d.Batch(1, publish("x"), &entry.Get{Ref: ref, Queue: "q"}, publish("y"))
	d.Batch(1, &entry.Fragment{Ref: ref, Piece: []byte("one")}, &entry.Publish{Ref: ref, Fragmented: true,
		Record: coretest.Record("", "q", nil, "tail")}, &entry.Fragment{Ref: ref, Piece: []byte("two")})
	found := map[message.Loc]uint32{}
	d.Machine.Checkpoint(func(k, v []byte) {
		if err := core.RowContents(k, v, func(loc message.Loc, size uint32) { found[loc] = size }); err != nil {
			t.Error(err)
		}
	}, func([]byte) {})
	want := map[message.Loc]uint32{}
	d.Machine.Contents(0, 1<<40, func(loc message.Loc, size uint32) { want[loc] = size })
	if !maps.Equal(found, want) || len(want) != 5 {
		t.Errorf("rows refer to %v, the machine to %v", found, want)
	}
}

func TestExactRowsTellNoContentThatIsGone(t *testing.T) {
	d := started(t)
	fill(d, 2000, "x")
	d.Batch(1, &entry.QueueDeclare{Ref: ref, Name: "ranked", Arguments: table("x-max-priority", int32(1))},
		&entry.QueueDeclare{Ref: ref, Name: "purged"})
	for range 600 {
		d.Batch(1, &entry.Publish{Ref: ref, Record: coretest.RecordWith(&message.Properties{Set: message.PropPriority, Priority: 1}, "", "ranked", "x")})
	}
	publishMany(d, "purged", 5000)
	d.Batch(1, &entry.QueuePurge{Ref: ref, Name: "purged"})
	rows := map[string][]byte{}
	checkpoint := func() {
		d.Machine.Checkpoint(func(k, v []byte) { rows[string(k)] = slices.Clone(v) }, func(k []byte) { delete(rows, string(k)) })
	}
	checkpoint()
	d.Control(&entry.Tick{})
	d.Batch(1, &entry.Get{Ref: ref, Queue: "q", NoAck: true}, &entry.Get{Ref: ref, Queue: "ranked", NoAck: true}, &entry.Written{Ref: ref, Tag: 2})
	d.Machine.Exact()
	checkpoint()
	found := 0
	for k, v := range rows {
		if err := core.RowContents([]byte(k), v, func(message.Loc, uint32) { found++ }); err != nil {
			t.Fatal(err)
		}
	}
	want := 0
	d.Machine.Contents(0, 1<<40, func(message.Loc, uint32) { want++ })
	if found != want {
		t.Errorf("rows refer to %d contents, the machine to %d", found, want)
	}
}

func TestCheckpointWritesOnlyWhatChanged(t *testing.T) {
	d := started(t)
	fill(d, 5000, "x")
	first, _ := d.Checkpoint()
	if again, dels := d.Checkpoint(); again != 0 || dels != 0 {
		t.Errorf("%d rows put and %d deleted though nothing changed", again, dels)
	}
	d.Batch(1, &entry.Get{Ref: ref, Queue: "q"})
	puts, dels := d.Checkpoint()
	if puts > 6 || dels != 0 || first < 15 {
		t.Errorf("%d rows put and %d deleted for one get, after %d for 5000 messages", puts, dels, first)
	}
	d.Batch(1, &entry.QueueDelete{Ref: ref, Name: "q"})
	for due := d.Machine.NextDeadline(); due != 0 && due <= d.Stamp; due = d.Machine.NextDeadline() {
		d.Control(&entry.Tick{})
	}
	if _, dels := d.Checkpoint(); dels < 10 {
		t.Errorf("%d rows deleted with a queue of 5000 messages", dels)
	}
	d.Loaded()
}

// A dead letter, and a message whose delay is over, are new messages with the old content: what was moved out of the log must not go with the
// old one's reference.
func TestAReferenceThatBeginsToContentMovedOutOfTheLogIsReported(t *testing.T) {
	d := started(t)
	d.Batch(1,
		&entry.QueueDeclare{Ref: ref, Name: "aged", Arguments: table("x-message-ttl", int32(50), "x-dead-letter-exchange", "", "x-dead-letter-routing-key", "q")},
		&entry.ExchangeDeclare{Ref: ref, Name: "later", Type: "x-delayed-message", Arguments: table("x-delayed-type", "direct")},
		&entry.QueueBind{Binding: entry.Binding{Ref: ref, Source: "later", Destination: "q", Key: "k"}},
		&entry.ChannelOpen{Ref: entry.Ref{Session: ref.Session, Epoch: ref.Epoch, Channel: 7}},
		&entry.TxSelect{Ref: entry.Ref{Session: ref.Session, Epoch: ref.Epoch, Channel: 7}})
	d.Index = 1000
	tx := entry.Ref{Session: ref.Session, Epoch: ref.Epoch, Channel: 7}
	d.Batch(1, &entry.Publish{Ref: ref, Record: coretest.Record("", "aged", nil, "dies")})
	d.Batch(1, &entry.Publish{Ref: ref, Record: coretest.Record("later", "k", table("x-delay", int32(50)), "waits")})
	d.Batch(1, &entry.Publish{Ref: tx, Record: coretest.Record("", "q", nil, "is committed")})
	d.Machine.SetFloor(1500)
	d.Stamp += 100
	d.Control(&entry.Tick{})
	d.Batch(1, &entry.TxCommit{Ref: tx})
	references := map[uint64]int{}
	d.Machine.TakeReferences(
		func(loc message.Loc) { references[loc.Index()]++ },
		func(loc message.Loc) { references[loc.Index()]-- })
	if want := map[uint64]int{1001: 0, 1002: 0, 1003: 0}; !maps.Equal(references, want) {
		t.Errorf("references that began, less those that ended, by entry: %v, want %v", references, want)
	}
}
