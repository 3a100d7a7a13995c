package core_test

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/understudy-mq/understudy/core"
	"github.com/understudy-mq/understudy/core/entry"
	"github.com/understudy-mq/understudy/core/message"
)

// inquest asks, after an entry of one command, of each dead letter that the entry has made: which message was it, why did that die, does the
// letter say so, and has it gone where that message's queue sends it; and of each message that can only have died: where is its letter. What a
// letter has to say and where it goes is worked out here anew; only finding the queues that an exchange leads to is the machine's own.
type inquest struct {
	*calm
	has     map[core.CopyOf]core.Copy
	looks   map[[2]uint32]core.QueueLook
	letters map[core.MessageOf]core.Letter
	victims map[message.Loc][]*victim // messages that have left their queues, by what they say
	placed  map[core.MessageOf][]uint32
	still   bool // nothing of exchanges, bindings and policies has changed
}

// victim is a message that has left its queue.
type victim struct {
	at      core.CopyOf
	look    core.QueueLook
	letter  *core.Letter // nil for none
	reasons []string     // why it may have died
	certain bool         // it has died
	number  uint64       // of its letter, 0 for none
	reason  string       // that the letter gives
	tag     uint64       // of one in flight, and
	session uint64
	channel uint16
	lane    int
}

// inFlight says whether it died while it was in flight.
func (v *victim) inFlight() bool { return v.reason == "rejected" || v.reason == "delivery_limit" }

// inquests is how much the inquests of a run have looked at.
type inquests struct {
	letters      int // that were made
	unknown      int // of which, nobody can tell what they were: of what was delayed, or came in a transaction
	destinations int // letters for whose destination only one answer was right
	deaths       int // messages that had died of something
	ordered      int // pairs of letters whose order was promised
}

func (c *calm) inquire(has map[core.CopyOf]core.Copy, looks map[[2]uint32]core.QueueLook) {
	if len(c.cmds) != 1 {
		return
	}
	q := &inquest{calm: c, has: has, looks: looks, letters: core.Letters(c.d.Machine), victims: map[message.Loc][]*victim{},
		placed: map[core.MessageOf][]uint32{}, still: core.Topology(c.d.Machine) == c.topology}
	q.findVictims()
	born := q.born()
	for _, at := range born {
		q.explain(at)
	}
	q.deaths()
	q.order()
}

// born lists the dead letters that are new, by number.
func (q *inquest) born() []core.MessageOf {
	var list []core.MessageOf
	for at := range q.has {
		if _, had := q.had[at]; had || !q.letters[core.MessageOf{Vhost: at.Vhost, Number: at.Number}].Moved {
			continue
		}
		of := core.MessageOf{Vhost: at.Vhost, Number: at.Number}
		if q.placed[of] == nil {
			list = append(list, of)
		}
		q.placed[of] = append(q.placed[of], at.Queue)
	}
	slices.SortFunc(list, func(a, b core.MessageOf) int { return int(a.Vhost) - int(b.Vhost) + 10*(int(a.Number)-int(b.Number)) })
	return list
}

func (q *inquest) findVictims() {
	for at, old := range q.had {
		if _, ok := q.has[at]; ok {
			continue
		}
		look, there := q.looks[[2]uint32{at.Vhost, at.Queue}]
		if !there { // it may have died before its queue went
			look = q.queues[[2]uint32{at.Vhost, at.Queue}]
		}
		v := &victim{at: at, look: look, tag: old.Tag, session: old.Session, channel: old.Channel, lane: old.Priority}
		if letter, ok := q.kept[core.MessageOf{Vhost: at.Vhost, Number: at.Number}]; ok {
			v.letter = &letter
		}
		var other bool
		v.reasons, other = q.fates(&old, &look)
		v.certain = !other && there && len(v.reasons) > 0
		q.victims[old.Loc] = append(q.victims[old.Loc], v)
	}
}

// fates are the deaths that a message may have died, and whether something else may have become of it.
func (q *inquest) fates(old *core.Copy, look *core.QueueLook) (reasons []string, other bool) {
	if old.Place == core.CopyUnwritten {
		return nil, true
	}
	switch x := q.cmds[0].(type) {
	case *entry.QueuePurge:
		if !q.refused && x.Name == look.Name && old.Place == core.CopyReady {
			return nil, true
		}
	case *entry.TxCommit:
		if q.holds(&x.Ref, old) {
			return []string{"rejected", "delivery_limit", "maxlen", "expired"}, true
		}
	case *entry.Settle:
		switch {
		case !q.holds(&x.Ref, old) || q.refused:
		case x.Outcome == entry.Accepted:
			return nil, true
		case x.Outcome == entry.Rejected:
			return []string{"rejected"}, false
		}
	}
	if old.Place == core.CopyInFlight && look.DeliveryLimit >= 0 && int64(old.Failures) >= look.DeliveryLimit {
		reasons = append(reasons, "delivery_limit")
	}
	if old.Expires != 0 && old.Expires <= q.d.Machine.Stamp() {
		reasons = append(reasons, "expired")
	}
	if look.Limited {
		reasons = append(reasons, "maxlen")
	}
	return reasons, false
}

// die is what the letter of a message says that has died in a queue, and the keys by which it is sent on.
func (q *inquest) die(old *core.Letter, look *core.QueueLook, reason string) (x core.Letter, keys []string) {
	death := core.Death{Queue: look.Name, Reason: reason, Count: 1, Time: q.d.Machine.Stamp() / 1000, Published: old == nil || !old.Moved}
	x = core.Letter{Key: look.Name, Moved: true, Exchange: look.Exchange, FirstQueue: look.Name, FirstReason: reason}
	keys = []string{x.Key}
	if old != nil {
		x.Key, x.CC, x.Headers, x.Priority, x.NewKey = old.Key, old.CC, old.Headers, old.Priority, old.NewKey
		keys = append(append([]string{x.Key}, old.CC...), old.BCC...)
	}
	if old != nil && old.Moved {
		x.FirstQueue, x.FirstReason = old.FirstQueue, old.FirstReason
		death.Exchange, death.Keys = old.Exchange, append([]string{old.Key}, old.CC...)
		for _, d := range old.Deaths {
			if d.Queue == death.Queue && d.Reason == reason {
				d.Count++
				death = d
				continue
			}
			x.Deaths = append(x.Deaths, d)
		}
	}
	x.Deaths = append([]core.Death{death}, x.Deaths...)
	if look.KeyGiven {
		x.Key, x.CC, x.NewKey, keys = look.Key, nil, true, []string{look.Key}
	}
	return x, keys
}

// leads answers the queues that a letter goes to, where none of them is too full; seed is the vhost's last message before it.
func (q *inquest) leads(vhost uint32, x *core.Letter, keys []string, seed uint64) []uint32 {
	routes := core.RoutesOf(q.d.Machine, vhost, x.Exchange, keys, x.Headers, seed)
	return slices.DeleteFunc(routes, func(id uint32) bool {
		name := q.looks[[2]uint32{vhost, id}].Name
		for _, d := range x.Deaths {
			if d.Reason == "rejected" {
				return false
			}
			if d.Queue == name {
				return true // it has come back by itself
			}
		}
		return false
	})
}

// explain finds the message that a letter was.
func (q *inquest) explain(at core.MessageOf) {
	letter, loc := q.letters[at], q.has[core.CopyOf{Vhost: at.Vhost, Queue: q.placed[at][0], Number: at.Number}].Loc
	q.seen.letters++
	for _, v := range q.victims[loc] {
		for _, reason := range v.reasons {
			x, keys := q.die(v.letter, &v.look, reason)
			if v.number == 0 && v.look.DeadLetters && v.at.Vhost == at.Vhost && reflect.DeepEqual(x, letter) {
				v.number, v.reason = at.Number, reason
				q.arrived(at, &x, keys)
				return
			}
		}
	}
	if len(q.victims[loc]) == 0 && !q.publishedNow(loc) { // a delay that is over, or a commit
		q.seen.unknown++
		return
	}
	keys, ok, all := q.inPassing(at, &letter, loc)
	switch {
	case ok:
		q.arrived(at, &letter, keys)
		return
	case !all:
		q.seen.unknown++
		return
	}
	q.t.Fatalf("message %d, %+v, is the letter of none that has died: %s", at.Number, letter, q.describe(loc))
}

func (q *inquest) describe(loc message.Loc) (text string) {
	for _, v := range q.victims[loc] {
		text += fmt.Sprintf("\n  %d of %s, letter %+v, may be %v", v.at.Number, v.look.Name, v.letter, v.reasons)
	}
	return text
}

func (q *inquest) publishedNow(loc message.Loc) bool {
	_, ok := q.cmds[0].(*entry.Publish)
	return ok && loc.Index() == q.d.Index
}

// corpse is a message that may have died in a queue within the entry.
type corpse struct {
	letter  *core.Letter
	queue   uint32
	reasons []string
}

// corpsesMost is how many messages that may have died in passing are looked at.
const corpsesMost = 400

// inPassing looks for a message that was made and died in this very entry, and whose letter this is; the keys are those that sent it on. It
// may not have looked at all.
func (q *inquest) inPassing(at core.MessageOf, letter *core.Letter, loc message.Loc) (keys []string, found, all bool) {
	var list []corpse
	for _, v := range q.victims[loc] {
		if v.look.DeadLetters {
			list = append(list, corpse{v.letter, v.at.Queue, v.reasons})
		}
	}
	if q.publishedNow(loc) {
		list = append(list, q.published(at.Vhost)...)
	}
	seen := map[string]bool{}
	for i := 0; i < len(list) && i < corpsesMost; i++ {
		c := list[i]
		look := q.looks[[2]uint32{at.Vhost, c.queue}]
		for _, reason := range c.reasons {
			x, keys := q.die(c.letter, &look, reason)
			if reflect.DeepEqual(x, *letter) {
				return keys, true, true
			}
			for seed := q.last[at.Vhost].Messages; seed < at.Number; seed++ {
				for _, id := range q.leads(at.Vhost, &x, keys, seed) {
					if what := fmt.Sprint(id, x); !seen[what] {
						seen[what] = true
						list = append(list, q.corpse(at.Vhost, id, &x))
					}
				}
			}
		}
	}
	return nil, false, len(list) <= corpsesMost
}

// corpse is a message as it may die at once in a queue that it has come to.
func (q *inquest) corpse(vhost, id uint32, x *core.Letter) corpse {
	c := corpse{letter: x, queue: id}
	look := q.looks[[2]uint32{vhost, id}]
	if !look.DeadLetters {
		return c
	}
	if !look.KeepsDeadLetters {
		c.reasons = append(c.reasons, "maxlen")
	}
	if look.ExpiresAtOnce {
		c.reasons = append(c.reasons, "expired")
	}
	return c
}

// published are the messages that the entry's publish has become.
func (q *inquest) published(vhost uint32) (list []corpse) {
	r, properties := read(q.cmds[0].(*entry.Publish))
	x := letterOf(&r, &properties, core.RoutesByHeaders(q.d.Machine, vhost))
	keys := append(append([]string{x.Key}, x.CC...), x.BCC...)
	for _, id := range core.RoutesOf(q.d.Machine, vhost, string(r.Exchange), keys, properties.Headers, q.last[vhost].Messages) {
		c := q.corpse(vhost, id, &x)
		if properties.Set&message.PropExpiration != 0 && properties.Expiration == "0" {
			c.reasons = append(c.reasons, "expired")
		}
		list = append(list, c)
		if c.letter = nil; len(r.Exchange) == 0 {
			list = append(list, c) // one that needs no letter
		}
	}
	return list
}

// arrived checks where a letter is.
func (q *inquest) arrived(at core.MessageOf, x *core.Letter, keys []string) {
	if !q.still {
		return
	}
	q.seen.destinations++
	leads := q.leads(at.Vhost, x, keys, at.Number-1)
	for _, id := range q.placed[at] {
		if !slices.Contains(leads, id) {
			q.t.Fatalf("dead letter %d, %+v, is in queue %d, and %q leads by %q to %v", at.Number, *x, id, x.Exchange, keys, leads)
		}
	}
	for _, id := range leads {
		if look := q.looks[[2]uint32{at.Vhost, id}]; look.KeepsDeadLetters && !slices.Contains(q.placed[at], id) {
			q.t.Fatalf("dead letter %d, %+v, is not in %s, where %q leads by %q", at.Number, *x, look.Name, x.Exchange, keys)
		}
	}
}

// deaths checks that what can only have died has a letter, where a queue would keep that.
func (q *inquest) deaths() {
	for _, list := range q.victims {
		for _, v := range list {
			if v.number != 0 || !v.certain || !v.look.DeadLetters || !q.still {
				continue
			}
			q.seen.deaths++
			kept := 0
			for _, reason := range v.reasons {
				x, keys := q.die(v.letter, &v.look, reason)
				in := func(seed uint64) bool {
					return slices.ContainsFunc(q.leads(v.at.Vhost, &x, keys, seed), func(id uint32) bool {
						return q.looks[[2]uint32{v.at.Vhost, id}].KeepsDeadLetters
					})
				}
				always := true
				for seed := q.last[v.at.Vhost].Messages; seed <= core.MintedBy(q.d.Machine)[v.at.Vhost].Messages; seed++ {
					always = always && in(seed)
				}
				if always {
					kept++
				}
			}
			if kept == len(v.reasons) {
				q.t.Fatalf("message %d of %s, letter %+v, has died of %v, and there is no letter", v.at.Number, v.look.Name, v.letter, v.reasons)
			}
		}
	}
}

// order checks that what died of one thing in one queue is in the order that it had there, or was settled in.
func (q *inquest) order() {
	type cause struct {
		vhost, queue uint32
		reason       string
		lane         int
		session      uint64 // of what was in flight when it died: that dies by channels
		channel      uint16
	}
	all := map[cause][]*victim{}
	for _, list := range q.victims {
		for _, v := range list {
			_, commit := q.cmds[0].(*entry.TxCommit) // which settles in the order of its settlements
			if v.number != 0 && !commit {
				at := cause{vhost: v.at.Vhost, queue: v.at.Queue, reason: v.reason, lane: v.lane}
				if v.inFlight() {
					at.session, at.channel = v.session, v.channel
				}
				all[at] = append(all[at], v)
			}
		}
	}
	for at, list := range all {
		slices.SortFunc(list, func(a, b *victim) int {
			if a.inFlight() {
				return int(a.tag) - int(b.tag)
			}
			return int(a.at.Number) - int(b.at.Number)
		})
		for i := 1; i < len(list); i++ {
			q.seen.ordered++
			if list[i].number < list[i-1].number {
				q.t.Fatalf("of what died of %+v, %d has letter %d, and %d behind it letter %d", at, list[i-1].at.Number, list[i-1].number, list[i].at.Number, list[i].number)
			}
		}
	}
}
