package checker

import (
	"encoding/binary"
	"hash/crc64"
	"math/rand/v2"
)

// HeaderBytes is what a body carries before its filling: the id, the producer and the sequence number.
const HeaderBytes = 16 + 8 + 8

var table = crc64.MakeTable(crc64.ECMA)

// Body builds the body of a message: size bytes (at least HeaderBytes), all of which follow from the arguments.
func Body(id ID, producer int, seq uint64, size int) []byte {
	body := make([]byte, max(size, HeaderBytes))
	copy(body, id[:])
	binary.BigEndian.PutUint64(body[16:], uint64(producer))
	binary.BigEndian.PutUint64(body[24:], seq)
	fill := rand.NewPCG(binary.BigEndian.Uint64(id[:]), seq)
	rest := body[HeaderBytes:]
	for len(rest) > 0 {
		var word [8]byte
		binary.LittleEndian.PutUint64(word[:], fill.Uint64())
		rest = rest[copy(rest, word[:]):]
	}
	return body
}

// BodyID reads the id of a body; false if it is too short to hold one.
func BodyID(body []byte) (ID, bool) {
	if len(body) < HeaderBytes {
		return ID{}, false
	}
	return ID(body[:16]), true
}

// Sum is the checksum by which bodies are compared.
func Sum(body []byte) uint64 { return crc64.Checksum(body, table) }
