package coretest

import (
	"github.com/understudy-mq/understudy/core"
	"github.com/understudy-mq/understudy/core/entry"
)

// The clusters' UUIDs in tests with a standby.
const (
	SourceCluster  = "source"
	StandbyCluster = "standby"
	RewoundCluster = "rewound" // of the source's nodes once they have come back
)

// Standby is a group of a standby cluster: a machine that is fed with a source's entries, and with entries of its own.
type Standby struct {
	t       TB
	Machine *core.Machine
	Index   uint64 // of its own log
	Stamp   int64  // of the next entry of its own, Unix ms
}

// NewStandby makes the standby of an empty source.
func NewStandby(t TB) *Standby { return newStandby(t, core.New) }

func newStandby(t TB, make func(group uint64) *core.Machine) *Standby {
	s := &Standby{t: t, Machine: make(1), Index: 7}
	s.Own(&entry.LinkAttach{Cluster: StandbyCluster, Source: SourceCluster, Position: entry.Origin(),
		Fingerprint: core.EmptyFingerprint()})
	return s
}

// Own applies control commands as an entry of its own.
func (s *Standby) Own(cmds ...entry.Command) []core.Effect {
	return s.Apply(Entry(s.Stamp, entry.Batch{Commands: encode(cmds)}))
}

// Apply applies an entry of its log.
func (s *Standby) Apply(data []byte) []core.Effect {
	s.t.Helper()
	s.Index++
	fx := core.Effects{}
	if err := s.Machine.Apply(s.Index, data, &fx); err != nil {
		s.t.Fatal(err)
	}
	return fx.List
}

// Envelope wraps the source's next entry, with the fingerprint that the source has after it (0 for none).
func (s *Standby) Envelope(inner []byte, fingerprint uint64) *entry.Replay {
	l := s.Machine.Link()
	return &entry.Replay{Source: l.Source, Generation: l.SourceGeneration, Group: s.Machine.Group(),
		Position: l.Position.Next(1, inner), Fingerprint: fingerprint, Inner: inner}
}

// Follow replays the source's next entry, which has left it with this fingerprint, and checks that nothing is told to
// clients, that the states agree, and that the standby's own facts are as before.
func (s *Standby) Follow(inner []byte, fingerprint uint64) {
	s.t.Helper()
	own := s.Machine.Link()
	x := s.Envelope(inner, fingerprint)
	if fx := s.Apply(entry.AppendReplay(nil, x)); len(fx) > 0 {
		s.t.Fatalf("entry %d of the source has effects on the standby: %+v", x.Position.Index, fx)
	}
	l := s.Machine.Link()
	if got := s.Machine.Fingerprint(); l.Position != x.Position || l.Diverged != 0 || got != fingerprint {
		s.t.Fatalf("after entry %d of the source the standby is at %d with fingerprint %x, not %x (diverged %d)",
			x.Position.Index, l.Position.Index, got, fingerprint, l.Diverged)
	}
	own.Position, own.Stamp, own.SourceGate, own.Rewound = l.Position, l.Stamp, l.SourceGate, l.Rewound
	if l != own {
		s.t.Fatalf("entry %d of the source has made of the standby's own facts %+v, which were %+v", x.Position.Index, l, own)
	}
	if want := s.Machine.Recompute(); want != fingerprint {
		s.t.Fatalf("entry %d of the source: the standby's fingerprint is kept up wrongly", x.Position.Index)
	}
}
