package entry

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math/bits"
)

// castagnoli is a table, built once; hash/crc32 uses the processor's instruction for it.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// The kinds of command of the standby link. All of them are about one cluster, which they name: replayed elsewhere they
// change nothing of that cluster's own.
const (
	KindLinkAttach Kind = iota + 96
	KindLinkAccept
	KindLinkCancel
	KindLinkPromote
	KindLinkDrain
	KindLinkFence
	KindLinkFenceCancel
	KindLinkFenced
	KindLinkGate
	kindLinkEnd
)

// Position is a place in a group's log: the entry Index of Term, and the rolling hash of the log up to it.
type Position struct{ Index, Term, Hash uint64 }

func (p *Position) code(c *coder) { c.u64(&p.Index); c.u64(&p.Term); c.u64(&p.Hash) }

// Origin is where every group's log begins: the first membership, which all first members write alike.
func Origin() Position { return Position{1, 1, Hash(1, 1, nil)} }

// Next is the position after one more entry; data is nil for raft's own entries (empty ones, membership).
func (p Position) Next(term uint64, data []byte) Position {
	return Position{p.Index + 1, term, p.Hash + Hash(p.Index+1, term, data)}
}

// Hash is what one entry counts in a log's rolling hash, which is the wrapping sum over all entries up to a place: so it
// can be followed in both directions. data is nil for raft's own entries.
func Hash(index, term uint64, data []byte) uint64 {
	const a, b = 0x9e3779b97f4a7c15, 0xc2b2ae3d27d4eb4f
	// Every node does this for every entry, link or not, so it is the cheapest sum that sees every byte.
	sum := uint64(crc32.Checksum(data, castagnoli))<<32 | uint64(uint32(len(data)))
	high, low := bits.Mul64(index^a, term^b)
	high, low = bits.Mul64(sum^a, high^low^b)
	return high ^ low
}

// Generation tells promotions apart: Number counts them (0: none yet) and Cluster, the UUID of the promoted cluster, breaks
// the tie of two that counted alike.
type Generation struct {
	Number  uint64
	Cluster string
}

func (g *Generation) code(c *coder) { c.u64(&g.Number); c.str(&g.Cluster) }

// Over says whether g supersedes o.
func (g Generation) Over(o Generation) bool {
	return g.Number > o.Number || g.Number == o.Number && g.Cluster > o.Cluster
}

type (
	// LinkAttach makes a cluster the standby of a source, from a position of the source's log on. It takes effect only on
	// a group that is neither standby nor promoted and whose state is the one that the source had there: Fingerprint is
	// the state's (of an empty machine, or of the seed's snapshot).
	LinkAttach struct {
		Cluster, Source string
		Generation      Generation // the source's
		Position        Position
		Fingerprint     uint64
		// Rewound: the state is the one at which the source was cut when it was promoted, and Position the place before that
		// promotion's entry in its log. It comes next, and counts.
		Rewound bool
	}
	// LinkAccept records that the standby will promote itself once it has all fences of the switch (a UUID).
	LinkAccept struct{ Cluster, Switch string }
	// LinkCancel records that the standby will not promote itself for this switch, whatever comes. Then the source may
	// take its fences back.
	LinkCancel struct{ Cluster, Switch string }
	// LinkPromote makes a standby's group an ordinary one, cut at its position. With a Switch it does nothing if that one
	// was cancelled. Repeating it does nothing.
	LinkPromote struct {
		Cluster    string
		Generation Generation // the new one
		Switch     string     // "" for a promotion that is forced
	}
	// LinkDrain stops deliveries for Millis (from its entry's stamp) at most; a second one can only shorten that.
	LinkDrain struct {
		Cluster, Switch string
		Millis          int64
	}
	// LinkFence stops a group of the source: nothing after it counts but registrations and the cancel. Hosts, separated
	// by commas, are where clients are to go.
	LinkFence struct{ Cluster, Switch, Hosts string }
	// LinkFenceCancel takes the drain and the fence of the switch back.
	LinkFenceCancel struct{ Cluster, Switch string }
	// LinkFenced is LinkFence for good: another cluster was promoted at Cut of this group's log.
	LinkFenced struct {
		Cluster    string
		Generation Generation
		Cut        Position
		Hosts      string
	}
	// LinkGate records how confirms wait for the standby Standby from now on.
	LinkGate struct {
		Cluster, Standby string
		State            GateState
		Text             string // why
	}
)

// GateState says whether confirms wait for a standby.
type GateState uint8

// The states of a gate. GateOff is what no record means: the policy was never met by a standby that had caught up.
const (
	GateOff      GateState = iota
	GateUp                 // the standby holds the gate: confirms wait for it as the policies say
	GateDegraded           // it was absent for too long: confirms wait no longer, until it has caught up
)

func (*LinkAttach) Kind() Kind      { return KindLinkAttach }
func (*LinkAccept) Kind() Kind      { return KindLinkAccept }
func (*LinkCancel) Kind() Kind      { return KindLinkCancel }
func (*LinkPromote) Kind() Kind     { return KindLinkPromote }
func (*LinkDrain) Kind() Kind       { return KindLinkDrain }
func (*LinkFence) Kind() Kind       { return KindLinkFence }
func (*LinkFenceCancel) Kind() Kind { return KindLinkFenceCancel }
func (*LinkFenced) Kind() Kind      { return KindLinkFenced }
func (*LinkGate) Kind() Kind        { return KindLinkGate }

func (x *LinkAttach) code(c *coder) {
	c.str(&x.Cluster)
	c.str(&x.Source)
	x.Generation.code(c)
	x.Position.code(c)
	c.u64(&x.Fingerprint)
	c.boolean(&x.Rewound)
}
func (x *LinkAccept) code(c *coder)      { c.str(&x.Cluster); c.str(&x.Switch) }
func (x *LinkCancel) code(c *coder)      { c.str(&x.Cluster); c.str(&x.Switch) }
func (x *LinkPromote) code(c *coder)     { c.str(&x.Cluster); x.Generation.code(c); c.str(&x.Switch) }
func (x *LinkDrain) code(c *coder)       { c.str(&x.Cluster); c.str(&x.Switch); c.i64(&x.Millis) }
func (x *LinkFence) code(c *coder)       { c.str(&x.Cluster); c.str(&x.Switch); c.str(&x.Hosts) }
func (x *LinkFenceCancel) code(c *coder) { c.str(&x.Cluster); c.str(&x.Switch) }
func (x *LinkFenced) code(c *coder) {
	c.str(&x.Cluster)
	x.Generation.code(c)
	x.Cut.code(c)
	c.str(&x.Hosts)
}
func (x *LinkGate) code(c *coder) {
	c.str(&x.Cluster)
	c.str(&x.Standby)
	c.u8((*uint8)(&x.State))
	c.str(&x.Text)
}

// linkMakers are in the order of the kinds.
var linkMakers = [kindLinkEnd - KindLinkAttach]func() Command{
	func() Command { return new(LinkAttach) },
	func() Command { return new(LinkAccept) },
	func() Command { return new(LinkCancel) },
	func() Command { return new(LinkPromote) },
	func() Command { return new(LinkDrain) },
	func() Command { return new(LinkFence) },
	func() Command { return new(LinkFenceCancel) },
	func() Command { return new(LinkFenced) },
	func() Command { return new(LinkGate) },
}

// replayVersion begins an entry that wraps a source's: the second form of an entry.
const replayVersion = Version | 1<<7

// Replay is an entry of a standby that carries one of its source, unchanged.
type Replay struct {
	Source     string     // cluster UUID
	Generation Generation // the source's
	Group      uint64
	Position   Position // of the inner entry, itself included
	// Fingerprint is what the source's state has after the inner entry, 0 if it is not told.
	Fingerprint uint64
	// Inner is the source's entry as it stands there; empty for raft's own entries, over which the position advances.
	Inner []byte
}

func (x *Replay) code(c *coder) {
	c.str(&x.Source)
	x.Generation.code(c)
	c.u64(&x.Group)
	x.Position.code(c)
	c.u64(&x.Fingerprint)
}

// AppendReplay encodes a standby's entry.
func AppendReplay(dst []byte, x *Replay) []byte {
	c := coder{buf: append(dst, replayVersion), encoding: true}
	x.code(&c)
	return append(c.buf, x.Inner...)
}

// IsReplay says whether an entry is of the form that AppendReplay writes.
func IsReplay(data []byte) bool { return len(data) > 0 && data[0] == replayVersion }

// ReadReplay reads what AppendReplay wrote. Inner is a view of data's end: it begins at len(data)-len(Inner). Errors:
// ErrMalformed, wrapped.
func ReadReplay(data []byte) (x Replay, err error) {
	if !IsReplay(data) {
		return x, fmt.Errorf("%w: not a replayed entry", ErrMalformed)
	}
	c := coder{buf: data[1:]}
	x.code(&c)
	x.Inner = c.buf
	return x, c.err
}

// Stamp is the stamp of an entry (Unix ms), of a replay the inner one's; 0 for one that has none.
func Stamp(data []byte) int64 {
	if IsReplay(data) {
		x, err := ReadReplay(data)
		if err != nil {
			return 0
		}
		data = x.Inner
	}
	if len(data) < headerBytes || data[0] != Version {
		return 0
	}
	return int64(binary.BigEndian.Uint64(data[1:]))
}
