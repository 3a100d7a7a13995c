package simtest

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"slices"
	"time"

	"github.com/understudy-mq/understudy/replication"
)

const (
	tickTime  = 100 * time.Millisecond
	turnsTick = 6 // rounds of steps in which each node may move, per tick
	paceMost  = 1 << 20
)

// Sim is a cluster of one group on one goroutine.
type Sim struct {
	rng   *rand.Rand
	nodes map[uint64]*simNode
	ids   []uint64
	net   network
	now   time.Duration
	err   error
	next  uint64 // the next value to submit

	change struct { // of the fourth member
		id    uint64
		stage int
	}
	lastID  uint64     // of the members removed
	gone    []*simNode // removed
	healing bool
	ticks   int
	source  *source // of a standby; nil for a cluster of its own

	prints map[uint64]print // by index: what every machine must be there
	known  uint64           // the newest entry that any node has ever known to be committed
	debug  *slog.Logger

	// Counters of what a run has met with, to see that it met with it.
	Crashes, Cuts, Partitions, Snapshots, Broken, Submitted, Unregistered, MemberChanges, Asked, Proven, Full int
}

type print struct{ hash, node uint64 }

// simNode is a node, its disk and its machine; node is nil while it is down.
type simNode struct {
	sim     *Sim
	id      uint64
	node    *replication.Manual
	disk    *Disk
	machine *Machine
	peers   map[uint64]string
	join    bool
	speed   int  // of ten rounds, in how many it moves
	full    bool // nothing more comes to its disk
	busy    bool // its machine gets nothing done
	reads   bool
	reader  reader

	// The registration in force, nil for none, and all that ever were.
	open *registration
	all  []*registration
	// The one that was in force when a snapshot was installed: it has to end.
	stale *registration
}

// registration is what one registration of a node submitted, in order.
type registration struct {
	node   uint64
	values []uint64
}

// New makes a cluster of n voters, moved by a seed.
func New(seed uint64, n int) *Sim {
	s := newSim(seed)
	s.form(n)
	return s
}

func newSim(seed uint64) *Sim {
	s := &Sim{
		rng: rand.New(rand.NewPCG(seed, 0x5eed)), nodes: map[uint64]*simNode{}, prints: map[uint64]print{},
		debug: slog.New(slog.NewTextHandler(io.Discard, nil)),
	}
	if os.Getenv("REPLICATION_LOG") != "" {
		s.debug = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	s.net = network{rng: s.rng, links: map[[3]uint64]*link{}, slow: 3, pace: paceMost, sim: s}
	return s
}

// form makes the first members.
func (s *Sim) form(n int) {
	peers := map[uint64]string{}
	for i := range n {
		peers[uint64(i+1)] = fmt.Sprintf("node%d", i+1)
	}
	for i := range n {
		s.add(uint64(i+1), peers, false)
	}
}

func (s *Sim) add(id uint64, peers map[uint64]string, join bool) *simNode {
	n := &simNode{sim: s, id: id, disk: new(Disk), machine: NewMachine(), peers: peers, join: join, speed: 10}
	s.nodes[id] = n
	s.ids = append(s.ids, id)
	n.start()
	return n
}

func (s *Sim) fail(format string, args ...any) {
	if s.err == nil {
		s.err = fmt.Errorf(format, args...)
	}
}

func (n *simNode) start() {
	s := n.sim
	o := replication.Options{
		NodeID: n.id, Dir: "-", Listen: "-", Peers: n.peers, Join: n.join, Groups: []uint64{0}, Codec: Codec(),
		Machines:         map[uint64]replication.Machine{0: n.machine},
		Standby:          s.source != nil,
		FollowerLagBytes: 2048, TickInterval: tickTime,
		Logger: s.debug.With("node", n.id),
		Fatal:  func(err error) { s.fail("node %d: %v", n.id, err) },
		Wall:   func() time.Time { return time.UnixMilli(1_700_000_000_000).Add(s.now) },
		Observer: replication.Observer{
			Registered: func(uint64, uint64) {
				n.open = &registration{node: n.id}
				n.all = append(n.all, n.open)
			},
			Unregistered: func(uint64, string) { n.open = nil; s.Unregistered++ },
		},
	}
	n.disk.Immediate = true
	node, err := replication.StartManual(o, map[uint64]replication.GroupLog{0: n.disk}, wire{&s.net, n.id}, func() time.Duration { return s.now }, n.errand)
	n.disk.Immediate = false
	if err != nil {
		s.fail("start node %d: %v", n.id, err)
		return
	}
	n.node = node
}

// crash stops a node at once; of its unsynced writes some stay.
func (n *simNode) crash() {
	n.sim.Crashes++
	n.node, n.open, n.stale, n.reader, n.full = nil, nil, nil, reader{}, false
	n.disk.Crash(n.sim.rng.IntN(n.disk.Unsynced() + 1))
	n.machine.Crash()
	for _, l := range n.sim.net.order {
		if l.from == n.id && l.up && l.urgent {
			n.sim.hangUp(l)
		}
	}
}

// hangUp lets the receiver of a link see that it ends.
func (s *Sim) hangUp(l *link) {
	l.cut()
	if to := s.nodes[l.to]; to != nil && to.node != nil {
		to.node.HungUp(l.from)
	}
}

func (n *simNode) submit() {
	if n.open == nil || n.full {
		return
	}
	s := n.sim
	s.next++
	if err := n.node.Group(0).Submit(Value(s.next), 1); err != nil {
		s.fail("node %d is registered but submits with %v", n.id, err)
		return
	}
	n.open.values = append(n.open.values, s.next)
	s.Submitted++
}

// move lets a node do something: a turn, some applying, a sync.
func (n *simNode) move() {
	n.node.Turn(0)
	n.sim.known = max(n.sim.known, n.node.Group(0).Status().Commit)
	if n.stale != nil && n.stale == n.open {
		n.sim.fail("node %d installed a snapshot and kept its registration", n.id)
	}
	n.stale = nil
	if n.sim.rng.IntN(2) == 0 && !n.full {
		n.disk.Sync()
	}
	if n.sim.rng.IntN(3) > 0 && !n.busy {
		installed := n.machine.Installed
		n.node.Apply(0)
		if n.machine.Installed > installed {
			n.stale = n.open
		}
		n.look()
	}
}

// look compares the machine with what others were at the same entry.
func (n *simNode) look() {
	index, _ := n.machine.Applied()
	hash := n.machine.Fingerprint()
	if p, ok := n.sim.prints[index]; ok && p.hash != hash {
		n.sim.fail("nodes %d and %d differ at entry %d", p.node, n.id, index)
	}
	n.sim.prints[index] = print{hash, n.id}
}

// ask asks a node what is committed. Whenever it answers, what anybody knew when it was asked is within that.
func (n *simNode) ask(answer func()) {
	s := n.sim
	known, asked := s.known, s.now
	s.Asked++
	n.node.Committed(0, func(index uint64) {
		s.Proven++
		if index < known {
			s.fail("node %d, asked at %v, said at %v that nothing was committed beyond entry %d: entry %d was", n.id, asked, s.now, index, known)
		}
		answer()
	})
}

// tick lets one tick's time pass, submitting values with odds of one in quiet per node and round.
func (s *Sim) tick(quiet int) {
	s.now += tickTime
	s.ticks++
	for _, id := range s.ids {
		if n := s.nodes[id]; n.node != nil {
			n.node.Tick()
		}
	}
	for range turnsTick {
		s.net.advance()
		for _, id := range s.shuffled() {
			n := s.nodes[id]
			if n == nil || n.node == nil || s.rng.IntN(10) >= n.speed {
				continue
			}
			if quiet > 0 && s.rng.IntN(quiet) == 0 {
				for range 1 + s.rng.IntN(3) {
					n.submit()
				}
			}
			if s.source != nil {
				n.live()
			}
			if quiet > 0 && s.rng.IntN(quiet) == 0 {
				n.ask(func() {})
			}
			n.move()
		}
	}
}

func (s *Sim) shuffled() []uint64 {
	ids := slices.Clone(s.ids)
	s.rng.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	return ids
}

// Run lets the cluster live through ticks of trouble, then heals it and checks. The error says what is wrong.
func (s *Sim) Run(ticks int) error {
	s.settle(300)
	for range ticks {
		if s.err != nil {
			return s.err
		}
		s.trouble()
		s.tick(3)
	}
	s.heal()
	s.settle(1500)
	if s.err != nil {
		return s.err
	}
	return s.check()
}

// trouble brings about faults, and ends some.
func (s *Sim) trouble() {
	n := s.nodes[s.ids[s.rng.IntN(len(s.ids))]]
	switch s.rng.IntN(60) {
	case 0:
		if n.node != nil {
			n.crash()
		}
	case 1, 2, 3:
		if n.node == nil {
			n.start()
		}
	case 4, 5:
		l := s.net.order[s.rng.IntN(len(s.net.order))]
		s.hangUp(l)
		s.Cuts++
	case 6:
		s.partition(n.id)
	case 7, 8, 9:
		for _, l := range s.net.order {
			l.blocked = false
		}
	case 10, 11, 12, 13:
		if n.node != nil {
			n.machine.Checkpoint(func(error) {})
			n.node.Truncate(0)
		}
	case 14:
		n.speed = 1 + s.rng.IntN(10)
	case 15:
		if n.node != nil {
			n.node.Change(0, replication.Transfer, s.ids[s.rng.IntN(len(s.ids))], "", func(error) {})
		}
	case 16:
		s.net.slow = 1 + s.rng.IntN(12)
	case 17, 18:
		s.changeMembers()
	case 19:
		if n.node != nil { // its checkpoint is newer than the commit index that its log has on disk
			n.node.Turn(0)
			n.node.Apply(0)
			n.machine.Checkpoint(func(error) {})
			n.crash()
		}
	case 20, 21:
		n.fill(!n.full)
	case 22, 23, 24:
		s.net.pace = s.rng.IntN(8)
	case 25, 26:
		n.busy = !n.busy
	}
}

var errNoSpace = errors.New("no space left")

// fill fills a node's disk, or makes room on it.
func (n *simNode) fill(full bool) {
	if n.node == nil || n.full == full {
		return
	}
	n.full = full
	if !full {
		n.node.Full(nil)
		return
	}
	n.sim.Full++
	n.node.Full(errNoSpace)
}

// changeMembers takes the next step in the life of a fourth member: it is made, added, promoted and removed.
func (s *Sim) changeMembers() {
	c := &s.change
	if c.id == 0 {
		c.id = max(s.lastID, 3) + 1
		s.add(c.id, nil, true)
	}
	for _, id := range s.ids[:3] {
		n := s.nodes[id]
		if n.node == nil || n.node.Group(0).Status().Role != "leader" {
			continue
		}
		stage := c.stage
		n.node.Change(0, []replication.Verb{replication.Add, replication.Promote, replication.Remove}[stage], c.id, "somewhere", func(err error) {
			if err == nil && s.change.stage == stage {
				s.changed()
			}
		})
		return
	}
}

// changed: the step was taken. A removed node goes for good.
func (s *Sim) changed() {
	c := &s.change
	c.stage++
	s.MemberChanges++
	if c.stage < 3 {
		return
	}
	s.nodes[c.id].node = nil
	s.nodes[c.id].open = nil
	s.gone = append(s.gone, s.nodes[c.id])
	s.ids = s.ids[:len(s.ids)-1]
	delete(s.nodes, c.id)
	c.id, c.stage, s.lastID = 0, 0, c.id
}

// partition cuts a node off from the others: both ways, or one way only.
func (s *Sim) partition(id uint64) {
	s.Partitions++
	ways := 1 + s.rng.IntN(3)
	for _, l := range s.net.order {
		l.blocked = l.from == id && ways&1 != 0 || l.to == id && ways&2 != 0
	}
}

func (s *Sim) heal() {
	s.net.slow, s.net.pace = 2, paceMost
	for _, l := range s.net.order {
		l.blocked = false
	}
	for _, id := range s.ids {
		n := s.nodes[id]
		n.speed, n.busy = 10, false
		n.fill(false)
		if n.node == nil {
			n.start()
		}
	}
	s.healing = true
}

// settle lets time pass until all nodes are registered and have applied the same, with nothing under way.
func (s *Sim) settle(ticks int) {
	for range ticks {
		if s.healing && s.change.id != 0 { // a node that is to be a member, or no more, never settles
			s.changeMembers()
		}
		s.tick(0)
		if s.err != nil || s.settled() {
			return
		}
	}
	s.fail("the cluster does not settle: %s", s.describe())
}

func (s *Sim) settled() bool {
	first := s.nodes[s.ids[0]]
	at, _ := first.machine.Applied()
	for _, id := range s.ids {
		n := s.nodes[id]
		if i, _ := n.machine.Applied(); i != at || n.open == nil {
			return false
		}
		if last, _ := n.disk.LastIndex(); last != at {
			return false
		}
		applied := first.machine.Values()
		if k := len(n.open.values); k > 0 && !slices.Contains(applied, n.open.values[k-1]) {
			return false
		}
	}
	return true
}

func (s *Sim) describe() string {
	out := ""
	for _, id := range s.ids {
		n := s.nodes[id]
		i, _ := n.machine.Applied()
		last, _ := n.disk.LastIndex()
		if n.node == nil {
			out += fmt.Sprintf("[node %d is down, applied %d of %d] ", id, i, last)
			continue
		}
		st := n.node.Group(0).Status()
		out += fmt.Sprintf("[node %d: %s of leader %d term %d, applied %d of %d, registered %v] ", id, st.Role, st.Leader, st.Term, i, last, n.open != nil)
	}
	return out
}
