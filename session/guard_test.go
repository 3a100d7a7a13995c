package session

import (
	"fmt"
	"testing"

	"github.com/understudy-mq/understudy/core"
	"github.com/understudy-mq/understudy/core/entry"
	"github.com/understudy-mq/understudy/core/message"
	"github.com/understudy-mq/understudy/session/auth"
)

// guarded attaches user u with permissions p in vhost / to session 11.
func guarded(t *testing.T, p core.PermissionInfo, topics ...core.TopicPermissionInfo) (*Session, *fakeGroup, *Broker, *fakeEndpoint) {
	t.Helper()
	f, e := &fakeGroup{}, &fakeEndpoint{}
	b := newBroker(f)
	b.access = auth.NewRegistry()
	allow(b, 1, &p, topics...)
	return attach(t, b, f, e, 11), f, b, e
}

// allow makes user u's permissions in vhost / the only ones there are; none if p is nil.
func allow(b *Broker, generation uint64, p *core.PermissionInfo, topics ...core.TopicPermissionInfo) {
	var all []core.PermissionInfo
	if p != nil {
		p.User, p.Vhost = "u", "/"
		all = append(all, *p)
	}
	b.access.Update(generation, []core.UserInfo{{Name: "u", MaxConnections: -1, MaxChannels: -1}}, all, topics)
}

func table(key, value string) []byte {
	return message.AppendTable(nil, message.Table{{Key: key, Value: value}})
}

// TestEveryCommandNeedsItsPermission is the table of permissions: with the ones named a command passes, without any one
// of them it does not.
func TestEveryCommandNeedsItsPermission(t *testing.T) {
	ref := entry.Ref{Channel: 3}
	binding := entry.Binding{Ref: ref, Destination: "dst", Source: "src"}
	for _, c := range []struct {
		cmd                    entry.Addressed
		configure, write, read string
	}{
		{&entry.ExchangeDeclare{Ref: ref, Name: "x"}, "^x$", "", ""},
		{&entry.ExchangeDeclare{Ref: ref, Name: "\rx\n"}, "^x$", "", ""},
		{&entry.ExchangeDeclare{Ref: ref, Name: "x", Arguments: table("alternate-exchange", "ae")}, "^x$", "^ae$", "^x$"},
		{&entry.ExchangeDelete{Ref: ref, Name: "x"}, "^x$", "", ""},
		{&entry.ExchangeBind{Binding: binding}, "", "^dst$", "^src$"},
		{&entry.ExchangeUnbind{Binding: binding}, "", "^dst$", "^src$"},
		{&entry.QueueBind{Binding: binding}, "", "^dst$", "^src$"},
		{&entry.QueueUnbind{Binding: binding}, "", "^dst$", "^src$"},
		{&entry.QueueDeclare{Ref: ref, Name: "q"}, "^q$", "", ""},
		{&entry.QueueDeclare{Ref: ref, Name: "q\n"}, "^q$", "", ""},
		{&entry.QueueDeclare{Ref: ref, Name: "q", Arguments: table("x-dead-letter-exchange", "")}, "^q$", "^amq.default$", "^q$"},
		{&entry.QueueDelete{Ref: ref, Name: "q"}, "^q$", "", ""},
		{&entry.QueuePurge{Ref: ref, Name: "q"}, "", "", "^q$"},
		{&entry.Consume{Ref: ref, Queue: "q", Tag: "t"}, "", "", "^q$"},
		{&entry.Get{Ref: ref, Queue: "q"}, "", "", "^q$"},
	} {
		passes := func(p core.PermissionInfo) bool {
			s, f, _, _ := guarded(t, p)
			s.Do(c.cmd)
			if err := s.Flush(); err != nil {
				t.Fatal(err)
			}
			x, refused := f.last().(*entry.Refuse)
			if refused && (x.Session != 11 || x.Channel != 3 || x.Command != c.cmd.Kind() || x.Code != uint8(core.CodeAccessRefused)) {
				t.Errorf("%T: refused with %+v", c.cmd, x)
			}
			return !refused
		}
		all := core.PermissionInfo{Configure: c.configure, Write: c.write, Read: c.read}
		if !passes(all) {
			t.Errorf("%T does not pass with %+v", c.cmd, all)
		}
		for name, field := range map[string]*string{"configure": &all.Configure, "write": &all.Write, "read": &all.Read} {
			if had := *field; had != "" {
				if *field = "^other$"; passes(all) {
					t.Errorf("%T passes without %s of %s", c.cmd, name, had)
				}
				*field = had
			}
		}
	}
}

func TestAPassiveDeclareNeedsAnyPermission(t *testing.T) {
	for p, want := range map[core.PermissionInfo]bool{{Configure: "q"}: true, {Write: "q"}: true, {Read: "q"}: true, {Read: "other"}: false} {
		s, f, _, _ := guarded(t, p)
		s.Do(&entry.QueueDeclare{Name: "q", Passive: true})
		_ = s.Flush()
		if _, refused := f.last().(*entry.Refuse); refused == want {
			t.Errorf("%+v: refused %v", p, refused)
		}
	}
}

func publishTo(s *Session, exchange, key string, cc ...any) {
	rec := message.Record{Form: message.FormAMQP091, Exchange: []byte(exchange), RoutingKey: []byte(key)}
	if cc != nil {
		headers := message.AppendTable(nil, message.Table{{Key: "CC", Value: cc}})
		rec.Properties = message.AppendProperties(nil, &message.Properties{Set: message.PropHeaders, Headers: headers})
	}
	s.Publish(3, false, false, &rec)
	_ = s.Flush()
}

func TestPublishesNeedWriteAndEveryTopic(t *testing.T) {
	s, f, _, _ := guarded(t, core.PermissionInfo{Write: "^x$"},
		core.TopicPermissionInfo{User: "u", Vhost: "/", Exchange: "x", Write: "^ok"})
	for _, c := range []struct {
		exchange, key string
		cc            []any
		refusal       string
	}{
		{"x", "ok", nil, ""}, {"x", "ok", []any{"ok.too"}, ""},
		{"", "ok", nil, "write access to exchange 'amq.default' in vhost '/' refused for user 'u'"},
		{"x", "no", nil, "write access to topic 'no' in exchange 'x' in vhost '/' refused for user 'u'"},
		{"x", "ok", []any{"ok", "no"}, "write access to topic 'no' in exchange 'x' in vhost '/' refused for user 'u'"},
	} {
		publishTo(s, c.exchange, c.key, c.cc...)
		text := ""
		if x, ok := f.last().(*entry.Refuse); ok {
			text = x.Text
		}
		if text != c.refusal {
			t.Errorf("%s %s %v: %q, want %q", c.exchange, c.key, c.cc, text, c.refusal)
		}
	}
}

func TestAUserWithoutPermissionsDoesNotEnterTheVhost(t *testing.T) {
	b := newBroker(&fakeGroup{})
	b.access = auth.NewRegistry()
	allow(b, 1, nil)
	_, err := b.Attach(t.Context(), Attach{Vhost: "/", User: "u"}, &fakeEndpoint{})
	if e, ok := err.(*Error); !ok || e.Code != core.CodeNotAllowed || e.Text != "access to vhost '/' refused for user 'u'" {
		t.Errorf("%v", err)
	}
}

func TestARevokedSessionIsClosedAndHearsNothingMore(t *testing.T) {
	for name, c := range map[string]struct {
		left core.PermissionInfo
		text string
	}{
		"read":  {core.PermissionInfo{Read: "^other$"}, "read access to queue 'q' in vhost '/' refused for user 'u'"},
		"vhost": {core.PermissionInfo{}, "access to vhost '/' refused for user 'u'"},
	} {
		s, f, b, e := guarded(t, core.PermissionInfo{Read: ".*"})
		s.Do(&entry.Consume{Queue: "q", Tag: "t"})
		_ = s.Flush()
		b.Reauthorize()
		if e.closed != nil {
			t.Fatalf("%s: closed with nothing revoked", name)
		}
		f.arrived = make(chan struct{}, 1)
		if p := &c.left; p.Read == "" {
			allow(b, 2, nil)
		} else {
			allow(b, 2, p)
		}
		b.Reauthorize()
		<-f.arrived
		if _, ok := f.last().(*entry.Detach); !ok || e.closed == nil || e.closed.Text != c.text {
			t.Errorf("%s: closed %+v, last command %+v", name, e.closed, f.last())
		}
		e.closed = nil
		b.Dispatch(1, &core.Effects{List: []Event{{Kind: core.EffectDelivered, Session: 11}, {Kind: core.EffectDetached, Session: 11}}})
		if len(e.events) != 0 || e.closed != nil {
			t.Errorf("%s: after the close: %+v, closed again %v", name, e.events, e.closed)
		}
	}
}

func TestADeletedUsersSessionIsClosedWith320(t *testing.T) {
	_, _, b, e := guarded(t, core.PermissionInfo{})
	b.access.Update(2, nil, nil, nil)
	b.Reauthorize()
	if e.closed == nil || e.closed.Code != core.CodeConnectionForced || e.closed.Text != "user 'u' was deleted" {
		t.Errorf("%+v", e.closed)
	}
}

func TestConsumersThatEndedAreNotJudged(t *testing.T) {
	s, _, b, e := guarded(t, core.PermissionInfo{Read: ".*"})
	for i, end := range []func(tag string){
		func(tag string) { s.Do(&entry.Cancel{Tag: tag}) },
		func(string) { s.Do(&entry.ChannelClose{}) },
		func(tag string) {
			b.Dispatch(1, &core.Effects{List: []Event{{Kind: core.EffectConsumerCancelled, Session: 11, Name: tag}}})
		},
	} {
		tag := fmt.Sprint("t", i)
		s.Do(&entry.Consume{Queue: "q", Tag: tag})
		end(tag)
	}
	allow(b, 2, &core.PermissionInfo{Read: "^other$"})
	b.Reauthorize()
	if e.closed != nil {
		t.Errorf("closed: %v", e.closed)
	}
}

func TestAConsumerThatWasRefusedIsNotJudgedAgain(t *testing.T) {
	s, f, b, e := guarded(t, core.PermissionInfo{Read: "^other$"})
	s.Do(&entry.Consume{Queue: "q", Tag: "t"})
	if _ = s.Flush(); f.last().Kind() != entry.KindRefuse {
		t.Fatalf("the consume was not refused: %+v", f.last())
	}
	allow(b, 2, &core.PermissionInfo{Read: "^other$", Configure: "^x$"})
	b.Reauthorize()
	if e.closed != nil {
		t.Errorf("closed for a consumer that there never was: %v", e.closed)
	}
}

// Direct replies need no permission; a name like theirs gives a client none.
func TestDirectRepliesNeedNoPermission(t *testing.T) {
	ref := entry.Ref{Channel: 3}
	for _, c := range []struct {
		cmd    entry.Addressed
		passes bool
	}{
		{&entry.QueueDeclare{Ref: ref, Name: replyTo + "x", Generated: true, Exclusive: true}, true},
		{&entry.Consume{Ref: ref, Queue: replyTo + "x", Tag: "t"}, true},
		{&entry.QueueDeclare{Ref: ref, Name: replyTo + "x"}, false},
		{&entry.QueueDeclare{Ref: ref, Name: "amq.gen-x", Generated: true}, false},
		{&entry.Consume{Ref: ref, Queue: "amq.gen-x", Tag: "t"}, false},
	} {
		s, f, _, _ := guarded(t, core.PermissionInfo{Configure: "^$", Write: "^$", Read: "^$"})
		s.Do(c.cmd)
		if err := s.Flush(); err != nil {
			t.Fatal(err)
		}
		if _, refused := f.last().(*entry.Refuse); refused == c.passes {
			t.Errorf("%#v became %#v", c.cmd, f.last())
		}
	}
}
