package link

import "github.com/understudy-mq/understudy/core/entry"

// Role is what a cluster's group is to the link.
type Role string

// The roles.
const (
	Primary  Role = "primary" // never a standby
	Standby  Role = "standby" // replays its source
	Promoted Role = "promoted"
)

// Standing is a group of this cluster as this node has applied it.
type Standing struct {
	Role       Role
	Leads      bool // this node leads the group
	Generation entry.Generation
	// Of a standby, and as they were at its promotion.
	Source           string // the source's UUID
	SourceGeneration entry.Generation
	Position         entry.Position
	Stamp            int64  // of the entry there, Unix ms
	Diverged         string // why what the source sent does not fit this state, "" if it does
	Fence            string // the planned switch for which the source has fenced the group, "" for none
	Switch           string // the planned switch that this standby has judged
	Accepted         bool   // it promotes itself for Switch
	Cancelled        bool   // it will not
	Undone           string // the switch that the source has taken back last in the group, as replayed
	Sessions         int    // attached to a node of the source, as of the position
}
