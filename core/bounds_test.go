package core

import (
	"fmt"
	"testing"

	"github.com/understudy-mq/understudy/core/entry"
	"github.com/understudy-mq/understudy/core/message"
)

func TestWhatOneClientMayMakeIsBounded(t *testing.T) {
	ref := entry.Ref{Session: 1, Epoch: 1, Channel: 1}
	bind := func(key string) entry.Command {
		return &entry.QueueBind{Binding: entry.Binding{Ref: ref, Source: "amq.direct", Destination: "0", Key: key}}
	}
	exchange := func(name string) entry.Command { return &entry.ExchangeDeclare{Ref: ref, Name: name, Type: "direct"} }
	copies := func(cc, bcc int) entry.Command {
		props := message.AppendProperties(nil, &message.Properties{Set: message.PropHeaders,
			Headers: message.AppendTable(nil, message.Table{{Key: "CC", Value: make([]any, cc)}, {Key: "BCC", Value: make([]any, bcc)}})})
		return &entry.Publish{Ref: ref, Record: message.AppendRecord(nil, &message.Record{
			Form: message.FormAMQP091, RoutingKey: []byte("0"), Properties: props})}
	}
	for _, c := range []struct {
		name string
		in   []entry.Command // all but the last are taken
		code Code
		text string
	}{
		{"queues", []entry.Command{&entry.QueueDeclare{Ref: ref, Name: "1"}, &entry.QueueDeclare{Ref: ref, Name: "1"}, &entry.QueueDeclare{Ref: ref, Name: "2"}},
			CodePreconditionFailed, "cannot declare queue '2': queue limit in vhost '/' (2) is reached"},
		{"exchanges", []entry.Command{exchange("1"), exchange("1"), exchange("2"), exchange("3")},
			CodePreconditionFailed, "cannot declare exchange '3' in vhost '/': exchange limit of 11 is reached"},
		{"bindings", []entry.Command{bind("1"), bind("2"), bind("2"), bind("3")},
			CodePreconditionFailed, "cannot bind: binding limit in vhost '/' (2) is reached"},
		{"consumers", []entry.Command{&entry.Consume{Ref: ref, Queue: "0", Tag: "a"}, &entry.Consume{Ref: ref, Queue: "0", Tag: "b"}, &entry.Consume{Ref: ref, Queue: "0", Tag: "c"}},
			CodeNotAllowed, "reached maximum (2) of consumers per channel"},
		{"copies", []entry.Command{copies(1, 1), copies(2, 1)},
			CodePreconditionFailed, "invalid message: 3 routing keys in headers 'CC' and 'BCC', at most 2 are taken"},
	} {
		m := New(1)
		m.bounds = bounds{queues: 2, exchanges: 11, bindings: 2, consumers: 2, copies: 2, clears: 2}
		index, seq := uint64(0), uint64(0)
		apply := func(cmds ...entry.Command) (fx Effects) {
			var b []byte
			for _, cmd := range cmds {
				b = entry.Append(b, cmd)
			}
			node, incarnation := uint64(1), uint64(1)
			if index++; index == 1 {
				node, incarnation = 0, 0
			} else {
				seq++
			}
			if err := m.Apply(index, entry.AppendBatch(entry.AppendHeader(nil, 1), node, incarnation, seq, b), &fx); err != nil {
				t.Fatal(err)
			}
			return fx
		}
		apply(&entry.NodeUp{Node: 1, Nonce: 7}, &entry.VhostCreate{ID: "v", Name: "/"})
		apply(&entry.Attach{Vhost: "/", User: "u"}, &entry.ChannelOpen{Ref: ref}, &entry.QueueDeclare{Ref: ref, Name: "0"})
		for i, cmd := range c.in {
			var refused string
			for _, e := range apply(cmd).List {
				if e.Kind == EffectRefused {
					refused = fmt.Sprint(e.Code, " ", e.Text)
				}
			}
			want := ""
			if i == len(c.in)-1 {
				want = fmt.Sprint(c.code, " ", c.text)
			}
			if refused != want {
				t.Errorf("%s: command %d: refused %q, want %q", c.name, i, refused, want)
			}
		}
	}
}

// TestTheGroupRemembersABoundedNumberOfPublishes: the oldest ids of any session go first, and publishers are refused.
func TestTheGroupRemembersABoundedNumberOfPublishes(t *testing.T) {
	m := New(1)
	m.bounds = ourBounds
	m.bounds.windowIDs, m.bounds.groupIDs, m.bounds.numbering = 1000, 4*chunkIDs, 2
	seq, fx := uint64(0), &Effects{}
	apply := func(node uint64, cmds ...entry.Command) {
		var b []byte
		for _, cmd := range cmds {
			b = entry.Append(b, cmd)
		}
		if node != 0 {
			seq++
		}
		fx.List = fx.List[:0]
		if err := m.Apply(seq+1, entry.AppendBatch(entry.AppendHeader(nil, 1), node, node, seq, b), fx); err != nil {
			t.Fatal(err)
		}
	}
	record := message.AppendRecord(nil, &message.Record{Form: message.FormAMQP091, RoutingKey: []byte("q")})
	ids := func(session uint64, first, last int) (repeated uint64) {
		before := m.counts.Duplicates
		for i := first; i <= last; i++ {
			apply(1, &entry.Publish{Ref: entry.Ref{Session: session, Epoch: 1, Channel: 1}, DedupID: fmt.Append(nil, i), Record: record})
		}
		return m.counts.Duplicates - before
	}
	apply(0, &entry.NodeUp{Node: 1, Nonce: 7}, &entry.VhostCreate{ID: "v", Name: "/"})
	for session, key := range []string{"a", "b", "c"} {
		ref := entry.Ref{Session: uint64(session + 1), Epoch: 1, Channel: 1}
		apply(1, &entry.Attach{Vhost: "/", Key: key, Expiry: 60}, &entry.ChannelOpen{Ref: ref}, &entry.QueueDeclare{Ref: ref, Name: "q"})
	}
	ids(1, 1, chunkIDs)
	ids(2, 1, 4*chunkIDs)
	if n := len(m.dedup.seen); n != m.bounds.groupIDs {
		t.Errorf("%d ids are remembered, want as many as may be, %d", n, m.bounds.groupIDs)
	}
	if n := ids(2, 3*chunkIDs, 4*chunkIDs); n != chunkIDs+1 {
		t.Errorf("%d of the newest ids were known, want all %d", n, chunkIDs+1)
	}
	if n := ids(1, 1, chunkIDs); n != 0 {
		t.Errorf("%d of the oldest ids were known, want none", n)
	}
	m.bounds.groupIDs = 1 << 20
	last := chunkIDs + m.bounds.windowIDs - 1
	if ids(3, 1, last); ids(3, 1, 1) != 1 {
		t.Error("an id is forgotten before a session's window is full without its chunk")
	}
	if ids(3, last+1, last+1); ids(3, 1, 1) != 0 {
		t.Error("an id is known though its chunk is not needed any more")
	}
	for _, i := range []int{0, 1, 0, 2} {
		apply(1, &entry.Publish{Ref: entry.Ref{Session: 2, Epoch: 1, Channel: 1}, Publisher: fmt.Append(nil, i), Sequence: 1, Record: record})
		refused := len(fx.List) == 1 && fx.List[0].Code == CodePreconditionFailed
		if refused != (i == 2) {
			t.Errorf("publisher %d refused %v", i, refused)
		}
	}
	if m.Fingerprint() != m.Recompute() {
		t.Error("fingerprint is kept up wrongly")
	}
}
