package powerloss

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/understudy-mq/understudy/core"
	"github.com/understudy-mq/understudy/core/entry"
)

// A whole life takes some ten seconds and 150 MB that stay: disks that die keep whoever waits for them.
var livesFlag = flag.Uint64("lives", 0, "how many whole lives of a cluster to run; 0 is for a few short ones, the usual test")

const (
	// roundsOfALife is how often all is held against what was promised, troublesOfARound what happens in between.
	roundsOfALife, troublesOfARound = 3, 3
	// shortLives are the usual test: of the first seeds' lives the first rounds.
	shortLives, roundsOfAShortLife = 2, 2
	// stepsOfACrew is how many steps clients take before others take their places.
	stepsOfACrew = 400
	// segmentsLeft is how many segments a log may have that nothing is in: the one that is written, one that waits for a checkpoint, which
	// comes with the next bytes, and what is kept for a follower, followerLagBytes in segments that may be half empty, since large entries are
	// not cut in two. A log that is not given back has hundreds.
	segmentsLeft = 2 + 2*followerLagBytes/segmentBytes
)

// TestClusterLivesThroughEverythingAtOnce has clients at work, and a standby read along, while power goes, leaders and members change, disks
// fill up, and followers fall so far behind that they get snapshots.
func TestClusterLivesThroughEverythingAtOnce(t *testing.T) {
	met := make(map[string]*atomic.Int64)
	for _, name := range append(slices.Collect(maps.Keys(troubles)), "snapshots", "contents moved") {
		met[name] = new(atomic.Int64)
	}
	t.Cleanup(func() {
		for _, name := range slices.Sorted(maps.Keys(met)) {
			t.Logf("%s: %d", name, met[name].Load())
			if n := met[name].Load(); n == 0 && *seedFlag == 0 && *livesFlag >= 40 {
				t.Errorf("no run met with: %s", name)
			}
		}
	})
	lives, rounds := *livesFlag, roundsOfALife
	if lives == 0 && *seedFlag == 0 {
		lives, rounds = shortLives, roundsOfAShortLife
	}
	eachSeed(t, lives, func(t *testing.T, ctx context.Context, seed uint64) error {
		l := newLife(t, ctx, seed, met)
		defer l.end()
		if err := errors.Join(l.start(), l.form()); err != nil {
			return err
		}
		if err := l.standby.attach(l.nodes[1]); err != nil {
			return err
		}
		for round := range rounds {
			if err := l.round(round); err != nil {
				return fmt.Errorf("round %d of %v: %w", round, l.story, err)
			}
		}
		return l.drained()
	})
}

// life is a cluster that goes through one trouble after the other.
type life struct {
	*cluster
	ctx     context.Context
	cancel  func()
	rng     *rand.Rand
	seed    uint64
	met     map[string]*atomic.Int64
	story   []string
	number  uint64 // of the newest crew's first client
	guest   uint64 // a member beside the first ones, 0 for none
	last    uint64 // the newest member's id
	cutter  *cutter
	clients []bounds // of all clients of earlier rounds
	judged  int      // of the cutter's ledgers
	standby *standby
	prints  *prints
}

func newLife(t *testing.T, ctx context.Context, seed uint64, met map[string]*atomic.Int64) *life {
	c := newCluster(t, 3, nil)
	l := &life{
		cluster: c, seed: seed, met: met, last: 3, rng: rand.New(rand.NewPCG(seed, 79)),
		cutter: &cutter{cluster: c, rng: rand.New(rand.NewPCG(seed, 80))}, prints: &prints{seen: map[[2]uint64]print{}},
	}
	l.ctx, l.cancel = context.WithCancel(ctx)
	l.standby = newStandby(l.rng.IntN(2) == 0, l.prints)
	return l
}

// end stops everything.
func (l *life) end() {
	l.cancel()
	l.cutter.stop()
	l.crash()
}

// round lets troubles come while clients are at work, and then holds everything against what was promised.
func (l *life) round(n int) error {
	l.standby.hold(l.running())
	stop := l.load()
	watched := l.prints.watch(l.cluster)
	var err error
	names := slices.Sorted(maps.Keys(troubles))
	for range troublesOfARound {
		if err != nil {
			break
		}
		name := names[l.rng.IntN(len(names))]
		l.story = append(l.story, name)
		l.met[name].Add(1)
		if err = troubles[name](l); err != nil {
			err = fmt.Errorf("%s: %w", name, err)
			l.cancel() // or clients may wait for what does not come
		}
	}
	err = errors.Join(err, stop())
	if differ := watched(); differ != nil {
		err = errors.Join(err, differ, l.agree()) // do they still?
	}
	if err != nil {
		return err
	}
	l.takeBounds()
	if err := l.whole(l.ctx, l.clients, &cutter{}); err != nil {
		return err
	}
	if err := l.standby.catchUp(l.running(), l.rng); err != nil {
		return err
	}
	return errors.Join(l.failures()...)
}

// load keeps crews at work until stop.
func (l *life) load() (stop func() error) {
	var over atomic.Bool
	done := make(chan error, 1)
	go func() {
		var err error
		for err == nil && !over.Load() && l.ctx.Err() == nil {
			if err = l.someRegistered(); err != nil {
				break
			}
			l.number += 100
			var steps atomic.Int64
			err = crew(l.ctx, l.cluster, l.cutter, l.seed, l.number, func() bool { return over.Load() || steps.Add(1) > stepsOfACrew })
		}
		done <- err
	}()
	return func() error {
		over.Store(true)
		return <-done
	}
}

// someRegistered waits until there is a node that clients can work at.
func (l *life) someRegistered() error {
	return waitFor("a node may speak in all groups", func() bool {
		for _, n := range l.running() {
			if n.isRegistered(groups...) {
				return true
			}
		}
		return false
	})
}

// takeBounds takes note of what the clients since the last time have been promised and have asked for.
func (l *life) takeBounds() {
	k := l.cutter
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, b := range k.ledgers[l.judged:] {
		l.clients = append(l.clients, b.bounds(b.promises()))
	}
	l.judged = len(k.ledgers)
}

// someNode is a running node, but for the one given.
func (l *life) someNode(but uint64) *node {
	nodes := l.running()
	ids := slices.DeleteFunc(slices.Sorted(maps.Keys(nodes)), func(id uint64) bool { return id == but })
	return nodes[ids[l.rng.IntN(len(ids))]]
}

// drained empties every queue, lets the standby go, and waits until the disks are as empty.
func (l *life) drained() error {
	for id, n := range l.nodes {
		l.met["contents moved"].Add(n.evacuated.Load())
		n.raft.Unhold(standbyName)
		if id != 1 {
			continue
		}
		for vhost := range vhosts {
			if err := n.deleteQueues(l.ctx, vhost); err != nil {
				return err
			}
		}
	}
	for id, n := range l.nodes {
		if err := waitFor(fmt.Sprintf("node %d gives its log back", id), func() bool {
			return n.live() == 0 && n.raft.Stats().Segments <= segmentsLeft
		}); err != nil {
			return fmt.Errorf("%w: %d live contents, %+v", err, n.live(), n.raft.Stats())
		}
	}
	return l.agree()
}

// deleteQueues deletes all queues of a vhost.
func (n *node) deleteQueues(ctx context.Context, vhost string) error {
	var queues []core.QueueInfo
	n.states[vhosts[vhost]].View(func(m *core.Machine) { queues = m.Queues(vhost) })
	c := newClient(ctx, n.broker, "the last client", vhost)
	if err := c.attach(); err != nil {
		return err
	}
	defer c.leave()
	for _, q := range queues {
		if err := c.callAndWait(&entry.QueueDelete{Ref: entry.Ref{Channel: channel}, Name: q.Name}); err != nil {
			return err
		}
	}
	return nil
}

// live counts the references to content in the node's log.
func (n *node) live() (sum int) {
	for _, state := range n.states {
		state.View(func(m *core.Machine) {
			references, _ := m.Live(0, 1<<40)
			sum += references
		})
	}
	return sum
}

// isRegistered says whether the node may speak in the groups.
func (n *node) isRegistered(ids ...uint64) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return !slices.ContainsFunc(ids, func(id uint64) bool { return !n.registered[id] })
}

// troubles are what a life may meet with.
var troubles = map[string]func(*life) error{
	"a node loses power":                (*life).losePower,
	"a node loses power and stays away": (*life).stayAway,
	"all nodes lose power":              (*life).blackout,
	"a leader hands over":               (*life).transfer,
	"the members change":                (*life).changeMembers,
	"a disk is full":                    (*life).fillDisk,
}

// cutOne waits for a node's power to be cut at a sync, and answers what the cut left.
func (l *life) cutOne(victim uint64) (*vfs.MemFS, error) {
	d := l.disks[victim]
	images := l.cutter.arm(victim, pace{1 + l.rng.IntN(60), 1 + l.rng.IntN(30)})
	d.watch(l.cutter.atSync)
	if err := waitFor("a sync to cut at", l.cutter.enough); err != nil {
		return nil, err
	}
	img := l.cutter.stop()[images]
	l.standby.lost(victim)
	l.crashNode(victim)
	return img.disks[victim], nil
}

// arm readies a cutter for one more cut, of a node or (0) of all, and answers how many there have been.
func (k *cutter) arm(victim uint64, p pace) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.victim, k.pace, k.limit = victim, p, len(k.images)+1
	return len(k.images)
}

func (l *life) losePower() error {
	victim := l.someNode(0).id
	left, err := l.cutOne(victim)
	if err != nil {
		return err
	}
	return l.comeBack(victim, left)
}

// comeBack boots a node from what a cut left of its disk.
func (l *life) comeBack(id uint64, left *vfs.MemFS) error {
	l.disks[id] = newDisk(l.power, left)
	if err := l.boot(id); err != nil {
		return err
	}
	last := l.nodes[id].raft.Group(1).Status().LastIndex
	err := l.nodes[id].awaitRegistered(groups...)
	if l.nodes[id].raft.Group(1).Status().FirstIndex > last+1 {
		l.met["snapshots"].Add(1)
	}
	return err
}

// stayAway is losePower for so long that the others' logs have gone on without the node.
func (l *life) stayAway() error {
	victim := l.someNode(0).id
	left, err := l.cutOne(victim)
	if err != nil {
		return err
	}
	other := l.someNode(victim)
	from := other.raft.Stats().Bytes
	if err := waitFor("the others go on", func() bool { return other.raft.Stats().Bytes-from > awayBytes }); err != nil {
		return err
	}
	return l.comeBack(victim, left)
}

// awayBytes are more than what logs keep for a follower.
const awayBytes = 4 * followerLagBytes

// blackout cuts the power of all nodes in one instant, in which what had been promised counts.
func (l *life) blackout() error {
	images := l.cutter.arm(0, pace{1 + l.rng.IntN(200), 1 + l.rng.IntN(100)})
	for _, d := range l.disks {
		d.watch(l.cutter.atSync)
	}
	if err := waitFor("a sync to cut at", l.cutter.enough); err != nil {
		return err
	}
	img := l.cutter.stop()[images]
	for _, id := range l.ids() {
		l.standby.lost(id)
	}
	l.crash()
	l.prints.forget()
	// What clients are promised by nodes whose disks are gone counts for nothing, and who begins after the cut has asked for nothing.
	l.cutter.mu.Lock()
	l.clients = append(l.clients, img.clients[l.judged:]...)
	l.judged = len(l.cutter.ledgers)
	l.cutter.mu.Unlock()
	for id, left := range img.disks {
		l.disks[id] = newDisk(l.power, left)
	}
	if err := l.start(); err != nil {
		return err
	}
	for _, n := range l.nodes {
		if err := n.awaitRegistered(groups...); err != nil {
			return err
		}
	}
	return nil
}

// transfer asks for a group's leadership to be moved; where that is not possible at the moment it is well.
func (l *life) transfer() error {
	ctx, cancel := context.WithTimeout(l.ctx, patience)
	defer cancel()
	to := l.someNode(0).id
	_ = l.someNode(0).raft.TransferLeader(ctx, groups[l.rng.IntN(len(groups))], to)
	return ctx.Err()
}

// changeMembers adds a node and makes it a voter, or takes it out again.
func (l *life) changeMembers() error {
	ctx, cancel := context.WithTimeout(l.ctx, patience)
	defer cancel()
	if l.guest != 0 {
		id := l.guest
		l.guest = 0
		if err := l.someNode(id).raft.RemoveMember(ctx, id); err != nil {
			return err
		}
		l.standby.lost(id)
		l.crashNode(id)
		delete(l.disks, id)
		return nil
	}
	l.last++
	id := l.last
	l.disks[id] = newDisk(l.power, vfs.NewCrashableMem())
	if err := l.boot(id); err != nil {
		return err
	}
	if err := l.someNode(id).raft.AddMember(ctx, id, elsewhere); err != nil {
		return fmt.Errorf("add node %d: %w", id, err)
	}
	if err := l.someNode(id).raft.PromoteMember(ctx, id); err != nil {
		return fmt.Errorf("promote node %d: %w", id, err)
	}
	l.guest = id
	return l.nodes[id].awaitRegistered(groups...)
}

// fillDisk fills a node's disk, asks it to lead all the same, and makes room again. Then the node restarts: that ends the sessions of its
// clients that were refused.
func (l *life) fillDisk() error {
	n := l.someNode(0)
	l.disks[n.id].breakWith(noRoom)
	if err := waitFor("the node is read-only", func() bool { is, _ := n.raft.ReadOnly(); return is }); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(l.ctx, time.Second)
	_ = l.someNode(n.id).raft.TransferLeader(ctx, 1, n.id)
	cancel()
	for _, group := range groups {
		if err := waitFor(fmt.Sprintf("another node leads group %d", group), func() bool {
			id := l.leader(group)
			return id != 0 && id != n.id
		}); err != nil {
			return err
		}
	}
	l.disks[n.id].breakWith(nil)
	if err := waitFor("the node has room again", func() bool { is, _ := n.raft.ReadOnly(); return !is }); err != nil {
		return err
	}
	l.standby.lost(n.id)
	l.crashNode(n.id)
	if err := l.boot(n.id); err != nil {
		return err
	}
	return l.nodes[n.id].awaitRegistered(groups...)
}
