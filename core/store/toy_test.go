package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/cespare/xxhash/v2"

	"github.com/understudy-mq/understudy/core"
	"github.com/understudy-mq/understudy/core/message"
)

// toy is a small machine: keys that refer to contents. An entry is a run of operations:
//
//	'P' number of keys (1), keys (2 each), length (4), content     the keys refer to the content
//	'D' key (2)                                                     the key is gone
type toy struct {
	items   map[uint16]item
	changed map[uint16]bool
	floor   uint64
	dropped []message.Loc
	sum     uint64
}

type item struct {
	ref
	hash uint64 // of the content
}

var errToy = errors.New("toy row is damaged")

func newToy() *toy { return &toy{items: map[uint16]item{}, changed: map[uint16]bool{}} }

var toyKind = machineKind{make: func(uint64) machine { return newToy() }, rowContents: toyContents}

func toyContents(key, value []byte, visit func(message.Loc, uint32)) error {
	if len(key) != 2 || len(value) != 20 {
		return errToy
	}
	visit(message.Loc(binary.BigEndian.Uint64(value)), binary.BigEndian.Uint32(value[8:]))
	return nil
}

// put is an operation that has keys refer to content.
func put(content []byte, keys ...uint16) []byte {
	b := []byte{'P', byte(len(keys))}
	for _, k := range keys {
		b = binary.BigEndian.AppendUint16(b, k)
	}
	b = binary.BigEndian.AppendUint32(b, uint32(len(content)))
	return append(b, content...)
}

// del is an operation that ends a key.
func del(key uint16) []byte { return binary.BigEndian.AppendUint16([]byte{'D'}, key) }

func (t *toy) Apply(index uint64, data []byte, fx *core.Effects) error {
	for at := 0; at < len(data); {
		switch data[at] {
		case 'P':
			n := int(data[at+1])
			keys := data[at+2 : at+2+2*n]
			at += 2 + 2*n
			size := binary.BigEndian.Uint32(data[at:])
			at += 4
			i := item{ref{message.NewLoc(index, at), size}, xxhash.Sum64(data[at : at+int(size)])}
			at += int(size)
			for ; len(keys) > 0; keys = keys[2:] {
				t.set(binary.BigEndian.Uint16(keys), i)
			}
			fx.List = append(fx.List, core.Effect{Kind: core.EffectConfirmed, Count: 1})
		case 'D':
			t.remove(binary.BigEndian.Uint16(data[at+1:]))
			at += 3
		default:
			return fmt.Errorf("toy operation %q", data[at])
		}
	}
	return nil
}

func (t *toy) set(k uint16, i item) {
	t.remove(k)
	t.items[k] = i
	t.changed[k] = true
	t.sum += mix(k, i)
}

func (t *toy) remove(k uint16) {
	i, ok := t.items[k]
	if !ok {
		return
	}
	delete(t.items, k)
	t.changed[k] = true
	t.sum -= mix(k, i)
	if i.loc.Index() < t.floor {
		t.dropped = append(t.dropped, i.loc)
	}
}

func mix(k uint16, i item) uint64 {
	var b [10]byte
	binary.BigEndian.PutUint16(b[:], k)
	binary.BigEndian.PutUint64(b[2:], i.hash)
	return xxhash.Sum64(b[:])
}

func (t *toy) Stamp() int64                                { return 0 }
func (t *toy) NextDeadline() int64                         { return 0 }
func (t *toy) Incarnation(uint64) (inc, nonce, seq uint64) { return }
func (t *toy) Fingerprint() uint64                         { return t.sum }
func (t *toy) Standing() (standby bool, at, since uint64)  { return }

func (t *toy) Changed() int { return len(t.changed) }

func (t *toy) Exact() {} // its rows are

func (t *toy) Checkpoint(put func(key, value []byte), del func(key []byte)) {
	for _, k := range slices.Sorted(maps.Keys(t.changed)) {
		key := binary.BigEndian.AppendUint16(nil, k)
		i, ok := t.items[k]
		if !ok {
			del(key)
			continue
		}
		v := binary.BigEndian.AppendUint64(nil, uint64(i.loc))
		v = binary.BigEndian.AppendUint32(v, i.size)
		put(key, binary.BigEndian.AppendUint64(v, i.hash))
	}
	clear(t.changed)
}

func (t *toy) Load(key, value []byte) error {
	if len(key) != 2 || len(value) != 20 {
		return errToy
	}
	t.set(binary.BigEndian.Uint16(key), item{
		ref{message.Loc(binary.BigEndian.Uint64(value)), binary.BigEndian.Uint32(value[8:])}, binary.BigEndian.Uint64(value[12:]),
	})
	return nil
}

func (t *toy) Loaded() error {
	clear(t.changed)
	return nil
}

func (t *toy) Live(from, to uint64) (references int, bytes int64) {
	t.Contents(from, to, func(_ message.Loc, size uint32) { // too many below the floor, which is allowed
		references++
		bytes += int64(size)
	})
	return references, bytes
}

func (t *toy) Contents(from, to uint64, visit func(message.Loc, uint32)) {
	for _, i := range t.items {
		if i.loc.Index() >= from && i.loc.Index() < to {
			visit(i.loc, i.size)
		}
	}
}

func (t *toy) SetFloor(index uint64) { t.floor = index }

func (t *toy) TakeReferences(_, ended func(message.Loc)) {
	for _, loc := range t.dropped {
		ended(loc)
	}
	t.dropped = nil
}

// toyLog is a raft log in memory.
type toyLog struct {
	mu      sync.Mutex
	entries map[uint64][]byte
	first   uint64 // entries below are gone
	last    uint64
	sums    map[uint64]uint64 // fingerprint after each entry
	summed  uint64            // the last entry with a fingerprint
}

func newToyLog() *toyLog {
	return &toyLog{entries: map[uint64][]byte{}, sums: map[uint64]uint64{0: 0}}
}

func (l *toyLog) append(data []byte) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last++
	l.entries[l.last] = data
	return l.last
}

// note keeps the fingerprint after entry index.
func (l *toyLog) note(index, sum uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sums[index], l.summed = sum, index
}

// truncate drops the entries below index.
func (l *toyLog) truncate(index uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.first = max(l.first, index)
}

func (l *toyLog) bounds() (first, last uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.first, l.last
}

// from is the same log as a crash left it: entries below first gone, none above last.
func (l *toyLog) from(first, last uint64) *toyLog {
	l.mu.Lock()
	defer l.mu.Unlock()
	return &toyLog{entries: maps.Clone(l.entries), sums: maps.Clone(l.sums), first: first, last: last}
}

func (l *toyLog) read(index uint64, offset, size int) ([]byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	data, ok := l.entries[index]
	if !ok || index < l.first || index > l.last || offset+size > len(data) {
		return nil, fmt.Errorf("log has no %d bytes at %d of entry %d: it is %d to %d", size, offset, index, l.first, l.last)
	}
	return data[offset : offset+size], nil
}
