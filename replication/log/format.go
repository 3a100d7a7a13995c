package log

import (
	"encoding/binary"
	"hash/crc32"
)

// The stored format. DESIGN.md tells it and why; a change of anything here is a new formatVersion.
const (
	formatVersion = 1

	recordHeaderBytes = 48
	recordAlign       = 8 // records begin at multiples of it, so that a scan for barriers has few places to look
	barrierDataBytes  = 32
	barrierBytes      = recordHeaderBytes + barrierDataBytes
	dataBytesMax      = 1<<30 - 1 // a slot keeps 30 bits of length
	// chunkBytes is the unit in which the data of a record can be read and checked without the rest.
	chunkBytes = 16 << 10
)

// Kind is what a record says.
type Kind uint8

// The kinds of records. Their numbers are stored.
const (
	KindBarrier   Kind = 1 // begins a write: where it is, and up to where the segment was synced when it was made
	KindEntry     Kind = 2 // one raft entry
	KindHardState Kind = 3 // index is the commit index, term the term, the data 8 bytes of vote
	KindTruncate  Kind = 4 // nothing up to and including index is needed
	KindSnapshot  Kind = 5 // the group's log is empty and begins after index
)

func (k Kind) String() string {
	switch k {
	case KindBarrier:
		return "barrier"
	case KindEntry:
		return "entry"
	case KindHardState:
		return "hardstate"
	case KindTruncate:
		return "truncate"
	case KindSnapshot:
		return "snapshot"
	}
	return "unknown"
}

// A barrier's term tells whether its log was closed with it.
const (
	barrierOpen   = 0
	barrierClosed = 1
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// recordHeader precedes each record's data. On disk, little endian:
//
//	0 crc of bytes 4..48, seeded with the chain   4 data length   8 crc of the data   12 generation
//	16 kind   17 entry type   18 zero   24 group   32 index   40 term
//	48 data, padded to 8
//	   of data longer than a chunk: the crc of each chunk, padded to 8; "crc of the data" is then the crc of these
//
// The chain is the crc of the record before. A barrier's crc is seeded with its segment's generation instead, so that it can be told
// by itself; it carries the chain in its data.
type recordHeader struct {
	chain      uint32 // this record's crc: the seed of the next
	size       uint32
	dataCRC    uint32
	generation uint32
	kind       Kind
	entryType  uint8
	group      uint64
	index      uint64
	term       uint64
}

// put writes h at the start of b, seeded with seed, and keeps its crc as the chain.
func (h *recordHeader) put(b []byte, seed uint32) {
	_ = b[recordHeaderBytes-1]
	binary.LittleEndian.PutUint32(b[4:], h.size)
	binary.LittleEndian.PutUint32(b[8:], h.dataCRC)
	binary.LittleEndian.PutUint32(b[12:], h.generation)
	binary.LittleEndian.PutUint64(b[16:], uint64(h.kind)|uint64(h.entryType)<<8)
	binary.LittleEndian.PutUint64(b[24:], h.group)
	binary.LittleEndian.PutUint64(b[32:], h.index)
	binary.LittleEndian.PutUint64(b[40:], h.term)
	h.chain = crc32.Update(seed, castagnoli, b[4:recordHeaderBytes])
	binary.LittleEndian.PutUint32(b[0:], h.chain)
}

// parseRecordHeader reads what put wrote; ok is false if its crc, seeded with seed, is not right.
func parseRecordHeader(b []byte, seed uint32) (h recordHeader, ok bool) {
	h = recordHeader{
		chain:      binary.LittleEndian.Uint32(b[0:]),
		size:       binary.LittleEndian.Uint32(b[4:]),
		dataCRC:    binary.LittleEndian.Uint32(b[8:]),
		generation: binary.LittleEndian.Uint32(b[12:]),
		kind:       Kind(b[16]),
		entryType:  b[17],
		group:      binary.LittleEndian.Uint64(b[24:]),
		index:      binary.LittleEndian.Uint64(b[32:]),
		term:       binary.LittleEndian.Uint64(b[40:]),
	}
	return h, crc32.Update(seed, castagnoli, b[4:recordHeaderBytes]) == h.chain
}

// barrier is the data of a KindBarrier record.
type barrier struct {
	nonce   uint64
	offset  int64  // its own
	durable int64  // up to here the segment was synced before this write
	chain   uint32 // of the record before it
}

func (r barrier) put(b []byte) {
	binary.LittleEndian.PutUint64(b[0:], r.nonce)
	binary.LittleEndian.PutUint64(b[8:], uint64(r.offset))
	binary.LittleEndian.PutUint64(b[16:], uint64(r.durable))
	binary.LittleEndian.PutUint64(b[24:], uint64(r.chain))
}

func parseBarrier(b []byte) barrier {
	return barrier{
		nonce:   binary.LittleEndian.Uint64(b[0:]),
		offset:  int64(binary.LittleEndian.Uint64(b[8:])),
		durable: int64(binary.LittleEndian.Uint64(b[16:])),
		chain:   uint32(binary.LittleEndian.Uint64(b[24:])),
	}
}

// padded is n rounded up to the alignment of records.
func padded(n int) int { return (n + recordAlign - 1) &^ (recordAlign - 1) }

// chunksOf counts the chunk checksums that follow n bytes of data: none for a single chunk.
func chunksOf(n int) int {
	if n <= chunkBytes {
		return 0
	}
	return (n + chunkBytes - 1) / chunkBytes
}

// payloadBytes is the space of n bytes of data, padding and chunk checksums included.
func payloadBytes(n int) int { return padded(n) + padded(4*chunksOf(n)) }

// recordBytes is the space of a record with n bytes of data.
func recordBytes(n int) int { return recordHeaderBytes + payloadBytes(n) }

// dataChecksum is what a record's header says of its data.
func dataChecksum(data []byte) uint32 {
	if len(data) <= chunkBytes {
		return checksum(data)
	}
	crc := uint32(0)
	for ; len(data) > 0; data = data[min(chunkBytes, len(data)):] {
		crc = addChunk(crc, checksum(data[:min(chunkBytes, len(data))]))
	}
	return crc
}

// addChunk takes a chunk's checksum into the checksum of them all.
func addChunk(crc, chunk uint32) uint32 {
	var b [4]byte
	binary.LittleEndian.PutUint32(b[:], chunk)
	return updateChecksum(crc, b[:])
}

// appendRecord appends a record with data to dst; h.size, dataCRC and chain are filled in.
func appendRecord(dst []byte, h *recordHeader, seed uint32, data []byte) []byte {
	at := len(dst)
	var zero [recordHeaderBytes]byte
	dst = append(dst, zero[:]...)
	dst = append(dst, data...)
	dst = append(dst, zero[:padded(len(data))-len(data)]...)
	h.size, h.dataCRC = uint32(len(data)), 0
	if n := chunksOf(len(data)); n == 0 {
		h.dataCRC = checksum(data)
	} else {
		table := len(dst)
		for ; len(data) > 0; data = data[min(chunkBytes, len(data)):] {
			dst = binary.LittleEndian.AppendUint32(dst, checksum(data[:min(chunkBytes, len(data))]))
		}
		h.dataCRC = checksum(dst[table:])
		dst = append(dst, zero[:padded(4*n)-4*n]...)
	}
	h.put(dst[at:], seed)
	return dst
}

func updateChecksum(crc uint32, b []byte) uint32 { return crc32.Update(crc, castagnoli, b) }
