package api

import "fmt"

// Link is /api/link: the node's and its cluster's part in the standby link.
type Link struct {
	Role              string       `json:"role"` // primary, standby, promoted
	Cluster           string       `json:"cluster"`
	Generation        uint64       `json:"generation"`                   // promotions up to this cluster's
	GenerationCluster string       `json:"generation_cluster,omitempty"` // the cluster that the last of them made
	Source            string       `json:"source,omitempty"`             // of a standby or a promoted cluster: the source's UUID
	Fenced            bool         `json:"fenced"`
	FencedReason      string       `json:"fenced_reason,omitempty"`
	SplitBrain        bool         `json:"split_brain_suspected"`
	SplitBrainReason  string       `json:"split_brain_reason,omitempty"`
	Groups            []LinkGroup  `json:"groups"`
	Sources           []LinkSource `json:"sources"` // the source's nodes, as this node reaches them
	Readers           []LinkReader `json:"readers"` // the standbys that have asked this node since it started
	Holds             []LinkHold   `json:"holds"`   // what this node's log keeps for standbys
	Level             LinkLevel    `json:"level"`
	// Switch is the planned switch that is under way, or the last; null where there was none.
	Switch *LinkSwitch `json:"switch"`
}

// LinkSwitch is how far a planned switch is, as far as the node has applied.
type LinkSwitch struct {
	ID string `json:"id"` // UUID
	// Step of the source, and of the standby as far as it has replayed that: draining, fencing (some groups are fenced), fenced. Then of
	// the standby alone: accepted (it promotes itself), cancelled (it never will for this switch).
	Step string `json:"step"`
}

// LinkLevel is the feature level of a cluster: what may be needed to read its log.
type LinkLevel struct {
	Now   uint64 `json:"now"`   // of the system group
	Reads uint64 `json:"reads"` // what this node reads
	// Members is what all members of the cluster read, and HeldBy who reads less than this node: nothing is raised above that.
	Members uint64 `json:"members"`
	HeldBy  string `json:"held_by,omitempty"`
}

// LinkPosition is a place in a source's log.
type LinkPosition struct {
	Index uint64 `json:"index"`
	Term  uint64 `json:"term"`
	Stamp int64  `json:"stamp"` // of the entry there, Unix ms
	Hash  string `json:"hash"`  // the rolling hash of all entries up to it, 16 hexadecimal digits
}

// LinkGroup is a group of a standby: how far it is, as this node knows it.
type LinkGroup struct {
	Group    uint64       `json:"group"`
	Role     string       `json:"role"`
	State    string       `json:"state"` // idle, seeding, following, waiting, halted
	Position LinkPosition `json:"position"`
	// LagEntries are known at the source and not applied here; LagSeconds is the age of the oldest of them, or for how long no
	// node of the source has proven how far it is (it is silent, or cut off from its own cluster): since one last did, or since this
	// node started. Both are 0 where the cluster is no standby.
	LagEntries uint64   `json:"lag_entries"`
	LagSeconds float64  `json:"lag_seconds"`
	ContactAge *float64 `json:"contact_age_seconds"` // null before the first answer
	// CompleteAge is how long ago nothing was committed at the source that is not here, as is proven: what a promotion now would name
	// as missing_since. Null where that is not known, and where the cluster is no standby.
	CompleteAge *float64 `json:"complete_age_seconds"`
	SourceNode  string   `json:"source_node,omitempty"`
	Mismatches  uint64   `json:"mismatches"`
	Error       *string  `json:"error"`
}

// LinkSource is a node of the source.
type LinkSource struct {
	Address    string   `json:"address"`
	ContactAge *float64 `json:"contact_age_seconds"`
	Role       string   `json:"role,omitempty"`
	Fenced     bool     `json:"fenced"`
	Error      string   `json:"error,omitempty"`
	// Hold is what the node keeps of its log for this standby, as it told last.
	Hold *LinkHold `json:"hold,omitempty"`
}

// LinkReader is a standby that reads here.
type LinkReader struct {
	Name      string           `json:"name"`
	Standby   string           `json:"standby,omitempty"`
	Idle      float64          `json:"idle_seconds"`
	Positions []ReaderPosition `json:"positions"`
}

// ReaderPosition is how far a reader is in a group.
type ReaderPosition struct {
	Group  uint64 `json:"group"`
	Index  uint64 `json:"index"`
	Behind uint64 `json:"behind_entries"`
}

// LinkHold is what a node's log keeps for a standby.
type LinkHold struct {
	Name    string  `json:"name"`
	State   string  `json:"state"` // reserved, extended, lost
	Holding bool    `json:"holding"`
	Reason  string  `json:"reason,omitempty"`
	Silent  float64 `json:"silent_seconds"`
	Held    int64   `json:"held_bytes"`
	Left    int64   `json:"left_bytes"` // -1: not known
	Level   uint64  `json:"level"`      // the feature level that all members of the standby read
}

// Promotion is /api/link/promotion and the answer of both kinds of promotion: what this node knew at the cut.
type Promotion struct {
	Kind              string           `json:"kind"` // forced or planned
	Cluster           string           `json:"cluster"`
	Source            string           `json:"source"`
	Generation        uint64           `json:"generation"`
	At                int64            `json:"at"` // Unix ms, this node's clock
	Groups            []PromotionGroup `json:"groups"`
	SessionsLive      int              `json:"sessions_live"`
	FencesDelivered   map[string]bool  `json:"fence_delivered,omitempty"` // by address of the former source
	NothingCanMissing bool             `json:"nothing_can_be_missing"`    // a planned switch, proven by the fences
}

// PromotionGroup is a group's cut, and a bound for what may be missing beyond it.
type PromotionGroup struct {
	Group    uint64       `json:"group"`
	Position LinkPosition `json:"position"`
	// Fingerprint is the state's at the cut, before the promotion changed it: equal on all nodes, and the source's there.
	Fingerprint string `json:"fingerprint"`
	// LagEntries were known at the source at the last contact and are missing.
	LagEntries  uint64   `json:"lag_entries"`
	LastContact *int64   `json:"last_contact"` // Unix ms; null if there was none since the node started
	ContactAge  *float64 `json:"contact_age_seconds"`
	// MissingSince: all that the source confirmed before is here. Unix ms of this node's clock: whoever compares it with another
	// machine's takes off what the two clocks differ by. Null if this node cannot tell; after a planned switch nothing is missing at all.
	MissingSince *int64 `json:"missing_since"`
	Sessions     int    `json:"sessions_live"`
}

// Switchover asks for a planned switch.
type Switchover struct {
	DrainSeconds float64 `json:"drain_seconds"` // from 0 to DrainSecondsMax
}

// DrainSecondsMax leaves the rest of the two minutes that a switch is waited for to what comes after the drain.
const DrainSecondsMax = 100

// Check refuses a drain that no switch can have.
func (s Switchover) Check() error {
	if !(s.DrainSeconds >= 0 && s.DrainSeconds <= DrainSecondsMax) { // neither is NaN
		return fmt.Errorf("a drain of %v seconds is not from 0 to %d", s.DrainSeconds, DrainSecondsMax)
	}
	return nil
}
