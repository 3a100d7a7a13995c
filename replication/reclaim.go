package replication

import (
	"context"
	"errors"
	"slices"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/understudy-mq/understudy/replication/log"
)

const (
	checkpointEvery = 30 * time.Second
	reclaimTicks    = 2 // between two looks at the log: a fast disk fills several segments in a second
	// sampleParts is how finely, in parts of FollowerLagBytes, it is remembered where in the log an entry lies, and sampleShare how
	// finely in parts of how far back that is.
	sampleParts = 256
	sampleShare = 64
	samplesMost = 4 * sampleParts
)

var errStoppedGroup = errors.New("the group has stopped")

// appended remembers how many bytes of log lie after an entry, roughly, so that a lag in bytes can be told in entries.
type appended struct {
	bytes   int64
	samples []sample // ascending
}

type sample struct {
	index uint64
	bytes int64
}

func (a *appended) add(entries []*pb.Entry, lag int64) {
	for _, e := range entries {
		a.bytes += int64(len(e.GetData()))
		n := len(a.samples)
		for n > 0 && a.samples[n-1].index >= e.GetIndex() { // what was never committed has other entries in its place
			n--
		}
		a.samples = a.samples[:n]
		if n == 0 || a.bytes-a.samples[n-1].bytes >= lag/sampleParts {
			a.samples = append(a.samples, sample{e.GetIndex(), a.bytes})
		}
	}
	if len(a.samples) > samplesMost {
		a.thin()
	}
}

// thin forgets samples that lie close together for how far back they are.
func (a *appended) thin() {
	kept := a.samples[:1]
	for i := 1; i < len(a.samples); i++ {
		at := a.samples[i]
		if i+1 < len(a.samples) && a.samples[i+1].bytes-kept[len(kept)-1].bytes <= (a.bytes-at.bytes)/sampleShare {
			continue
		}
		kept = append(kept, at)
	}
	a.samples = kept
}

// after is how many bytes follow an entry, rounded up.
func (a *appended) after(index uint64) int64 {
	for i := len(a.samples) - 1; i >= 0; i-- {
		if a.samples[i].index <= index {
			return a.bytes - a.samples[i].bytes
		}
	}
	return a.bytes
}

// behind is the newest entry with at least this many bytes after it; 0 if the log, as far as remembered, is shorter.
func (a *appended) behind(bytes int64) uint64 {
	for i := len(a.samples) - 1; i >= 0; i-- {
		if a.bytes-a.samples[i].bytes >= bytes {
			return a.samples[i].index
		}
	}
	return 0
}

// needless is the newest entry that neither a restart nor a follower needs from the log. Slow followers hold at most
// FollowerLagBytes, but after a snapshot (debt); a follower itself keeps a quarter of that, for when it leads, and what the leader
// keeps for one with a snapshot (loan).
func (g *Group) needless() uint64 { return g.needlessBefore(0) }

// needlessBefore is needless for entries that after bytes of the node's log, of all groups, follow: the entries of a
// group that is quiet must not hold what other groups append for ever.
func (g *Group) needlessBefore(after int64) uint64 {
	durable, _ := g.machine.Durable()
	limit := min(durable, g.snapshots.floor(), g.kept())
	lag := g.env.opts.FollowerLagBytes
	if g.lead == nil {
		lag /= 4
	}
	if len(g.members.ids()) <= 1 || after >= lag {
		return limit
	}
	if g.lead == nil {
		return min(limit, g.appended.behind(lag))
	}
	slowest := ^uint64(0)
	for _, p := range g.followers() {
		slowest = min(slowest, p.match)
	}
	return min(limit, max(slowest, g.appended.behind(lag)))
}

// keeper makes checkpoints, gives segments back and balances leaders, on one goroutine of its own.
type keeper struct {
	n          *Node
	since      time.Duration // last checkpoint
	sinceBytes uint64        // log bytes then
	balanced   time.Duration
}

func (k *keeper) run(ctx context.Context) {
	tick := time.NewTicker(reclaimTicks * k.n.opts.TickInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		k.round(ctx)
	}
}

func (k *keeper) round(ctx context.Context) {
	stats := k.n.log.Stats()
	grown := stats.Bytes - k.sinceBytes
	if grown >= uint64(k.n.opts.CheckpointBytes) || grown > 0 && k.n.mono()-k.since > checkpointEvery {
		k.since, k.sinceBytes = k.n.mono(), stats.Bytes
		k.n.checkpoint(ctx)
	}
	k.image(ctx, stats.Bytes)
	k.reclaim(ctx)
	if err := k.n.holds.save(false); err != nil {
		k.n.logger.Warn("a restart may cost a standby its hold on the log", "error", err)
	}
	if k.n.mono()-k.balanced > balanceTicks*k.n.opts.TickInterval {
		k.balanced = k.n.mono()
		k.n.balance()
	}
}

// reclaim drops sealed segments from the oldest on, until one is still needed. Those that only an image needs are dropped once
// it is gone.
func (k *keeper) reclaim(ctx context.Context) {
	held, kept := false, 0
	defer func() { k.n.holds.stretch(held) }()
	for ctx.Err() == nil {
		segments := k.n.log.Segments()[kept:]
		if len(segments) == 0 || !segments[0].Sealed || !k.n.needless(ctx, segments) {
			return
		}
		if held = k.n.held(segments[0]); held {
			return
		}
		if !k.n.images.spent(segments[0].ID) {
			if !k.empty(ctx, segments) {
				return
			}
			k.n.images.spend(segments[0])
		}
		if kept > 0 || k.n.images.need(segments[0].ID) {
			kept++
			continue
		}
		if k.n.inUse(segments[0]) {
			return // since it was asked first: a snapshot may have been cut while something in the segment was live
		}
		if err := k.drop(segments[0]); err != nil {
			if !errors.Is(err, log.ErrNeeded) && !errors.Is(err, log.ErrClosed) {
				k.n.logger.Warn("cannot drop a log segment", "segment", segments[0].ID, "error", err)
			}
			return
		}
		k.n.images.dropped(segments[0].ID)
	}
}

// empty says whether nothing live is left in the first of the segments, moving the survivors out where that is worth it.
func (k *keeper) empty(ctx context.Context, segments []log.SegmentInfo) bool {
	oldest, ok := k.n.live(ctx, segments[0])
	if !ok || oldest.references == 0 {
		return ok
	}
	extent := k.n.log.Stats().SegmentBytes - k.n.images.spentBytes()
	if extent <= k.n.opts.LogBytesMax {
		return false
	}
	uses := []usage{oldest}
	for _, s := range segments[1:] {
		u, ok := k.n.live(ctx, s)
		if !ok {
			return false
		}
		uses = append(uses, u)
	}
	if !crowded(uses, extent, k.n.opts.LogBytesMax) {
		return false
	}
	k.n.logger.Info("moving live content out of a log segment", "segment", segments[0].ID, "messages", oldest.references, "bytes", oldest.live)
	return k.n.evacuate(ctx, segments[0])
}

func (k *keeper) drop(s log.SegmentInfo) error {
	for _, r := range s.Groups {
		l := k.n.log.Group(r.Group)
		if term, err := l.Term(r.Last); err == nil {
			l.TruncateTo(r.Last, term)
		}
	}
	return k.n.log.Drop(s.ID)
}

// needless says whether no group needs any entry of the oldest segment, but for what is live in it.
func (n *Node) needless(ctx context.Context, segments []log.SegmentInfo) bool {
	if n.inUse(segments[0]) {
		return false
	}
	after := int64(0)
	for _, s := range segments[1:] {
		after += s.Bytes
	}
	for _, r := range segments[0].Groups {
		g := n.groups[r.Group]
		if g == nil {
			return false
		}
		limit := make(chan uint64, 1)
		g.in.put(event{kind: eventCall, call: func(g *Group) { limit <- g.needlessBefore(after) }})
		select {
		case at := <-limit:
			if r.Last > at {
				return false
			}
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// inUse says whether somebody reads in a segment, or is going to.
func (n *Node) inUse(s log.SegmentInfo) bool {
	return slices.ContainsFunc(s.Groups, func(r log.GroupRange) bool { return n.pinned(r.Group, r.Last) })
}

// held says whether a segment is kept for a standby.
func (n *Node) held(s log.SegmentInfo) bool {
	return slices.ContainsFunc(s.Groups, func(r log.GroupRange) bool { return n.holds.needs(r.Group, r.Last) })
}

// live is what is in use of a segment; not ok if that cannot be told.
func (n *Node) live(ctx context.Context, s log.SegmentInfo) (sum usage, ok bool) {
	sum.bytes = s.Bytes
	for _, r := range s.Groups {
		part := make(chan usage, 1)
		n.groups[r.Group].apply.put(work{task: func(m Machine) {
			if m == nil {
				close(part)
				return
			}
			references, live := m.Live(r.First, r.Last+1)
			part <- usage{references: references, live: live}
		}})
		select {
		case u, ok := <-part:
			if !ok {
				return sum, false
			}
			sum.references += u.references
			sum.live += u.live
			sum.entries += r.Last + 1 - r.First
		case <-ctx.Done():
			return sum, false
		}
	}
	return sum, true
}

// evacuate has every group move its live content out of a segment.
func (n *Node) evacuate(ctx context.Context, s log.SegmentInfo) bool {
	for _, r := range s.Groups {
		done := make(chan error, 1)
		n.groups[r.Group].apply.put(work{task: func(m Machine) {
			if m == nil {
				done <- errStoppedGroup
				return
			}
			m.Evacuate(r.First, r.Last+1, func(err error) { done <- err })
		}})
		select {
		case err := <-done:
			if err != nil {
				n.logger.Error("cannot move live content out of the log", "group", r.Group, "segment", s.ID, "error", err)
				return false
			}
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// checkpoint has every machine write what has changed, and waits for it.
func (n *Node) checkpoint(ctx context.Context) {
	for _, g := range n.groups {
		done := make(chan error, 1)
		g.apply.put(work{task: func(m Machine) {
			if m == nil || !m.Checkpoint(func(err error) { done <- err }) {
				done <- nil
			}
		}})
		select {
		case err := <-done:
			if err != nil {
				n.fatal(err)
			}
		case <-ctx.Done():
			return
		}
	}
}
