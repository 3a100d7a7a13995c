package core

import (
	"testing"

	"github.com/understudy-mq/understudy/core/entry"
	ready "github.com/understudy-mq/understudy/core/internal/queue"
	"github.com/understudy-mq/understudy/core/message"
)

func TestLivenessMovesWithTheLog(t *testing.T) {
	var l liveness
	loc := func(index uint64) uint64 { return uint64(message.NewLoc(index, 9)) }
	for i := uint64(1); i < 5_000_000; i += 50 {
		l.add(loc(i), 100)
		if i > 2000 {
			l.remove(loc(i-2000), 100)
		}
	}
	if cap(l.buckets) > 512 {
		t.Errorf("%d buckets are held for 2000 entries", cap(l.buckets))
	}
}

func TestModifiedDeliveriesAreCounted(t *testing.T) {
	m := populated(t)
	h := m.sessions.oldest().channels[0]
	q := m.vhosts[0].queues[0]
	count := func(outcome entry.Outcome) uint32 {
		if q.ready.len() > 0 && h.flight.Len() == 0 {
			m.waiting = append(m.waiting, q)
			m.serve()
		}
		m.giveBack(h, h.LastTag, outcome)
		m.waiting = m.waiting[:0]
		q.waiting = false
		var first ready.Ref
		q.ready.each(func(r ready.Ref) {
			if first.Number == 0 {
				first = r
			}
		})
		return first.Flags >> countShift
	}
	m.fx = &Effects{}
	for _, x := range []struct {
		outcome entry.Outcome
		want    uint32
	}{{entry.Modified, 1}, {entry.Released, 1}, {entry.Modified, 2}} {
		if got := count(x.outcome); got != x.want {
			t.Errorf("%d failed deliveries after outcome %d, want %d", got, x.outcome, x.want)
		}
	}
}

// TestReconnectingDoesNotGrowAChannel: one delivery that is never settled must not keep the times of all that came later.
func TestReconnectingDoesNotGrowAChannel(t *testing.T) {
	m := New(1)
	seq, fx := uint64(0), &Effects{}
	apply := func(cmds ...entry.Command) {
		var b []byte
		for _, cmd := range cmds {
			b = entry.Append(b, cmd)
		}
		node := min(seq, 1)
		if err := m.Apply(seq+1, entry.AppendBatch(entry.AppendHeader(nil, int64(seq)*5000), node, node, seq, b), fx); err != nil {
			t.Fatal(err)
		}
		seq++
	}
	apply(&entry.NodeUp{Node: 1, Nonce: 7}, &entry.VhostCreate{ID: "v", Name: "/"})
	record := message.AppendRecord(nil, &message.Record{Form: message.FormAMQP091, RoutingKey: []byte("q")})
	for i := uint64(1); i <= 100; i++ {
		ref := entry.Ref{Session: 1, Epoch: i, Channel: 1}
		apply(&entry.Attach{Vhost: "/", Key: "k", Expiry: 60}, &entry.ChannelOpen{Ref: ref}, &entry.QueueDeclare{Ref: ref, Name: "q"},
			&entry.Consume{Ref: ref, Queue: "q", Tag: "ct"}, &entry.Publish{Ref: ref, Record: record})
		if i > 1 {
			apply(&entry.Settle{Ref: ref, First: i, Last: i})
		}
	}
	h := m.session[1].channels[0]
	if h.flight.Len() != 1 || len(h.Runs) > 4 {
		t.Errorf("%d runs for %d deliveries", len(h.Runs), h.flight.Len())
	}
	if n := len(m.session[1].Takeovers); n > takeoversMax {
		t.Errorf("%d takeovers are remembered, at most %d should be", n, takeoversMax)
	}
}

func TestAnExpirationIsANumberOfMillisecondsOrNothing(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "60000": 60_000, "007": 7, "999999999999999": expiryMax,
		"": none, "1000000000000000": none, "-1": none, "1:": none, "/1": none, "1.5": none,
	} {
		if got := milliseconds([]byte(text)); got != want {
			t.Errorf("expiration %q is %d ms, want %d", text, got, want)
		}
	}
}

// TestFailuresAreCountedAsFarAsTheirBitsGo: one more must not make them few, nor touch the flags below.
func TestFailuresAreCountedAsFarAsTheirBitsGo(t *testing.T) {
	r := ready.Ref{Flags: flagRedelivered | (1<<(32-countShift)-2)<<countShift}
	for range 3 {
		countFailure(&r)
	}
	if want := uint32(flagRedelivered | (1<<(32-countShift)-1)<<countShift); r.Flags != want {
		t.Errorf("flags are %x, want %x", r.Flags, want)
	}
}

// TestAChannelThatIsOpenedHasTagsLeft: below 2^53, from where on some clients cannot tell them apart.
func TestAChannelThatIsOpenedHasTagsLeft(t *testing.T) {
	for _, c := range []struct {
		tags uint64
		want EffectKind
	}{{lastTagMax - 1, EffectReply}, {lastTagMax, EffectRefused}} {
		m := populated(t)
		s := m.session[1]
		s.Tags = c.tags
		fx := &Effects{}
		_, _, seq := m.Incarnation(1)
		open := entry.Append(nil, &entry.ChannelOpen{Ref: entry.Ref{Session: 1, Epoch: s.Epoch, Channel: 9}})
		if err := m.Apply(1000, entry.AppendBatch(entry.AppendHeader(nil, 1000), 1, 1, seq+1, open), fx); err != nil {
			t.Fatal(err)
		}
		if len(fx.List) != 1 || fx.List[0].Kind != c.want {
			t.Errorf("a channel whose last tag is %d: effects %v", c.tags, fx.List)
		}
	}
}
