package route

import "github.com/understudy-mq/understudy/core/message"

// walk finds the queues of a message from scratch. Its slices are kept for the next one.
type walk struct {
	todo      []*exchange
	keys      [][]byte // the message's
	round     uint64
	topics    topicWalk
	headers   headers
	byKey     bool // the last run looked at the routing key,
	byHeaders bool // at the headers
	byChance  bool // at the seed
	found     bool // the exchange at hand leads somewhere
	seed      uint64
	exchanges map[string]*exchange
}

// run appends the ids that exchange first leads to by w.keys, in no order and maybe several times. Each exchange is visited
// once, so cycles end; it is left by whichever of the keys, not by the one alone that led to it.
func (w *walk) run(first *exchange, read func() message.Table, out []uint32) []uint32 {
	w.round++
	w.byKey, w.byHeaders, w.byChance = false, false, false
	w.headers = headers{read: read}
	first.round = w.round
	w.todo = append(w.todo[:0], first)
	for len(w.todo) > 0 {
		last := len(w.todo) - 1
		x := w.todo[last]
		w.todo = w.todo[:last]
		w.found = false
		out = w.leave(x, out)
		if other := w.exchanges[x.alternate]; !w.found && other != nil {
			w.visit(other)
		}
	}
	w.headers = headers{}
	clear(w.keys)
	return out
}

// leave takes all ways out of x that match.
func (w *walk) leave(x *exchange, out []uint32) []uint32 {
	switch x.kind {
	case Direct:
		w.byKey = true
		for _, key := range w.keys {
			if at := x.keys[string(key)]; at != nil {
				out = w.follow(at, out)
			}
		}
	case Topic:
		w.byKey = true
		for _, key := range w.keys {
			for _, n := range w.topics.match(&x.words, key) {
				out = w.follow(&n.bucket, out)
			}
		}
	case Headers:
		w.byHeaders = true
		w.headers.open()
		for _, b := range x.all.list {
			if b.match.holds(&w.headers) {
				out = w.take(b, out)
			}
		}
	case ConsistentHash, ModulusHash:
		if b := x.all.heaviest(w.hash(x)); b != nil {
			out = w.take(b, out)
		}
	case Random:
		w.byChance = true
		if b := x.all.heaviest(w.seed); b != nil {
			out = w.take(b, out)
		}
	default:
		out = w.follow(&x.all, out)
	}
	return out
}

func (w *walk) follow(at *bucket, out []uint32) []uint32 {
	for _, b := range at.list {
		out = w.take(b, out)
	}
	return out
}

func (w *walk) take(b *binding, out []uint32) []uint32 {
	if b.to == nil {
		w.found = true
		return append(out, b.queue)
	}
	if !b.to.gone {
		w.found = true
		w.visit(b.to)
	}
	return out
}

func (w *walk) visit(x *exchange) {
	if x.round != w.round {
		x.round = w.round
		w.todo = append(w.todo, x)
	}
}
