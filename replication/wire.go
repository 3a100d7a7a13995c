package replication

import (
	"encoding/binary"
	"errors"

	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
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

// encodeAppend is a raft MsgApp in pieces: the message without its entries, their heads, and their data as it is, which
// is not copied: a leader sends the same entries to every follower. Frames of this form have Kind transport.Append.
func encodeAppend(m *pb.Message) (payload []byte, rest [][]byte, err error) {
	bare, err := proto.Marshal(&pb.Message{
		Type: m.Type, To: m.To, From: m.From, Term: m.Term, LogTerm: m.LogTerm, Index: m.Index, Commit: m.Commit,
	})
	if err != nil {
		return nil, nil, err
	}
	entries := m.GetEntries()
	payload = appendBytes(make([]byte, 0, len(bare)+16+24*len(entries)), bare)
	payload = binary.AppendUvarint(payload, uint64(len(entries)))
	for _, e := range entries {
		payload = binary.AppendUvarint(payload, e.GetTerm())
		payload = binary.AppendUvarint(payload, e.GetIndex())
		payload = binary.AppendUvarint(payload, uint64(e.GetType()))
		payload = binary.AppendUvarint(payload, uint64(len(e.GetData())))
		if len(e.GetData()) > 0 {
			rest = append(rest, e.GetData())
		}
	}
	return payload, rest, nil
}

// decodeAppend reads what encodeAppend wrote. Entries' data is copied out of b, each into memory of its own.
func decodeAppend(b []byte) (*pb.Message, error) {
	r := reader{b: b}
	m := new(pb.Message)
	if err := proto.Unmarshal(r.bytes(), m); err != nil {
		return nil, errFrame
	}
	n := r.count(uint64(len(b)))
	sizes := make([]uint64, 0, min(n, 1024))
	for range n {
		e := &pb.Entry{Term: new(r.uvarint()), Index: new(r.uvarint()), Type: pb.EntryType(r.uvarint()).Enum()}
		sizes = append(sizes, r.uvarint())
		if r.failed {
			return nil, errFrame
		}
		m.Entries = append(m.Entries, e)
	}
	for i, e := range m.GetEntries() {
		if sizes[i] > uint64(len(r.b)) {
			return nil, errFrame
		}
		if sizes[i] > 0 {
			e.Data = append([]byte(nil), r.b[:sizes[i]]...)
		}
		r.b = r.b[sizes[i]:]
	}
	return m, r.end()
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
