package log

import (
	"encoding/binary"
	"errors"
	"runtime"
	"testing"
)

// resign makes the checksums of a segment's bytes right, as far as its records can be followed, so that what lies
// behind them is reached too.
func resign(b []byte) {
	if len(b) < headerBlock {
		return
	}
	copy(b[8:], headerMagic)
	binary.LittleEndian.PutUint32(b[4:], formatVersion)
	binary.LittleEndian.PutUint64(b[16:], 1)
	size := int64(binary.LittleEndian.Uint64(b[32:]))
	if size < headerBlock || size > int64(len(b)) {
		return
	}
	chain := checksum(b[4:size])
	binary.LittleEndian.PutUint32(b, chain)
	nonce := binary.LittleEndian.Uint64(b[24:])
	for at := int(size); at+recordHeaderBytes <= len(b); {
		h, _ := parseRecordHeader(b[at:], 0)
		data := at + recordHeaderBytes
		if int64(payloadBytes(int(h.size))) > int64(len(b)-data) {
			return
		}
		seed := chain
		if h.kind == KindBarrier {
			seed = uint32(nonce >> 32)
			if h.size == barrierDataBytes {
				barrier{nonce, int64(at), int64(at), chain}.put(b[data:])
			}
		}
		h.generation, h.dataCRC = uint32(nonce), dataChecksum(b[data:data+int(h.size)])
		h.put(b[at:], seed)
		chain, at = h.chain, data+payloadBytes(int(h.size))
	}
}

// FuzzOpen opens a log whose one segment is any bytes: it is refused or it works, and memory stays within what the
// file's size justifies. (Run it with -fuzzminimizetime 10x: minimizing kilobytes takes long and finds nothing.)
func FuzzOpen(f *testing.F) {
	image := killed(f, Write{HardState: makeHardState(3, 1, 2), Entries: testEntries(1, 1, 4, 3, 50)},
		Write{Entries: testEntries(1, 3, 3, 4, 20)}, Write{SnapshotIndex: 9, SnapshotTerm: 4})[segmentName(1)][:8<<10]
	f.Add(image, false)
	f.Add(image, true)
	f.Add(image[:headerBlock], true)
	f.Add([]byte{}, true)
	f.Fuzz(func(t *testing.T, b []byte, sign bool) {
		if len(b) > 64<<10 {
			return
		}
		b = append([]byte(nil), b...)
		if sign {
			resign(b)
		}
		o := testOptions(t, diskOf(t, map[string][]byte{segmentName(1): b}))
		o.EnsureDefaults()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		l, _, err := load(o)
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; n > uint64(1<<20+20*len(b)) {
			t.Fatalf("%d bytes were allocated for a file of %d", n, len(b))
		}
		if err == nil {
			readAll(t, l)
			return
		}
		if d := (*DamageError)(nil); !errors.As(err, &d) {
			t.Fatalf("an error without a place: %v", err)
		}
	})
}

// readAll reads all that a log says it has.
func readAll(t *testing.T, l *Log) {
	for _, g := range l.allGroups() {
		first, _ := g.FirstIndex()
		last, _ := g.LastIndex()
		if first > last {
			continue
		}
		if es, err := g.Entries(first, last+1, 1<<40); err != nil || uint64(len(es)) != last+1-first {
			t.Fatalf("group %d: %d entries, %v", g.id, len(es), err)
		}
	}
	if err := l.release(); err != nil {
		t.Fatal(err)
	}
}

func TestHeaderRoundTrip(t *testing.T) {
	h := &header{id: 7, nonce: 0x123456789abcdef0}
	for i := range uint64(200) {
		h.groups = append(h.groups, groupState{i, i + 1, i + 2, i + 3, position{i + 4, i + 5}, position{i + 6, i + 7}})
		h.seals = append(h.seals, seal{i, int64(i) + 1, uint32(i) + 2})
	}
	b := h.encode()
	size, err := headerSize(b[:headerFixedBytes], int64(len(b)))
	if err != nil || size != int64(len(b)) {
		t.Fatalf("size %d, %v; want %d", size, err, len(b))
	}
	got, err := parseHeader(b)
	if err != nil {
		t.Fatal(err)
	}
	if got.id != 7 || got.nonce != h.nonce || got.chain != h.chain || len(got.groups) != 200 || len(got.seals) != 200 ||
		got.groups[150] != h.groups[150] || got.seals[199] != h.seals[199] {
		t.Fatalf("got %+v", got)
	}
}
