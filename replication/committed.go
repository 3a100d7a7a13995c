package replication

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"

	"go.etcd.io/raft/v3"
)

// inquiryTicks is how long an answer may take before it is asked for again: the question, or the answer, was lost.
const inquiryTicks = 3

// inquiry is a question for what is committed.
type inquiry struct {
	ctx    context.Context
	round  uint64 // the first that answers it: it begins after the question came
	answer func(index uint64)
}

// inquiries are those that wait, and the rounds of messages that answer them.
type inquiries struct {
	life    uint64    // drawn by this process: an answer to an earlier one's question is none to its own
	round   uint64    // the newest that began,
	begun   uint64    // at this tick
	due     bool      // another is to begin
	waiting []inquiry // by round, ascending
}

// Committed answers an entry beyond which nothing was committed, as far as any node could know, when it was called: a majority has said
// since then that it has no newer leader than the one whose word it is (raft's read index; any node may ask). What a client was told
// before is at or before it, whatever a pause, a partition or a stalled connection has done to this node. It costs an exchange of small
// messages, shared by those who ask at once; no entry, and nothing on a disk. Error: ctx ended first, as it does without a majority.
// Safe from any goroutine.
func (g *Group) Committed(ctx context.Context) (uint64, error) {
	answer := make(chan uint64, 1)
	g.in.put(event{kind: eventCall, call: func(g *Group) { g.inquire(ctx, func(index uint64) { answer <- index }) }})
	select {
	case index := <-answer:
		return index, nil
	case <-ctx.Done():
		return 0, fmt.Errorf("group %d: no majority has said what is committed: %w", g.id, ctx.Err())
	}
}

// inquire has a question answered, once, by a round that begins later.
func (g *Group) inquire(ctx context.Context, answer func(index uint64)) {
	if g.err != nil {
		return
	}
	q := &g.inquiries
	q.waiting = append(q.waiting, inquiry{ctx: ctx, round: q.round + 1, answer: answer})
	q.due = true
}

// beginRound asks raft where questions wait. A leader asks, and lets be asked, only once it knows what was committed before
// its term: raft would answer for a leader that is its group's only voter at once.
func (g *Group) beginRound() {
	q := &g.inquiries
	if !q.due || g.leader == 0 || !g.knowsCommitted() {
		return
	}
	if q.life == 0 {
		q.life = nonce()
	}
	q.due, q.begun = false, g.ticks
	q.round++
	g.raw.ReadIndex(binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, q.life), q.round))
}

func (g *Group) knowsCommitted() bool { return g.lead == nil || g.lead.ready }

// tickInquiries forgets who waits no more, and has the others' questions asked again where an answer is late. That of an earlier round
// is still good.
func (g *Group) tickInquiries() {
	q := &g.inquiries
	q.waiting = slices.DeleteFunc(q.waiting, func(x inquiry) bool { return x.ctx.Err() != nil })
	q.due = len(q.waiting) > 0 && (q.due || g.ticks-q.begun >= inquiryTicks)
}

// roundEnded answers those who asked before the round began.
func (g *Group) roundEnded(s raft.ReadState) {
	q := &g.inquiries
	if len(s.RequestCtx) != 16 || binary.LittleEndian.Uint64(s.RequestCtx) != q.life {
		return
	}
	round, n := binary.LittleEndian.Uint64(s.RequestCtx[8:]), 0
	for n < len(q.waiting) && q.waiting[n].round <= round {
		q.waiting[n].answer(s.Index)
		n++
	}
	q.waiting = slices.Delete(q.waiting, 0, n)
}
