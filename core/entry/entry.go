package entry

import "encoding/binary"

// Version is the format that this code writes and the newest that it reads.
const Version = 1

// headerBytes is version (1) and stamp (8, big endian).
const headerBytes = 9

// AppendHeader begins an entry: stamp is the leader's clock in Unix milliseconds. Batches follow with AppendBatch.
func AppendHeader(dst []byte, stamp int64) []byte {
	dst = append(dst, Version)
	return binary.BigEndian.AppendUint64(dst, uint64(stamp))
}

// AppendBatch appends one batch. commands is a run of encoded commands (Append). incarnation 0 marks a control batch.
func AppendBatch(dst []byte, node, incarnation, seq uint64, commands []byte) []byte {
	dst = binary.AppendUvarint(dst, node)
	dst = binary.AppendUvarint(dst, incarnation)
	dst = binary.AppendUvarint(dst, seq)
	dst = binary.AppendUvarint(dst, uint64(len(commands)))
	return append(dst, commands...)
}

// Batch is one node's commands inside an entry. Offset is where Commands begin in the entry, in bytes: with it a
// message record's place in the entry (message.Loc) is known.
type Batch struct {
	Node, Incarnation, Seq uint64
	Commands               []byte
	Offset                 int
}

// Reader walks the batches of one entry.
type Reader struct {
	Stamp int64 // Unix milliseconds, the leader's
	data  []byte
	at    int
	err   error
}

// Read opens an entry. Errors: ErrUnknown for a newer version, ErrMalformed for bytes that are no entry.
func Read(data []byte) (Reader, error) { return ReadAt(data, 0) }

// ReadAt is Read for an entry that begins at from in data, and ends with it: offsets of its batches count from data's
// beginning. It is how the inner entry of a Replay is read.
func ReadAt(data []byte, from int) (Reader, error) {
	if len(data)-from < headerBytes {
		return Reader{}, ErrMalformed
	}
	if data[from] != Version {
		return Reader{}, ErrUnknown
	}
	return Reader{Stamp: int64(binary.BigEndian.Uint64(data[from+1:])), data: data, at: from + headerBytes}, nil
}

// Next answers the next batch; false at the end or on damage (Err tells which).
func (r *Reader) Next() (Batch, bool) {
	if r.at >= len(r.data) || r.err != nil {
		return Batch{}, false
	}
	var b Batch
	var n uint64
	for _, v := range [...]*uint64{&b.Node, &b.Incarnation, &b.Seq, &n} {
		x, w := binary.Uvarint(r.data[r.at:])
		if w <= 0 {
			r.err = ErrMalformed
			return Batch{}, false
		}
		*v = x
		r.at += w
	}
	if n > uint64(len(r.data)-r.at) {
		r.err = ErrMalformed
		return Batch{}, false
	}
	b.Offset = r.at
	b.Commands = r.data[r.at : r.at+int(n) : r.at+int(n)]
	r.at += int(n)
	return b, true
}

// Err is why Next stopped before the end, nil if it did not.
func (r *Reader) Err() error { return r.err }
