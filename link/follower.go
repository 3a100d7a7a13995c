package link

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/understudy-mq/understudy/core/entry"
	"github.com/understudy-mq/understudy/link/source"
	"github.com/understudy-mq/understudy/link/wire"
)

// State is what a follower does.
type State string

// The states of a follower.
const (
	Idle      State = "idle"      // not the reader here, or this cluster is no standby
	Seeding   State = "seeding"   // downloading a snapshot
	Following State = "following" // reading and replaying
	Waiting   State = "waiting"   // for something that passes: the reason is in the error
	Halted    State = "halted"    // by something that does not pass: asked again every haltedPause
)

const (
	readBytes    = 8 << 20
	windowBytes  = 16 << 20 // of entries handed to the leader and not yet applied here
	windowItems  = 512
	waitMillis   = 1000 // a long poll
	backOffLeast = 100 * time.Millisecond
	backOffMost  = 5 * time.Second
	haltedPause  = 10 * time.Second
	idlePause    = 50 * time.Millisecond // between looks at whether this node is to read
	// stallTimeout is how long entries that were handed to the leader may take to show here before they are read again:
	// the leader, or the word to it, was lost.
	stallTimeout = time.Second
	// silentBefore is how long a group may lie behind a source that is ahead before a node that does not lead it reads.
	silentBefore = 500 * time.Millisecond
)

// Replica is a group of the standby cluster on this node.
type Replica interface {
	Standing() Standing
	// Replay hands a source's entries to the group's leader, wherever it is. No promise is made: what is lost on the way is
	// read again. They continue Standing's position or what was handed over before.
	Replay(entries []entry.Replay) error
	// Wait returns once the position is at index or beyond, or ctx ends.
	Wait(ctx context.Context, index uint64)
}

// follower replays one group.
type follower struct {
	group   uint64
	replica Replica
	shared  *shared
	logger  *slog.Logger

	at    int           // the address that is read from
	round []wire.Status // what the addresses of this round answered, 0 for none
	tries int           // addresses tried in this round
	pause time.Duration

	mu       sync.Mutex // guards what Status shows
	state    State
	err      string
	source   string
	mismatch uint64 // differences found
}

// Errors that end a try. halt is for what does not pass by itself.
type halt struct{ error }

var (
	errStalled = errors.New("entries that were handed to the group's leader do not show: it is away, or behind")
)

// run follows until ctx ends.
func (f *follower) run(ctx context.Context) {
	for ctx.Err() == nil {
		now := f.replica.Standing()
		if now.Role != Standby || !f.toRead(now) {
			f.show(Idle, "")
			sleep(ctx, idlePause)
			continue
		}
		f.try(ctx, now)
	}
}

// toRead says whether this node reads for the group: as its leader, or where the leader does not get anywhere while the
// source, as this node sees it, is ahead.
func (f *follower) toRead(now Standing) bool {
	return now.Leads || f.shared.view.behindFor(f.group, now.Position.Index) >= silentBefore
}

// try reads from one source node, once, and says what is next.
func (f *follower) try(ctx context.Context, now Standing) {
	f.choose(now)
	status, err := f.read(ctx, now)
	if ctx.Err() != nil {
		return
	}
	if err == nil && status == wire.Entries {
		f.round, f.tries, f.pause = nil, 0, 0
		f.show(Following, "")
		return
	}
	if errors.Is(err, errStalled) { // no fault of the source
		f.show(Waiting, err.Error())
		return
	}
	f.failed(ctx, status, err)
}

// choose stays with the present source node, unless another is known to be further for a while.
func (f *follower) choose(now Standing) {
	if f.round != nil {
		return // going through them all
	}
	if better, ok := f.shared.view.better(f.group, f.at, now.Position.Index); ok {
		f.at = better
	}
}

// failed goes on to the next source node; once all have been tried it says what that means.
func (f *follower) failed(ctx context.Context, status wire.Status, err error) {
	if f.round == nil {
		f.round = make([]wire.Status, len(f.shared.addresses))
	}
	f.round[f.at] = status
	f.at = (f.at + 1) % len(f.shared.addresses)
	f.tries++
	var stop halt
	switch {
	case errors.As(err, &stop):
		f.show(Halted, err.Error())
		f.endRound(ctx, haltedPause)
	case f.tries < len(f.shared.addresses):
		if f.state == Following && err != nil {
			f.logger.Info("a source node cannot be read from", "error", err)
		}
	default:
		f.concluded(ctx, err)
	}
}

// concluded: no source node could be read from.
func (f *follower) concluded(ctx context.Context, err error) {
	ahead, purged := 0, 0
	for _, s := range f.round {
		switch s {
		case wire.Ahead:
			ahead++
		case wire.Purged:
			purged++
		}
	}
	switch n := len(f.round); {
	case purged == n:
		f.show(Halted, "the source has dropped entries that are needed next: a new seed is needed (--link-seed)")
		f.endRound(ctx, haltedPause)
		return
	case err == nil && ahead > 0:
		err = errors.New("no node of the source is as far as this standby")
	case err == nil:
		err = errors.New("a source node has dropped what is needed next, and the others do not answer")
	}
	f.show(Waiting, err.Error())
	f.pause = min(max(2*f.pause, backOffLeast), backOffMost)
	f.endRound(ctx, f.pause)
}

func (f *follower) endRound(ctx context.Context, pause time.Duration) {
	f.round, f.tries = nil, 0
	sleep(ctx, pause)
}

// read asks one source node for what comes next and hands it to the leader as it comes.
func (f *follower) read(ctx context.Context, now Standing) (wire.Status, error) {
	address := f.shared.addresses[f.at]
	f.mu.Lock()
	f.source = address
	f.mu.Unlock()
	asked := time.Now()
	a, err := f.shared.client.read(ctx, address, wire.ReadRequest{
		Reader: f.shared.name(), Standby: f.shared.cluster(), Cluster: now.Source, After: wire.Position{Group: f.group, Position: now.Position},
		BytesMax: readBytes, WaitMillis: waitMillis, Level: f.shared.level(),
	})
	if err != nil {
		return 0, f.classed(err)
	}
	defer a.close()
	f.shared.view.contact(f.group, f.at, a.Head.Applied, asked)
	switch a.Head.Status {
	case wire.Entries:
		return wire.Entries, f.replay(ctx, a, now)
	case wire.Mismatch:
		f.differs()
		return wire.Mismatch, halt{fmt.Errorf("the source at %s has another history than this standby at entry %d: "+
			"it was restored from a backup, or is another cluster; a new seed is needed (--link-seed)", address, now.Position.Index)}
	}
	return a.Head.Status, nil
}

// classed tells what never passes from what may.
func (f *follower) classed(err error) error {
	var r *refusal
	if errors.As(err, &r) && r.reason == source.ReasonSelf {
		return halt{errors.New("the source is this standby itself: --link-source names its own nodes")}
	}
	return err
}

// replay hands an answer's entries on, no more than a window ahead of what is applied here, and waits until all are applied.
func (f *follower) replay(ctx context.Context, a *answer, now Standing) error {
	if err := f.continues(a, now); err != nil {
		return err
	}
	last, bytes, held := now.Position, 0, []entry.Replay(nil)
	flush := func() error {
		if len(held) == 0 {
			return nil
		}
		err := f.replica.Replay(held)
		held, bytes = nil, 0
		if err != nil {
			return fmt.Errorf("handing entries to the group's leader: %w", err)
		}
		return nil
	}
	for {
		item, err := a.next()
		if errors.Is(err, io.EOF) {
			return errors.Join(flush(), f.settle(ctx, a, last.Index))
		}
		if err == nil {
			last, err = f.follows(last, item)
		}
		if err != nil {
			return errors.Join(err, flush())
		}
		held = append(held, entry.Replay{
			Source: a.Cluster, Generation: a.Generation, Group: f.group, Position: last, Fingerprint: item.Fingerprint, Inner: item.Data,
		})
		if bytes += len(item.Data); bytes >= windowBytes/4 || len(held) >= windowItems/4 {
			if err := errors.Join(flush(), f.window(ctx, a, last.Index)); err != nil {
				return err
			}
		}
	}
}

// continues says whether the answer is of the history that is followed.
func (f *follower) continues(a *answer, now Standing) error {
	if now.Source != "" && a.Cluster != now.Source {
		f.differs()
		return halt{fmt.Errorf("the source is cluster %s, this standby follows %s", a.Cluster, now.Source)}
	}
	if a.Cluster == f.shared.cluster() {
		return halt{errors.New("the source is this standby itself")}
	}
	return nil
}

// follows checks that an item comes next, with the hash that its bytes give, and that it can be read: a group that is handed
// what it cannot read ends its node.
func (f *follower) follows(last entry.Position, item wire.Item) (entry.Position, error) {
	if item.Index != last.Index+1 || item.Term < last.Term {
		return last, fmt.Errorf("%w: entry %d of term %d came after entry %d of term %d",
			wire.ErrDamaged, item.Index, item.Term, last.Index, last.Term)
	}
	next := last.Next(item.Term, item.Data)
	if next.Hash != item.Hash {
		f.differs()
		return last, halt{fmt.Errorf("diverged: entry %d of the source has rolling hash %016x there and %016x here",
			item.Index, item.Hash, next.Hash)}
	}
	if f.shared.readable != nil {
		if err := f.shared.readable(item.Data); err != nil {
			return last, fmt.Errorf("entry %d of the source is not for this version to read: %w; start a newer one on all nodes of this standby",
				item.Index, err)
		}
	}
	return next, nil
}

// window waits until no more than a part of what was handed over is unapplied.
func (f *follower) window(ctx context.Context, a *answer, last uint64) error {
	if last <= windowItems/2 {
		return nil
	}
	return f.settle(ctx, a, last-windowItems/2)
}

// settle waits until the entry index shows here. While entries go on being applied it has patience.
func (f *follower) settle(ctx context.Context, a *answer, index uint64) error {
	for {
		at := f.replica.Standing().Position.Index
		if at >= index {
			return nil
		}
		a.timer.Reset(stallTimeout + answerTimeout)
		f.await(ctx, at+1)
		now := f.replica.Standing()
		if now.Diverged != "" {
			f.differs()
			return halt{errors.New("diverged: " + now.Diverged)}
		}
		if now.Role != Standby || ctx.Err() != nil {
			return ctx.Err()
		}
		if now.Position.Index == at {
			return errStalled
		}
	}
}

// await waits for a while until the entry index shows.
func (f *follower) await(ctx context.Context, index uint64) {
	ctx, cancel := context.WithTimeout(ctx, stallTimeout)
	defer cancel()
	f.replica.Wait(ctx, index)
}

func (f *follower) differs() {
	f.mu.Lock()
	f.mismatch++
	f.mu.Unlock()
}

// show publishes the state, and logs what is new.
func (f *follower) show(s State, err string) {
	f.mu.Lock()
	changed := s != f.state || err != f.err
	f.state, f.err = s, err
	f.mu.Unlock()
	if !changed {
		return
	}
	switch s {
	case Waiting, Halted:
		f.logger.Warn("the standby link", "state", s, "reason", err)
	default:
		f.logger.Info("the standby link", "state", s)
	}
}

// sleep waits for d, or until ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
