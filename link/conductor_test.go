package link

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/understudy-mq/understudy/core/entry"
)

// assembly is a standby of three groups, as all its nodes have applied it.
type assembly struct {
	mu       sync.Mutex
	groups   map[uint64]Standing
	leader   map[uint64]int // node by group
	promoted map[uint64]int // how often a group became promoted
	unheard  int            // a node whose word about data groups gets lost; 0 for none
	unready  error          // why clients are not served
	looks    int            // at that
	waits    bool           // to be attached
	looked   chan struct{}  // closed once bystander has seen that it does
	attached map[uint64]*entry.LinkAttach
	asked    []entry.Kind // what was proposed to the system group,
	log      []entry.Kind // and what of it changed something
}

func newAssembly() *assembly {
	a := &assembly{groups: map[uint64]Standing{}, leader: map[uint64]int{0: 1, 1: 2, 2: 3}, promoted: map[uint64]int{}, attached: map[uint64]*entry.LinkAttach{}}
	for g := range a.leader {
		a.groups[g] = Standing{Role: Standby, Source: sourceID, Position: entry.Position{Index: 10 + g, Term: 2}}
	}
	return a
}

// bystander is a node that leads no group.
const bystander = 9

// whole says whether every group is promoted.
func (a *assembly) whole() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.promoted) == len(a.groups)
}

// member is one node's view.
type member struct {
	*assembly
	id int
}

func (m member) ID() string                  { return standbyID }
func (m member) Groups() []uint64            { return []uint64{0, 1, 2} }
func (m member) Hosts() []string             { return nil }
func (m member) FenceTaken(string)           {}
func (m member) Begins(uint64) (b Beginning) { return b }

func (m member) Waits() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.id == bystander && m.looked != nil {
		close(m.looked)
		m.looked = nil
	}
	return m.waits
}

func (m member) Standing(group uint64) Standing {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.groups[group]
	s.Leads = m.leader[group] == m.id
	return s
}

func (m member) Serves() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.looks++
	return m.unready
}

func (m member) Propose(group uint64, cmd entry.Command) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.unheard == m.id && group != 0 {
		return errors.New("the leader is away")
	}
	if group == 0 {
		m.asked = append(m.asked, cmd.Kind())
	}
	s := m.groups[group]
	if m.apply(group, &s, cmd) {
		m.groups[group] = s
		if group == 0 {
			m.log = append(m.log, cmd.Kind())
		}
	}
	return nil
}

// apply does what the machine would. m.mu is held.
func (m member) apply(group uint64, s *Standing, cmd entry.Command) (counts bool) {
	switch x := cmd.(type) {
	case *entry.LinkAttach:
		m.attached[group] = x
		return s.Role == Primary
	case *entry.LinkAccept:
		if counts = !s.Accepted && !(s.Cancelled && s.Switch == x.Switch); counts {
			s.Switch, s.Accepted, s.Cancelled = x.Switch, true, false
		}
	case *entry.LinkCancel:
		if counts = s.Role == Standby && !(s.Cancelled && s.Switch == x.Switch); counts {
			s.Switch, s.Accepted, s.Cancelled = x.Switch, false, true
		}
	case *entry.LinkPromote:
		if counts = s.Role == Standby && !(s.Cancelled && x.Switch != "" && s.Switch == x.Switch); counts {
			s.Role, s.Generation = Promoted, x.Generation
			m.promoted[group]++
		}
	}
	return counts
}

var _ Cluster = member{}

// conduct runs node id's conductor until the test ends, or stop.
func conduct(t *testing.T, a *assembly, id int) (c *Conductor, stop func()) {
	t.Helper()
	c = NewConductor(member{a, id}, New(Options{Logger: discard()}), discard())
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); c.Run(ctx) }()
	stop = func() { cancel(); <-done }
	t.Cleanup(stop)
	return c, stop
}

func bounded(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

func TestAPromotionWaitsForAStandbyThatIsNewToHearOfItsSource(t *testing.T) {
	a := newAssembly()
	standing := a.groups
	looked := make(chan struct{})
	a.groups, a.waits, a.looked = map[uint64]Standing{0: {Role: Primary}, 1: {Role: Primary}, 2: {Role: Primary}}, true, looked
	for id := range 3 {
		conduct(t, a, id+1)
	}
	asked := NewConductor(member{a, bystander}, New(Options{Logger: discard()}), discard())
	answer := make(chan error, 1)
	go func() { answer <- asked.Promote(bounded(t)) }()
	select {
	case <-looked:
	case err := <-answer:
		t.Fatal(err)
	}
	a.mu.Lock()
	a.groups, a.waits = standing, false
	a.mu.Unlock()
	if err := <-answer; err != nil || !a.whole() {
		t.Errorf("promoted: %v, error %v", a.whole(), err)
	}
}

func TestAPromotionOfWhatNeverBecomesAStandbyIsRefused(t *testing.T) {
	for _, x := range []struct {
		waits bool
		says  string
	}{{false, "nothing to promote"}, {true, "has not heard of its source"}} {
		a := newAssembly()
		a.groups, a.waits = map[uint64]Standing{0: {Role: Primary}, 1: {Role: Primary}, 2: {Role: Primary}}, x.waits
		c := NewConductor(member{a, 1}, New(Options{Logger: discard()}), discard())
		now := time.Now()
		c.now = func() time.Time { now = now.Add(nobodyLimit / 2); return now }
		if err := c.Promote(bounded(t)); !errors.Is(err, ErrNoStandby) || !strings.Contains(err.Error(), x.says) {
			t.Errorf("it is to become a standby: %v: %v", x.waits, err)
		}
	}
}

func TestAPromotionAskedOnThreeNodesAtOnceIsOne(t *testing.T) {
	a := newAssembly()
	answers := make(chan error, 3)
	for id := 1; id <= 3; id++ {
		c, _ := conduct(t, a, id)
		go func() { answers <- c.Promote(bounded(t)) }()
	}
	for range 3 {
		if err := <-answers; err != nil {
			t.Error(err)
		}
	}
	for g, s := range a.groups {
		if want := (entry.Generation{Number: 1, Cluster: standbyID}); s.Generation != want || a.promoted[g] != 1 {
			t.Errorf("group %d was promoted %d times, generation %+v", g, a.promoted[g], s.Generation)
		}
		if s.Position.Index != 10+g {
			t.Errorf("group %d was cut at %d", g, s.Position.Index)
		}
	}
}

// The node that was asked dies after the first group; nobody asks again.
func TestAPromotionWhoseNodeDiesHalfWayIsCompletedByTheOthers(t *testing.T) {
	a := newAssembly()
	a.leader, a.unheard = map[uint64]int{0: 1, 1: 1, 2: 1}, 1
	c, die := conduct(t, a, 1)
	ctx, cancel := context.WithCancel(bounded(t))
	answer := make(chan error, 1)
	go func() { answer <- c.Promote(ctx) }()
	eventually(t, "the system group is promoted", func() bool { return member{a, 1}.Standing(0).Role == Promoted })
	cancel()
	if err := <-answer; err == nil {
		t.Error("it was answered with two groups left")
	}
	die()
	if a.whole() {
		t.Fatal("it was not half-way")
	}
	a.mu.Lock()
	a.leader = map[uint64]int{0: 2, 1: 3, 2: 2}
	a.mu.Unlock()
	conduct(t, a, 2)
	conduct(t, a, 3)
	eventually(t, "the others complete it", a.whole)
	for g, s := range a.groups {
		if s.Generation != (entry.Generation{Number: 1, Cluster: standbyID}) {
			t.Errorf("group %d has generation %+v", g, s.Generation)
		}
	}
}

func TestAPromotionIsAnsweredOnlyOnceClientsAreServed(t *testing.T) {
	a := newAssembly()
	a.unready = errors.New("no leader yet")
	c, _ := conduct(t, a, 1)
	conduct(t, a, 2)
	conduct(t, a, 3)
	answer := make(chan error, 1)
	go func() { answer <- c.Promote(bounded(t)) }()
	eventually(t, "it has looked several times", func() bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		return a.looks > 3
	})
	select {
	case err := <-answer:
		t.Fatalf("it was answered with %v before clients were served", err)
	default:
	}
	a.mu.Lock()
	a.unready = nil
	a.mu.Unlock()
	if err := <-answer; err != nil {
		t.Error(err)
	}
}
