package log

import (
	"encoding/binary"
	"fmt"
)

// A segment's file begins with its header: the state of every group as written before it, so that no older segment holds the only
// copy of anything but entries, and the ends of the sealed segments, so that one that is cut short is noticed. It is
// on disk before the file gets its name.

const (
	headerMagic      = "USTDYLOG"
	headerFixedBytes = 64
	headerBlock      = 4096 // headers are padded to it
	headerBytesMax   = 64 << 20
	headerGroupBytes = 64
	headerSealBytes  = 24
)

// position is an entry's index and its term.
type position struct{ index, term uint64 }

// groupState is what the log has written of a group.
type groupState struct {
	group              uint64
	term, vote, commit uint64
	truncated          position
	last               position
}

func (s groupState) empty() bool { return s == groupState{group: s.group} }

// seal is the end of a sealed segment: the offset after its last record, and that record's crc.
type seal struct {
	id    uint64
	end   int64
	chain uint32
}

// header is a segment file's header.
type header struct {
	id     uint64
	nonce  uint64 // random: the file's generation. No older bytes, and nothing that a client wrote, can carry it
	groups []groupState
	seals  []seal
	bytes  int64  // its size on disk
	chain  uint32 // its crc, which seeds the first record
}

func (h *header) generation() uint32 { return uint32(h.nonce) }

// barrierSeed seeds the crc of the segment's barriers.
func (h *header) barrierSeed() uint32 { return uint32(h.nonce >> 32) }

// encode returns the header's bytes and fills in bytes and chain. On disk, little endian:
//
//	0 crc of the rest   4 version   8 magic   16 id   24 nonce   32 size   40 groups   44 seals   48 zero
//	64 groups: group, term, vote, commit, truncated index and term, last index and term
//	   seals: id, end, crc
func (h *header) encode() []byte {
	n := headerFixedBytes + headerGroupBytes*len(h.groups) + headerSealBytes*len(h.seals)
	h.bytes = int64((n + headerBlock - 1) / headerBlock * headerBlock)
	b := make([]byte, headerFixedBytes, h.bytes)
	binary.LittleEndian.PutUint32(b[4:], formatVersion)
	copy(b[8:], headerMagic)
	binary.LittleEndian.PutUint64(b[16:], h.id)
	binary.LittleEndian.PutUint64(b[24:], h.nonce)
	binary.LittleEndian.PutUint64(b[32:], uint64(h.bytes))
	binary.LittleEndian.PutUint32(b[40:], uint32(len(h.groups)))
	binary.LittleEndian.PutUint32(b[44:], uint32(len(h.seals)))
	for _, g := range h.groups {
		for _, v := range [...]uint64{g.group, g.term, g.vote, g.commit,
			g.truncated.index, g.truncated.term, g.last.index, g.last.term} {
			b = binary.LittleEndian.AppendUint64(b, v)
		}
	}
	for _, s := range h.seals {
		b = binary.LittleEndian.AppendUint64(b, s.id)
		b = binary.LittleEndian.AppendUint64(b, uint64(s.end))
		b = binary.LittleEndian.AppendUint64(b, uint64(s.chain))
	}
	b = b[:h.bytes]
	h.chain = checksum(b[4:])
	binary.LittleEndian.PutUint32(b[0:], h.chain)
	return b
}

// headerSize answers how many bytes the header takes whose first headerFixedBytes are b. available bounds it: the file's size.
func headerSize(b []byte, available int64) (int64, error) {
	if string(b[8:16]) != headerMagic {
		return 0, fmt.Errorf("it does not begin as a segment of this log does")
	}
	if v := binary.LittleEndian.Uint32(b[4:]); v != formatVersion {
		return 0, fmt.Errorf("it has format version %d, this program reads %d", v, formatVersion)
	}
	n := binary.LittleEndian.Uint64(b[32:])
	if n < headerBlock || n > headerBytesMax || n%headerBlock != 0 || int64(n) > available {
		return 0, fmt.Errorf("its header claims %d bytes", n)
	}
	return int64(n), nil
}

// parseHeader reads what encode wrote.
func parseHeader(b []byte) (*header, error) {
	h := &header{
		chain: binary.LittleEndian.Uint32(b),
		id:    binary.LittleEndian.Uint64(b[16:]),
		nonce: binary.LittleEndian.Uint64(b[24:]),
		bytes: int64(len(b)),
	}
	if checksum(b[4:]) != h.chain {
		return nil, fmt.Errorf("its header's checksum is wrong")
	}
	groups, seals := int64(binary.LittleEndian.Uint32(b[40:])), int64(binary.LittleEndian.Uint32(b[44:]))
	if headerFixedBytes+groups*headerGroupBytes+seals*headerSealBytes > h.bytes {
		return nil, fmt.Errorf("its header claims %d groups and %d segments", groups, seals)
	}
	b = b[headerFixedBytes:]
	word := func() uint64 {
		v := binary.LittleEndian.Uint64(b)
		b = b[8:]
		return v
	}
	for range groups {
		h.groups = append(h.groups, groupState{group: word(), term: word(), vote: word(), commit: word(),
			truncated: position{word(), word()}, last: position{word(), word()}})
	}
	for range seals {
		h.seals = append(h.seals, seal{id: word(), end: int64(word()), chain: uint32(word())})
	}
	return h, nil
}
