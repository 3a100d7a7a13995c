package simtest

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/gob"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"slices"
	"sync"

	"github.com/understudy-mq/understudy/replication"
)

// Machine is a state machine to test replication with: it remembers the values that it was given, by node, and what it
// was told to keep on disk survives Crash. It satisfies replication.Machine.
type Machine struct {
	mu      sync.Mutex
	state   state
	disk    state  // the newest checkpoint
	staged  *state // on disk as well
	rounds  int
	Keep    bool  // remember every value; off for benchmarks
	Refuse  error // the next Apply fails with it
	applied chan struct{}
	// Evacuated counts calls of Evacuate.
	Evacuated int
	// Installed counts installs.
	Installed int
	// ConfWrites counts membership changes forced to disk.
	ConfWrites int
}

var _ replication.Machine = (*Machine)(nil)

type state struct {
	Index, Term uint64
	Conf        []byte
	Stamp       int64
	Nodes       map[uint64]standing
	Values      []uint64
	Count       uint64
	Hash        uint64
	Live        map[uint64]int64 // bytes of live content by entry
	LeaderTerm  uint64
	Deadline    int64
	Ticks       int
	Rolling     uint64
	Standby     bool
	Position    uint64
	Since       uint64
	Own         int // entries of a standby's own that carry more than local facts
	OutOfTurn   int // batches of a node's present incarnation whose number was not the next
}

type standing struct {
	Incarnation, Nonce, Seq uint64
	Down                    bool
}

func (s *state) clone() state {
	c := *s
	c.Nodes, c.Live = maps.Clone(s.Nodes), maps.Clone(s.Live)
	c.Values, c.Conf = slices.Clone(s.Values), slices.Clone(s.Conf)
	return c
}

// NewMachine is an empty machine that remembers every value.
func NewMachine() *Machine {
	empty := state{Nodes: map[uint64]standing{}, Live: map[uint64]int64{}}
	return &Machine{state: empty, disk: empty.clone(), Keep: true, applied: make(chan struct{}, 1)}
}

// Crash forgets what no checkpoint has.
func (m *Machine) Crash() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state = m.disk.clone()
}

// Apply applies an entry of Codec's.
func (m *Machine) Apply(index, term uint64, data []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.Refuse != nil {
		return m.Refuse
	}
	if index != m.state.Index+1 {
		return fmt.Errorf("entry %d applied after %d", index, m.state.Index)
	}
	m.state.Index, m.state.Term = index, term
	m.state.Rolling += hashEntry(index, term, data)
	if len(data) == 0 {
		return nil
	}
	return m.state.applyEntry(index, data, m.Keep)
}

// applyEntry tells what a standby's source has sent from what the cluster itself has.
func (s *state) applyEntry(index uint64, data []byte, keep bool) error {
	if data[0] != replayMark {
		return s.apply(index, data, keep)
	}
	if len(data) < 9 {
		return errMalformed
	}
	position, inner := binary.BigEndian.Uint64(data[1:]), data[9:]
	if !s.Standby || position != s.Position+1 {
		return nil
	}
	s.Position, s.Standby = position, false // the inner entry is an ordinary one
	defer func() { s.Standby = true }()
	if len(inner) == 0 {
		return nil
	}
	return s.apply(index, inner, keep)
}

// mute carries out what counts of a standby's own entries.
func (s *state) mute(index uint64, commands []byte) error {
	d := decoder{b: commands}
	for len(d.b) > 0 && d.err == nil {
		switch d.kind() {
		case cmdAttach:
			d.uvarint()
		case cmdPromote:
			s.Standby, s.Since = false, index
			clear(s.Nodes)
		default:
			s.Own++
			return nil
		}
	}
	return d.err
}

func (s *state) apply(index uint64, data []byte, keep bool) error {
	if len(data) < 8 {
		return errMalformed
	}
	if stamp := int64(binary.BigEndian.Uint64(data)); !s.Standby {
		s.Stamp = max(s.Stamp, stamp)
	} else if stamp > s.Stamp {
		s.Own++ // its time is the source's
	}
	d := decoder{b: data[8:]}
	for len(d.b) > 0 && d.err == nil {
		node, incarnation, seq := d.uvarint(), d.uvarint(), d.uvarint()
		commands := d.take(d.uvarint())
		if s.Standby {
			if err := s.mute(index, commands); err != nil {
				return err
			}
			continue
		}
		if incarnation != 0 {
			n := s.Nodes[node]
			if n.Incarnation != incarnation || n.Seq+1 != seq {
				if n.Incarnation == incarnation {
					s.OutOfTurn++
				}
				continue
			}
			n.Seq = seq
			s.Nodes[node] = n
		}
		if err := s.run(index, commands, keep); err != nil {
			return err
		}
	}
	return d.err
}

func (s *state) run(index uint64, commands []byte, keep bool) error {
	d := decoder{b: commands}
	for len(d.b) > 0 && d.err == nil {
		switch d.kind() {
		case cmdNodeUp:
			s.nodeUp(d.uvarint(), d.uvarint())
		case cmdNodeDown:
			node, incarnation := d.uvarint(), d.uvarint()
			if n := s.Nodes[node]; n.Incarnation == incarnation {
				n.Down = true
				s.Nodes[node] = n
			}
			s.mix(cmdNodeDown, node, incarnation)
		case cmdLeaderUp:
			d.uvarint()
			s.LeaderTerm = d.uvarint()
		case cmdTick:
			s.Ticks++
			if s.Deadline != 0 && s.Stamp >= s.Deadline {
				s.Deadline = 0
			}
		case cmdValue:
			v := d.uvarint()
			s.Count++
			s.mix(cmdValue, v, s.Count)
			if keep {
				s.Values = append(s.Values, v)
				s.Live[index] += valueBytes
			}
		case cmdSettle:
			most := int64(d.uvarint())
			maps.DeleteFunc(s.Live, func(_ uint64, bytes int64) bool { return bytes >= most })
		case cmdBytes:
			s.Count++
			size := len(d.take(d.uvarint()))
			s.mix(cmdBytes, uint64(size), 0)
			if keep {
				s.Live[index] += int64(size)
			}
		case cmdAttach:
			if at := d.uvarint(); s.Since == 0 { // as in core, whose command names the state that it is for
				s.Standby, s.Position = true, at
			}
		case cmdPromote:
		}
	}
	return d.err
}

// nodeUp registers a node, once per nonce: a word that comes late must not bring back what was marked down since.
func (s *state) nodeUp(node, nonce uint64) {
	n := s.Nodes[node]
	if n.Nonce == nonce {
		return
	}
	s.Nodes[node] = standing{Incarnation: n.Incarnation + 1, Nonce: nonce}
	s.mix(cmdNodeUp, node, n.Incarnation+1)
}

func (s *state) mix(kind byte, a, b uint64) {
	const prime = 1099511628211
	for _, v := range [...]uint64{uint64(kind), a, b} {
		s.Hash = (s.Hash ^ v) * prime
	}
}

// ApplyConf records a membership and is durable at once.
func (m *Machine) ApplyConf(index, term uint64, conf []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if index > m.state.Index {
		m.state.Rolling += hashEntry(index, term, nil)
	}
	m.state.Index, m.state.Term, m.state.Conf = index, term, slices.Clone(conf)
	m.disk = m.state.clone()
	m.ConfWrites++
	return nil
}

// Round wakes those that wait for something to be applied.
func (m *Machine) Round() {
	m.mu.Lock()
	m.rounds++
	m.mu.Unlock()
	select {
	case m.applied <- struct{}{}:
	default:
	}
}

// Rounds is signalled after each run of applies.
func (m *Machine) Rounds() <-chan struct{} { return m.applied }

// Applied is the last entry applied.
func (m *Machine) Applied() (index, term uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state.Index, m.state.Term
}

// Durable is the newest checkpoint.
func (m *Machine) Durable() (index, term uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.disk.Index, m.disk.Term
}

// Conf is the membership.
func (m *Machine) Conf() []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state.Conf
}

// Checkpoint takes effect at once.
func (m *Machine) Checkpoint(done func(error)) bool {
	m.mu.Lock()
	m.disk = m.state.clone()
	m.mu.Unlock()
	done(nil)
	return true
}

// Incarnation is a node's registration.
func (m *Machine) Incarnation(node uint64) (incarnation, nonce, seq uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.state.Nodes[node]
	if n.Down {
		n.Nonce = 0
	}
	return n.Incarnation, n.Nonce, n.Seq
}

// Stamp is the newest stamp.
func (m *Machine) Stamp() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state.Stamp
}

// NextDeadline is what SetDeadline set, until a Tick has passed it.
func (m *Machine) NextDeadline() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state.Deadline
}

// SetDeadline lets something be due at a stamp.
func (m *Machine) SetDeadline(stamp int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state.Deadline = stamp
}

// Fingerprint hashes all that was applied.
func (m *Machine) Fingerprint() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state.Hash
}

// Standing is the machine's part in the standby link.
func (m *Machine) Standing() (standby bool, position, since uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state.Standby, m.state.Position, m.state.Since
}

// RollingHash is the rolling hash of the log up to the last entry applied.
func (m *Machine) RollingHash() (index, hash uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state.Index, m.state.Rolling
}

// LeaderTerm is the term of the last LeaderUp applied.
func (m *Machine) LeaderTerm() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state.LeaderTerm
}

// Own counts entries that a standby made of its own will: there must be none.
func (m *Machine) Own() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state.Own
}

// valueBytes is what a value counts as.
const valueBytes = 8

// Live counts values that were not settled, and their bytes.
func (m *Machine) Live(from, to uint64) (references int, bytes int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for index, n := range m.state.Live {
		if from <= index && index < to {
			references++
			bytes += n
		}
	}
	return references, bytes
}

// Evacuate takes the values out of the log.
func (m *Machine) Evacuate(from, to uint64, done func(error)) {
	m.mu.Lock()
	m.Evacuated++
	maps.DeleteFunc(m.state.Live, func(index uint64, _ int64) bool { return from <= index && index < to })
	m.mu.Unlock()
	done(nil)
}

// Values are all values applied, in order. The slice must not be changed.
func (m *Machine) Values() []uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clip(m.state.Values)
}

// Count is the number of values applied.
func (m *Machine) Count() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state.Count
}

// OutOfTurn counts batches that a machine had to ignore because others should have come first: replication must never
// let one into the log.
func (m *Machine) OutOfTurn() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state.OutOfTurn
}

// Ticks is the number of Tick commands applied.
func (m *Machine) Ticks() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state.Ticks
}

// snapshot is a copy of the state.
type snapshot struct{ state }

func (s *snapshot) Index() uint64 { return s.state.Index }
func (s *snapshot) Term() uint64  { return s.state.Term }
func (s *snapshot) Conf() []byte  { return s.state.Conf }
func (s *snapshot) Close() error  { return nil }

// pieceBytes is the size of the pieces in which a snapshot is written.
const pieceBytes = 64

// WriteTo streams it: length, bytes, CRC.
func (s *snapshot) WriteTo(w io.Writer) (int64, error) {
	var b bytes.Buffer
	if err := gob.NewEncoder(&b).Encode(s.state); err != nil {
		return 0, err
	}
	out := binary.BigEndian.AppendUint64(nil, uint64(b.Len()))
	out = append(out, b.Bytes()...)
	out = binary.BigEndian.AppendUint32(out, crc32.ChecksumIEEE(b.Bytes()))
	written := int64(0)
	for piece := range slices.Chunk(out, pieceBytes) {
		n, err := w.Write(piece)
		written += int64(n)
		if err != nil {
			return written, err
		}
	}
	return written, nil
}

// Snapshot cuts one.
func (m *Machine) Snapshot() (replication.Snapshot, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return &snapshot{m.state.clone()}, nil
}

// Stage keeps a snapshot aside.
func (m *Machine) Stage(_ context.Context, r io.Reader) (index, term uint64, conf []byte, err error) {
	var head [8]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, 0, nil, err
	}
	body, err := io.ReadAll(io.LimitReader(r, int64(binary.BigEndian.Uint64(head[:]))))
	if err != nil {
		return 0, 0, nil, err
	}
	var sum [4]byte
	if _, err := io.ReadFull(r, sum[:]); err != nil {
		return 0, 0, nil, err
	}
	if crc32.ChecksumIEEE(body) != binary.BigEndian.Uint32(sum[:]) {
		return 0, 0, nil, errors.New("test snapshot is damaged")
	}
	s := new(state)
	if err := gob.NewDecoder(bytes.NewReader(body)).Decode(s); err != nil {
		return 0, 0, nil, err
	}
	if s.Nodes == nil {
		s.Nodes = map[uint64]standing{}
	}
	if s.Live == nil {
		s.Live = map[uint64]int64{}
	}
	m.mu.Lock()
	m.staged = s
	m.mu.Unlock()
	return s.Index, s.Term, s.Conf, nil
}

// Install makes the staged snapshot the state, and durable.
func (m *Machine) Install(index, term uint64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.state.Index >= index {
		return nil
	}
	if m.staged == nil || m.staged.Index != index || m.staged.Term != term {
		return fmt.Errorf("no staged snapshot at %d of term %d", index, term)
	}
	m.state = m.staged.clone()
	m.disk = m.state.clone()
	m.Installed++
	return nil
}
