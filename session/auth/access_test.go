package auth

import (
	"strings"
	"testing"

	"github.com/understudy-mq/understudy/core"
)

// registry makes one with user u, who may configure c.*, write w.* and the default exchange, and read r.* in vhost /.
func registry(generation uint64, edit ...func(*core.PermissionInfo)) *Registry {
	r := NewRegistry()
	update(r, generation, edit...)
	return r
}

func update(r *Registry, generation uint64, edit ...func(*core.PermissionInfo)) {
	p := core.PermissionInfo{User: "u", Vhost: "/", Configure: "^c", Write: "^w|^amq\\.default$", Read: "^r"}
	for _, e := range edit {
		e(&p)
	}
	r.Update(generation, []core.UserInfo{{Name: "u", Created: 1, MaxConnections: 3, MaxChannels: -1}, {Name: "guest"}},
		[]core.PermissionInfo{p, {User: "nobody", Vhost: "/"}},
		[]core.TopicPermissionInfo{{User: "u", Vhost: "/", Exchange: "wt", Write: "^{username}\\.", Read: "^in\\."}})
}

func enter(t *testing.T, r *Registry) *Access {
	t.Helper()
	a, ok := r.Enter("u", "/", nil)
	if !ok {
		t.Fatal("u may not enter")
	}
	return a
}

func TestPermissionsAreJudgedInRabbitMQsWords(t *testing.T) {
	a := enter(t, registry(1))
	for _, c := range []struct {
		op         Operation
		kind, name string
		refusal    string
	}{
		{Configure, Queue, "c1", ""}, {Write, Exchange, "w", ""}, {Read, Queue, "r", ""}, {Write, Exchange, "", ""},
		{Any, Queue, "r", ""}, {Any, Queue, "w", ""}, {Any, Queue, "c", ""},
		{Any, Queue, "x", "configure access to queue 'x' in vhost '/' refused for user 'u'"},
		{Read, Queue, "c1", "read access to queue 'c1' in vhost '/' refused for user 'u'"},
		{Write, Exchange, "r", "write access to exchange 'r' in vhost '/' refused for user 'u'"},
		{Configure, Exchange, "", "configure access to exchange 'amq.default' in vhost '/' refused for user 'u'"},
	} {
		for range 2 { // judged, and remembered
			if got := a.May(c.op, c.kind, c.name); got != c.refusal {
				t.Errorf("%s %s %q: %q, want %q", c.op, c.kind, c.name, got, c.refusal)
			}
		}
	}
}

func TestPublishesAreJudgedByExchangeAndTopic(t *testing.T) {
	a := enter(t, registry(1))
	for _, c := range []struct{ exchange, key, refusal string }{
		{"w", "any", ""}, {"", "q", ""}, {"wt", "u.x", ""}, {"w", "any", ""},
		{"wt", "v.x", "write access to topic 'v.x' in exchange 'wt' in vhost '/' refused for user 'u'"},
		{"r", "k", "write access to exchange 'r' in vhost '/' refused for user 'u'"},
	} {
		if got, _ := a.MayPublish([]byte(c.exchange), []byte(c.key)); got != c.refusal {
			t.Errorf("%s %s: %q, want %q", c.exchange, c.key, got, c.refusal)
		}
	}
	if got := a.MayTopic(Read, "wt", "out.x"); got == "" || a.MayTopic(Read, "wt", "in.x") != "" || a.MayTopic(Read, "w", "out.x") != "" {
		t.Errorf("topic permission for binding: %q", got)
	}
}

func TestTopicPermissionsCountForTopicExchangesOnly(t *testing.T) {
	r := registry(1)
	topics := map[string]bool{}
	a, _ := r.Enter("u", "/", func(exchange string) bool { return topics[exchange] })
	for _, is := range []bool{false, true, false} { // deleted, and declared anew with another type
		topics["wt"] = is
		refused, _ := a.MayPublish([]byte("wt"), []byte("v.x"))
		if binding := a.MayTopic(Read, "wt", "out.x"); (refused != "") != is || (binding != "") != is {
			t.Errorf("topic exchange %t: publish %q, binding %q", is, refused, binding)
		}
	}
}

func TestMetacharactersOfAUsersNameAreQuotedInTopicPatterns(t *testing.T) {
	r := NewRegistry()
	r.Update(1, []core.UserInfo{{Name: ".*"}}, []core.PermissionInfo{{User: ".*", Vhost: "/", Write: ".*"}},
		[]core.TopicPermissionInfo{{User: ".*", Vhost: "/", Exchange: "x", Write: "^{username}$"}})
	a, _ := r.Enter(".*", "/", nil)
	if a.MayTopic(Write, "x", "abc") == "" || a.MayTopic(Write, "x", ".*") != "" {
		t.Error("the name counts as a pattern")
	}
}

func TestAChangeOfTheRegistryCountsForTheNextDecision(t *testing.T) {
	r := registry(1)
	a := enter(t, r)
	if text, _ := a.MayPublish([]byte("w"), nil); text != "" || a.May(Read, Queue, "r") != "" || a.StillReads("r") != "" {
		t.Fatal("refused at first")
	}
	update(r, 2, func(p *core.PermissionInfo) { p.Write, p.Read = "", "" })
	if text, _ := a.MayPublish([]byte("w"), nil); text == "" || a.May(Read, Queue, "r") == "" || a.StillReads("r") == "" {
		t.Error("what was taken away is allowed")
	}
	if a.Standing() != Stands || r.Generation() != 2 {
		t.Errorf("standing %v, generation %d", a.Standing(), r.Generation())
	}
}

func TestStandingFollowsUserAndVhost(t *testing.T) {
	r := registry(1)
	a := enter(t, r)
	u, p := core.UserInfo{Name: "u", Created: 1}, core.PermissionInfo{User: "u", Vhost: "/", Read: ".*"}
	r.Update(2, []core.UserInfo{u}, nil, nil)
	if a.Standing() != Outside || a.May(Read, Queue, "r") == "" {
		t.Error("without a permission in the vhost it goes on")
	}
	u.Created = 9
	r.Update(3, []core.UserInfo{u}, []core.PermissionInfo{p}, nil)
	if a.Standing() != Gone || a.May(Read, Queue, "r") == "" {
		t.Error("the user of the same name made later inherits it")
	}
	r.Update(4, nil, nil, nil)
	if a.Standing() != Gone {
		t.Error("without a user it goes on")
	}
}

func TestOnlyThosePermittedEnterAVhost(t *testing.T) {
	r := registry(1)
	for _, c := range [][2]string{{"u", "other"}, {"guest", "/"}, {"nobody", "/"}} {
		if _, ok := r.Enter(c[0], c[1], nil); ok || r.MayEnter(c[0], c[1]) {
			t.Errorf("%s enters %s", c[0], c[1])
		}
	}
	if g, _ := r.User("guest"); !g.LoopbackOnly {
		t.Error("guest is not for loopback only")
	}
	if r.Limits("u") != (Limits{3, -1}) || r.Limits("nobody") != (Limits{-1, -1}) {
		t.Error("limits are not as given")
	}
}

func TestPatternsAreBoundedAndLinear(t *testing.T) {
	for _, bad := range []string{"(", "(?!x)", `(a)\1`, strings.Repeat("x", PatternBytesMax+1)} {
		if CheckPattern(bad) == nil {
			t.Errorf("%.20q is taken", bad)
		}
	}
	if err := CheckPattern("^(a+)+$"); err != nil {
		t.Error(err)
	}
	a := enter(t, registry(1, func(p *core.PermissionInfo) { p.Read = "^(a+)+$" }))
	if a.May(Read, Queue, strings.Repeat("a", 250)+"!") == "" {
		t.Error("it matches")
	}
}

func TestDecisionsAreBounded(t *testing.T) {
	a := enter(t, registry(1))
	for i := range 3 * decidedMax {
		a.May(Read, Queue, strings.Repeat("r", i%7)+string(rune('0'+i)))
	}
	if len(a.decided) > decidedMax {
		t.Errorf("%d are remembered", len(a.decided))
	}
}

func TestAPublishAllocatesNothing(t *testing.T) {
	a := enter(t, registry(1))
	w, wt, key := []byte("w"), []byte("wt"), []byte("u.k")
	for name, exchange := range map[string][]byte{"plain": w, "topic": wt} {
		if n := testing.AllocsPerRun(100, func() { a.MayPublish(exchange, key) }); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

func BenchmarkMayPublish(b *testing.B) {
	a, _ := registry(1).Enter("u", "/", nil)
	exchange, key := []byte("w"), []byte("k")
	for b.Loop() {
		a.MayPublish(exchange, key)
	}
}
