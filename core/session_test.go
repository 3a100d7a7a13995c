package core_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/understudy-mq/understudy/core"
	"github.com/understudy-mq/understudy/core/coretest"
	"github.com/understudy-mq/understudy/core/entry"
)

// named is a machine with a queue q and a named session, which has channel 1 open.
func named(t coretest.TB) *coretest.Driver {
	d := coretest.New(t)
	d.Control(&entry.NodeUp{Node: 1, Nonce: 7}, &entry.VhostCreate{ID: "v1", Name: "/"})
	attached(d)
	d.Batch(1, &entry.QueueDeclare{Ref: ref, Name: "q"})
	return d
}

// attached attaches the session of named again and answers its channel 1, which is open.
func attached(d *coretest.Driver) entry.Ref {
	fx := d.Batch(1, &entry.Attach{Vhost: "/", Key: "k", Expiry: 60})
	e := only(fx, core.EffectAttached)[0]
	r := entry.Ref{Session: e.Session, Epoch: e.Epoch, Channel: 1}
	d.Batch(1, &entry.ChannelOpen{Ref: r})
	return r
}

func TestWhatIsSentAgainHasTheWindowOfAConsumerWithoutPrefetch(t *testing.T) {
	d := named(t)
	fill(d, 2*windowMessages, "x")
	d.Batch(1, &entry.Consume{Ref: ref, Queue: "q", Tag: "ct"})
	d.Batch(1, &entry.Written{Ref: ref, Tag: windowMessages})
	fill(d, 10, "new")
	ref := attached(d)
	fx := only(d.Batch(1, &entry.Consume{Ref: ref, Queue: "q", Tag: "ct"}), core.EffectDelivered)
	if len(fx) != windowMessages || fx[0].Tag != 1 || fx[len(fx)-1].Tag != windowMessages {
		t.Fatalf("%d deliveries are sent again at once, want %d", len(fx), windowMessages)
	}
	if n := delivered(d.Batch(1, &entry.Settle{Ref: ref, First: 1, Last: 3})); n != 3 {
		t.Errorf("%d deliveries after 3 acks of what was not written, want 3", n)
	}
	if n := delivered(d.Batch(1, &entry.Written{Ref: ref, Tag: 5})); n != 2 {
		t.Errorf("%d deliveries after 5 were written of which 3 were settled, want 2", n)
	}
	d.Restart()
	if n := delivered(d.Batch(1, &entry.Written{Ref: ref, Tag: windowMessages + 5})); n != windowMessages {
		t.Errorf("%d deliveries after all that were sent were written, want %d", n, windowMessages)
	}
	// Five of those were new: what is left of them comes once the last one that was sent again is written.
	fx = only(d.Batch(1, &entry.Written{Ref: ref, Tag: 2 * windowMessages}), core.EffectDelivered)
	if len(fx) != 5 || fx[0].Tag != 2*windowMessages+6 {
		t.Errorf("%d deliveries once all that was sent again is written, want the 5 that are left", len(fx))
	}
}

func TestNewDeliveriesFollowOnceAllIsSentAgain(t *testing.T) {
	d := named(t)
	fill(d, windowMessages, "x")
	d.Batch(1, &entry.Consume{Ref: ref, Queue: "q", Tag: "ct"})
	fill(d, 10, "new")
	ref := attached(d)
	d.Batch(1, &entry.Consume{Ref: ref, Queue: "q", Tag: "ct"})
	fx := only(d.Batch(1, &entry.Written{Ref: ref, Tag: 4}), core.EffectDelivered)
	if len(fx) != 4 || fx[0].Tag != windowMessages+1 || fx[0].Redelivered {
		t.Fatalf("after 4 of what was sent again are written come %+v", fx)
	}
	// The new delivery was sent behind everything that was sent again.
	if n := delivered(d.Batch(1, &entry.Written{Ref: ref, Tag: windowMessages + 1})); n != 6 {
		t.Errorf("%d deliveries once the first new one is written, want the 6 that are left", n)
	}
}

// TestIdleSessionsAreSmall: 100,000 detached sessions take 200 MB at most. An exclusive queue with a consumer takes more
// than its session.
func TestIdleSessionsAreSmall(t *testing.T) {
	const sessions = 20_000
	for _, c := range []struct {
		queues   bool
		bytesMax int64
	}{{false, 2_000}, {true, 3_000}} {
		before := heap()
		m := idle(t, sessions, c.queues)
		each := (heap() - before) / sessions
		t.Logf("queues %v: %d bytes each", c.queues, each)
		if each > c.bytesMax {
			t.Errorf("queues %v: an idle session takes %d bytes, at most %d are allowed", c.queues, each, c.bytesMax)
		}
		if n := len(m.Sessions("/")); n != sessions {
			t.Errorf("%d sessions", n)
		}
	}
}

func heap() int64 {
	var s runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&s)
	return int64(s.HeapAlloc)
}

// idle makes a machine with detached sessions, each with a channel that has a prefetch, and with queues an exclusive queue
// and a consumer of it.
func idle(t testing.TB, sessions int, queues bool) *core.Machine {
	m := core.New(1)
	index, seq := uint64(1), uint64(0)
	apply := func(data []byte) {
		index++
		if err := m.Apply(index, data, &core.Effects{Node: 99}); err != nil {
			t.Fatal(err)
		}
	}
	apply(coretest.Entry(1, entry.Batch{Commands: entry.Append(entry.Append(nil, &entry.NodeUp{Node: 1, Nonce: 1}), &entry.VhostCreate{ID: "v", Name: "/"})}))
	for i := range sessions {
		name := fmt.Sprintf("session-%08d-0123456789abcdef", i)
		ref := entry.Ref{Session: uint64(i + 1), Epoch: 1, Channel: 1}
		cmds := []entry.Command{
			&entry.Attach{Vhost: "/", User: "u", Key: name, Connection: name, Expiry: 60, Process: name, Address: name},
			&entry.ChannelOpen{Ref: ref}, &entry.Qos{Ref: ref, Prefetch: 10}}
		if queues {
			cmds = append(cmds, &entry.QueueDeclare{Ref: ref, Name: "amq.gen-" + name, Exclusive: true, Generated: true},
				&entry.Consume{Ref: ref, Queue: "amq.gen-" + name, Tag: "ct"})
		}
		b := encode(append(cmds, &entry.Detach{Ref: ref}))
		seq++
		apply(coretest.Entry(1, entry.Batch{Node: 1, Incarnation: 1, Seq: seq, Commands: b}))
	}
	m.Checkpoint(func([]byte, []byte) {}, func([]byte) {})
	return m
}

func encode(cmds []entry.Command) []byte {
	var b []byte
	for _, c := range cmds {
		b = entry.Append(b, c)
	}
	return b
}

// identified publishes ids from first to last as one entry, and answers how many were new.
func identified(d *coretest.Driver, ref entry.Ref, first, last int) int {
	before := d.Machine.Queues("/")[0].Ready
	var cmds []entry.Command
	for i := first; i <= last; i++ {
		p := publish("x")
		p.Ref, p.DedupID = ref, fmt.Append(nil, i)
		cmds = append(cmds, p)
	}
	d.Batch(1, cmds...)
	return d.Machine.Queues("/")[0].Ready - before
}

func TestAWindowHoldsTheLast20000Ids(t *testing.T) {
	const window, slack = 20_000, 256
	d := named(t)
	for i := 0; i < window+2*slack; i += slack {
		if n := identified(d, ref, i, i+slack-1); n != slack {
			t.Fatalf("%d of ids %d on were new", n, i)
		}
	}
	last := d.Machine.Queues("/")[0].Ready
	d.Restart()
	if n := identified(d, ref, last-window, last-1); n != 0 {
		t.Errorf("%d of the last %d ids were forgotten", n, window)
	}
	if n := identified(d, ref, 0, slack-1); n != slack {
		t.Errorf("%d of the oldest ids were forgotten, want %d: memory is bounded", n, slack)
	}
}

func TestACheckpointWritesOfAWindowWhatIsNew(t *testing.T) {
	d := named(t)
	identified(d, ref, 0, 9_999)
	d.Checkpoint()
	identified(d, ref, 10_000, 10_009)
	bytes := 0
	d.Machine.Checkpoint(func(k, v []byte) { bytes += len(k) + len(v) }, func([]byte) {})
	if most := 16 << 10; bytes > most {
		t.Errorf("10 new ids cost a checkpoint of %d bytes, want %d at most", bytes, most)
	}
}

func TestASessionHasABoundedNumberOfPublishers(t *testing.T) {
	d := named(t)
	publishAs := func(name string) []core.Effect {
		p := publish("x")
		p.Publisher, p.Sequence = []byte(name), 1
		return only(d.Batch(1, p), core.EffectRefused)
	}
	if fx := publishAs(strings.Repeat("n", entry.PublisherBytesMax+1)); len(fx) != 1 || fx[0].Code != core.CodePreconditionFailed {
		t.Errorf("a name that is too long was taken: %+v", fx)
	}
	d.Batch(1, &entry.ChannelOpen{Ref: ref})
	for i := range 64 {
		if fx := publishAs(fmt.Sprint(i)); len(fx) > 0 {
			t.Fatalf("publisher %d was refused: %s", i, fx[0].Text)
		}
	}
	if fx := publishAs("one more"); len(fx) != 1 || fx[0].Code != core.CodePreconditionFailed {
		t.Errorf("one publisher too many was taken: %+v", fx)
	}
}

func TestAttachesOfAbsurdSizeAreRefused(t *testing.T) {
	d := named(t)
	long := strings.Repeat("x", 1025)
	for _, x := range []entry.Attach{{Key: long}, {Key: "a", Process: long}, {Key: "a", Address: long}} {
		x.Vhost = "/"
		if fx := only(d.Batch(1, &x), core.EffectRefused); len(fx) != 1 || fx[0].Code != core.CodeNotAllowed {
			t.Errorf("taken: %+v", fx)
		}
	}
}

// TestManyProcessesDoNotGrowASession: of those that it refuses the newest are kept.
func TestManyProcessesDoNotGrowASession(t *testing.T) {
	d := named(t)
	attach := func(process int) bool {
		return len(only(d.Batch(1, &entry.Attach{Vhost: "/", Key: "p", Expiry: 60, Process: fmt.Sprint(process)}), core.EffectAttached)) == 1
	}
	for i := range 300 {
		if !attach(i) {
			t.Fatalf("process %d was refused", i)
		}
	}
	for _, c := range []struct {
		process int
		taken   bool
	}{{298, false}, {50, false}, {0, true}} {
		if got := attach(c.process); got != c.taken {
			t.Errorf("process %d taken %v, want %v", c.process, got, c.taken)
		}
	}
}

func TestSessionPoliciesAreFoundByConnectionAndUser(t *testing.T) {
	d := named(t)
	set := func(name, pattern, user string, priority int64, operator bool, definition []byte) {
		d.Control(&entry.PolicySet{Vhost: "/", Name: name, Pattern: pattern, ApplyTo: "connections", Priority: priority, Operator: operator, Definition: definition})
	}
	set("all", ".*", "", 0, false, table("session", "connection-name", "session-expiry", int32(30), "session-dedup-headers", []any{"a", "b"}))
	set("app", "^app-", "", 5, false, table("session", "client-id", "session-dedup", "message-id", "session-inflight", "keep", "session-dedup-headers", "c"))
	set("bob", ".*", "", 9, false, table("session-user", "^bob$", "session-expiry", int32(7)))
	set("ops", "^ops", "", -1, true, table("session-expiry", int32(1)))
	d.Control(&entry.PolicySet{Vhost: "/", Name: "queues", Pattern: ".*", ApplyTo: "all", Priority: 99})
	for _, c := range []struct{ user, connection, want string }{
		{"alice", "x", "{all connection-name 30   [a b]}"},
		{"alice", "app-1", "{app client-id -1 message-id keep [c]}"},
		{"bob", "app-1", "{bob  7   []}"},
		{"bob", "ops-1", "{ops  1   []}"},
	} {
		if got := fmt.Sprint(d.Machine.SessionPolicy("/", c.user, c.connection)); got != c.want {
			t.Errorf("%s of %s has %s, want %s", c.connection, c.user, got, c.want)
		}
	}
	if got := fmt.Sprint(d.Machine.SessionPolicy("none", "alice", "x")); got != "{  -1   []}" {
		t.Errorf("a vhost that is not there has %s", got)
	}
	for _, bad := range [][]byte{table("session", "always"), table("session", int32(1)), table("session-user", "("), table("session-user", int32(1)),
		table("session-expiry", int32(-1)), table("session-dedup", "on"), table("session-inflight", "drop"), table("session-dedup-headers", []any{int32(1)})} {
		if core.CheckPolicy(&entry.PolicySet{Vhost: "/", Name: "p", ApplyTo: "connections", Definition: bad}) == nil {
			t.Errorf("a policy with %q was taken", bad)
		}
	}
}

// TestAPromotionKeepsNamedSessions: with what they have in flight, under a generation of its own. Their time begins with the
// first leader, however long the promotion was in coming.
func TestAPromotionKeepsNamedSessions(t *testing.T) {
	d := named(t)
	d.Batch(1, publish("x"), &entry.Consume{Ref: ref, Queue: "q", Tag: "ct"}, &entry.QueueDeclare{Ref: ref, Name: "x", Exclusive: true})
	s := d.Standby()
	s.Own(promotion)
	s.Stamp = d.Stamp + 1_000_000
	s.Own(&entry.NodeUp{Node: 1, Nonce: 99}, &entry.Tick{})
	s.Own(&entry.LeaderUp{Node: 1, Term: 9})
	s.Stamp += 59_999
	s.Own(&entry.Tick{})
	apply := func(cmds ...entry.Command) []core.Effect {
		_, _, seq := s.Machine.Incarnation(1)
		return s.Apply(coretest.Entry(s.Stamp, entry.Batch{Node: 1, Incarnation: 1, Seq: seq + 1, Commands: encode(cmds)}))
	}
	fx := apply(&entry.Attach{Vhost: "/", Key: "k", Expiry: 60, Expect: entry.ExpectResume})
	if len(fx) != 1 || fx[0].State != core.StateResumed || fx[0].Messages != 1 {
		t.Fatalf("resumed with %+v", fx)
	}
	if generation, counter := core.EpochParts(fx[0].Epoch); generation != promotion.Generation.Number || counter != 1 {
		t.Errorf("epoch is %d.%d", generation, counter)
	}
	ref := entry.Ref{Session: fx[0].Session, Epoch: fx[0].Epoch, Channel: 1}
	fx = apply(&entry.ChannelOpen{Ref: ref}, &entry.QueueDeclare{Ref: ref, Name: "x", Exclusive: true},
		&entry.Consume{Ref: ref, Queue: "q", Tag: "ct"}, &entry.Publish{Ref: ref, Record: coretest.Record("", "q", nil, "new")})
	if again := only(fx, core.EffectDelivered); len(only(fx, core.EffectRefused)) > 0 || len(again) != 2 || again[0].Tag != 1 || again[1].Tag < 1<<30 {
		t.Errorf("after the promotion come %+v", fx)
	}
	if got, want := s.Machine.Fingerprint(), s.Machine.Recompute(); got != want {
		t.Errorf("the fingerprint is %x, not %x", got, want)
	}
}

func TestADetachedSessionIsNoConnectionOfItsUser(t *testing.T) {
	d := named(t)
	fill(d, 1, "x")
	d.Batch(1, &entry.Get{Ref: ref, Queue: "q"})
	if sessions, channels := d.Machine.HeldBy("", 99); sessions != 1 || channels != 1 {
		t.Errorf("attached: %d sessions, %d channels", sessions, channels)
	}
	d.Batch(1, &entry.ChannelOpen{Ref: entry.Ref{Session: ref.Session, Epoch: ref.Epoch, Channel: 2}}, &entry.ChannelClose{Ref: ref})
	if sessions, channels := d.Machine.HeldBy("", 99); sessions != 1 || channels != 1 {
		t.Errorf("with a channel closed: %d sessions, %d channels", sessions, channels)
	}
	d.Batch(1, &entry.Detach{Ref: ref})
	if sessions, channels := d.Machine.HeldBy("", 99); sessions != 0 || channels != 0 {
		t.Errorf("detached: %d sessions, %d channels", sessions, channels)
	}
}

func TestAskingAgainGivesBackTheWindowOfWhatWasNotWritten(t *testing.T) {
	d := coretest.New(t)
	d.Control(&entry.NodeUp{Node: 1, Nonce: 7}, &entry.VhostCreate{ID: "v1", Name: "/"})
	d.Batch(1, &entry.Attach{Vhost: "/", Key: "k", Expiry: 60, KeepInFlight: true})
	d.Batch(1, &entry.ChannelOpen{Ref: ref}, &entry.QueueDeclare{Ref: ref, Name: "q"}, &entry.Consume{Ref: ref, Queue: "q", Tag: "ct"})
	fill(d, windowMessages+10, "x")
	if n := delivered(d.Batch(1, &entry.Recover{Ref: ref})); n != windowMessages {
		t.Errorf("%d deliveries are sent again, want all %d", n, windowMessages)
	}
	if n := delivered(d.Batch(1, &entry.Written{Ref: ref, Tag: windowMessages})); n != 10 {
		t.Errorf("%d new deliveries once all is written, want the 10 that are left", n)
	}
}

// TestNothingIsSentAgainWhileAClusterDrains: but once the hand-over is taken back.
func TestNothingIsSentAgainWhileAClusterDrains(t *testing.T) {
	d := named(t)
	d.Batch(1, publish("x"), publish("y"), &entry.Consume{Ref: ref, Queue: "q", Tag: "ct"})
	d.Control(&entry.LinkDrain{Cluster: coretest.SourceCluster, Switch: "s", Millis: 10_000})
	ref := attached(d)
	if n := delivered(d.Batch(1, &entry.Consume{Ref: ref, Queue: "q", Tag: "ct"}, &entry.Settle{Ref: ref, First: 1, Last: 1})); n != 0 {
		t.Errorf("%d deliveries while the cluster drains", n)
	}
	if fx := only(d.Control(&entry.LinkFenceCancel{Cluster: coretest.SourceCluster, Switch: "s"}), core.EffectDelivered); len(fx) != 1 || fx[0].Tag != 2 || !fx[0].Redelivered {
		t.Errorf("afterwards come %+v, want delivery 2", fx)
	}
}

// TestARefusalReachesASessionWhoseChannelIsParked: what the node did not let through may be what would have opened it.
func TestARefusalReachesASessionWhoseChannelIsParked(t *testing.T) {
	d := named(t)
	fill(d, 1, "x")
	d.Batch(1, &entry.Get{Ref: ref, Queue: "q"})
	e := only(d.Batch(1, &entry.Attach{Vhost: "/", Key: "k", Expiry: 60}), core.EffectAttached)[0]
	parked := entry.Ref{Session: e.Session, Epoch: e.Epoch, Channel: 1}
	fx := only(d.Batch(1, &entry.Refuse{Ref: parked, Command: entry.KindChannelOpen, Code: uint8(core.CodeNotAllowed), Text: "limit"}), core.EffectRefused)
	if len(fx) != 1 || fx[0].Text != "limit" {
		t.Errorf("refused with %+v", fx)
	}
	if q := d.Machine.Queues("/")[0]; q.Unacknowledged != 1 {
		t.Errorf("%d deliveries are the session's still, want 1: to it the refusal is a lost connection", q.Unacknowledged)
	}
}

// marked is a publish to q with an id.
func marked(ref entry.Ref, id string) *entry.Publish {
	return &entry.Publish{Ref: ref, DedupID: []byte(id), Record: coretest.Record("", "q", nil, "x")}
}

// TestAWindowThatIsUsedInTheVeryEntryOfItsEndStays: an entry has the batches of nodes and the leader's tick.
func TestAWindowThatIsUsedInTheVeryEntryOfItsEndStays(t *testing.T) {
	d := named(t)
	d.Batch(1, marked(ref, "a"))
	d.Stamp += 660_000 // the session's expiry and ten minutes
	incarnation, _, seq := d.Machine.Incarnation(1)
	d.Apply(coretest.Entry(d.Stamp, entry.Batch{Node: 1, Incarnation: incarnation, Seq: seq + 1, Commands: entry.Append(nil, marked(ref, "b"))},
		entry.Batch{Commands: entry.Append(nil, &entry.Tick{})}))
	d.Batch(1, marked(ref, "a"))
	if q := d.Machine.Queues("/")[0]; q.Ready != 2 {
		t.Errorf("%d messages of two ids", q.Ready)
	}
}

func TestASessionMayEndInTheTickThatItsWindowEndsIn(t *testing.T) {
	d := named(t)
	d.Batch(1, marked(ref, "a"), &entry.Detach{Ref: ref})
	d.Stamp += 660_000
	d.Control(&entry.Tick{})
	d.Batch(1, marked(attached(d), "a"))
	if q := d.Machine.Queues("/")[0]; q.Ready != 2 {
		t.Errorf("%d messages of an id in two sessions", q.Ready)
	}
}
