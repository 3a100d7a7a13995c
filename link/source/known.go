package source

import (
	"sync"

	"github.com/understudy-mq/understudy/core/entry"
)

const (
	knownMax = 64
	// walkBytes is how much log is read to find the rolling hash at a reader's position when it first comes; beyond that, its
	// claim is judged once an answer reaches the applied state.
	walkBytes = 64 << 20
)

// known are places of a group's log whose rolling hash is certain: answers ended there.
type known struct {
	mu   sync.Mutex
	list [knownMax]entry.Position
	next int
}

func (k *known) add(p entry.Position) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.list[k.next%knownMax] = p
	k.next++
}

func (k *known) at(index uint64) (uint64, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, p := range k.list {
		if p.Index == index && index != 0 {
			return p.Hash, true
		}
	}
	return 0, false
}

// hash answers the rolling hash at a place up to the applied state, going back from the state's where it is not known yet.
func (k *known) hash(log Log, at entry.Position, state State) (uint64, bool) {
	if at.Index == state.Index {
		return state.Hash, true
	}
	if h, ok := k.at(at.Index); ok {
		return h, true
	}
	h, ok := walk(log, at, state)
	if ok {
		k.add(entry.Position{Index: at.Index, Term: at.Term, Hash: h})
	}
	return h, ok
}

// walk takes from the state's rolling hash what the entries after a place count in it.
func walk(log Log, at entry.Position, state State) (uint64, bool) {
	hash, index, left := state.Hash, at.Index, walkBytes
	for index < state.Index {
		entries, err := log.Read(index, stepBytes)
		if err != nil || len(entries) == 0 || left <= 0 {
			return 0, false
		}
		for _, e := range entries {
			if e.Index > state.Index {
				break
			}
			hash -= entry.Hash(e.Index, e.Term, e.Data)
			left -= len(e.Data)
			index = e.Index
		}
	}
	return hash, true
}
