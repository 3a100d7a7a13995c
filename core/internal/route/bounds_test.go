package route

import (
	"encoding/binary"
	"strconv"
	"testing"
)

func TestCacheIsBoundedInKeysAndIDs(t *testing.T) {
	r := New()
	for _, name := range []string{"few", "many"} {
		r.Declare(name, Topic)
	}
	must(t, r.Bind("few", Dest{Queue: 1}, "#", nil))
	const wide = 1000
	for id := range uint32(wide) {
		must(t, r.Bind("many", Dest{Queue: id}, "#", nil))
	}
	for _, name := range []string{"few", "many"} {
		out := []uint32{}
		for i := range 2*cacheKeysMax + 100 {
			out = r.Route([]byte(name), binary.BigEndian.AppendUint32(nil, uint32(i)), nil, out[:0])
			if len(out) == 0 || out[len(out)-1] != out[0]+uint32(len(out))-1 {
				t.Fatalf("%s, key %d: %d ids", name, i, len(out))
			}
			kept := 0
			for _, x := range r.cache.warm {
				kept += len(x.cached)
			}
			if kept != r.cache.keys || kept > cacheKeysMax || len(r.cache.ids) > cacheIDsMax {
				t.Fatalf("%s, key %d: %d keys (%d counted), %d ids", name, i, kept, r.cache.keys, len(r.cache.ids))
			}
		}
	}
}

func TestAResultWiderThanTheCacheIsNotKept(t *testing.T) {
	r := New()
	r.Declare("f", Fanout)
	for id := range uint32(cacheIDsMax + 1) {
		must(t, r.Bind("f", Dest{Queue: id}, "", nil))
	}
	for range 2 {
		if got := len(r.Route([]byte("f"), nil, nil, nil)); got != cacheIDsMax+1 {
			t.Fatalf("%d ids", got)
		}
	}
	if r.cache.keys != 0 {
		t.Error("it was kept")
	}
}

func TestFanoutIsCachedOnceForAllKeys(t *testing.T) {
	r := New()
	r.Declare("f", Fanout)
	r.Declare("g", Fanout)
	must(t, r.Bind("f", Dest{Exchange: "g"}, "", nil))
	must(t, r.Bind("g", Dest{Queue: 1}, "", nil))
	for i := range 100 {
		if got := r.Route([]byte("f"), strconv.AppendInt(nil, int64(i), 10), nil, nil); len(got) != 1 {
			t.Fatalf("got %v", got)
		}
	}
	if r.cache.keys != 1 {
		t.Errorf("%d keys", r.cache.keys)
	}
}

func TestKeysThatLeadNowhereLeaveTheCacheOfADirectExchangeAlone(t *testing.T) {
	r := New()
	r.Declare("d", Direct)
	must(t, r.Bind("d", Dest{Queue: 1}, "k", nil))
	for i := range 100 {
		r.Route([]byte("d"), strconv.AppendInt(nil, int64(i), 10), nil, nil)
	}
	r.Route([]byte("d"), []byte("k"), nil, nil)
	if r.cache.keys != 0 {
		t.Errorf("%d keys", r.cache.keys)
	}
}

func TestUnbindingEverythingLeavesNothing(t *testing.T) {
	r := New()
	patterns := []string{"", "#", "a.b.c", "a.#.c", "a.*", "#.#.*", "a.b.*.#", ".", "a"}
	for _, name := range []string{"t", "d", "f"} {
		kind := map[string]Kind{"t": Topic, "d": Direct, "f": Fanout}[name]
		r.Declare(name, kind)
		for id, p := range patterns {
			must(t, r.Bind(name, Dest{Queue: uint32(id)}, p, nil))
			must(t, r.Bind(name, Dest{Queue: 99}, p, nil))
		}
		for id, p := range patterns {
			r.Unbind(name, Dest{Queue: 99}, p, nil)
			r.Unbind(name, Dest{Queue: uint32(id)}, p, nil)
		}
		x := r.exchanges[name]
		if n := &x.words; len(n.words) != 0 || n.star != nil || n.hash != nil || len(n.bucket.list) != 0 {
			t.Errorf("%s: the trie is %+v", name, n)
		}
		if len(x.index) != 0 || len(x.keys) != 0 || len(x.all.list) != 0 {
			t.Errorf("%s: %d bindings, %d keys, %d for all", name, len(x.index), len(x.keys), len(x.all.list))
		}
	}
}

func TestHostileTopicMatchingIsBoundedByPatternTimesKey(t *testing.T) {
	pattern, key := "#", ""
	for range 63 {
		pattern += ".a.#"
	}
	for range 127 {
		key += "a."
	}
	var root node
	root.insert(pattern).bucket.add(new(binding))
	var w topicWalk
	w.match(&root, []byte(key))
	if most := 127; len(w.here) > most || cap(w.next) > 2*most {
		t.Errorf("%d places at once, of %d in the trie", len(w.here), most)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
