package node

import (
	"context"
	"sync"
	"time"

	"github.com/understudy-mq/understudy/core"
)

// A queue that is another connection's is refused to a client with 405, which many take for the last word. When the other
// connection is the client's own former one, it is lost, and the queue soon free: as soon as its node says so, or is declared
// down. So before such a declaration is made that node is asked, and the declaration waits until it says that the connection is there.

const (
	occupantLook = 50 * time.Millisecond // between looks at whether a queue is free
	rollTimeout  = time.Second           // for a node's answer
)

// sessionRef names a session of a group.
type sessionRef struct {
	Group   uint64 `json:"group"`
	Session uint64 `json:"session"`
}

// occupant is the anonymous session that has a queue for itself, and its node. None that is attached to this node counts: what becomes
// of it is ahead, in the log, of what any client of this node declares from now on.
func (n *Node) occupant(vhost, queue string) (at uint64, s sessionRef, ok bool) {
	home, ok := n.vhostHome(vhost)
	if queue == "" || !ok {
		return 0, s, false
	}
	s.Group = home.Group
	n.states[home.Group].View(func(m *core.Machine) { s.Session, at = m.Occupant(vhost, queue) })
	return at, s, at != 0 && at != n.cfg.NodeID
}

// occupied answers what waits until a queue is free or known to be taken, nil for one that is free.
func (n *Node) occupied(vhost, queue string) (wait func(context.Context)) {
	at, s, ok := n.occupant(vhost, queue)
	if !ok {
		return nil
	}
	return func(ctx context.Context) {
		n.roll.await(ctx, at, s, func() (uint64, sessionRef, bool) { return n.occupant(vhost, queue) })
	}
}

// attachedHere says of each of the sessions whether it is attached to this node.
func (n *Node) attachedHere(sessions []sessionRef) []bool {
	here := make([]bool, len(sessions))
	for i, s := range sessions {
		here[i] = n.broker.Attached(s.Group, s.Session)
	}
	return here
}

// roll asks other nodes which sessions are attached to them. One question to a node is under way at a time; those who ask meanwhile
// share the next, for an answer to a question that was asked before says nothing of now.
type roll struct {
	ask func(ctx context.Context, node uint64, sessions []sessionRef) ([]bool, error)

	mu   sync.Mutex
	next map[uint64]*rollCall // by node that is being asked: what it is asked then, nil for nothing
}

// rollCall is one question.
type rollCall struct {
	sessions []sessionRef
	answered chan struct{}       // closed at the answer, or when there is none
	attached map[sessionRef]bool // by the answer
}

func newRoll(ask func(ctx context.Context, node uint64, sessions []sessionRef) ([]bool, error)) *roll {
	return &roll{ask: ask, next: map[uint64]*rollCall{}}
}

// await comes back once node says that s is attached to it, or occupant that there is none any more, or ctx has ended. Where occupant
// names another one it is that one's node that has to say so.
func (r *roll) await(ctx context.Context, node uint64, s sessionRef, occupant func() (uint64, sessionRef, bool)) {
	look := time.NewTicker(occupantLook)
	defer look.Stop()
	call := r.call(node, s)
	for answered := call.answered; ; {
		select {
		case <-answered:
			if call.attached[s] {
				return
			}
			answered = nil
		case <-look.C:
			at, now, ok := occupant()
			if !ok {
				return
			}
			if answered == nil || now != s {
				node, s = at, now
				call = r.call(node, s)
				answered = call.answered
			}
		case <-ctx.Done():
			return
		}
	}
}

// call adds a session to the next question to a node.
func (r *roll) call(node uint64, s sessionRef) *rollCall {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, asking := r.next[node]
	if c == nil {
		c = &rollCall{answered: make(chan struct{}), attached: map[sessionRef]bool{}}
		r.next[node] = c
	}
	c.sessions = append(c.sessions, s)
	if !asking {
		go r.run(node)
	}
	return c
}

// run asks a node until there is nothing more to ask it.
func (r *roll) run(node uint64) {
	for c := r.take(node); c != nil; c = r.take(node) {
		ctx, cancel := context.WithTimeout(context.Background(), rollTimeout)
		here, err := r.ask(ctx, node, c.sessions)
		cancel()
		if err == nil && len(here) == len(c.sessions) {
			for i, s := range c.sessions {
				c.attached[s] = here[i]
			}
		}
		close(c.answered)
	}
}

func (r *roll) take(node uint64) *rollCall {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.next[node]
	if c == nil {
		delete(r.next, node)
	} else {
		r.next[node] = nil
	}
	return c
}
