package differential

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/understudy-mq/understudy/interop/rawclient"
)

// Broker is one of a pair, with a vhost that nobody else uses.
type Broker struct {
	URL     string                 // amqp://USER:PASSWORD@HOST:PORT/VHOST
	Distort func(*rawclient.Event) // changes what it says, to see that this is found; nil for nothing
}

// Pair is two brokers to compare. What the conversation goes by where it has a choice is what Theirs says.
type Pair struct {
	Ours, Theirs Broker
	Patience     time.Duration // how long they may take to say the same
	played       int
}

// Result is what became of a conversation.
type Result struct {
	Steps      int
	Difference string // what only one of them said; "" for nothing
	Unclear    bool   // it was broken off where the brokers may differ
	moves      []move
	kind       string // the difference without what follows from it
}

// Walk plays the conversation of a seed, with so many moves at most.
func (p *Pair) Walk(seed uint64, moves int) (Result, error) {
	w := newWalk(seed)
	return p.play(func(v view, done int) (move, bool) {
		if done == moves {
			return move{}, false
		}
		return w.move(v), true
	})
}

func (p *Pair) replay(moves []move) (Result, error) {
	return p.play(func(_ view, done int) (move, bool) {
		if done == len(moves) {
			return move{}, false
		}
		return moves[done], true
	})
}

// both are the sides of a conversation: ours, theirs.
type both [2]*side

func (b both) isOpen(conn int, channel uint16) bool { return b[1].conns[conn].channels[channel].open }
func (b both) heldBy(conn int, channel uint16) int {
	return len(b[1].conns[conn].channels[channel].held)
}

// each does something on both sides at once.
func (b both) each(do func(s *side) error) error {
	var wg sync.WaitGroup
	var errs [2]error
	for i, s := range b {
		wg.Go(func() {
			if err := do(s); err != nil {
				errs[i] = fmt.Errorf("%s: %w", []string{"ours", "theirs"}[i], err)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs[:]...)
}

// same says whether both have said the same; same turns are not asked for.
func (b both) same() bool { return maps.EqualFunc(b[0].said, b[1].said, slices.Equal) }

func (p *Pair) play(next func(v view, done int) (move, bool)) (r Result, err error) {
	p.played++
	var b both
	for i, broker := range []Broker{p.Ours, p.Theirs} {
		if b[i], err = newSide(broker, fmt.Sprintf(".%d", p.played)); err != nil {
			return r, err
		}
		defer func() { err = errors.Join(err, b[i].close()) }()
	}
	if err := p.converse(b, &r, next); err != nil || r.Difference != "" {
		return r, err
	}
	return r, b.each((*side).clean)
}

// converse plays the moves, and compares what is left behind them.
func (p *Pair) converse(b both, r *Result, next func(v view, done int) (move, bool)) error {
	for {
		m, more := next(b, len(r.moves))
		if !more {
			break
		}
		r.moves = append(r.moves, m)
		r.Steps += len(m.steps)
		if err := b.each(func(s *side) error { return s.do(m) }); err != nil {
			return err
		}
		if p.agree(b, r); r.Difference != "" || r.Unclear {
			return nil
		}
	}
	if err := b.each((*side).hangUp); err != nil {
		return err
	}
	if p.agree(b, r); r.Difference != "" || r.Unclear {
		return nil
	}
	if err := b.each((*side).drainAll); err != nil {
		return err
	}
	if !b.same() {
		r.differ(b)
	}
	return nil
}

// roundsLeast is how often both are asked at least, however slow they are.
const roundsLeast = 10

// agree asks until both have said the same. A broker that does not answer differs as well.
func (p *Pair) agree(b both, r *Result) {
	end := time.Now().Add(p.Patience)
	for round := 1; ; round++ {
		if err := b.each((*side).settle); err != nil {
			r.Difference, r.kind = err.Error(), "no answer"
			return
		}
		if b.same() {
			r.Unclear = !maps.EqualFunc(b[0].turns, b[1].turns, slices.Equal)
			return
		}
		if round >= roundsLeast && time.Now().After(end) {
			r.differ(b)
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// differ notes what only one of them said, if that is no accepted difference.
func (r *Result) differ(b both) {
	if r.Unclear = isAccepted(b) || len(r.moves) > 0 && isRaced(b, r.moves[len(r.moves)-1]); r.Unclear {
		return
	}
	keys := maps.Clone(b[0].said)
	maps.Copy(keys, b[1].said)
	var text strings.Builder
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		if ours, theirs := b[0].said[k], b[1].said[k]; !slices.Equal(ours, theirs) {
			fmt.Fprintf(&text, "%s:\n  ours   %q\n  theirs %q\n", k, ours, theirs)
			r.kind += fmt.Sprintf("%.60q %.60q;", ours, theirs)
		}
	}
	r.Difference = text.String()
}

// String is the conversation and the difference at its end.
func (r Result) String() string {
	var s strings.Builder
	for _, m := range r.moves {
		fmt.Fprintf(&s, "%s\n\n", m)
	}
	return s.String() + r.Difference
}

// Shrink leaves out moves that the difference does not need, as far as it comes within the time.
func (p *Pair) Shrink(r Result, within time.Duration) Result {
	end := time.Now().Add(within)
	for size := (len(r.moves) + 1) / 2; size > 0; size /= 2 {
		for at := 0; at+size <= len(r.moves) && time.Now().Before(end); {
			less, err := p.replay(slices.Concat(r.moves[:at], r.moves[at+size:]))
			if err == nil && less.kind == r.kind {
				r = less
				continue
			}
			at += size
		}
	}
	return r
}
