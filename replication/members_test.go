package replication_test

import (
	"context"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/understudy-mq/understudy/cmd/loopback"
	"github.com/understudy-mq/understudy/replication"
	"github.com/understudy-mq/understudy/replication/simtest"
)

func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// joiner starts a node that waits to be added.
func joiner(t testing.TB, id uint64) *member {
	m := options(t, id)
	m.opts.Listen, m.opts.Join = loopback.Addresses(t, 1)[0], true
	m.start()
	t.Cleanup(m.stop)
	return m
}

func TestMemberJoinsByASnapshotIsPromotedAndRemoved(t *testing.T) {
	ms := cluster(t, 1)
	one := ms[1]
	<-one.reg
	one.mustSubmit(1_000_000, 1_000_100)
	two := joiner(t, 2)
	if err := one.node.AddMember(within(t), 2, two.opts.Listen); err != nil {
		t.Fatal(err)
	}
	<-two.reg
	if two.machine.Installed == 0 {
		t.Error("the new member did not start from a snapshot")
	}
	if err := two.node.PromoteMember(within(t), 2); err != nil {
		t.Fatal(err)
	}
	two.mustSubmit(2_000_000, 2_000_100)
	for _, m := range []*member{one, two} {
		eventually(t, "200 values", func() bool { return m.machine.Count() == 200 })
	}
	if err := two.node.RemoveMember(within(t), 2); err != nil {
		t.Fatal(err)
	}
	if got := one.group().Status().Voters; !slices.Equal(got, []uint64{1}) {
		t.Errorf("voters after the removal: %v", got)
	}
	eventually(t, "the removed node's registration ended", func() bool { _, nonce, _ := one.machine.Incarnation(2); return nonce == 0 })
	one.mustSubmit(1_000_100, 1_000_200)
	eventually(t, "goes on alone", func() bool { return one.machine.Count() == 300 })
}

func TestMembershipChangeIsForcedToDisk(t *testing.T) {
	one := cluster(t, 1)[1]
	<-one.reg
	before := one.machine.ConfWrites
	if err := one.node.AddMember(within(t), 2, "127.0.0.1:1"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "ApplyConf called", func() bool { return one.machine.ConfWrites > before })
	one.stop()
	one.machine.Crash()
	one.start()
	if got := one.group().Status().Learners; !slices.Equal(got, []uint64{2}) {
		t.Errorf("learners after a crash: %v", got)
	}
}

func TestMembershipChangesThatMakeNoSenseAreRefused(t *testing.T) {
	one := cluster(t, 1)[1]
	<-one.reg
	ctx := within(t)
	for _, c := range []struct {
		name, want string
		err        error
	}{
		{"remove the last voter", "last voter", one.node.RemoveMember(ctx, 1)},
		{"remove a stranger", "not a member", one.node.RemoveMember(ctx, 9)},
		{"promote a stranger", "no learner", one.node.PromoteMember(ctx, 9)},
		{"add a member at another address", "member already", one.node.AddMember(ctx, 1, "127.0.0.1:2")},
		{"add node 0", "id above 0", one.node.AddMember(ctx, 0, "127.0.0.1:2")},
		{"transfer to a stranger", "not a voter", one.node.TransferLeader(ctx, 0, 9)},
		{"transfer an unknown group", "no group 7", one.node.TransferLeader(ctx, 7, 1)},
	} {
		if c.err == nil || !strings.Contains(c.err.Error(), c.want) {
			t.Errorf("%s: error %v does not say %q", c.name, c.err, c.want)
		}
	}
}

func TestLeaderMovesOnRequestFromAnyNode(t *testing.T) {
	ms := cluster(t, 3)
	for _, m := range ms {
		<-m.reg
	}
	to := leaderOf(ms)%3 + 1
	if err := ms[to].node.TransferLeader(within(t), 0, to); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the new leader leads", func() bool { return leaderOf(ms) == to })
}

// behind is a cluster of which a member that is down needs a snapshot, and the one that leads.
func behind(t *testing.T) (down, up *member) {
	t.Helper()
	ms := cluster(t, 3, func(m *member) {
		m.machine.Keep = false
		m.opts.SegmentBytes, m.opts.FollowerLagBytes, m.opts.CheckpointBytes = 64<<10, 128<<10, 64<<10
	})
	for _, m := range ms {
		<-m.reg
	}
	down = ms[leaderOf(ms)%3+1]
	reaches := down.group().Status().LastIndex
	down.stop()
	down.machine.Crash()
	up = ms[leaderOf(ms)]
	if up == nil {
		t.Fatal("no leader")
	}
	up.write(64)
	eventually(t, "the log was cut", func() bool { return up.group().Status().FirstIndex > reaches+1 })
	return down, up
}

// write submits so many times 32 KiB.
func (m *member) write(times int) {
	m.t.Helper()
	for range times {
		if err := m.group().Submit(simtest.Bytes(32<<10), 1); err != nil {
			m.t.Fatal(err)
		}
	}
}

func TestFollowerTooFarBehindIsBroughtUpByASnapshot(t *testing.T) {
	down, up := behind(t)
	down.start()
	<-down.reg
	if down.machine.Installed == 0 {
		t.Error("caught up without a snapshot")
	}
	eventually(t, "caught up", func() bool { return down.machine.Fingerprint() == up.machine.Fingerprint() })
	if err := down.submit(1); err != nil {
		t.Errorf("it does not serve: %v", err)
	}
	eventually(t, "it serves", func() bool { return up.machine.Count() == 65 })
}

// stalling is a machine whose first snapshot is not staged before it may be.
type stalling struct {
	*simtest.Machine
	begun, may chan struct{}
	once       *sync.Once
}

func (s stalling) Stage(ctx context.Context, r io.Reader) (index, term uint64, conf []byte, err error) {
	s.once.Do(func() {
		close(s.begun)
		<-s.may
	})
	return s.Machine.Stage(ctx, r)
}

func TestLogIsGivenBackThoughAFollowerDoesNotTakeItsSnapshot(t *testing.T) {
	down, up := behind(t)
	s := stalling{down.machine, make(chan struct{}), make(chan struct{}), new(sync.Once)}
	down.opts.Machines[0] = s
	free := sync.OnceFunc(func() { close(s.may) })
	t.Cleanup(free)
	down.start()
	<-s.begun
	cut := up.group().Status().LastIndex
	up.write(128)
	eventually(t, "the log is cut behind the snapshot that is on its way", func() bool { return up.group().Status().FirstIndex > cut+1 })
	free()
	eventually(t, "caught up", func() bool { return down.machine.Fingerprint() == up.machine.Fingerprint() })
}

func TestLogIsGivenBackWhenNothingInItIsLive(t *testing.T) {
	m := options(t, 1)
	m.opts.SegmentBytes, m.opts.CheckpointBytes = 64<<10, 64<<10
	m.start()
	defer m.stop()
	<-m.reg
	fill := func() {
		for range 32 {
			if err := m.group().Submit(simtest.Bytes(32<<10), 1); err != nil {
				t.Fatal(err)
			}
		}
	}
	fill()
	eventually(t, "applied", func() bool { return m.machine.Count() == 32 })
	fill()
	eventually(t, "applied", func() bool { return m.machine.Count() == 64 })
	if first := m.group().Status().FirstIndex; m.live(first) != 0 {
		t.Errorf("log with live content was cut up to %d", first)
	}
	if err := m.group().Submit(simtest.Settle(), 1); err != nil {
		t.Fatal(err)
	}
	eventually(t, "segments dropped", func() bool { return m.node.Stats().Segments <= 3 })
	if m.machine.Evacuated > 0 {
		t.Error("content was moved out though the log was within its bounds")
	}
}

// observed is a machine that has something happen when the log's keeper looks what is live, and counts the checkpoints it asks for.
type observed struct {
	*simtest.Machine
	looked      func(references int)
	checkpoints *atomic.Int64
}

func (o observed) Live(from, to uint64) (int, int64) {
	references, bytes := o.Machine.Live(from, to)
	o.looked(references)
	return references, bytes
}

func (o observed) Checkpoint(done func(error)) bool {
	o.checkpoints.Add(1)
	return o.Machine.Checkpoint(done)
}

// A snapshot that is cut while the keeper looks for what is live may need what was so a moment ago.
func TestLogThatIsPinnedWhileItIsLookedThroughIsKept(t *testing.T) {
	m := options(t, 1)
	m.opts.SegmentBytes, m.opts.CheckpointBytes = 64<<10, 64<<10
	var checkpoints atomic.Int64
	var release func()
	var first uint64
	pinned := make(chan struct{})
	look := sync.OnceFunc(func() {
		first, release = m.group().Status().FirstIndex, m.node.Pin(0, 0)
		close(pinned)
	})
	m.opts.Machines[0] = observed{Machine: m.machine, checkpoints: &checkpoints, looked: func(references int) {
		if references == 0 {
			look()
		}
	}}
	m.start()
	defer m.stop()
	<-m.reg
	fill := func() {
		for range 8 {
			if err := m.group().Submit(simtest.Bytes(32<<10), 1); err != nil {
				t.Fatal(err)
			}
		}
	}
	fill()
	eventually(t, "applied", func() bool { return m.machine.Count() == 8 })
	fill()
	if err := m.group().Submit(simtest.Settle(), 1); err != nil {
		t.Fatal(err)
	}
	<-pinned
	for round, at := int64(1), checkpoints.Load(); round <= 2; round++ { // the one that looked is over, and another one
		fill()
		eventually(t, "a checkpoint", func() bool { return checkpoints.Load() >= at+round })
	}
	if now := m.group().Status().FirstIndex; now != first {
		t.Errorf("the log begins at entry %d, and was pinned when it began at %d", now, first)
	}
	release()
	eventually(t, "the log is given back", func() bool { return m.group().Status().FirstIndex > first })
}

func TestSurvivorsAreMovedOutWhenTheLogIsOverItsBounds(t *testing.T) {
	m := options(t, 1)
	m.opts.SegmentBytes, m.opts.CheckpointBytes, m.opts.LogBytesMax = 64<<10, 64<<10, 256<<10
	m.start()
	defer m.stop()
	<-m.reg
	submit := func(commands ...[]byte) { // an entry of their own
		before := m.machine.Count()
		for _, c := range commands {
			if err := m.group().Submit(c, 1); err != nil {
				t.Fatal(err)
			}
		}
		eventually(t, "applied", func() bool { return m.machine.Count() >= before+uint64(len(commands)) })
	}
	for v := range uint64(16) {
		submit(simtest.Value(v))
		submit(slices.Repeat([][]byte{simtest.Bytes(32 << 10)}, 4)...)
	}
	if m.machine.Evacuated > 0 {
		t.Error("content was moved out though nearly all of the log is live")
	}
	if err := m.group().Submit(simtest.SettleFrom(1000), 1); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the log is within its bounds", func() bool { return m.node.Stats().SegmentBytes <= 512<<10 })
	if m.machine.Evacuated == 0 {
		t.Error("nothing was moved out")
	}
}

func TestStopMovesLeadershipAwayFirst(t *testing.T) {
	var seen [4]atomic.Uint64 // the leader as each node knows it
	ms := cluster(t, 3, func(m *member) {
		m.opts.Observer.Leader = func(_, leader, _ uint64) { seen[m.opts.NodeID].Store(leader) }
	})
	for _, m := range ms {
		<-m.reg
	}
	leader := leaderOf(ms)
	ms[leader].stop()
	if heir := seen[leader].Load(); heir == leader || heir == 0 {
		t.Errorf("node %d stopped while it took node %d for the leader", leader, heir)
	}
}

func TestNodeThatIsDeclaredDownRegistersAnew(t *testing.T) {
	m := options(t, 1)
	m.start()
	defer m.stop()
	first := <-m.reg
	if err := m.group().Control(simtest.Codec().NodeDown(1, first)); err != nil {
		t.Fatal(err)
	}
	if second := <-m.reg; second != first+1 {
		t.Errorf("incarnation %d after %d", second, first)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.lost) != 1 || !strings.Contains(m.lost[0], "declared down") {
		t.Errorf("reasons: %q", m.lost)
	}
}

func TestSilentNodeIsDeclaredDown(t *testing.T) {
	ms := cluster(t, 3)
	for _, m := range ms {
		<-m.reg
	}
	leader := leaderOf(ms)
	gone := leader%3 + 1
	ms[gone].stop()
	eventually(t, "declared down", func() bool { _, nonce, _ := ms[leader].machine.Incarnation(gone); return nonce == 0 })
}

func TestNodeWithoutALeaderClosesItsClients(t *testing.T) {
	ms := cluster(t, 3)
	for _, m := range ms {
		<-m.reg
	}
	ms[1].stop()
	ms[2].stop()
	eventually(t, "registration given up", func() bool {
		ms[3].mu.Lock()
		defer ms[3].mu.Unlock()
		return len(ms[3].lost) > 0 && strings.Contains(ms[3].lost[len(ms[3].lost)-1], "no leader")
	})
	if err := ms[3].submit(1); err != replication.ErrUnregistered {
		t.Errorf("submit: %v", err)
	}
}

func TestTickIsProposedWhenSomethingIsDue(t *testing.T) {
	m := options(t, 1)
	m.start()
	defer m.stop()
	<-m.reg
	m.machine.SetDeadline(m.machine.Stamp() + 20)
	m.mustSubmit(0, 1)
	eventually(t, "ticked", func() bool { return m.machine.Ticks() > 0 && m.machine.NextDeadline() == 0 })
}

func TestGroupThatCannotApplyAnEntryStops(t *testing.T) {
	m := options(t, 1)
	m.start()
	defer m.stop()
	<-m.reg
	if err := m.group().Submit([]byte{99}, 1); err != nil {
		t.Fatal(err)
	}
	eventually(t, "stopped", func() bool { return strings.Contains(m.group().Status().Error, "unknown kind 99") })
	if err := m.submit(1); err == nil || !strings.Contains(err.Error(), "has stopped") {
		t.Errorf("submit: %v", err)
	}
}

func TestStoppedGroupHoldsUpNeitherCheckpointsNorTheStop(t *testing.T) {
	m := options(t, 1)
	m.start()
	<-m.reg
	if err := m.group().Submit([]byte{99}, 1); err != nil {
		t.Fatal(err)
	}
	eventually(t, "stopped", func() bool { return m.group().Status().Error != "" })
	if err := m.node.Stop(context.Background()); err != nil { // no bound: it has to end by itself
		t.Error(err)
	}
}

func TestLeadersAreSpreadOverTheVoters(t *testing.T) {
	groups := []uint64{0, 1, 2}
	ms := cluster(t, 3, func(m *member) {
		m.opts.Groups = groups
		for _, g := range groups[1:] {
			m.opts.Machines[g] = simtest.NewMachine()
		}
		m.opts.TickInterval = 5 * time.Millisecond
	})
	for _, g := range groups {
		if err := ms[1].node.TransferLeader(within(t), g, 1); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "each node leads one group", func() bool {
		leads := map[uint64]bool{}
		for _, g := range groups {
			leads[ms[1].node.Group(g).Status().Leader] = true
		}
		return len(leads) == 3 && !leads[0]
	})
}
