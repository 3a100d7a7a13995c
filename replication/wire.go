package replication

import (
	"encoding/binary"
	"errors"
)

// The payloads of the frames between nodes. Numbers are varints, strings and commands have their length in front.

// errFrame says that a peer sent a payload that makes no sense; its connection is closed.
var errFrame = errors.New("malformed frame from a peer")

// expectation is a leader's word to a node: the batch that it takes next from it.
type expectation struct{ term, incarnation, seq uint64 }

func (e expectation) encode() []byte {
	b := binary.AppendUvarint(nil, e.term)
	b = binary.AppendUvarint(b, e.incarnation)
	return binary.AppendUvarint(b, e.seq)
}

func decodeExpectation(b []byte) (expectation, error) {
	r := reader{b: b}
	return expectation{r.uvarint(), r.uvarint(), r.uvarint()}, r.end()
}

// forward is a batch on its way to the leader; incarnation 0 marks control commands.
type forward struct {
	incarnation, seq uint64
	commands         []byte
}

func (f forward) encode() []byte {
	b := make([]byte, 0, len(f.commands)+3*binary.MaxVarintLen64)
	b = binary.AppendUvarint(b, f.incarnation)
	b = binary.AppendUvarint(b, f.seq)
	return appendBytes(b, f.commands)
}

func decodeForward(b []byte) (forward, error) {
	r := reader{b: b}
	return forward{r.uvarint(), r.uvarint(), r.bytes()}, r.end()
}

// request asks a group's leader to change something; response is its answer.
type request struct {
	number  uint64
	verb    uint64
	node    uint64
	address string
}

func (q request) encode() []byte {
	b := binary.AppendUvarint(nil, q.number)
	b = binary.AppendUvarint(b, q.verb)
	b = binary.AppendUvarint(b, q.node)
	return appendString(b, q.address)
}

func decodeRequest(b []byte) (request, error) {
	r := reader{b: b}
	return request{r.uvarint(), r.uvarint(), r.uvarint(), string(r.bytes())}, r.end()
}

type response struct {
	number uint64
	retry  bool // not this node's to decide, or not now
	text   string
}

func (a response) encode() []byte {
	b := binary.AppendUvarint(nil, a.number)
	retry := uint64(0)
	if a.retry {
		retry = 1
	}
	b = binary.AppendUvarint(b, retry)
	return appendString(b, a.text)
}

func decodeResponse(b []byte) (response, error) {
	r := reader{b: b}
	return response{r.uvarint(), r.uvarint() != 0, string(r.bytes())}, r.end()
}

func appendBytes(b, x []byte) []byte {
	return append(binary.AppendUvarint(b, uint64(len(x))), x...)
}

func appendString(b []byte, x string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(x))), x...)
}

// reader walks a payload; after a failure it answers zeroes. bytes are views.
type reader struct {
	b      []byte
	failed bool
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.failed, r.b = true, nil
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) octet() byte {
	if len(r.b) == 0 {
		r.failed = true
		return 0
	}
	v := r.b[0]
	r.b = r.b[1:]
	return v
}

func (r *reader) bytes() []byte {
	n := r.uvarint()
	if n > uint64(len(r.b)) {
		r.failed, r.b = true, nil
		return nil
	}
	v := r.b[:n:n]
	r.b = r.b[n:]
	return v
}

// count is a list's length, refused over most.
func (r *reader) count(most uint64) uint64 {
	n := r.uvarint()
	if n > most {
		r.failed, r.b = true, nil
		return 0
	}
	return n
}

func (r *reader) end() error {
	if r.failed || len(r.b) != 0 {
		return errFrame
	}
	return nil
}
