package route_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/understudy-mq/understudy/core/internal/route"
	"github.com/understudy-mq/understudy/core/message"
)

// model is the router in the slow and obvious way: a list of bindings that is searched.
type model struct {
	kinds    map[string]route.Kind
	bindings []modelBinding
}

type modelBinding struct {
	source string
	dest   route.Dest
	key    string
	args   message.Table
}

func (b *modelBinding) same(o *modelBinding) bool {
	return b.source == o.source && b.dest == o.dest && b.key == o.key && fmt.Sprint(sorted(b.args)) == fmt.Sprint(sorted(o.args))
}

func sorted(args message.Table) message.Table {
	args = slices.Clone(args)
	slices.SortFunc(args, func(a, b message.Field) int { return strings.Compare(a.Key, b.Key) })
	return args
}

func (m *model) bind(b modelBinding) {
	m.unbind(b)
	m.bindings = append(m.bindings, b)
}

func (m *model) unbind(b modelBinding) {
	m.bindings = slices.DeleteFunc(m.bindings, func(o modelBinding) bool { return o.same(&b) })
}

func (m *model) delete(name string) {
	delete(m.kinds, name)
	m.bindings = slices.DeleteFunc(m.bindings, func(o modelBinding) bool { return o.source == name || o.dest.Exchange == name })
}

func (m *model) route(exchange string, headers message.Table, keys ...string) []uint32 {
	seen := map[string]bool{}
	var ids []uint32
	var visit func(name string)
	visit = func(name string) {
		if seen[name] {
			return
		}
		seen[name] = true
		for _, b := range m.bindings {
			if b.source != name || !slices.ContainsFunc(keys, func(key string) bool { return m.matches(&b, key, headers) }) {
				continue
			}
			if b.dest.Exchange != "" {
				visit(b.dest.Exchange)
			} else {
				ids = append(ids, b.dest.Queue)
			}
		}
	}
	visit(exchange)
	slices.Sort(ids)
	return slices.Compact(ids)
}

func (m *model) matches(b *modelBinding, key string, headers message.Table) bool {
	switch m.kinds[b.source] {
	case route.Fanout:
		return true
	case route.Topic:
		return slowTopic(topicWords(b.key), topicWords(key))
	case route.Headers:
		return slowHeaders(b.args, headers)
	}
	return b.key == key
}

func topicWords(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(s, ".")
}

func slowTopic(pattern, words []string) bool {
	if len(pattern) == 0 {
		return len(words) == 0
	}
	if pattern[0] == "#" {
		return slowTopic(pattern[1:], words) || len(words) > 0 && slowTopic(pattern, words[1:])
	}
	return len(words) > 0 && (pattern[0] == "*" || pattern[0] == words[0]) && slowTopic(pattern[1:], words[1:])
}

// slowHeaders knows only values that are told apart by their printed form.
func slowHeaders(args, headers message.Table) bool {
	kind := "all"
	if v, ok := args.Get("x-match"); ok {
		kind = v.(string)
	}
	var asked, met int
	for _, f := range args {
		if f.Key == "x-match" || strings.HasPrefix(f.Key, "x-") && !strings.HasSuffix(kind, "-with-x") {
			continue
		}
		asked++
		if v, ok := headers.Get(f.Key); ok && (f.Value == nil || fmt.Sprint(v) == fmt.Sprint(f.Value)) {
			met++
		}
	}
	if strings.HasPrefix(kind, "any") {
		return met > 0
	}
	return met == asked
}

var (
	exchangeNames = []string{"d1", "d2", "f1", "f2", "t1", "t2", "h1", "h2"}
	keyGen        = rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", ""}), 0, 5).Draw(t, "words"), ".")
	})
	patternGen = rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "", "*", "#", "#"}), 0, 6).Draw(t, "pattern"), ".")
	})
	headersGen = rapid.Custom(func(t *rapid.T) message.Table {
		var table message.Table
		for _, key := range []string{"a", "b", "x-c"} {
			if v := rapid.IntRange(-1, 2).Draw(t, key); v == 0 {
				table = append(table, message.Field{Key: key})
			} else if v > 0 {
				table = append(table, message.Field{Key: key, Value: int32(v)})
			}
		}
		return table
	})
	argsGen = rapid.Custom(func(t *rapid.T) message.Table {
		table := headersGen.Draw(t, "fields")
		if kind := rapid.SampledFrom([]string{"", "all", "any", "all-with-x", "any-with-x"}).Draw(t, "x-match"); kind != "" {
			at := rapid.IntRange(0, len(table)).Draw(t, "place")
			table = slices.Insert(table, at, message.Field{Key: "x-match", Value: kind})
		}
		return table
	})
)

func kindOf(name string) route.Kind {
	return map[byte]route.Kind{'d': route.Direct, 'f': route.Fanout, 't': route.Topic, 'h': route.Headers}[name[0]]
}

func drawBinding(t *rapid.T, m *model) (modelBinding, bool) {
	b := modelBinding{
		source: rapid.SampledFrom(exchangeNames).Draw(t, "source"),
		key:    patternGen.Draw(t, "key"),
		args:   argsGen.Draw(t, "args"),
	}
	if rapid.IntRange(0, 3).Draw(t, "to exchange") == 0 {
		b.dest.Exchange = rapid.SampledFrom(exchangeNames).Draw(t, "destination")
	} else {
		b.dest.Queue = rapid.Uint32Range(1, 6).Draw(t, "queue")
	}
	_, source := m.kinds[b.source]
	_, destination := m.kinds[b.dest.Exchange]
	return b, source && (destination || b.dest.Exchange == "")
}

func TestRouterAgreesWithTheModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, r := &model{kinds: map[string]route.Kind{}}, route.New()
		for _, name := range exchangeNames {
			m.kinds[name] = kindOf(name)
			r.Declare(name, kindOf(name))
		}
		t.Repeat(map[string]func(*rapid.T){
			"bind": func(t *rapid.T) {
				b, ok := drawBinding(t, m)
				if err := r.Bind(b.source, b.dest, b.key, b.args); (err == nil) != ok {
					t.Fatalf("bind %+v: %v", b, err)
				}
				if ok {
					m.bind(b)
				}
			},
			"unbind": func(t *rapid.T) {
				if len(m.bindings) == 0 {
					return
				}
				b := rapid.SampledFrom(m.bindings).Draw(t, "binding")
				m.unbind(b)
				r.Unbind(b.source, b.dest, b.key, b.args)
			},
			"delete and declare": func(t *rapid.T) {
				name := rapid.SampledFrom(exchangeNames).Draw(t, "exchange")
				if _, ok := m.kinds[name]; ok {
					m.delete(name)
					r.Delete(name)
				} else {
					m.kinds[name] = kindOf(name)
					r.Declare(name, kindOf(name))
				}
			},
			"": func(t *rapid.T) {
				headers := headersGen.Draw(t, "headers")
				keys := rapid.SliceOfN(keyGen, 2, 2).Draw(t, "routing keys")
				for _, key := range append(keys, keys...) { // the second time may come from the cache
					for _, name := range exchangeNames {
						want := m.route(name, headers, key)
						got := r.Route([]byte(name), []byte(key), func() message.Table { return headers }, nil)
						if !slices.Equal(got, want) {
							t.Fatalf("route %s %q %v: got %v, want %v", name, key, headers, got, want)
						}
					}
				}
				for _, name := range exchangeNames {
					want := m.route(name, headers, keys...)
					got := r.RouteAll([]byte(name), [][]byte{[]byte(keys[0]), []byte(keys[1])}, func() message.Table { return headers }, nil)
					if !slices.Equal(got, want) {
						t.Fatalf("route %s %q %v: got %v, want %v", name, keys, headers, got, want)
					}
				}
			},
		})
	})
}

func TestResultsDoNotDependOnTheOrderOfBinds(t *testing.T) {
	binds := make([]modelBinding, 200)
	for i := range binds {
		binds[i] = modelBinding{source: "t1", dest: route.Dest{Queue: uint32(i*7919%200 + 1)}, key: "#"}
	}
	var first []uint32
	for seed := range uint64(5) {
		r := route.New()
		r.Declare("t1", route.Topic)
		rand.New(rand.NewPCG(seed, 0)).Shuffle(len(binds), func(i, j int) { binds[i], binds[j] = binds[j], binds[i] })
		for _, b := range binds {
			if err := r.Bind(b.source, b.dest, b.key, nil); err != nil {
				t.Fatal(err)
			}
		}
		got := r.Route([]byte("t1"), []byte("k"), nil, nil)
		if first == nil {
			first = got
		}
		if len(got) != len(binds) || !slices.Equal(got, first) {
			t.Fatalf("seed %d: %v, at first %v", seed, got, first)
		}
	}
}

func FuzzTopic(f *testing.F) {
	f.Add("a.*.c.#", "a.b.c")
	f.Add("#", "")
	f.Add("#.#.*.#", "a.")
	f.Add(strings.Repeat("*.#.", 60)+"a", strings.Repeat("a.", 100))
	f.Fuzz(func(t *testing.T, pattern, key string) {
		if len(pattern) > 255 || len(key) > 255 {
			return
		}
		r := route.New()
		r.Declare("t", route.Topic)
		if err := r.Bind("t", route.Dest{Queue: 1}, pattern, nil); err != nil {
			t.Fatal(err)
		}
		got := len(r.Route([]byte("t"), []byte(key), nil, nil)) == 1
		if want := tableTopic(topicWords(pattern), topicWords(key)); got != want {
			t.Fatalf("%q matches %q: %v, want %v", pattern, key, got, want)
		}
		r.Unbind("t", route.Dest{Queue: 1}, pattern, nil)
		if ids := r.Route([]byte("t"), []byte(key), nil, nil); len(ids) != 0 {
			t.Fatalf("unbound, yet %v", ids)
		}
	})
}

// tableTopic is slowTopic with a table of what is known, for patterns that would take it for ever.
func tableTopic(pattern, words []string) bool {
	next := make([]bool, len(words)+1)
	next[len(words)] = true
	for p := len(pattern) - 1; p >= 0; p-- {
		here := make([]bool, len(words)+1)
		for w := len(words); w >= 0; w-- {
			switch more := w < len(words); pattern[p] {
			case "#":
				here[w] = next[w] || more && here[w+1]
			case "*":
				here[w] = more && next[w+1]
			default:
				here[w] = more && words[w] == pattern[p] && next[w+1]
			}
		}
		next = here
	}
	return next[0]
}
