package wire

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"github.com/understudy-mq/understudy/core/entry"
)

// The routes of the link port.
const (
	PathRead   = "/link/v1/read"   // ReadRequest, answered with a stream (Reader)
	PathBeat   = "/link/v1/beat"   // Beat, answered with BeatAnswer
	PathSeed   = "/link/v1/seed"   // SeedRequest, answered with Seed; its files lie below
	PathRewind = "/link/v1/rewind" // RewindRequest, answered with Rewind
	PathDrain  = "/link/v1/drain"  // Drain, answered with DrainAnswer; needs a token that may fence
	PathFence  = "/link/v1/fence"  // Fence, answered with FenceAnswer; needs a token that may fence
)

// Bounds of what is taken from the other side.
const (
	BodyBytesMax  = 256 << 10 // a request or an answer in JSON
	ReadBytesMax  = 64 << 20  // entries in one answer to a read
	WaitMillisMax = 30_000    // a long poll
	NameBytesMax  = 128       // a reader's name
)

// Position is a place in a group's log of the source.
type Position struct {
	Group uint64
	entry.Position
}

// ReadRequest asks for the entries after a position. It acknowledges everything up to it.
type ReadRequest struct {
	Reader     string   `json:"reader"`            // the standby's name: its hold's key
	Standby    string   `json:"standby,omitempty"` // the standby's cluster UUID: a source that is the standby itself refuses
	Cluster    string   `json:"cluster,omitempty"` // the source's UUID as the position has it, "" for a first read
	After      Position `json:"after"`
	BytesMax   int      `json:"bytes_max"`
	WaitMillis int      `json:"wait_ms"`
	Level      uint64   `json:"level"` // the feature level that all the standby's members can read
}

// Beat tells a source node how far a standby is in every group, so that it knows what to keep.
type Beat struct {
	Reader    string     `json:"reader"`
	Standby   string     `json:"standby,omitempty"`
	Cluster   string     `json:"cluster,omitempty"`
	Level     uint64     `json:"level"`
	Positions []Position `json:"positions"`
	// Prove are groups of which the node is to prove, if it can, what is committed (GroupBeat).
	Prove []uint64 `json:"prove,omitempty"`
}

// BeatAnswer is how far the source node is.
type BeatAnswer struct {
	Cluster    string           `json:"cluster"`
	Generation entry.Generation `json:"generation"`
	Node       uint64           `json:"node"`
	Role       string           `json:"role"`
	Fenced     bool             `json:"fenced"`
	Groups     []GroupBeat      `json:"groups"`
	Hold       *Hold            `json:"hold,omitempty"` // what the node keeps for the standby
}

// Hold is what a source node's log keeps for a standby: replication.Hold, as the standby hears of it.
type Hold struct {
	State   string `json:"state"` // reserved, extended, lost
	Holding bool   `json:"holding"`
	Reason  string `json:"reason,omitempty"` // why nothing is kept any more
	Held    int64  `json:"held_bytes"`
	Left    int64  `json:"left_bytes"` // that the log may still grow by; -1 if that is not known
}

// GroupBeat is a source's group: what its node has applied, which says nothing of what others have, and what is proven.
type GroupBeat struct {
	Group   uint64 `json:"group"`
	Applied uint64 `json:"applied"`
	Leads   bool   `json:"leads,omitempty"` // as far as it knows: it is the one that proves with the fewest words
	// Committed is an entry beyond which nothing was committed anywhere in the source when the beat was sent: a majority has said so
	// since it came (replication.Group.Committed), and the standby's position is a place of this log. 0: nothing is proven.
	Committed uint64 `json:"committed,omitempty"`
}

// SeedRequest asks for a snapshot of every group, under the name by which the standby will read.
type SeedRequest struct {
	Reader  string `json:"reader"`
	Standby string `json:"standby,omitempty"`
}

// Seed is a set of snapshots that a source node keeps ready: one file a group, below PathSeed/ID/GROUP, in ranges.
type Seed struct {
	ID         string           `json:"id"`
	Cluster    string           `json:"cluster"`
	Generation entry.Generation `json:"generation"`
	Files      []SeedFile       `json:"files"`
}

// SeedFile is one group's snapshot: the position that it stands at, its size and the SHA-256 of its bytes in hexadecimal.
type SeedFile struct {
	Position    Position `json:"position"`
	Fingerprint uint64   `json:"fingerprint"` // of the state there
	Bytes       int64    `json:"bytes"`
	SHA256      string   `json:"sha256"`
}

// RewindRequest asks where this cluster's former source, Cluster, was cut when this one was promoted in its place. The log is
// kept from there on under the name Reader, by which the former source will read.
type RewindRequest struct {
	Reader  string `json:"reader"`
	Standby string `json:"standby,omitempty"` // the UUID that the former source's nodes will have as a standby
	Cluster string `json:"cluster"`
}

// Rewind is what a former source needs to know to wind its state back to the cuts and to go on from there.
type Rewind struct {
	Cluster    string           `json:"cluster"`
	Generation entry.Generation `json:"generation"`
	Cuts       []Cut            `json:"cuts"`
}

// Cut is where a group was cut: the place in the former source's log, the fingerprint of the state there, and the place in
// the promoted cluster's log, which is the one before the promotion's own entry.
type Cut struct {
	Former      Position `json:"former"`
	Fingerprint uint64   `json:"fingerprint"`
	Here        Position `json:"here"`
}

// Drain asks a source to take no new publishes and to deliver nothing new, for Millis at most, and then to commit a fence
// in every group. Hosts are where its clients are to go.
type Drain struct {
	Standby string   `json:"standby"`
	Cluster string   `json:"cluster"`
	Switch  string   `json:"switch"` // the switch's UUID: the same one may be asked again
	Millis  int64    `json:"drain_ms"`
	Hosts   []string `json:"hosts,omitempty"`
	// Cancelled takes the drain, and fences made by it, back. The standby has recorded that it will not promote itself.
	Cancelled bool `json:"cancelled,omitempty"`
}

// DrainAnswer is how far the switch is on the source: draining, fencing, fenced, cancelled. Fences are the groups' fence entries.
type DrainAnswer struct {
	State  string     `json:"state"`
	Fences []Position `json:"fences,omitempty"`
}

// Fence tells a former source that another cluster was promoted at these positions of its log.
type Fence struct {
	Generation entry.Generation `json:"generation"`
	Cluster    string           `json:"cluster"` // the source that is to be fenced
	Cuts       []Position       `json:"cuts"`
	Hosts      []string         `json:"hosts,omitempty"`
}

// FenceAnswer says whether the fence is committed in every group, or why not.
type FenceAnswer struct {
	Fenced  bool   `json:"fenced"`
	Reason  string `json:"reason,omitempty"`
	Cluster string `json:"cluster,omitempty"` // of the node that answers, where that is not the one to be fenced
}

// Refusal is the body of an answer that is no success.
type Refusal struct {
	Reason string `json:"reason"`
}

// ReadJSON decodes a body of at most BodyBytesMax into v.
func ReadJSON(r io.Reader, v any) error {
	b, err := io.ReadAll(io.LimitReader(r, BodyBytesMax+1))
	if err != nil {
		return fmt.Errorf("link: body: %w", err)
	}
	if len(b) > BodyBytesMax {
		return fmt.Errorf("link: body is over %d bytes", BodyBytesMax)
	}
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("link: body is not understood: %w", err)
	}
	return nil
}

// WriteJSON answers with v; what cannot be sent any more is lost.
func WriteJSON(w http.ResponseWriter, status int, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		status, b = http.StatusInternalServerError, []byte(`{"reason":"the answer cannot be encoded"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(b)
}
