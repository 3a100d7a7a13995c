package core

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/understudy-mq/understudy/core/internal/ledger"
	ready "github.com/understudy-mq/understudy/core/internal/queue"
	"github.com/understudy-mq/understudy/core/message"
)

// Audit counts anew everything that a Machine keeps twice: what is derived from rows, counts and references within them, the
// deadlines; and says whether somebody waits though there is something to give. It holds between any two entries.
func Audit(m *Machine) error {
	a := &audit{m: m}
	a.lists()
	a.timers()
	a.liveness()
	a.dedup()
	for _, v := range m.vhosts {
		a.vhost(v)
	}
	m.sessions.each(func(s *session) { a.session(s) })
	return errors.Join(a.wrong...)
}

type audit struct {
	m     *Machine
	wrong []error
}

// same notes it where a count differs from what was counted.
func same[T comparable](a *audit, got, counted T, format string, args ...any) {
	if got != counted {
		a.wrong = append(a.wrong, fmt.Errorf("%s: it is %v, counted %v", fmt.Sprintf(format, args...), got, counted))
	}
}

func (a *audit) must(good bool, format string, args ...any) {
	if !good {
		a.wrong = append(a.wrong, fmt.Errorf(format, args...))
	}
}

func (a *audit) lists() {
	m := a.m
	same(a, len(m.waiting)+len(m.owing)+len(m.touched)+len(m.doomed), 0, "left of an entry")
	a.must(slices.IsSortedFunc(m.vhosts, func(x, y *vhost) int { return cmp.Compare(x.Vhost, y.Vhost) }), "vhosts are not in order")
	m.sessions.each(func(s *session) { a.must(m.session[s.ID] == s, "session %d is not found", s.ID) })
	same(a, m.sessions.len(), len(m.session), "sessions by id")
	inOrder(a, &m.sessions, func(s *session) uint64 { return s.ID }, "sessions")
	inOrder(a, &m.dedup.windows, func(w *window) uint64 { return w.Chunk }, "windows")
	for _, v := range m.vhosts {
		same(a, slices.Contains(m.draining, v), v.Deleted || len(v.remains) > 0, "vhost %d is to be drained", v.Vhost)
	}
}

// inOrder checks that a series is in the order of its objects' numbers, knows how many are gone, and has one that is there at each end.
func inOrder[T object](a *audit, s *series[T], number func(T) uint64, what string) {
	gone := 0
	for _, o := range s.list {
		gone += count(o.state().gone)
	}
	same(a, s.gone, gone, "%s that are gone", what)
	a.must(slices.IsSortedFunc(s.list, func(x, y T) int { return cmp.Compare(number(x), number(y)) }), "%s are not in order", what)
	a.must(len(s.list) == 0 || !s.oldest().state().gone && !s.newest().state().gone, "%s begin or end with one that is gone", what)
}

// timers checks that everything is scheduled for when it says itself that it is due.
func (a *audit) timers() {
	n := 0
	a.m.each(func(o object) {
		x, ok := o.(timed)
		if !ok {
			return
		}
		t := x.timing()
		same(a, t.at, x.deadline(), "timer of table %d, %d", t.table, t.id)
		if t.place != 0 {
			n++
			h := a.m.timersOf(x)
			a.must(t.place <= len(h.heap) && h.heap[t.place-1] == t, "timer of table %d, %d is not in its place", t.table, t.id)
		}
	})
	same(a, len(a.m.returns.heap)+len(a.m.timers.heap), n, "timers")
}

func (a *audit) liveness() {
	counted := map[uint64]bucket{}
	a.m.contents(func(loc message.Loc, size uint32) {
		if b := bucketOf(uint64(loc)); b >= a.m.live.floor>>bucketShift {
			counted[b] = bucket{counted[b].references + 1, counted[b].bytes + int64(size)}
		}
	})
	for i, n := range a.m.live.buckets {
		same(a, n, counted[a.m.live.base+uint64(i)], "live references in bucket %d", a.m.live.base+uint64(i))
		delete(counted, a.m.live.base+uint64(i))
	}
	same(a, len(counted), 0, "buckets that are not counted")
}

func (a *audit) dedup() {
	ids, publishers, windows := 0, 0, 0
	a.m.sessions.each(func(s *session) {
		for _, w := range s.windows {
			windows++
			ids += w.len()
			w.each(func(x digest) {
				_, ok := a.m.dedup.seen[x]
				a.must(ok, "session %d: an id of its window is not known", s.ID)
			})
		}
		publishers += len(s.publishers)
		a.must(slices.IsSortedFunc(s.publishers, func(x, y *publisher) int { return cmp.Compare(x.Name, y.Name) }), "publishers of session %d", s.ID)
	})
	same(a, len(a.m.dedup.seen), ids, "ids")
	same(a, a.m.dedup.publishers, publishers, "publishers")
	same(a, a.m.dedup.windows.len(), windows, "windows")
}

// holders are what a vhost's messages are referred to by.
type holders struct {
	letters, contents map[uint64]uint32          // references by message
	noted             map[uint32]map[uint64]bool // messages with a note, by queue
	unacked           map[uint32]uint32          // by queue
	flying            map[uint32]uint64
}

func (a *audit) vhost(v *vhost) {
	a.indexes(v)
	h := &holders{letters: map[uint64]uint32{}, contents: map[uint64]uint32{}, noted: map[uint32]map[uint64]bool{}, unacked: map[uint32]uint32{}, flying: map[uint32]uint64{}}
	for _, q := range v.queues {
		q.ready.each(func(r ready.Ref) { h.hold(&r, q.ID) })
	}
	for _, x := range v.remains {
		x.list.Each(func(r ready.Ref) { h.hold(&r, x.Queue) })
	}
	inOrder(a, &v.held, func(x *held) uint64 { return x.ID }, "held")
	v.held.each(func(x *held) {
		if x.Queue != 0 {
			r := x.ref()
			h.hold(&r, x.Queue)
			a.must(v.queue[x.Queue] != nil, "held %d has lost its queue", x.ID)
		}
	})
	a.m.sessions.each(func(s *session) {
		for _, c := range s.channels {
			if s.vhost != v {
				continue
			}
			c.flight.Each(func(_ uint64, r *ledger.Record) {
				h.hold(&r.Ref, r.Queue)
				if r.Flags&flagNoAck == 0 {
					h.unacked[r.Queue]++
					h.flying[r.Queue] += v.sizeOf(&r.Ref)
				}
			})
		}
	})
	a.references(v, h)
	for _, q := range v.queues {
		a.queue(q, h)
	}
}

func (h *holders) hold(r *ready.Ref, queue uint32) {
	if r.Flags&flagLettered != 0 {
		h.letters[r.Number]++
	}
	if r.Flags&flagFragmented != 0 {
		h.contents[r.Number]++
	}
	if r.Flags&flagNoted != 0 {
		if h.noted[queue] == nil {
			h.noted[queue] = map[uint64]bool{}
		}
		h.noted[queue][r.Number] = true
	}
}

func (a *audit) references(v *vhost, h *holders) {
	letters, contents := map[uint64]uint32{}, map[uint64]uint32{}
	for i, t := range v.letters {
		same(a, t.at, i, "place of letter %d", t.Number)
		letters[t.Number] = t.Refs
	}
	for i, t := range v.contents {
		same(a, t.at, i, "place of content %d", t.Number)
		contents[t.Number] = t.Refs
	}
	a.must(maps.Equal(letters, h.letters), "letters have references %v, counted %v", letters, h.letters)
	a.must(maps.Equal(contents, h.contents), "contents have references %v, counted %v", contents, h.contents)
	same(a, len(v.letter), len(letters), "letters by number")
	same(a, len(v.content), len(contents), "contents by number")
}

func (a *audit) indexes(v *vhost) {
	rejecting, deadLettering, byHeaders, delaying, consumers := 0, 0, 0, 0, 0
	for _, q := range v.queues {
		a.must(v.queue[q.ID] == q && v.queueByName[q.Name] == q, "queue %s is not found", q.Name)
		rejecting += count(q.rejects())
		deadLettering += count(q.set.deadLetters)
		consumers += len(q.consumers)
		for i, b := range q.bindings {
			a.must(b.atTo == i && b.queue == q, "binding %q is not in its place", b.identity)
		}
	}
	for i, b := range v.bindings {
		a.must(b.at == i && v.binding[b.identity] == b, "binding %q is not in its place", b.identity)
		byHeaders += count(b.source.Type.String() == "headers")
	}
	a.must(slices.IsSortedFunc(v.exchanges, func(x, y *exchange) int { return cmp.Compare(x.Name, y.Name) }), "exchanges are not in order")
	for _, x := range v.exchanges {
		a.must(v.exchange[x.Name] == x, "exchange %s is not found", x.Name)
		delaying += count(x.Delayed)
	}
	same(a, len(v.queue), len(v.queues), "queues by id")
	same(a, len(v.queueByName), len(v.queues), "queues by name")
	same(a, len(v.exchange), len(v.exchanges), "exchanges by name")
	same(a, len(v.binding), len(v.bindings), "bindings by identity")
	same(a, len(v.consumer), consumers, "consumers by number")
	same(a, v.rejecting, rejecting, "queues that reject")
	same(a, v.deadLettering, deadLettering, "queues that dead-letter")
	same(a, v.byHeaders, byHeaders, "bindings by headers")
	same(a, v.delaying, delaying, "exchanges that delay")
	a.must(slices.IsSortedFunc(v.queues, func(x, y *queue) int { return cmp.Compare(x.ID, y.ID) }), "queues are not in order")
	a.sessionsOf(v)
}

func count(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

func (a *audit) sessionsOf(v *vhost) {
	n, named := 0, map[string]uint32{}
	a.m.sessions.each(func(s *session) {
		if s.vhost != v {
			return
		}
		if n++; s.named() {
			named[s.User]++
			a.must(v.byKey[sessionKey{s.User, s.Key}] == s, "session %d is not found by its key", s.ID)
		}
		owned, generated := []*queue(nil), []*queue(nil)
		for _, q := range v.queues {
			if q.Owner == s.ID {
				owned = append(owned, q)
			}
			if q.Maker == s.ID {
				generated = append(generated, q)
			}
		}
		a.must(slices.Equal(s.exclusive, owned), "exclusive queues of session %d", s.ID)
		a.must(slices.Equal(s.generated, generated), "queues that session %d had named", s.ID)
	})
	same(a, v.sessions, n, "sessions of the vhost")
	a.must(maps.Equal(v.namedOf, named), "named sessions by user are %v, counted %v", v.namedOf, named)
}

func (a *audit) queue(q *queue, h *holders) {
	n, bytes, bodies := 0, uint64(0), uint64(0)
	for i := range len(q.ready.more) + 1 {
		lane, last := q.ready.lane(i), uint64(0)
		lane.Each(func(r ready.Ref) {
			a.must(r.Number > last && priorityOf(&r) == i, "queue %s: #%d of priority %d comes behind #%d in lane %d", q.Name, r.Number, priorityOf(&r), last, i)
			last = r.Number
			n++
			bytes += q.vhost.sizeOf(&r)
			bodies += q.bodyOf(&r)
		})
		if q.ready.more != nil {
			same(a, q.ready.used[i>>6]>>(i&63)&1 == 1, lane.Len() > 0, "queue %s: lane %d is in use", q.Name, i)
		}
	}
	if q.set.maxBytes == none {
		bodies = 0
	}
	same(a, q.ready.len(), n, "ready in %s", q.Name)
	same(a, q.bytes, bytes, "bytes of %s", q.Name)
	same(a, q.bodies, bodies, "bodies of %s", q.Name)
	same(a, q.Unacked, h.unacked[q.ID], "unacknowledged of %s", q.Name)
	same(a, q.flying, h.flying[q.ID], "bytes in flight of %s", q.Name)
	notes := 0
	q.notes.Each(func(x ready.Note) {
		notes++
		a.must(h.noted[q.ID][x.Number], "queue %s: a note on #%d, which nobody holds", q.Name, x.Number)
	})
	same(a, notes, len(h.noted[q.ID]), "notes of %s", q.Name)
	same(a, q.notes.Len(), notes, "number of notes of %s", q.Name)
	for i, x := range q.held {
		a.must(x.atQueue == i && x.Queue == q.ID && !x.gone, "queue %s: held %d is not in its place", q.Name, x.ID)
	}
	a.ring(q)
	a.service(q)
}

// ring checks the service ring: who is in it, and in which order.
func (a *audit) ring(q *queue) {
	n, previous := 0, (*consumer)(nil)
	for c := q.first; c != nil; c = c.next {
		n++
		a.must(c.Turn != 0 && c.previous == previous && c.queue == q && !c.gone, "queue %s: ring at %s", q.Name, c.Tag)
		if previous != nil {
			a.must(cmp.Or(cmp.Compare(c.Priority, previous.Priority), cmp.Compare(previous.Turn, c.Turn)) < 0, "queue %s: %s comes behind %s", q.Name, c.Tag, previous.Tag)
		}
		previous = c
	}
	a.must(q.last == previous, "queue %s: last of the ring", q.Name)
	turns, active, exclusive := 0, q.Active == 0, q.exclusive == nil
	for _, c := range q.consumers {
		turns += count(c.Turn != 0)
		active = active || c.Number == q.Active
		exclusive = exclusive || c == q.exclusive && c.Exclusive
		a.must(!c.Exclusive || q.exclusive == c, "queue %s: exclusive %s", q.Name, c.Tag)
		if c.Turn != 0 {
			a.must(!c.Claim && c.Owed == 0 && (!q.set.singleActive || q.Active == c.Number), "queue %s: %s is in the ring", q.Name, c.Tag)
		}
	}
	same(a, n, turns, "ring of %s", q.Name)
	a.must(active && exclusive, "queue %s: active %d, exclusive %v", q.Name, q.Active, q.exclusive)
	same(a, q.Active != 0, q.set.singleActive && len(q.consumers) > 0, "queue %s has an active consumer", q.Name)
	a.must(slices.IsSortedFunc(q.consumers, func(x, y *consumer) int { return cmp.Compare(x.Number, y.Number) }), "consumers of %s are not in order", q.Name)
}

// service checks that nobody waits.
func (a *audit) service(q *queue) {
	for _, c := range q.consumers {
		if c.Claim || !c.credit() || q.set.singleActive && q.Active != c.Number && c.Owed == 0 {
			continue
		}
		if c.Owed > 0 {
			c.channel.flight.Each(func(tag uint64, r *ledger.Record) {
				a.must(a.m.gateHolds() || !owedTo(c, r), "queue %s: %s is owed %d and has credit", q.Name, c.Tag, tag)
			})
			continue
		}
		a.must(c.Turn != 0, "queue %s: %s has credit and no turn", q.Name, c.Tag)
		if q.ready.len() == 0 || a.m.gateHolds() {
			continue
		}
		r := q.ready.top().Head()
		a.must(a.m.isExpired(q, &r, false), "queue %s: %s waits with credit for #%d", q.Name, c.Tag, r.Number)
	}
}

// gateHolds says whether nothing is delivered at present.
func (m *Machine) gateHolds() bool {
	if m.link.Role == RoleStandby {
		return m.link.SourceGate.Holds()
	}
	return m.link.Gate.Holds()
}

func (a *audit) session(s *session) {
	a.must(slices.IsSortedFunc(s.channels, func(x, y *channel) int { return cmp.Compare(x.Number, y.Number) }), "channels of session %d", s.ID)
	for _, h := range s.channels {
		a.channel(h)
	}
}

type tally struct {
	inFlight, owed, unwritten uint32
	bytes                     uint64
}

func (a *audit) channel(h *channel) {
	where := fmt.Sprintf("channel %d.%d", h.Session, h.Number)
	all, of, gets := tally{}, map[uint32]tally{}, uint32(0)
	h.flight.Each(func(tag uint64, r *ledger.Record) {
		x := of[r.Consumer]
		if r.Flags&flagAgain == 0 && tag > h.Written {
			x.unwritten++
			x.bytes += uint64(r.Size)
		}
		owed := uint32(count(r.Flags&flagOwed != 0))
		if r.Flags&flagNoAck == 0 {
			x.inFlight++
		}
		if x.owed += owed; r.Consumer != 0 {
			all.inFlight += uint32(count(r.Flags&flagNoAck == 0))
			all.owed += owed
		} else {
			gets += owed
		}
		of[r.Consumer] = x
		if r.Flags&flagGathered != 0 {
			a.must(slices.ContainsFunc(h.Settled, func(x settled) bool { return x.First <= tag && tag <= x.Last }), "%s: %d is gathered for nothing", where, tag)
		}
	})
	for _, x := range h.Resent {
		if r := h.flight.Get(x.Tag); r != nil {
			t := of[r.Consumer]
			t.unwritten++
			t.bytes += uint64(r.Size)
			of[r.Consumer] = t
		}
	}
	same(a, h.InFlight, all.inFlight, "%s: in flight", where)
	same(a, h.Owed, all.owed, "%s: owed", where)
	same(a, h.OwedGets, gets, "%s: gets owed", where)
	same(a, h.flight.Last(), h.LastTag, "%s: last tag", where)
	size := uint64(0)
	for i := range h.Parts {
		size += uint64(h.Parts[i].Size)
	}
	same(a, h.PartBytes, size, "%s: bytes of pieces", where)
	a.must(h.Tx || len(h.Pending)+len(h.Settled) == 0, "%s: a transaction is left", where)
	a.must(slices.IsSortedFunc(h.Runs, func(x, y run) int { return cmp.Compare(x.Tag, y.Tag) }), "%s: runs", where)
	a.must(slices.IsSortedFunc(h.consumers, func(x, y *consumer) int { return cmp.Compare(x.Number, y.Number) }), "%s: consumers", where)
	for _, c := range h.consumers {
		t := of[c.Number]
		same(a, c.InFlight, t.inFlight, "%s: in flight to %s", where, c.Tag)
		same(a, c.Owed, t.owed, "%s: owed to %s", where, c.Tag)
		if !c.windowed() {
			t.unwritten, t.bytes = 0, 0
		}
		if !c.Claim {
			same(a, c.Unwritten, t.unwritten, "%s: unwritten to %s", where, c.Tag)
			same(a, c.UnwrittenBytes, t.bytes, "%s: unwritten bytes to %s", where, c.Tag)
		}
	}
}
