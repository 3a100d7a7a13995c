package core

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"

	"github.com/understudy-mq/understudy/core/entry"
)

// What a named session has published with an id is remembered, so that it is known when it is sent again. An id is kept as
// a digest, in chunks of a row each: the window of a session is its chunks, of which the oldest go when there are newer ids
// enough, when they are too old, or when the group has too many in all. The record is made in the command that enqueues
// the message.

const (
	digestBytes = 16
	chunkIDs    = 256
	windowAge   = 600_000 // that an id is kept beyond the session's expiry, in milliseconds
)

// digest stands for an id of one session.
type digest [digestBytes]byte

type windowRow struct {
	Session uint64
	Chunk   uint64 // number within the group: the order in which chunks were begun
	Stamp   int64  // of the newest id
	Digests []byte
}

// window is one chunk of a session's window.
type window struct {
	meta
	windowRow
	session *session
	timer   timer
}

func (w *window) key(dst []byte) []byte { return keyOf(dst, tableWindow, w.Session, w.Chunk) }
func (w *windowRow) code(c *rowCoder) {
	c.u64(&w.Session)
	c.u64(&w.Chunk)
	c.i64(&w.Stamp)
	c.bytes(&w.Digests)
}

func (w *window) len() int { return len(w.Digests) / digestBytes }

func (w *window) each(visit func(digest)) {
	for at := 0; at < len(w.Digests); at += digestBytes {
		visit(digest(w.Digests[at:]))
	}
}

func (w *window) timing() *timer { return &w.timer }

func (w *window) deadline() int64 { return w.Stamp + int64(w.session.Expiry)*1000 + windowAge }

func (w *window) due(m *Machine) {
	if !w.gone && w.deadline() <= m.header.Stamp {
		m.dropWindow(w)
	}
}

// dedup is all that a machine remembers of publishes. What is here is derived from the rows.
type dedup struct {
	seen    map[digest]struct{}
	windows series[*window]

	publishers int
}

func (d *dedup) add(w *window) {
	d.windows.add(w)
	w.session.windows = append(w.session.windows, w)
	w.timer = timer{table: tableWindow, id: w.Chunk, owner: w}
	w.each(d.note)
}

func (d *dedup) note(x digest) {
	if d.seen == nil {
		d.seen = make(map[digest]struct{})
	}
	d.seen[x] = struct{}{}
}

// token says how to recognise a publish: by a digest, or by a publisher and its sequence. The zero token does not.
type token struct {
	Digest    []byte
	Publisher []byte
	Sequence  uint64
}

func (t *token) code(c *rowCoder) {
	c.bytes(&t.Digest)
	c.bytes(&t.Publisher)
	c.u64(&t.Sequence)
}

func (t *token) none() bool { return len(t.Digest) == 0 && t.Sequence == 0 && len(t.Publisher) == 0 }

// tokenOf makes a publish's token, which is valid until the next command.
func (m *Machine) tokenOf(s *session, x *entry.Publish) token {
	if len(x.DedupID) == 0 {
		return token{Publisher: x.Publisher, Sequence: x.Sequence}
	}
	m.hashing = binary.BigEndian.AppendUint64(m.hashing[:0], s.ID)
	m.hashing = append(m.hashing, x.DedupID...)
	sum := sha256.Sum256(m.hashing)
	m.hashing = append(m.hashing[:0], sum[:digestBytes]...)
	return token{Digest: m.hashing}
}

// familiarity says what is known of a publish.
type familiarity uint8

const (
	isNew familiarity = iota
	isRepeated
	isTooOld // to know
)

func (m *Machine) recognise(s *session, t *token) familiarity {
	if len(t.Digest) > 0 {
		if _, ok := m.dedup.seen[digest(t.Digest)]; ok {
			return isRepeated
		}
		return isNew
	}
	if t.Sequence == 0 {
		return isTooOld
	}
	if p := s.publisher(t.Publisher); p != nil {
		return p.recognise(t.Sequence)
	}
	return isNew
}

// remember records a publish that has been enqueued.
func (m *Machine) remember(s *session, t *token) {
	switch {
	case t.none():
	case len(t.Digest) > 0:
		m.rememberDigest(s, digest(t.Digest))
	default:
		m.rememberSequence(s, t)
	}
}

func (m *Machine) rememberDigest(s *session, x digest) {
	n := len(s.windows)
	if n == 0 || s.windows[n-1].len() >= chunkIDs {
		m.header.Chunks++
		m.touch(&m.header)
		m.dedup.add(&window{session: s, windowRow: windowRow{Session: s.ID, Chunk: m.header.Chunks}})
		n++
	}
	w := s.windows[n-1]
	w.Digests = append(w.Digests, x[:]...)
	w.Stamp = m.header.Stamp
	m.dedup.note(x)
	m.touch(w)
	if (n-2)*chunkIDs+w.len() >= m.bounds.windowIDs { // without the oldest
		m.dropWindow(s.windows[0])
	}
	for len(m.dedup.seen) > m.bounds.groupIDs {
		m.dropWindow(m.dedup.windows.oldest())
	}
}

// dropWindow forgets the ids of a chunk.
func (m *Machine) dropWindow(w *window) {
	w.each(func(x digest) { delete(m.dedup.seen, x) })
	s := w.session
	at := slices.Index(s.windows, w)
	s.windows = slices.Delete(s.windows, at, at+1)
	w.gone = true
	m.touch(w)
	w.Digests = nil
	m.dedup.windows.tidy()
}

// forgetPublishes ends what a session remembers.
func (m *Machine) forgetPublishes(s *session) {
	for len(s.windows) > 0 {
		m.dropWindow(s.windows[len(s.windows)-1])
	}
	for _, p := range s.publishers {
		p.gone = true
		m.touch(p)
	}
	m.dedup.publishers -= len(s.publishers)
	s.publishers = nil
}

// identify finds out what is known of the publish at hand; true if that is all there is to do about it. In a transaction
// it is the commit that counts.
func (m *Machine) identify(h *channel, x *entry.Publish) (done bool) {
	m.token = m.tokenOf(h.session, x)
	if code, text := m.checkPublisher(h.session, &m.token); code != CodeOK {
		m.refuse(h, entry.KindPublish, code, text)
		return true
	}
	if h.Tx {
		return false
	}
	known := m.recognise(h.session, &m.token)
	if known == isNew {
		return false
	}
	m.dropParts(h)
	switch {
	case known == isRepeated:
		m.counts.Duplicates++
		m.confirm(h, EffectConfirmed)
	case h.Confirm:
		m.confirm(h, EffectNacked)
	default:
		m.refuse(h, entry.KindPublish, CodePreconditionFailed, tooOldText)
	}
	return true
}

const tooOldText = "sequence is too far behind the publisher's highest to tell whether the message was sent before"

// rememberAtHand records the publish at hand, which has been enqueued.
func (m *Machine) rememberAtHand(s *session) {
	if m.marked {
		m.remember(s, &m.token)
	}
}

// tooOld says whether a transaction has a publish that nobody can tell to be new.
func (m *Machine) tooOld(h *channel) bool {
	for i := range h.Pending {
		if t := &h.Pending[i].Token; !t.none() && m.recognise(h.session, t) == isTooOld {
			return true
		}
	}
	return false
}
