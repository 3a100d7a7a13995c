package route

// ident tells a binding of an exchange from its others.
type ident struct {
	dest Dest
	key  string
	args string
}

// binding is one way out of an exchange.
type binding struct {
	queue  uint32
	to     *exchange // the destination where it is an exchange, else nil
	match  *match    // what a headers exchange asks for
	at     *bucket   // where it is kept, and
	slot   int       // its place there
	point  uint64    // where it lies for a hashing exchange, and
	weight int       // how many times
}

// bucket holds bindings that match together, in no particular order (results are sorted).
type bucket struct{ list []*binding }

func (u *bucket) add(b *binding) {
	b.at, b.slot = u, len(u.list)
	u.list = append(u.list, b)
}

// remove takes time that does not grow with the bucket: a fanout exchange may have very many bindings.
func (u *bucket) remove(b *binding) {
	last := len(u.list) - 1
	u.list[b.slot] = u.list[last]
	u.list[b.slot].slot = b.slot
	u.list[last] = nil
	u.list = u.list[:last]
}

// exchange holds the bindings of which it is the source.
type exchange struct {
	kind                  Kind
	alternate, hashHeader string
	gone                  bool   // deleted; bindings of others may still lead here
	round                 uint64 // the last walk that came by
	index                 map[ident]*binding
	keys                  map[string]*bucket // direct
	all                   bucket             // fanout, headers
	words                 node               // topic

	cached map[string]span // by routing key
	whole  span            // for every routing key, if hasAll
	hasAll bool
	warm   bool // has anything cached
}

func newExchange(kind Kind) *exchange {
	return &exchange{kind: kind, index: make(map[ident]*binding), keys: make(map[string]*bucket)}
}

// bind adds b unless it is there; it says whether it did.
func (x *exchange) bind(id ident, b *binding) bool {
	if old := x.index[id]; old != nil {
		if old.to == b.to {
			return false
		}
		x.unbind(id) // it led to an exchange of that name that was deleted
	}
	x.index[id] = b
	switch x.kind {
	case Direct:
		at := x.keys[id.key]
		if at == nil {
			at = new(bucket)
			x.keys[id.key] = at
		}
		at.add(b)
	case Topic:
		x.words.insert(id.key).bucket.add(b)
	default:
		x.all.add(b)
	}
	return true
}

// unbind removes a binding; it says whether it was there.
func (x *exchange) unbind(id ident) bool {
	b := x.index[id]
	if b == nil {
		return false
	}
	delete(x.index, id)
	b.at.remove(b)
	if len(b.at.list) > 0 {
		return true
	}
	switch x.kind {
	case Direct:
		delete(x.keys, id.key)
	case Topic:
		x.words.insert(id.key).prune()
	}
	return true
}
