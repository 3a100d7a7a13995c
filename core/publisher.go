package core

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/understudy-mq/understudy/core/entry"
)

// A publisher that numbers its messages is remembered in constant space: its highest sequence, and a bit for each of those
// below it that are not too far behind.

const (
	sequenceBits  = 4096
	publishersMax = 64 // of a session
)

type publisherRow struct {
	Session uint64
	Name    string
	Highest uint64
	Bits    []byte // bit i for the sequence in (Highest-sequenceBits, Highest] that is i modulo sequenceBits
}

type publisher struct {
	meta
	publisherRow
}

func (p *publisher) key(dst []byte) []byte {
	return append(keyOf(dst, tablePublisher, p.Session), p.Name...)
}

func (p *publisherRow) code(c *rowCoder) {
	c.u64(&p.Session)
	c.str(&p.Name)
	c.u64(&p.Highest)
	c.bytes(&p.Bits)
}

func (s *session) searchPublisher(name []byte) (int, bool) {
	return slices.BinarySearchFunc(s.publishers, name, func(p *publisher, name []byte) int { return cmp.Compare(p.Name, string(name)) })
}

func (s *session) publisher(name []byte) *publisher {
	if at, ok := s.searchPublisher(name); ok {
		return s.publishers[at]
	}
	return nil
}

func (p *publisherRow) bit(sequence uint64) (at int, mask byte) {
	i := sequence % sequenceBits
	return int(i / 8), 1 << (i % 8)
}

func (p *publisherRow) recognise(sequence uint64) familiarity {
	switch {
	case sequence > p.Highest:
		return isNew
	case p.Highest-sequence >= sequenceBits:
		return isTooOld
	}
	if at, mask := p.bit(sequence); p.Bits[at]&mask != 0 {
		return isRepeated
	}
	return isNew
}

// record notes a sequence that is new.
func (p *publisherRow) record(sequence uint64) {
	if sequence > p.Highest {
		if sequence-p.Highest >= sequenceBits {
			clear(p.Bits)
		} else {
			for x := p.Highest + 1; x < sequence; x++ {
				at, mask := p.bit(x)
				p.Bits[at] &^= mask
			}
		}
		p.Highest = sequence
	}
	at, mask := p.bit(sequence)
	p.Bits[at] |= mask
}

func (m *Machine) rememberSequence(s *session, t *token) {
	at, ok := s.searchPublisher(t.Publisher)
	if !ok {
		p := &publisher{publisherRow: publisherRow{Session: s.ID, Name: string(t.Publisher), Bits: make([]byte, sequenceBits/8)}}
		s.publishers = slices.Insert(s.publishers, at, p)
		m.dedup.publishers++
	}
	p := s.publishers[at]
	if p.recognise(t.Sequence) == isNew { // of a transaction the later ones may be too old by now
		p.record(t.Sequence)
		m.touch(p)
	}
}

// checkPublisher refuses one more publisher than a session may have, and a name that is too long.
func (m *Machine) checkPublisher(s *session, t *token) (Code, string) {
	switch {
	case len(t.Digest) > 0 || s.publisher(t.Publisher) != nil:
		return CodeOK, ""
	case len(t.Publisher) > entry.PublisherBytesMax:
		return CodePreconditionFailed, fmt.Sprintf("publisher's name has %d bytes, at most %d are taken", len(t.Publisher), entry.PublisherBytesMax)
	case len(s.publishers) >= publishersMax:
		return CodePreconditionFailed, fmt.Sprintf("session has %d publishers already, no more are taken", publishersMax)
	case m.dedup.publishers >= m.bounds.numbering:
		return CodePreconditionFailed, fmt.Sprintf("broker remembers %d publishers already, no more are taken", m.bounds.numbering)
	}
	return CodeOK, ""
}
