package route

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/understudy-mq/understudy/core/message"
)

// ErrMatch says that a headers binding's x-match is none of all, any, all-with-x and any-with-x; it is wrapped with what
// it is.
var ErrMatch = errors.New("invalid x-match field")

// ErrWeight says that the key of a binding of a consistent hash exchange is no number from 1 to WeightMax.
var ErrWeight = errors.New("invalid weight")

// ErrExchange says that Bind names an exchange that is not declared.
var ErrExchange = errors.New("no such exchange")

// Kind is an exchange type.
type Kind uint8

// The exchange types.
const (
	Direct Kind = iota + 1
	Fanout
	Topic
	Headers
	ConsistentHash // one destination per routing key, or value of a header; a binding's key is its weight
	Random         // one destination per message
	ModulusHash    // as ConsistentHash, all weights being 1
)

var kindNames = [...]string{Direct: "direct", Fanout: "fanout", Topic: "topic", Headers: "headers",
	ConsistentHash: "x-consistent-hash", Random: "x-random", ModulusHash: "x-modulus-hash"}

// String is what clients call the kind.
func (k Kind) String() string { return kindNames[k] }

// ParseKind answers the kind that a client calls s.
func ParseKind(s string) (Kind, bool) {
	at := slices.Index(kindNames[Direct:], s)
	return Direct + Kind(at), at >= 0
}

// Dest is where a binding leads: another exchange, or where Exchange is empty the queue with id Queue.
type Dest struct {
	Exchange string
	Queue    uint32
}

// Router is a vhost's routing table.
type Router struct {
	exchanges map[string]*exchange
	names     map[string]uint32 // the default exchange
	cache     cache
	walk      walk
}

// New makes an empty table; only the default exchange "" is there.
func New() *Router {
	return &Router{exchanges: make(map[string]*exchange), names: make(map[string]uint32)}
}

// Declare adds an exchange. One that exists is left as it is.
func (r *Router) Declare(name string, kind Kind) {
	if r.exchanges[name] == nil {
		r.exchanges[name] = newExchange(kind)
		r.cache.drop() // it may be somebody's alternate
	}
}

// Configure says where what exchange name routes nowhere goes, "" for nowhere, and which header's value a hashing exchange
// looks at, "" for the routing key.
func (r *Router) Configure(name, alternate, hashHeader string) {
	if x := r.exchanges[name]; x != nil && (x.alternate != alternate || x.hashHeader != hashHeader) {
		x.alternate, x.hashHeader = alternate, hashHeader
		r.cache.drop()
	}
}

// Seed gives the next Route its number to choose by, for exchanges that choose at random.
func (r *Router) Seed(n uint64) { r.walk.seed = n }

// Delete removes an exchange and the bindings from it. Bindings to it lead nowhere from now on, also if its name is
// declared again; Unbind forgets them.
func (r *Router) Delete(name string) {
	if x := r.exchanges[name]; x != nil {
		x.gone = true
		delete(r.exchanges, name)
		r.cache.drop()
	}
}

// Name maps a routing key of the default exchange to a queue.
func (r *Router) Name(queue string, id uint32) { r.names[queue] = id }

// Unname undoes Name. Bindings to the queue are the caller's to undo.
func (r *Router) Unname(queue string) { delete(r.names, queue) }

// Bind binds d to source. A binding is told from others by destination, key and Identity(args); repeating one does
// nothing. Errors: ErrMatch (headers exchanges only), ErrWeight (consistent hash exchanges only), ErrExchange where source or the destination exchange is not declared.
func (r *Router) Bind(source string, d Dest, key string, args message.Table) error {
	x := r.exchanges[source]
	if x == nil {
		return fmt.Errorf("%w: source '%s'", ErrExchange, source)
	}
	b := &binding{queue: d.Queue}
	if d.Exchange != "" {
		if b.to = r.exchanges[d.Exchange]; b.to == nil {
			return fmt.Errorf("%w: destination '%s'", ErrExchange, d.Exchange)
		}
	}
	if x.kind == Headers {
		match, err := parseMatch(args)
		if err != nil {
			return err
		}
		b.match = match
	}
	if b.weight = 1; x.kind == ConsistentHash {
		weight, err := parseWeight(key)
		if err != nil {
			return err
		}
		b.weight = weight
	}
	b.point = pointOf(d)
	if x.bind(ident{d, key, Identity(args)}, b) {
		r.cache.drop()
	}
	return nil
}

// Unbind undoes Bind with the same arguments; a binding that is not there is no error.
func (r *Router) Unbind(source string, d Dest, key string, args message.Table) {
	if x := r.exchanges[source]; x != nil && x.unbind(ident{d, key, Identity(args)}) {
		r.cache.drop()
	}
}

// Identity is the part of args that tells bindings apart: equal for the same fields in any order, as RabbitMQ has it. Of
// fields with one key the first counts.
func Identity(args message.Table) string {
	if len(args) == 0 {
		return ""
	}
	sorted := slices.Clone(args)
	slices.SortStableFunc(sorted, func(a, b message.Field) int { return strings.Compare(a.Key, b.Key) })
	sorted = slices.CompactFunc(sorted, func(a, b message.Field) bool { return a.Key == b.Key })
	return string(message.AppendTable(nil, sorted))
}

// Route appends to out the ids of the queues that a message to exchange with key goes to: each once, ascending. An exchange
// that is not declared leads nowhere. headers is called at most once, and only if a headers exchange is on the way; nil means
// that there are none.
func (r *Router) Route(exchange, key []byte, headers func() message.Table, out []uint32) []uint32 {
	if len(exchange) == 0 {
		if id, ok := r.names[string(key)]; ok {
			return append(out, id)
		}
		return out
	}
	x := r.exchanges[string(exchange)]
	if x == nil {
		return out
	}
	if x.kind == Direct && x.alternate == "" {
		// Not worth a place in the cache: keys made up per message would push out what is.
		if at := x.keys[string(key)]; at == nil {
			return out
		} else if len(at.list) == 1 && at.list[0].to == nil {
			return append(out, at.list[0].queue)
		}
	}
	if ids, ok := r.cache.get(x, key); ok {
		return append(out, ids...)
	}
	start := len(out)
	r.walk.keys = append(r.walk.keys[:0], key)
	out = r.search(x, headers, out)
	if !r.walk.byHeaders && !r.walk.byChance {
		r.cache.put(x, key, r.walk.byKey, out[start:])
	}
	return out
}

// RouteAll is Route for a message that has several keys, one at least. Every exchange on the way looks at all of them, and its
// alternate gets what none of them leads on from it; an exchange that goes by a key's hash goes by the first one's.
func (r *Router) RouteAll(exchange []byte, keys [][]byte, headers func() message.Table, out []uint32) []uint32 {
	if len(exchange) > 0 {
		x := r.exchanges[string(exchange)]
		if x == nil {
			return out
		}
		r.walk.keys = append(r.walk.keys[:0], keys...)
		return r.search(x, headers, out)
	}
	start := len(out)
	for _, key := range keys {
		out = r.Route(nil, key, nil, out)
	}
	return compact(out, start)
}

// search walks from x by the walk's keys, past the cache.
func (r *Router) search(x *exchange, headers func() message.Table, out []uint32) []uint32 {
	start := len(out)
	r.walk.exchanges = r.exchanges
	return compact(r.walk.run(x, headers, out), start)
}

// compact sorts ids from start on, and leaves each once.
func compact(ids []uint32, start int) []uint32 {
	slices.Sort(ids[start:])
	return ids[:start+len(slices.Compact(ids[start:]))]
}
