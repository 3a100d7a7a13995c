package telemetry

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
)

// Link is a node's part in the standby link.
type Link struct {
	Role       string // primary, standby, promoted
	Generation uint64
	Fenced     bool
	SplitBrain bool
	Waiting    int     // vhosts whose publishers wait at this node, for a standby or a switch
	Seed       float64 // of a seed under way: from 0 to 1
	Groups     []LinkGroup
	Readers    []LinkReader
	Holds      []LinkHold
	Confirms   []LinkConfirms
}

// LinkGroup is a group of a standby.
type LinkGroup struct {
	Group       uint64
	State       string
	Position    uint64
	LagEntries  uint64
	LagSeconds  float64
	ContactAge  float64 // negative: there was none
	CompleteAge float64 // negative: not known
	Mismatches  uint64
}

// LinkReader is how far a standby lies behind in a group.
type LinkReader struct {
	Name          string
	Group, Behind uint64
}

// LinkHold is what the log keeps for a standby.
type LinkHold struct {
	Name, State string
	Bytes, Left int64
}

// LinkConfirms says how a data group's confirms wait for a standby: off, up, degraded; and for how long they were degraded.
type LinkConfirms struct {
	Group           uint64
	Mode            string
	DegradedSeconds float64
}

// Words of labels that are shown with 0 and 1.
var (
	linkRoles    = []string{"primary", "standby", "promoted"}
	linkStates   = []string{"idle", "seeding", "following", "waiting", "halted"}
	holdStates   = []string{"reserved", "extended", "lost"}
	confirmModes = []string{"off", "up", "degraded"}
)

// linkCollector reads a node's part in the standby link at each scrape.
type linkCollector struct {
	read func() Link

	role, state, position, lagEntries, lagSeconds, contactAge, complete, readers, behind *prometheus.Desc
	holdBytes, holdLeft, holdState, confirms, degraded, generation, fenced               *prometheus.Desc
	split, mismatch, seed, waiting                                                       *prometheus.Desc
}

var _ prometheus.Collector = (*linkCollector)(nil)

func newLinkCollector(read func() Link) *linkCollector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("understudy_link_"+name, help, labels, nil)
	}
	return &linkCollector{
		read:       read,
		role:       desc("role", "1 for what the cluster is to the standby link.", "role"),
		state:      desc("follower_state", "1 for what a standby's follower does on this node.", "group", "state"),
		position:   desc("position_index", "Entry of the source's log that was replayed last.", "group"),
		lagEntries: desc("lag_entries", "Entries that the source is known to have and this node has not.", "group"),
		lagSeconds: desc("lag_seconds", "Age of the oldest of those, or of the newest proof of how far the source is.", "group"),
		contactAge: desc("contact_age_seconds", "Time since the source's newest answer was asked for.", "group"),
		complete:   desc("complete_age_seconds", "Time since nothing was committed at the source that is not here: what a crash now would cost at most.", "group"),
		readers:    desc("readers", "Standbys that have asked this node."),
		behind:     desc("reader_behind_entries", "Entries that this node has and a standby has not.", "reader", "group"),
		holdBytes:  desc("hold_bytes", "Log that has entries which a standby has not.", "reader"),
		holdLeft:   desc("hold_left_bytes", "By how much the log may grow before nothing is kept for a standby.", "reader"),
		holdState:  desc("hold_state", "1 for how the log is kept for a standby.", "reader", "state"),
		confirms:   desc("confirm_mode", "1 for how confirms wait for a standby.", "group", "mode"),
		degraded:   desc("degraded_seconds_total", "Time for which confirms did not wait although a policy asks for it.", "group"),
		generation: desc("generation", "Promotions up to this cluster's."),
		fenced:     desc("fenced", "1 if the cluster has handed over to another."),
		split:      desc("split_brain_suspected", "1 if two clusters may serve at once."),
		mismatch:   desc("hash_mismatch_total", "Differences found between the source's history and this standby's.", "group"),
		waiting:    desc("publishers_wait", "Vhosts whose publishers have to wait at this node, for a standby or a planned switch."),
		seed:       desc("seed_progress_ratio", "How much of a seed under way is here."),
	}
}

// WatchLink adds a node's part in the standby link.
func (m *Metrics) WatchLink(read func() Link) error {
	return m.registry.Register(newLinkCollector(read))
}

// Describe implements prometheus.Collector: the metrics are described as they are collected.
func (c *linkCollector) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, ch) }

// Collect implements prometheus.Collector.
func (c *linkCollector) Collect(ch chan<- prometheus.Metric) {
	l := c.read()
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	oneOf := func(d *prometheus.Desc, words []string, is string, labels ...string) {
		for _, w := range words {
			gauge(d, truth(w == is), append(append([]string{}, labels...), w)...)
		}
	}
	oneOf(c.role, linkRoles, l.Role)
	gauge(c.generation, float64(l.Generation))
	gauge(c.fenced, truth(l.Fenced))
	gauge(c.split, truth(l.SplitBrain))
	gauge(c.seed, l.Seed)
	gauge(c.waiting, float64(l.Waiting))
	gauge(c.readers, float64(readerCount(l.Readers)))
	for _, g := range l.Groups {
		id := strconv.FormatUint(g.Group, 10)
		oneOf(c.state, linkStates, g.State, id)
		gauge(c.position, float64(g.Position), id)
		gauge(c.lagEntries, float64(g.LagEntries), id)
		gauge(c.lagSeconds, g.LagSeconds, id)
		if g.ContactAge >= 0 {
			gauge(c.contactAge, g.ContactAge, id)
		}
		if g.CompleteAge >= 0 {
			gauge(c.complete, g.CompleteAge, id)
		}
		ch <- prometheus.MustNewConstMetric(c.mismatch, prometheus.CounterValue, float64(g.Mismatches), id)
	}
	for _, r := range l.Readers {
		gauge(c.behind, float64(r.Behind), r.Name, strconv.FormatUint(r.Group, 10))
	}
	for _, h := range l.Holds {
		gauge(c.holdBytes, float64(h.Bytes), h.Name)
		if h.Left >= 0 {
			gauge(c.holdLeft, float64(h.Left), h.Name)
		}
		oneOf(c.holdState, holdStates, h.State, h.Name)
	}
	for _, x := range l.Confirms {
		id := strconv.FormatUint(x.Group, 10)
		oneOf(c.confirms, confirmModes, x.Mode, id)
		ch <- prometheus.MustNewConstMetric(c.degraded, prometheus.CounterValue, x.DegradedSeconds, id)
	}
}

func readerCount(readers []LinkReader) int {
	names := map[string]bool{}
	for _, r := range readers {
		names[r.Name] = true
	}
	return len(names)
}
