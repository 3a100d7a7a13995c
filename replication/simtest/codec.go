package simtest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/understudy-mq/understudy/replication"
)

// The commands of the test machine; each is a kind and varints.
const (
	cmdNodeUp = iota + 1
	cmdNodeDown
	cmdLeaderUp
	cmdTick
	cmdValue  // a value that is remembered, and live until settled
	cmdSettle // what is live up to now is settled, but for entries of fewer bytes
	cmdBytes  // a value of many bytes, of which only the length counts
	cmdAttach
	cmdPromote
)

var errMalformed = errors.New("malformed test entry")

// Codec is the test machine's framing of entries.
func Codec() replication.Codec {
	return replication.Codec{
		AppendHeader: func(dst []byte, stamp int64) []byte { return binary.BigEndian.AppendUint64(dst, uint64(stamp)) },
		AppendBatch: func(dst []byte, node, incarnation, seq uint64, commands []byte) []byte {
			dst = appendVarints(dst, node, incarnation, seq, uint64(len(commands)))
			return append(dst, commands...)
		},
		NodeUp:   func(node, nonce uint64) []byte { return appendVarints([]byte{cmdNodeUp}, node, nonce) },
		NodeDown: func(node, incarnation uint64) []byte { return appendVarints([]byte{cmdNodeDown}, node, incarnation) },
		LeaderUp: func(node, term uint64) []byte { return appendVarints([]byte{cmdLeaderUp}, node, term) },
		Tick:     func() []byte { return []byte{cmdTick} },
		Hash:     hashEntry,
	}
}

// hashEntry is what an entry counts in the rolling hash of its log.
func hashEntry(index, term uint64, data []byte) uint64 {
	const prime = 0x9e3779b97f4a7c15
	sum := uint64(crc32.Checksum(data, castagnoli))
	return ((index*prime^term)*prime ^ sum) * prime
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Replay encodes an entry of a standby: one of the source's at position, to be applied if that is the next.
func Replay(position uint64, inner []byte) []byte {
	return append(binary.BigEndian.AppendUint64([]byte{replayMark}, position), inner...)
}

// replayMark begins a replay; no stamp does.
const replayMark = 0xff

// Attach encodes the command that makes the machine a standby whose source is at position; Promote ends that.
func Attach(position uint64) []byte { return appendVarints([]byte{cmdAttach}, position) }

// Promote encodes the command that makes a standby an ordinary machine.
func Promote() []byte { return []byte{cmdPromote} }

// Value encodes a command that the machine remembers.
func Value(v uint64) []byte { return appendVarints([]byte{cmdValue}, v) }

// Settle encodes the command after which nothing applied before it is live.
func Settle() []byte { return SettleFrom(0) }

// SettleFrom encodes a command that settles what is live in entries with at least so many bytes of it. A value has 8.
func SettleFrom(bytes uint64) []byte { return binary.AppendUvarint([]byte{cmdSettle}, bytes) }

// Bytes encodes a command of size bytes.
func Bytes(size int) []byte {
	b := binary.AppendUvarint([]byte{cmdBytes}, uint64(size))
	return append(b, make([]byte, size)...)
}

func appendVarints(b []byte, vs ...uint64) []byte {
	for _, v := range vs {
		b = binary.AppendUvarint(b, v)
	}
	return b
}

// decoder walks an entry.
type decoder struct {
	b   []byte
	err error
}

func (d *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 {
		d.err, d.b = errMalformed, nil
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) take(n uint64) []byte {
	if n > uint64(len(d.b)) {
		d.err, d.b = errMalformed, nil
		return nil
	}
	v := d.b[:n]
	d.b = d.b[n:]
	return v
}

func (d *decoder) kind() byte {
	k := d.take(1)
	if len(k) == 0 {
		return 0
	}
	if k[0] < cmdNodeUp || k[0] > cmdPromote {
		d.err = fmt.Errorf("test command of unknown kind %d", k[0])
		d.b = nil
	}
	return k[0]
}
