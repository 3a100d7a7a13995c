package route

import (
	"fmt"
	"math/bits"
	"strconv"

	"github.com/cespare/xxhash/v2"
	"github.com/understudy-mq/understudy/core/message"
)

// WeightMax bounds the weight of a binding: choosing takes time proportional to the sum of weights.
const WeightMax = 1000

// parseWeight reads the key of a consistent hash exchange's binding.
func parseWeight(key string) (int, error) {
	n, err := strconv.Atoi(key)
	switch {
	case err != nil:
		return 0, fmt.Errorf("%w: the binding key must be an integer: '%s'", ErrWeight, key)
	case n < 1 || n > WeightMax:
		return 0, fmt.Errorf("%w: the binding key must be from 1 to %d: '%s'", ErrWeight, WeightMax, key)
	}
	return n, nil
}

// pointOf places a destination among those of a hashing exchange. It does not depend on the order of bindings.
func pointOf(d Dest) uint64 {
	if d.Exchange != "" {
		return xxhash.Sum64String(d.Exchange)
	}
	return mix(uint64(d.Queue), 1)
}

// mix is a good hash of two numbers: a multiplication in 128 bits, folded.
func mix(a, b uint64) uint64 {
	high, low := bits.Mul64(a^0x9e3779b97f4a7c15, b^0xc2b2ae3d27d4eb4f)
	return high ^ low
}

// heaviest chooses a binding for a hash: of each binding's points, weight many, the one that scores highest wins, so that
// adding or removing a binding moves no key between the others (rendezvous hashing).
func (u *bucket) heaviest(hash uint64) *binding {
	var best *binding
	most := uint64(0)
	for _, b := range u.list {
		for i := range b.weight {
			score := mix(mix(hash, b.point), uint64(i))
			if best == nil || score > most || score == most && b.point < best.point {
				best, most = b, score
			}
		}
	}
	return best
}

// hash is what a hashing exchange goes by: the (first) routing key, or the value of a header.
func (w *walk) hash(x *exchange) uint64 {
	if x.hashHeader == "" {
		w.byKey = true
		return xxhash.Sum64(w.keys[0])
	}
	w.byHeaders = true
	w.headers.open()
	value, ok := w.headers.table.Get(x.hashHeader)
	if !ok {
		return 0
	}
	return xxhash.Sum64(message.AppendTable(nil, message.Table{{Value: value}}))
}
