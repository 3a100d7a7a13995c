package link

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/understudy-mq/understudy/core/entry"
	"github.com/understudy-mq/understudy/link/wire"
)

const (
	dutyInterval  = 50 * time.Millisecond  // between looks at what a standby's leaders have to do
	proposePause  = 500 * time.Millisecond // before a command whose effect does not show is proposed again
	drainPause    = 100 * time.Millisecond // between questions to a source that drains
	fencePause    = time.Second            // between tries to fence a former source
	fenceAgain    = 30 * time.Second       // and once it is fenced: it may come back from a backup
	exchangeLimit = 10 * time.Second       // of one exchange with a source node about a switch
	nobodyLimit   = 15 * time.Second       // for a source to say anything at all to a switch, or to a standby that is new
)

// Errors of a promotion.
var (
	// ErrNoStandby: the cluster never was a standby.
	ErrNoStandby = errors.New("this cluster is no standby: there is nothing to promote")
	// ErrCancelled: the planned switch was cancelled; this cluster stays a standby.
	ErrCancelled = errors.New("the planned switch was cancelled")
	errNotYet    = errors.New("not carried out yet")
	errNoSource  = errors.New("no node of the source answers; if it is lost, promote this standby (understudy link promote)")
	// Why a switch is not cancelled.
	errNoMajority = errors.New("the switch could not be cancelled: a majority of the standby's nodes must be up; the source may stay fenced")
	errUntold     = errors.New("this switch can be cancelled once the source has taken back the one before it")
)

// Cluster is this node's cluster as the conductor sees and changes it.
type Cluster interface {
	ID() string // its UUID, "" while it forms
	Groups() []uint64
	Standing(group uint64) Standing
	// Propose hands a local fact to a group's leader; no promise is made.
	Propose(group uint64, cmd entry.Command) error
	// Waits says whether the cluster waits to be attached to its source.
	Waits() bool
	// Serves is nil once clients are served.
	Serves() error
	// Hosts are where this cluster's clients connect.
	Hosts() []string
	// FenceTaken notes for good that the former source's node at the address has confirmed that its cluster is fenced.
	FenceTaken(address string)
	// Begins is what a group is attached with.
	Begins(group uint64) Beginning
}

// Beginning is where a standby's group begins to replay, and its state's fingerprint there: of an empty machine at the log's
// origin, of a seed, or of a former source that was wound back (entry.LinkAttach.Rewound).
type Beginning struct {
	At          entry.Position
	Fingerprint uint64
	Rewound     bool
}

// Conductor carries out what a standby's life consists of beside replaying: attaching to the source, promotion, the planned
// switch, fencing the former source. It runs on every node; what one began another completes, for each step is an entry.
type Conductor struct {
	cluster Cluster
	link    *Link
	logger  *slog.Logger
	now     func() time.Time

	mu     sync.Mutex
	asked  map[string]time.Time // when a command was proposed last, by what and where
	fenced map[string]Delivery  // by address
	given  []string             // switches that were given up and are not on record as cancelled yet
}

// Delivery is how far the fence has come to a former source's node.
type Delivery struct {
	Fenced   bool
	Replaced bool // another cluster's node is at its address now
	Error    string
	At       time.Time
}

// NewConductor makes one.
func NewConductor(c Cluster, l *Link, logger *slog.Logger) *Conductor {
	return &Conductor{
		cluster: c, link: l, logger: logger, now: time.Now, asked: map[string]time.Time{}, fenced: map[string]Delivery{},
	}
}

// Run does what is due until ctx ends.
func (c *Conductor) Run(ctx context.Context) {
	var wait sync.WaitGroup
	for _, a := range c.link.o.Addresses {
		wait.Go(func() { c.deliver(ctx, a) })
	}
	wait.Go(func() { c.takeBack(ctx) })
	for ctx.Err() == nil {
		c.duties()
		sleep(ctx, dutyInterval)
	}
	wait.Wait()
}

// duties proposes what this node's groups lack.
func (c *Conductor) duties() {
	groups := c.cluster.Groups()
	first := c.cluster.Standing(groups[0])
	switch {
	case c.cluster.ID() == "":
		return
	case c.cluster.Waits():
		c.attach(groups)
	case first.Role == Standby:
		c.follow(groups, first)
	case first.Role == Promoted:
		c.complete(groups[1:], first.Generation)
	}
}

// attach makes standbys of the groups that this node leads, once a source node has told whose it is.
func (c *Conductor) attach(groups []uint64) {
	source, ok := c.link.identity()
	if !ok {
		return
	}
	for _, g := range groups {
		if s := c.cluster.Standing(g); s.Role == Primary && s.Leads {
			b := c.cluster.Begins(g)
			c.propose(g, &entry.LinkAttach{
				Cluster: c.cluster.ID(), Source: source.Cluster, Generation: source.Generation, Position: b.At, Fingerprint: b.Fingerprint,
				Rewound: b.Rewound,
			})
		}
	}
}

// follow accepts a planned switch once the source has fenced every group for it, and then promotes the system group.
func (c *Conductor) follow(groups []uint64, first Standing) {
	id := first.Fence
	if id == "" || !first.Leads || first.Cancelled && first.Switch == id {
		return
	}
	for _, g := range groups {
		if c.cluster.Standing(g).Fence != id {
			return
		}
	}
	if !first.Accepted || first.Switch != id {
		c.propose(groups[0], &entry.LinkAccept{Cluster: c.cluster.ID(), Switch: id})
		return
	}
	c.propose(groups[0], c.promotion(first, id))
}

// complete promotes what is still a standby once the system group is promoted.
func (c *Conductor) complete(groups []uint64, generation entry.Generation) {
	for _, g := range groups {
		if s := c.cluster.Standing(g); s.Role == Standby && s.Leads {
			c.propose(g, &entry.LinkPromote{Cluster: c.cluster.ID(), Generation: generation})
		}
	}
}

// promotion is the command that promotes the system group.
func (c *Conductor) promotion(first Standing, id string) *entry.LinkPromote {
	return &entry.LinkPromote{
		Cluster: c.cluster.ID(), Switch: id,
		Generation: entry.Generation{Number: max(first.Generation.Number, first.SourceGeneration.Number) + 1, Cluster: c.cluster.ID()},
	}
}

// propose proposes a command, but not again at once.
func (c *Conductor) propose(group uint64, cmd entry.Command) {
	key := fmt.Sprintf("%d/%d", group, cmd.Kind())
	c.mu.Lock()
	again := c.now().Sub(c.asked[key]) >= proposePause
	if again {
		c.asked[key] = c.now()
	}
	c.mu.Unlock()
	if !again {
		return
	}
	if err := c.cluster.Propose(group, cmd); err != nil {
		c.logger.Debug("the standby link: a command has to wait", "group", group, "error", err)
	}
}

// Promote makes the standby an ordinary cluster, and returns once it serves. It may be called again, on any node, at any
// time. Errors: ErrNoStandby, ErrCancelled; ctx's, with what is still missing.
func (c *Conductor) Promote(ctx context.Context) error {
	return c.promote(ctx, func(Standing) error { return nil })
}

// promote promotes the system group unless step, called with its standing until it is promoted, says why not (errNotYet: not
// at present), and waits until the cluster serves.
func (c *Conductor) promote(ctx context.Context, step func(Standing) error) error {
	system, begun := c.cluster.Groups()[0], c.now()
	for {
		first := c.cluster.Standing(system)
		switch err := c.towards(first, begun, step); {
		case errors.Is(err, errNotYet):
		case err != nil:
			return err
		case first.Role == Promoted && c.cluster.Serves() == nil && c.whole():
			return nil
		}
		sleep(ctx, dutyInterval)
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("the promotion is not complete (system group: %s): %w; it goes on, ask again", first.Role, err)
		}
	}
}

// towards is one look. A standby that is new becomes one when it first hears of its source: that is waited for.
func (c *Conductor) towards(first Standing, begun time.Time, step func(Standing) error) error {
	switch first.Role {
	case Primary:
		switch {
		case !c.cluster.Waits():
			return ErrNoStandby
		case c.now().Sub(begun) < nobodyLimit:
			return errNotYet
		}
		return fmt.Errorf("%w: it is to become one, and has not heard of its source", ErrNoStandby)
	case Promoted:
		return nil
	}
	if err := step(first); err != nil {
		return err
	}
	c.propose(c.cluster.Groups()[0], c.promotion(first, ""))
	return nil
}

// whole says whether every group is promoted.
func (c *Conductor) whole() bool {
	for _, g := range c.cluster.Groups() {
		if c.cluster.Standing(g).Role != Promoted {
			return false
		}
	}
	return true
}

// Switchover has the source drain, for at most drain, and fence itself; then this standby promotes itself, having everything.
// It returns once that serves. Where the source does not answer, or it cannot be completed before ctx ends, it is cancelled, if
// that is still possible. Errors: ErrNoStandby; ErrCancelled, and why it did not come to it.
func (c *Conductor) Switchover(ctx context.Context, drain time.Duration) error {
	id, last, begun, heard := uuid.NewString(), time.Time{}, c.now(), false
	var trouble error
	err := c.promote(ctx, func(first Standing) error {
		if first.Cancelled && first.Switch == id {
			return ErrCancelled
		}
		if c.now().Sub(last) >= drainPause {
			last = c.now()
			trouble = c.drain(ctx, wire.Drain{
				Standby: c.cluster.ID(), Cluster: first.Source, Switch: id, Millis: drain.Milliseconds(), Hosts: c.cluster.Hosts(),
			})
			heard = heard || trouble == nil || errors.As(trouble, new(*refusal))
		}
		if !heard && c.now().Sub(begun) >= nobodyLimit {
			return errNoSource
		}
		return errNotYet // follow promotes, having the fences
	})
	switch {
	case err == nil || errors.Is(err, ErrNoStandby) || errors.Is(err, ErrCancelled):
		return err
	case trouble == nil:
		trouble = errors.New("it was not complete in time")
	}
	if errors.Is(err, errNoSource) {
		trouble = fmt.Errorf("%w (%w)", errNoSource, trouble)
	}
	return c.cancel(id, trouble)
}

// drain asks the source nodes in turn until one answers.
func (c *Conductor) drain(ctx context.Context, d wire.Drain) error {
	var errs []error
	for _, a := range c.link.o.Addresses {
		ctx, cancel := context.WithTimeout(ctx, exchangeLimit)
		err := c.link.shared.client.call(ctx, a, wire.PathDrain, d, new(wire.DrainAnswer))
		cancel()
		if err == nil {
			return nil
		}
		if errors.As(err, new(*refusal)) {
			err = fmt.Errorf("%s: %w", a, err)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// cancel records that this standby will not promote itself for the switch, and only then tells the source. Answers
// ErrCancelled with the reason, or nil where the promotion came first.
//
// One switch is on record. That an earlier one is cancelled has to stay there until the source has carried that out: its fence would
// stay, and if all of its fences came after all, this standby would take it for one to accept.
func (c *Conductor) cancel(id string, reason error) error {
	ctx, stop := context.WithTimeout(context.Background(), 2*exchangeLimit)
	defer stop()
	system, last := c.cluster.Groups()[0], errNoMajority
	for ; ctx.Err() == nil; sleep(ctx, dutyInterval) {
		first := c.cluster.Standing(system)
		switch {
		case first.Role == Promoted:
			return nil
		case first.Cancelled && first.Switch == id:
			err := c.takenBack(ctx, first)
			switch {
			case err == nil:
				reason = fmt.Errorf("%w; the source goes on serving", reason)
			case !errors.Is(reason, errNoSource):
				reason = fmt.Errorf("%w; the source could not be told and may stay fenced: %w", reason, err)
			}
			return fmt.Errorf("%w: %w", ErrCancelled, reason)
		case !c.replaceable(first):
			if err := c.takenBack(ctx, first); err != nil {
				last = fmt.Errorf("%w: %w", errUntold, err)
				if errors.Is(reason, errNoSource) {
					last = fmt.Errorf("%w; %w", reason, errUntold)
					stop()
				}
				continue
			}
		}
		c.propose(system, &entry.LinkCancel{Cluster: c.cluster.ID(), Switch: id})
	}
	c.mu.Lock()
	c.given = append(c.given, id)
	c.mu.Unlock()
	return last
}

// replaceable says whether another switch may take the place of the one on record: the source has taken that back in every group, if it
// was cancelled.
func (c *Conductor) replaceable(first Standing) bool {
	return !first.Cancelled || !slices.ContainsFunc(c.cluster.Groups(), func(g uint64) bool { return c.cluster.Standing(g).Undone != first.Switch })
}

// cancelGiven cancels a switch that was given up and could not be cancelled then.
func (c *Conductor) cancelGiven(first Standing) {
	c.mu.Lock()
	if len(c.given) > 0 && (first.Role != Standby || first.Cancelled && first.Switch == c.given[0]) {
		c.given = c.given[1:]
	}
	given := slices.Clone(c.given)
	c.mu.Unlock()
	if len(given) > 0 && c.replaceable(first) {
		c.propose(c.cluster.Groups()[0], &entry.LinkCancel{Cluster: c.cluster.ID(), Switch: given[0]})
	}
}

// takenBack has the source carry out that the switch on record is cancelled.
func (c *Conductor) takenBack(ctx context.Context, first Standing) error {
	return c.drain(ctx, wire.Drain{Standby: c.cluster.ID(), Cluster: first.Source, Switch: first.Switch, Cancelled: true})
}

// takeBack cancels what could not be cancelled at once, and tells the source of a switch that was cancelled, until that is carried out
// there: its fence would stay.
func (c *Conductor) takeBack(ctx context.Context) {
	told := ""
	for ; ctx.Err() == nil; sleep(ctx, fencePause) {
		first := c.cluster.Standing(c.cluster.Groups()[0])
		c.cancelGiven(first)
		if first.Role != Standby || !first.Leads || !first.Cancelled || first.Switch == told {
			continue
		}
		if c.takenBack(ctx, first) == nil {
			told = first.Switch
		}
	}
}

// deliver brings the fence to a node of the former source, for as long as this cluster lives.
func (c *Conductor) deliver(ctx context.Context, address string) {
	for ctx.Err() == nil {
		pause := fencePause
		if f, ok := c.fence(); ok {
			d := c.deliverOnce(ctx, address, f)
			c.mu.Lock()
			was := c.fenced[address]
			c.fenced[address] = d
			c.mu.Unlock()
			if d.Fenced || d.Replaced {
				pause = fenceAgain
			}
			if d.Fenced && !was.Fenced {
				c.cluster.FenceTaken(address)
				c.logger.Info("the former source is fenced", "address", address)
			}
		}
		sleep(ctx, pause)
	}
}

// fence is what the former source is told; false where this node is not the one to tell it.
func (c *Conductor) fence() (wire.Fence, bool) {
	groups := c.cluster.Groups()
	first := c.cluster.Standing(groups[0])
	if first.Role != Promoted || !first.Leads || !c.whole() {
		return wire.Fence{}, false
	}
	f := wire.Fence{Generation: first.Generation, Cluster: first.Source, Hosts: c.cluster.Hosts()}
	for _, g := range groups {
		f.Cuts = append(f.Cuts, wire.Position{Group: g, Position: c.cluster.Standing(g).Position})
	}
	return f, true
}

func (c *Conductor) deliverOnce(ctx context.Context, address string, f wire.Fence) Delivery {
	ctx, cancel := context.WithTimeout(ctx, exchangeLimit)
	defer cancel()
	var a wire.FenceAnswer
	err := c.link.shared.client.call(ctx, address, wire.PathFence, f, &a)
	switch {
	case err != nil:
		return Delivery{Error: err.Error(), At: c.now()}
	case !a.Fenced:
		return Delivery{Replaced: a.Cluster != "", Error: a.Reason, At: c.now()}
	}
	return Delivery{Fenced: true, At: c.now()}
}

// Fences are how far the fence has come to each of the former source's nodes, as this node knows.
func (c *Conductor) Fences() map[string]Delivery {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := make(map[string]Delivery, len(c.fenced))
	for a, d := range c.fenced {
		m[a] = d
	}
	return m
}
