package core_test

import (
	"github.com/understudy-mq/understudy/core"
	"github.com/understudy-mq/understudy/core/coretest"
	"github.com/understudy-mq/understudy/core/entry"
	"github.com/understudy-mq/understudy/core/message"
)

// published is a publish that its session identifies.
type published struct {
	session uint64
	id      string
}

// calm looks at what an entry does to each message: none may vanish but for a reason that the entry gives, none comes back, what is known of
// it stays, nothing overtakes, and what was taken in is not taken in again.
type calm struct {
	t     coretest.TB
	d     *coretest.Driver
	taken map[published]int64 // when a session's publish was taken in

	node    uint64
	cmds    []entry.Command
	had     map[core.CopyOf]core.Copy
	queues  map[[2]uint32]core.QueueLook
	last    map[uint32]core.Minted
	refused bool // a command of the entry was

	records map[message.Loc]taken     // what was published, whatever became of it
	entered map[published]message.Loc // what a queue has had

	kept     map[core.MessageOf]core.Letter
	topology uint64
	seen     *inquests
}

func (c *calm) before(node uint64, cmds []entry.Command) {
	c.node = node
	c.cmds, c.had, c.queues, c.last = cmds, core.Copies(c.d.Machine), core.QueueLooks(c.d.Machine), core.MintedBy(c.d.Machine)
	c.kept, c.topology = core.Letters(c.d.Machine), core.Topology(c.d.Machine)
}

func (c *calm) after(effects []core.Effect) {
	c.refused = len(only(effects, core.EffectRefused)) > 0
	has := core.Copies(c.d.Machine)
	still := core.QueueLooks(c.d.Machine)
	for at, old := range c.had {
		x, ok := has[at]
		look, there := still[[2]uint32{at.Vhost, at.Queue}]
		switch {
		case ok:
			c.same(at, &old, &x)
		case there && !c.mayEnd(at, &old, &look):
			c.t.Fatalf("message %d of %s is lost: %+v", at.Number, look.Name, old)
		}
	}
	for at := range has {
		if _, ok := c.had[at]; !ok && at.Number <= c.last[at.Vhost].Messages {
			c.t.Fatalf("message %d of queue %d has come back, the last was %d", at.Number, at.Queue, c.last[at.Vhost].Messages)
		}
	}
	if len(c.cmds) == 1 { // else it may have been out meanwhile
		c.inOrder(has)
	}
	c.note()
	c.marked(has, still)
	c.inquire(has, still)
	c.answered(effects)
	c.once(has, len(only(effects, core.EffectConfirmed)) > 0)
}

// same checks what must not change of a message, or only grow.
func (c *calm) same(at core.CopyOf, old, x *core.Copy) {
	if old.Loc != x.Loc || old.Size != x.Size || old.Priority != x.Priority || old.Expires != x.Expires || old.Redelivered && !x.Redelivered || x.Failures < old.Failures {
		c.t.Fatalf("message %d of queue %d was %+v and is %+v", at.Number, at.Queue, old, x)
	}
	if x.Failures > old.Failures && len(c.cmds) == 1 && old.Place != core.CopyInFlight {
		c.t.Fatalf("message %d of queue %d has failed though nobody had it: %+v, %+v", at.Number, at.Queue, old, x)
	}
	if old.Place == core.CopyWaiting && x.Place != core.CopyWaiting && old.Until > c.d.Machine.Stamp() {
		c.t.Fatalf("message %d of queue %d returns at %d, before its time: %+v", at.Number, at.Queue, c.d.Machine.Stamp(), old)
	}
}

// mayEnd says whether an entry may end a message of a queue that is still there.
func (c *calm) mayEnd(at core.CopyOf, old *core.Copy, look *core.QueueLook) bool {
	if old.Expires != 0 && old.Expires <= c.d.Machine.Stamp() || look.Limited || c.queues[[2]uint32{at.Vhost, at.Queue}].Limited {
		return true
	}
	if c.refused && (old.Place == core.CopyUnwritten || len(c.cmds) > 1) { // it may have been taken in this very batch
		return true
	}
	limited := look.DeliveryLimit >= 0 && int64(old.Failures) >= look.DeliveryLimit
	if old.Place == core.CopyInFlight && limited && (c.refused || !c.only(entry.KindPublish, entry.KindFragment, entry.KindConsume, entry.KindGet, entry.KindWritten)) {
		return true
	}
	for _, cmd := range c.cmds {
		switch x := cmd.(type) {
		case *entry.QueuePurge:
			if x.Name == look.Name && old.Place == core.CopyReady {
				return true
			}
		case *entry.Settle:
			if c.holds(&x.Ref, old) && (len(c.cmds) > 1 || x.Outcome == entry.Accepted || x.Outcome == entry.Rejected) {
				return true
			}
		case *entry.TxCommit:
			if c.holds(&x.Ref, old) {
				return true
			}
		case *entry.Written:
			if c.holds(&x.Ref, old) && (old.Place == core.CopyUnwritten || len(c.cmds) > 1) {
				return true
			}
		case *entry.Get, *entry.Consume, *entry.Publish, *entry.Fragment: // what is given away without acknowledgement is still there, unwritten
		default:
			if old.Place == core.CopyUnwritten || len(c.cmds) > 1 {
				return true
			}
		}
	}
	return false
}

func (c *calm) only(kinds ...entry.Kind) bool {
	for _, cmd := range c.cmds {
		found := false
		for _, k := range kinds {
			found = found || cmd.Kind() == k
		}
		if !found {
			return false
		}
	}
	return true
}

// holds says whether a channel has, or within this batch may have got, a message.
func (c *calm) holds(r *entry.Ref, old *core.Copy) bool {
	return old.Session == r.Session && old.Channel == r.Channel || len(c.cmds) > 1
}

// inOrder checks that nothing that has waited all along was overtaken by what is in flight now and was not.
func (c *calm) inOrder(has map[core.CopyOf]core.Copy) {
	type first struct {
		number   uint64
		priority int
	}
	waits := map[[2]uint32]first{}
	for at, x := range has {
		old, ok := c.had[at]
		if !ok || x.Place != core.CopyReady || old.Place != core.CopyReady || x.Expires != 0 {
			continue
		}
		q := [2]uint32{at.Vhost, at.Queue}
		if w, ok := waits[q]; !ok || x.Priority > w.priority || x.Priority == w.priority && at.Number < w.number {
			waits[q] = first{at.Number, x.Priority}
		}
	}
	for at, x := range has {
		old, ok := c.had[at]
		w, some := waits[[2]uint32{at.Vhost, at.Queue}]
		if !some || x.Place != core.CopyInFlight && x.Place != core.CopyUnwritten || ok && old.Place != core.CopyReady {
			continue
		}
		if w.priority > x.Priority || w.priority == x.Priority && w.number < at.Number {
			c.t.Fatalf("message %d of queue %d has overtaken %d: %+v", at.Number, at.Queue, w.number, x)
		}
		if x.Expires != 0 && x.Expires < c.d.Machine.Stamp() {
			c.t.Fatalf("message %d of queue %d was delivered at %d though it had expired: %+v", at.Number, at.Queue, c.d.Machine.Stamp(), x)
		}
	}
}

// answered checks that a lone publish on a channel that confirms is confirmed, nacked or refused, once.
func (c *calm) answered(effects []core.Effect) {
	if len(c.cmds) != 1 {
		return
	}
	p, ok := c.cmds[0].(*entry.Publish)
	if !ok {
		return
	}
	n := 0
	for i := range effects {
		e := &effects[i]
		switch {
		case e.Session != p.Session || e.Channel != p.Channel:
		case e.Kind == core.EffectConfirmed || e.Kind == core.EffectNacked:
			n += int(e.Count)
		case e.Kind == core.EffectRefused:
			n++
		}
	}
	if look, _ := core.LookAt(c.d.Machine, p.Session, p.Channel); n > 1 || look.Confirm && n != 1 && !c.stale(p) {
		c.t.Fatalf("%d answers to a publish", n)
	}
}

// remembered is for how long what a session has published is known at least, in milliseconds.
const remembered = 600_000

// once checks that a lone publish which its session has identified does nothing where it was taken in before, and confirmed: else it may have
// been refused and made a dead letter.
func (c *calm) once(has map[core.CopyOf]core.Copy, confirmed bool) {
	p, ok := c.cmds[0].(*entry.Publish)
	if !ok || len(c.cmds) != 1 || len(p.DedupID) == 0 {
		return
	}
	what, vhost := published{p.Session, string(p.DedupID)}, core.VhostNumber(c.d.Machine, p.Session)
	minted := core.MintedBy(c.d.Machine)[vhost]
	if at, before := c.taken[what]; before && c.d.Machine.Stamp() < at+remembered && minted != c.last[vhost] {
		c.t.Fatalf("session %d has published %q at %d, and it is taken in again", p.Session, p.DedupID, at)
	}
	entered := minted.Held > c.last[vhost].Held
	for at := range has {
		_, had := c.had[at]
		entered = entered || at.Vhost == vhost && !had
	}
	if look, _ := core.LookAt(c.d.Machine, p.Session, p.Channel); entered && confirmed && !look.Tx && core.IsNamed(c.d.Machine, p.Session) {
		c.taken[what] = c.d.Machine.Stamp()
	}
}

func (c *calm) stale(p *entry.Publish) bool {
	g := c.d.Machine.Link().Gate
	if g.Fenced {
		return true
	}
	for _, v := range c.d.Machine.Vhosts() {
		for _, s := range c.d.Machine.Sessions(v.Name) {
			if s.ID == p.Session {
				return s.Epoch != p.Epoch || s.Node != c.node
			}
		}
	}
	return true
}
