package session

import (
	"testing"

	"github.com/understudy-mq/understudy/core"
	"github.com/understudy-mq/understudy/core/entry"
)

// limit sets user u's limits.
func limit(b *Broker, generation uint64, connections, channels int) {
	b.access.Update(generation, []core.UserInfo{{Name: "u", MaxConnections: connections, MaxChannels: channels}},
		[]core.PermissionInfo{{User: "u", Vhost: "/", Read: ".*"}}, nil)
}

func TestAUsersConnectionsAreLimited(t *testing.T) {
	s, f, b, _ := guarded(t, core.PermissionInfo{})
	limit(b, 2, 1, -1)
	_, err := b.Attach(t.Context(), Attach{Vhost: "/", User: "u"}, &fakeEndpoint{})
	e, ok := err.(*Error)
	if !ok || e.Code != core.CodeNotAllowed || e.Text != "connection refused for user 'u': user connection limit (1) is reached" {
		t.Fatalf("%v", err)
	}
	s.Detach()
	attach(t, b, f, &fakeEndpoint{}, 12).End()
	attach(t, b, f, &fakeEndpoint{}, 13)
	b.Unregistered(1, "no leader")
	b.Registered(1, 2)
	attach(t, b, f, &fakeEndpoint{}, 14)
	b.Dispatch(1, &core.Effects{List: []Event{{Kind: core.EffectDetached, Session: 14}}})
	attach(t, b, f, &fakeEndpoint{}, 15)
}

func TestConnectionsOfOtherNodesCount(t *testing.T) {
	_, _, b, _ := guarded(t, core.PermissionInfo{})
	limit(b, 2, 3, -1)
	b.usage.elsewhere = func(string) (int, int) { return 2, 0 }
	if _, err := b.Attach(t.Context(), Attach{Vhost: "/", User: "u"}, &fakeEndpoint{}); err == nil {
		t.Error("a fourth connection is let in")
	}
}

func TestAUsersChannelsAreLimited(t *testing.T) {
	s, f, b, _ := guarded(t, core.PermissionInfo{})
	limit(b, 2, -1, 2)
	open := func(channel uint16) (refusal string) {
		s.Do(&entry.ChannelOpen{Ref: entry.Ref{Channel: channel}})
		_ = s.Flush()
		if x, ok := f.last().(*entry.Refuse); ok && x.Code == uint8(core.CodeNotAllowed) {
			return x.Text
		}
		return ""
	}
	if open(1) != "" || open(2) != "" || open(2) != "" { // the second open is the machine's to refuse
		t.Fatal("refused below the limit")
	}
	if got := open(3); got != "number of channels opened for user 'u' has reached the maximum allowed user limit of (2)" {
		t.Errorf("%q", got)
	}
	s.Do(&entry.ChannelClose{Ref: entry.Ref{Channel: 1}})
	if got := open(3); got != "" {
		t.Errorf("with one closed: %q", got)
	}
	s.Detach()
	if len(b.usage.byUser) != 0 {
		t.Errorf("still counted: %+v", b.usage.byUser["u"])
	}
}
