package replication_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/understudy-mq/understudy/cmd/loopback"
	"github.com/understudy-mq/understudy/replication"
	"github.com/understudy-mq/understudy/replication/simtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// member is a node of a cluster over loopback with the real log and transport.
type member struct {
	t       testing.TB
	opts    replication.Options
	machine *simtest.Machine
	node    *replication.Node

	mu   sync.Mutex
	lost []string // reasons of lost registrations
	reg  chan uint64
}

func options(t testing.TB, id uint64) *member {
	m := &member{t: t, machine: simtest.NewMachine(), reg: make(chan uint64, 64)}
	level := slog.LevelError
	if os.Getenv("REPLICATION_LOG") != "" {
		level = slog.LevelDebug
	}
	m.opts = replication.Options{
		NodeID: id, Dir: t.TempDir(), Groups: []uint64{0}, Codec: simtest.Codec(),
		Machines:     map[uint64]replication.Machine{0: m.machine},
		TickInterval: 10 * time.Millisecond,
		Logger:       slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level})).With("node", id),
		Fatal:        func(err error) { t.Errorf("node %d: %v", id, err) },
		Observer: replication.Observer{
			Registered: func(_, incarnation uint64) { m.reg <- incarnation },
			Unregistered: func(_ uint64, reason string) {
				m.mu.Lock()
				m.lost = append(m.lost, reason)
				m.mu.Unlock()
			},
		},
	}
	return m
}

func (m *member) start() {
	m.t.Helper()
	n, err := replication.Start(m.opts)
	if err != nil {
		m.t.Fatal(err)
	}
	m.node = n
}

func (m *member) stop() {
	m.t.Helper()
	if m.node == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := m.node.Stop(ctx); err != nil {
		m.t.Error(err)
	}
	m.node = nil
}

func (m *member) group() *replication.Group { return m.node.Group(0) }

// patience bounds every wait of these tests.
const patience = time.Minute

// eventually waits, without a promise of how long, for a condition.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
		time.Sleep(time.Millisecond)
	}
}

// live counts what is live in the log's entries below `to`.
func (m *member) live(to uint64) int {
	references, _ := m.machine.Live(0, to)
	return references
}

func (m *member) submit(v uint64) error { return m.group().Submit(simtest.Value(v), 1) }

func (m *member) mustSubmit(from, to uint64) {
	m.t.Helper()
	for v := from; v < to; v++ {
		if err := m.submit(v); err != nil {
			m.t.Fatalf("submit %d: %v", v, err)
		}
	}
}

func numbers(from, to uint64) []uint64 {
	var vs []uint64
	for v := from; v < to; v++ {
		vs = append(vs, v)
	}
	return vs
}

func TestSingleNodeAppliesWhatIsSubmittedInOrder(t *testing.T) {
	m := options(t, 1)
	m.start()
	defer m.stop()
	<-m.reg
	m.mustSubmit(0, 5000)
	eventually(t, "all values applied", func() bool { return m.machine.Count() == 5000 })
	if got := m.machine.Values(); !slices.Equal(got, numbers(0, 5000)) {
		t.Fatal("values lost, doubled or out of order")
	}
}

func TestSingleNodeComesBackWithItsState(t *testing.T) {
	m := options(t, 1)
	m.start()
	<-m.reg
	m.mustSubmit(0, 100)
	eventually(t, "applied", func() bool { return m.machine.Count() == 100 })
	m.stop()
	m.machine.Crash()
	m.start()
	defer m.stop()
	if n := <-m.reg; n < 2 {
		t.Fatalf("incarnation %d after a restart", n)
	}
	m.mustSubmit(100, 200)
	eventually(t, "applied", func() bool { return m.machine.Count() == 200 })
	if !slices.Equal(m.machine.Values(), numbers(0, 200)) {
		t.Fatal("values lost, doubled or out of order")
	}
}

// cluster starts n first members, changed before they start.
func cluster(t testing.TB, n int, changes ...func(*member)) map[uint64]*member {
	peers := map[uint64]string{}
	for i, a := range loopback.Addresses(t, n) {
		peers[uint64(i+1)] = a
	}
	ms := map[uint64]*member{}
	for id, a := range peers {
		m := options(t, id)
		m.opts.Peers, m.opts.Listen = peers, a
		for _, change := range changes {
			change(m)
		}
		ms[id] = m
	}
	for _, m := range ms {
		m.start()
	}
	t.Cleanup(func() {
		for _, m := range ms {
			m.stop()
		}
	})
	return ms
}

func leaderOf(ms map[uint64]*member) uint64 {
	for id, m := range ms {
		if m.node != nil && m.group().Status().Role == "leader" {
			return id
		}
	}
	return 0
}

func TestThreeNodesSurviveTheLossOfTheLeader(t *testing.T) {
	ms := cluster(t, 3)
	for _, m := range ms {
		<-m.reg
	}
	first := leaderOf(ms)
	var survivors []*member
	for id, m := range ms {
		m.mustSubmit(id*1_000_000, id*1_000_000+500)
		if id != first {
			survivors = append(survivors, m)
		}
	}
	ms[first].stop()
	for _, m := range survivors {
		id := m.opts.NodeID
		m.mustSubmit(id*1_000_000+500, id*1_000_000+1000)
	}
	for _, m := range survivors {
		eventually(t, "everything of the survivors applied", func() bool {
			for _, s := range survivors {
				if len(of(m.machine.Values(), s.opts.NodeID)) < 1000 {
					return false
				}
			}
			return true
		})
	}
	for _, m := range survivors {
		for _, s := range survivors {
			id := s.opts.NodeID
			if got := of(m.machine.Values(), id); !slices.Equal(got, numbers(id*1_000_000, id*1_000_000+1000)) {
				t.Errorf("node %d: values of node %d are %s", m.opts.NodeID, id, brief(got))
			}
		}
	}
}

// of is what one node submitted.
func of(values []uint64, node uint64) []uint64 {
	return slices.DeleteFunc(slices.Clone(values), func(v uint64) bool { return v/1_000_000 != node })
}

func brief(vs []uint64) string {
	if len(vs) == 0 {
		return "none"
	}
	return fmt.Sprintf("%d, %d to %d", len(vs), vs[0], vs[len(vs)-1])
}

// logBuffer keeps what was logged.
type logBuffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) has(text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.b.String(), text)
}

// halfOpen is a way to a node that takes the small connection of raft's heartbeats and votes, and the big one, by which
// entries come, once it is told.
type halfOpen struct {
	net.Listener
	small, big atomic.Bool
}

func newHalfOpen(t *testing.T, to string) *halfOpen {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h := &halfOpen{Listener: l}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go h.carry(c, to)
		}
	}()
	return h
}

// roleAt is where a connection says what it is for: behind the magic, a frame's prefix and the version.
const roleAt, roleBulk = 8 + 17 + 1, 0

func (h *halfOpen) carry(near net.Conn, to string) {
	defer near.Close()
	head := make([]byte, roleAt+1)
	if _, err := io.ReadFull(near, head); err != nil || !h.small.Load() || head[roleAt] == roleBulk && !h.big.Load() {
		return
	}
	far, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer far.Close()
	if _, err := far.Write(head); err != nil {
		return
	}
	go func() { _, _ = io.Copy(far, near); _ = far.Close() }()
	_, _ = io.Copy(near, far)
}

// A first member whose leader does not reach it yet with entries has no data. If it registered all the same, it would look
// like a voter that has lost them, and be refused for good.
func TestAFirstMemberRegistersOnlyOnceItHasData(t *testing.T) {
	var way *halfOpen
	ms := cluster(t, 3, func(m *member) {
		if way == nil {
			way = newHalfOpen(t, m.opts.Peers[3])
		}
		self := m.opts.NodeID
		m.opts.PeerAddr = func(id uint64) string {
			switch {
			case id == 3:
				return way.Addr().String()
			case self == 3 && !way.small.Load():
				return "127.0.0.1:1" // nobody is there: the others are to have formed without node 3
			}
			return ""
		}
	})
	<-ms[1].reg
	<-ms[2].reg
	way.small.Store(true)
	eventually(t, "node 3 knows its leader", func() bool { return ms[3].group().Status().Leader != 0 })
	ms[1].mustSubmit(1_000_000, 1_000_100)
	eventually(t, "the others go on", func() bool { return ms[2].machine.Count() == 100 })
	if s := ms[3].group().Status(); s.LastIndex > 1 {
		t.Fatalf("entries up to %d have come to node 3", s.LastIndex)
	}
	way.big.Store(true)
	<-ms[3].reg
	ms[3].mustSubmit(3_000_000, 3_000_010)
	eventually(t, "node 3 takes part", func() bool { return ms[1].machine.Count() == 110 })
}

func TestVoterThatLostItsDataIsKeptOut(t *testing.T) {
	var logged logBuffer
	ms := cluster(t, 3, func(m *member) {
		if m.opts.NodeID == 1 {
			m.opts.Logger = slog.New(slog.NewTextHandler(&logged, nil))
		}
	})
	for _, m := range ms {
		<-m.reg
	}
	ms[3].stop()
	ms[1].mustSubmit(1_000_000, 1_000_010)
	eventually(t, "applied", func() bool { return ms[1].machine.Count() == 10 })
	blank := options(t, 3)
	blank.opts.Peers, blank.opts.Listen = ms[3].opts.Peers, ms[3].opts.Listen
	blank.start()
	defer blank.stop()
	eventually(t, "kept out", func() bool { return logged.has("has lost its data") })
	if s := blank.group().Status(); s.LastIndex > 1 {
		t.Errorf("it has taken entries up to %d", s.LastIndex)
	}
	ms[2].mustSubmit(2_000_000, 2_000_010)
	eventually(t, "the others go on", func() bool { return ms[1].machine.Count() == 20 })
}
