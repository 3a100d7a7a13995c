package store

import (
	"bytes"
	"context"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/understudy-mq/understudy/core"
	"github.com/understudy-mq/understudy/core/entry"
)

// raft's term in these logs.
const term = 1

// link is the group's part in the standby link.
func (b *broker) link() (l core.Link) {
	b.g.View(func(m *core.Machine) { l = m.Link() })
	return l
}

// replay applies what the source has and the standby has not.
func (b *broker) replay(source *broker) {
	b.t.Helper()
	for {
		l := b.link()
		at := l.Position.Index
		if at == source.log.last {
			break
		}
		inner := source.log.entries[at+1]
		data := entry.AppendReplay(nil, &entry.Replay{Source: l.Source, Group: brokerGroup, Position: l.Position.Next(term, inner), Inner: inner})
		i := b.log.append(data)
		b.must(b.g.Apply(i, term, data))
		b.log.note(i, b.g.Fingerprint())
		if b.link().Position.Index != at+1 {
			b.t.Fatalf("entry %d of the source was not replayed", at+1)
		}
	}
	b.g.Round()
	if len(b.fx) > 0 {
		b.t.Fatalf("a standby tells clients %+v", b.fx)
	}
	if b.g.Fingerprint() != source.g.Fingerprint() {
		b.t.Fatal("fingerprints differ")
	}
}

// control applies a control command as an entry of its own.
func (b *broker) control(cmd entry.Command) {
	b.t.Helper()
	b.apply(0, 0, encode(cmd))
	b.fx = nil
}

// newSourceBroker is a broker of which part of the contents were moved out of the log.
func newSourceBroker(t *testing.T) (*broker, func(int)) {
	source, rng := newBroker(t, vfs.NewMem()), newRNG(5)
	source.setUp()
	source.control(&entry.ClusterInit{ID: "source"})
	live := func(steps int) {
		for range steps {
			source.step(rng.IntN)
		}
	}
	live(100)
	at, _ := source.g.Applied()
	source.evacuate(at)
	live(100)
	return source, live
}

func TestASeedMakesAStandbyThatFollows(t *testing.T) {
	source, live := newSourceBroker(t)
	at, hash := source.g.RollingHash()
	seed := (&rig{t: t, g: source.g}).stream()
	live(50)

	to := newBroker(t, vfs.NewMem())
	to.must(to.g.Seed(context.Background(), bytes.NewReader(seed), []byte("one voter")))
	if to.g.Seed(context.Background(), bytes.NewReader(seed), []byte("one voter")) == nil {
		t.Error("a group with a state was seeded")
	}
	if i, h := to.g.RollingHash(); i != at || h != hash || string(to.g.Conf()) != "one voter" {
		t.Errorf("seeded at %d with hash %x and membership %q, want %d and %x", i, h, to.g.Conf(), at, hash)
	}
	to.g.View(func(m *core.Machine) {
		if m.ClusterID() != "" || m.Link() != (core.Link{}) {
			t.Errorf("the source's own facts were carried: cluster %q, link %+v", m.ClusterID(), m.Link())
		}
	})
	to.log = source.log.from(at+1, at) // contents are compared with it; every read fails
	to.allIntact()
	to.log.entries, to.log.sums = map[uint64][]byte{}, map[uint64]uint64{}
	to.control(&entry.LinkAttach{Source: "source", Position: entry.Position{Index: at, Term: term, Hash: hash}, Fingerprint: to.g.Fingerprint()})
	to.replay(source)
	to.checkpoint()
	to.close()
	to.open()
	live(50)
	to.replay(source)
	if _, h := source.g.RollingHash(); to.link().Position.Hash != h {
		t.Errorf("the standby's rolling hash is %x, the source's %x", to.link().Position.Hash, h)
	}
}

func TestASeedBrokenOffAnywhereLeavesTheGroupEmpty(t *testing.T) {
	source, _ := newSourceBroker(t)
	seed := (&rig{t: t, g: source.g}).stream()
	to := newBroker(t, vfs.NewMem())
	for cut := 0; cut < len(seed); cut += 1 + len(seed)/50 {
		if to.g.Seed(context.Background(), bytes.NewReader(seed[:cut]), []byte("one voter")) == nil {
			t.Fatalf("a seed of %d of %d bytes was taken", cut, len(seed))
		}
		if at, _ := to.g.Applied(); at != 0 || to.g.Fingerprint() != core.EmptyFingerprint() {
			t.Fatalf("a seed of %d of %d bytes left something", cut, len(seed))
		}
	}
	to.must(to.g.Seed(context.Background(), bytes.NewReader(seed), []byte("one voter")))
}

// TestAStandbyReadsContentsFromItsOwnLog: what a replay carries lies elsewhere in the standby's log than in the source's.
func TestAStandbyReadsContentsFromItsOwnLog(t *testing.T) {
	source, live := newSourceBroker(t)
	to := newBroker(t, vfs.NewMem())
	to.control(&entry.LinkAttach{Source: "source", Fingerprint: core.EmptyFingerprint()})
	to.replay(source)
	to.allIntact()
	at, _ := to.g.Applied()
	to.evacuate(at)
	live(50)
	to.replay(source)
	to.allIntact()
	to.restart()
	to.allIntact()
}

func TestTheRollingHashOutlivesARestart(t *testing.T) {
	b, live := newSourceBroker(t)
	b.must(b.g.ApplyConf(b.log.append(nil), term, []byte("conf")))
	want := uint64(0)
	for i := uint64(1); i <= b.log.last; i++ {
		want += entry.Hash(i, term, b.log.entries[i])
	}
	if i, h := b.g.RollingHash(); i != b.log.last || h != want {
		t.Fatalf("rolling hash %x at %d, want %x at %d", h, i, want, b.log.last)
	}
	b.must(b.g.ApplyConf(b.log.last, term, []byte("another in its stead")))
	b.close()
	b.open()
	if i, h := b.g.RollingHash(); i != b.log.last || h != want {
		t.Errorf("rolling hash %x at %d after a restart, want %x at %d", h, i, want, b.log.last)
	}
	live(1)
}
