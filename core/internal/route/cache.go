package route

// Bounds of the cache. Keys are routing keys of at most 255 bytes, so that the first bounds its memory too (4 MiB).
const (
	cacheKeysMax = 16384
	cacheIDsMax  = 1 << 20 / 4 // 1 MiB of them
)

// span is a result: ids[from:to] of the cache.
type span struct{ from, to int }

// cache remembers results by exchange and routing key; any change of a binding drops all of it. Results that depend on
// headers never enter.
type cache struct {
	ids  []uint32
	keys int
	warm []*exchange // those that have anything cached
}

func (c *cache) get(x *exchange, key []byte) ([]uint32, bool) {
	s, ok := x.whole, x.hasAll
	if !ok {
		s, ok = x.cached[string(key)]
	}
	return c.ids[s.from:s.to], ok
}

// put remembers a result, for every key if it did not depend on it. The cache is emptied first where it is full.
func (c *cache) put(x *exchange, key []byte, byKey bool, ids []uint32) {
	if len(ids) > cacheIDsMax {
		return
	}
	if c.keys == cacheKeysMax || len(c.ids)+len(ids) > cacheIDsMax {
		c.drop()
	}
	s := span{len(c.ids), len(c.ids) + len(ids)}
	c.ids = append(c.ids, ids...)
	c.keys++
	if !x.warm {
		x.warm = true
		c.warm = append(c.warm, x)
	}
	if !byKey {
		x.whole, x.hasAll = s, true
		return
	}
	if x.cached == nil {
		x.cached = make(map[string]span)
	}
	x.cached[string(key)] = s
}

// drop forgets everything.
func (c *cache) drop() {
	for _, x := range c.warm {
		x.cached, x.hasAll, x.warm = nil, false, false
	}
	clear(c.warm)
	c.warm, c.ids, c.keys = c.warm[:0], c.ids[:0], 0
}
