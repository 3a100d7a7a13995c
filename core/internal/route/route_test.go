package route_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/understudy-mq/understudy/core/internal/route"
	"github.com/understudy-mq/understudy/core/message"
)

// tab makes a table of keys and values in turn.
func tab(pairs ...any) message.Table {
	var t message.Table
	for i := 0; i < len(pairs); i += 2 {
		t = append(t, message.Field{Key: pairs[i].(string), Value: pairs[i+1]})
	}
	return t
}

// fixture is a router with one exchange of each kind, named d, f, t and h.
type fixture struct {
	*route.Router
	t testing.TB
}

func newFixture(t testing.TB) fixture {
	r := route.New()
	for _, name := range []string{"direct", "fanout", "topic", "headers"} {
		kind, ok := route.ParseKind(name)
		if !ok {
			t.Fatalf("no kind %s", name)
		}
		r.Declare(name[:1], kind)
	}
	return fixture{r, t}
}

func (f fixture) bind(source string, d route.Dest, key string, pairs ...any) {
	f.t.Helper()
	if err := f.Bind(source, d, key, tab(pairs...)); err != nil {
		f.t.Fatal(err)
	}
}

func (f fixture) wants(exchange, key string, headers message.Table, want ...uint32) {
	f.t.Helper()
	for _, round := range []string{"at first", "again"} {
		got := f.Route([]byte(exchange), []byte(key), func() message.Table { return headers }, nil)
		if !slices.Equal(got, want) {
			f.t.Errorf("%s %q %v: got %v, want %v (%s)", exchange, key, headers, got, want, round)
		}
	}
}

func queue(id uint32) route.Dest   { return route.Dest{Queue: id} }
func other(name string) route.Dest { return route.Dest{Exchange: name} }

func TestUnknownKindIsRefused(t *testing.T) {
	if _, ok := route.ParseKind("x-delayed-message"); ok {
		t.Error("accepted")
	}
}

func TestDefaultExchangeRoutesByQueueName(t *testing.T) {
	f := newFixture(t)
	f.Name("q", 7)
	f.wants("", "q", nil, 7)
	f.Unname("q")
	f.wants("", "q", nil)
}

func TestUnknownExchangeRoutesNowhere(t *testing.T) { newFixture(t).wants("nope", "k", nil) }

func TestTopicPatterns(t *testing.T) {
	for _, c := range []struct {
		pattern       string
		match, others []string
	}{
		{"a.*.c.#", []string{"a.b.c", "a.b.c.d", "a.b.c.d.e", "a..c"}, []string{"a.b", "a.c", "a.b.x.c"}}, // A1
		{"a.#.b", []string{"a.b", "a.x.b", "a..b", "a.x.y.b", "a.b.b"}, []string{"ab", "a", "a.b.c"}},     // A2
		{"a.*.c", []string{"a.b.c"}, []string{"a.b.x.c", "a.c"}},                                          // A3
		{"#", []string{"", "a", ".", "a.b"}, nil},                                                         // A4
		{"x.#", []string{"x", "x.", "x.y"}, []string{"", "xy"}},                                           // A4
		{"", []string{""}, []string{"a", "."}},
		{"*", []string{"a"}, []string{"", ".", "a.b"}},
		{".", []string{"."}, []string{"", "a"}},
		{"*.#", []string{"a", ".", "a.b.c"}, []string{""}},
		{"#.*.#.*", []string{"a.b", "a.b.c"}, []string{"", "a"}},
		{"#.a.#.#", []string{"a", "b.a", "b.a.c.d"}, []string{"b", ""}},
		{"a#.*b", []string{"a#.*b"}, []string{"a.b", "ax.yb"}},
	} {
		f := newFixture(t)
		f.bind("t", queue(1), c.pattern)
		for _, key := range c.match {
			f.wants("t", key, nil, 1)
		}
		for _, key := range c.others {
			f.wants("t", key, nil)
		}
		f.Unbind("t", queue(1), c.pattern, nil)
		for _, key := range c.match {
			f.wants("t", key, nil)
		}
	}
}

func TestUnbindingOnePatternLeavesAnother(t *testing.T) {
	keys := map[string]string{"": "", "a": "a", "a.b": "a.b", "a.*": "a.x", "a.#": "a.x.y", "a.b.c": "a.b.c", "a.*.d": "a.x.d", "a.#.e": "a.x.y.e", "#": "z"}
	for gone := range keys {
		for stays, key := range keys {
			if gone == stays {
				continue
			}
			f := newFixture(t)
			f.bind("t", queue(1), gone)
			f.bind("t", queue(2), stays)
			f.Unbind("t", queue(1), gone, nil)
			f.wants("t", key, nil, 2)
		}
	}
}

func TestAFanoutThatLeadsToKeysIsNotCachedForAllKeys(t *testing.T) {
	for _, inner := range []string{"d", "t"} {
		f := newFixture(t)
		f.bind("f", other(inner), "")
		f.bind(inner, queue(1), "one")
		f.bind(inner, queue(2), "two")
		f.wants("f", "one", nil, 1)
		f.wants("f", "two", nil, 2)
		f.wants("f", "three", nil)
	}
}

func TestHeadersBindings(t *testing.T) {
	one := message.Table{{Key: "x-a", Value: int32(1)}}
	plain := message.Table{{Key: "a", Value: int32(1)}, {Key: "b", Value: "two"}}
	nested := message.Table{{Key: "n", Value: message.Table{{Key: "l", Value: []any{"s", int64(5), nil}}}}}
	for _, c := range []struct {
		name    string
		args    message.Table
		headers message.Table
		want    bool
	}{
		{"all of two", tab("x-match", "all", "a", int32(1), "b", "two"), plain, true},
		{"all is the default", tab("a", int32(1), "b", "three"), plain, false},
		{"any of two", tab("x-match", "any", "a", int32(9), "b", "two"), plain, true},
		{"any of none", tab("x-match", "any", "a", int32(9), "b", "three"), plain, false},
		{"any ignores x-", tab("x-match", "any", "x-a", int32(1)), one, false},
		{"all ignores x-", tab("x-match", "all", "x-a", int32(2)), one, true},
		{"any-with-x", tab("x-match", "any-with-x", "x-a", int32(1)), one, true},
		{"all-with-x", tab("x-match", "all-with-x", "x-a", int32(2)), one, false},
		{"x-match itself is no condition", tab("x-match", "all-with-x"), nil, true},
		{"no arguments match everything", nil, nil, true},
		{"any without a field matches nothing", tab("x-match", "any"), plain, false},
		{"void asks only for the key", tab("a", nil), plain, true},
		{"void asks for the key", tab("c", nil), plain, false},
		{"a void header is no value", tab("a", int32(1)), tab("a", nil), false},
		{"a void header is a key", tab("a", nil), tab("a", nil), true},
		{"widths of whole numbers", tab("a", int64(1)), plain, true},
		{"timestamp against number", tab("a", int8(1)), tab("a", message.Timestamp(1)), true},
		{"huge timestamp against a negative", tab("a", int64(-1)), tab("a", message.Timestamp(1<<64-1)), false},
		{"number against float", tab("a", float64(1)), plain, false},
		{"widths of floats", tab("a", float64(0.5)), tab("a", float32(0.5)), true},
		{"number against string", tab("a", "1"), plain, false},
		{"string against bytes", tab("b", []byte("two")), plain, true},
		{"bool", tab("a", true), tab("a", true), true},
		{"bool against number", tab("a", true), plain, false},
		{"decimal", tab("a", message.Decimal{Scale: 2, Value: 5}), tab("a", message.Decimal{Scale: 2, Value: 5}), true},
		{"nested", nested, nested, true}, // A6
		{"nested, other value", nested, tab("n", tab("l", []any{"s", int64(6), nil})), false},
		{"nested, other key", nested, tab("n", tab("m", []any{"s", int64(5), nil})), false},
		{"nested, shorter", nested, tab("n", tab("l", []any{"s", int64(5)})), false},
		{"nested, more fields", nested, tab("n", tab("l", nil, "m", nil)), false},
		{"nested against scalar", nested, tab("n", "l"), false},
	} {
		f := newFixture(t)
		if err := f.Bind("h", queue(1), "", c.args); err != nil {
			t.Fatal(err)
		}
		got := f.Route([]byte("h"), nil, func() message.Table { return c.headers }, nil)
		if (len(got) == 1) != c.want {
			t.Errorf("%s: binding %v, headers %v: %v, want %v", c.name, c.args, c.headers, got, c.want)
		}
	}
}

func TestManyHeadersMatchLikeFew(t *testing.T) {
	var headers message.Table
	for i := range 100 {
		headers = append(headers, tab(fmt.Sprint("k", i), int32(i))...)
	}
	headers = append(headers, tab("k7", int32(0))...) // of doubles the first counts
	f := newFixture(t)
	f.bind("h", queue(1), "", "k7", int32(7), "k99", nil)
	f.bind("h", queue(2), "", "k7", int32(0))
	f.wants("h", "", headers, 1)
}

func TestInvalidMatchKindIsRefusedAtBind(t *testing.T) { // A7
	f := newFixture(t)
	for _, v := range []any{"foo", "", "with-x", "all-with-x-with-x", int32(1), nil} {
		err := f.Bind("h", queue(1), "", tab("x-match", v))
		if !errors.Is(err, route.ErrMatch) {
			t.Errorf("%v: %v", v, err)
		}
	}
	f.wants("h", "", nil)
	f.bind("d", queue(1), "k", "x-match", "foo") // only headers exchanges look
}

func TestBindToUnknownExchangeIsRefused(t *testing.T) {
	f := newFixture(t)
	for _, err := range []error{f.Bind("nope", queue(1), "", nil), f.Bind("d", other("nope"), "", nil)} {
		if !errors.Is(err, route.ErrExchange) {
			t.Errorf("%v", err)
		}
	}
}

func TestEachQueueOnceHoweverManyPaths(t *testing.T) { // A10
	f := newFixture(t)
	for _, key := range []string{"k", "*", "#"} {
		f.bind("t", queue(5), key)
		f.bind("t", other("f"), key)
	}
	f.bind("f", queue(5), "")
	f.bind("f", queue(3), "")
	f.wants("t", "k", nil, 3, 5)
}

func TestCyclesOfExchangesEnd(t *testing.T) {
	f := newFixture(t)
	f.bind("f", other("t"), "")
	f.bind("t", other("f"), "#")
	f.bind("t", other("t"), "#")
	f.bind("t", queue(1), "#")
	f.wants("f", "k", nil, 1)
	f.wants("t", "k", nil, 1)
}

func TestBindingsDifferByArguments(t *testing.T) { // A12
	for _, exchange := range []string{"d", "f", "t"} {
		f := newFixture(t)
		f.bind(exchange, queue(1), "k")
		f.bind(exchange, queue(1), "k", "a", int32(1), "b", int32(2))
		f.bind(exchange, queue(1), "k", "b", int32(2), "a", int32(1)) // the same in another order
		f.Unbind(exchange, queue(1), "k", tab("c", nil))              // none such
		f.Unbind(exchange, queue(1), "k", nil)
		f.wants(exchange, "k", nil, 1)
		f.Unbind(exchange, queue(1), "k", tab("b", int32(2), "a", int32(1)))
		f.wants(exchange, "k", nil)
	}
}

func TestIdentityIsOfFieldsInAnyOrder(t *testing.T) {
	a := tab("a", int32(1), "b", nil, "a", int32(2))
	if route.Identity(a) != route.Identity(tab("b", nil, "a", int32(1))) {
		t.Error("order counts")
	}
	if a[0].Key != "a" || a[1].Key != "b" || a[2].Key != "a" {
		t.Error("the arguments were changed")
	}
	for _, o := range []message.Table{nil, tab("a", int32(1)), tab("a", int64(1), "b", nil), tab("a", int32(2), "b", nil)} {
		if route.Identity(a) == route.Identity(o) {
			t.Errorf("%v is the same as %v", a, o)
		}
	}
}

func TestDeletedExchangeIsGoneFromBothSides(t *testing.T) { // A14
	f := newFixture(t)
	f.bind("f", other("t"), "")
	f.bind("t", queue(1), "#")
	f.wants("f", "k", nil, 1)
	f.Delete("t")
	f.wants("f", "k", nil)
	f.wants("t", "k", nil)
	f.Declare("t", route.Fanout)
	f.bind("t", queue(2), "")
	f.wants("f", "k", nil)
	f.bind("f", other("t"), "")
	f.wants("f", "k", nil, 2)
}

func TestDeclareAgainKeepsTheExchange(t *testing.T) {
	f := newFixture(t)
	f.bind("d", queue(1), "k")
	f.Declare("d", route.Fanout)
	f.wants("d", "other", nil)
	f.wants("d", "k", nil, 1)
}

func TestEveryChangeShowsAtOnce(t *testing.T) {
	for _, exchange := range []string{"d", "f", "t"} {
		f := newFixture(t)
		f.wants(exchange, "k", nil)
		f.bind(exchange, queue(2), "k")
		f.wants(exchange, "k", nil, 2)
		f.bind(exchange, queue(1), "k")
		f.wants(exchange, "k", nil, 1, 2)
		f.bind(exchange, other("h"), "k")
		f.bind("h", queue(3), "", "a", nil)
		f.wants(exchange, "k", tab("a", nil), 1, 2, 3)
		f.wants(exchange, "k", nil, 1, 2)
		f.Unbind(exchange, queue(2), "k", nil)
		f.wants(exchange, "k", nil, 1)
		f.Delete(exchange)
		f.wants(exchange, "k", nil)
	}
}

func TestHeadersAreReadOnlyWhenAsked(t *testing.T) {
	f := newFixture(t)
	f.bind("f", other("t"), "")
	f.bind("t", queue(1), "#")
	f.Route([]byte("f"), nil, func() message.Table { t.Error("read"); return nil }, nil)
	f.bind("f", other("h"), "")
	f.bind("h", queue(2), "", "a", nil)
	f.Declare("h2", route.Headers)
	f.bind("f", other("h2"), "")
	reads := 0
	f.Route([]byte("f"), nil, func() message.Table { reads++; return nil }, nil)
	if reads != 1 {
		t.Errorf("read %d times", reads)
	}
	if got := f.Route([]byte("f"), nil, nil, []uint32{9}); !slices.Equal(got, []uint32{9, 1}) {
		t.Errorf("without headers: %v", got)
	}
}

func TestRouteAppendsBehindWhatIsThere(t *testing.T) {
	f := newFixture(t)
	f.bind("t", queue(2), "k")
	f.bind("t", queue(1), "k")
	for range 2 {
		if got := f.Route([]byte("t"), []byte("k"), nil, []uint32{9, 1}); !slices.Equal(got, []uint32{9, 1, 1, 2}) {
			t.Errorf("got %v", got)
		}
	}
}

func TestARepeatedRouteAllocatesNothing(t *testing.T) {
	f := newFixture(t)
	f.Name("q", 1)
	for id := range uint32(100) {
		for _, exchange := range []string{"d", "f", "t"} {
			f.bind(exchange, queue(id), "a.b")
		}
	}
	f.bind("d", queue(1), "one")
	out := make([]uint32, 0, 128)
	for _, c := range [][2]string{{"", "q"}, {"d", "a.b"}, {"d", "one"}, {"d", "none"}, {"f", "x"}, {"t", "a.b"}, {"t", "none"}} {
		exchange, key := []byte(c[0]), []byte(c[1])
		if n := testing.AllocsPerRun(50, func() { out = f.Route(exchange, key, nil, out[:0]) }); n != 0 {
			t.Errorf("%v: %v allocations", c, n)
		}
	}
}

// hostile are bindings and keys that send naive matchers into exponential or cubic time.
func hostile() map[string][2]string {
	return map[string][2]string{
		"#.#.#":   {strings.Repeat("#.", 127) + "#", strings.Repeat("a.", 127) + "a"},
		"#.a.#.a": {strings.Repeat("#.a.", 63) + "#", strings.Repeat("a.", 127) + "b"},
		"*.#.*.#": {strings.Repeat("*.#.", 63) + "*", strings.Repeat("a.", 127) + "a"},
		"dots":    {strings.Repeat("#.", 127) + "x", strings.Repeat(".", 255)},
	}
}

func TestHostilePatternsEnd(t *testing.T) { // a matcher that backtracks would not, in the life of the test
	for name, c := range hostile() {
		f := newFixture(t)
		f.bind("t", queue(1), c[0])
		want := tableTopic(topicWords(c[0]), topicWords(c[1]))
		if got := f.Route([]byte("t"), []byte(c[1]), nil, nil); (len(got) == 1) != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}

func BenchmarkCacheHit(b *testing.B) {
	f := newFixture(b)
	for id := range uint32(10) {
		f.bind("t", queue(id), "stock.*.nyse")
	}
	exchange, key, out := []byte("t"), []byte("stock.ibm.nyse"), make([]uint32, 0, 16)
	b.ReportAllocs()
	for b.Loop() {
		out = f.Route(exchange, key, nil, out[:0])
	}
}

func BenchmarkTenThousandTopicBindings(b *testing.B) {
	f := newFixture(b)
	for id := range uint32(10000) {
		f.bind("t", queue(id), fmt.Sprintf([]string{"a.%d.#", "a.*.%d", "#.%d", "*.%d.b"}[id%4], id))
	}
	exchange, key, out := []byte("t"), []byte("a.4000.x.00000000"), make([]uint32, 0, 16)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		copy(key[len(key)-8:], fmt.Appendf(nil, "%08d", i%1e8)) // a key that the cache does not have
		out = f.Route(exchange, key, nil, out[:0])
	}
}

func BenchmarkHostile(b *testing.B) {
	for name, c := range hostile() {
		b.Run(name, func(b *testing.B) {
			f := newFixture(b)
			f.bind("t", queue(1), c[0])
			for b.Loop() {
				f.bind("t", queue(2), "drops.the.cache")
				f.Unbind("t", queue(2), "drops.the.cache", nil)
				f.Route([]byte("t"), []byte(c[1]), nil, nil)
			}
		})
	}
}

func BenchmarkUnbindOneOfManyFanout(b *testing.B) {
	f := newFixture(b)
	for id := range uint32(100000) {
		f.bind("f", queue(id), "")
	}
	for i := uint32(0); b.Loop(); i++ {
		f.Unbind("f", queue(i%100000), "", nil)
		f.bind("f", queue(i%100000), "")
	}
}
