package coretest

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/understudy-mq/understudy/core"
	"github.com/understudy-mq/understudy/core/entry"
	"github.com/understudy-mq/understudy/core/message"
)

// TB is what a Driver needs of a test; *testing.T and *rapid.T have it.
type TB interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// Driver feeds a machine with entries.
type Driver struct {
	t       TB
	Machine *core.Machine
	replica *core.Machine
	standby *Standby
	rows    map[string][]byte

	Index uint64 // of the last entry
	Data  []byte // of it
	Stamp int64  // of the next entry, Unix ms

	LastSession uint64 // id of the newest session

	shared uint64 // index up to which the replica's log is the driver's own

	// Audit, if it is set, judges every machine after every entry.
	Audit func(*core.Machine) error

	// Interrupt, if it is set, is called before every entry of a script.
	Interrupt func()

	homes map[uint64]home // of sessions
	make  func(group uint64) *core.Machine
}

type home struct{ node, epoch uint64 }

// New makes a Driver of an empty machine. Whatever it is fed with, a replica and a standby get too, and must agree.
func New(t TB) *Driver { return NewOf(t, core.New) }

// NewOf makes a Driver of an empty machine of another making.
func NewOf(t TB, make func(group uint64) *core.Machine) *Driver {
	return &Driver{t: t, Machine: make(1), replica: make(1), standby: newStandby(t, make), rows: map[string][]byte{}, Stamp: 1000,
		homes: map[uint64]home{}, make: make}
}

// Entry frames batches as one entry.
func Entry(stamp int64, batches ...entry.Batch) []byte {
	data := entry.AppendHeader(nil, stamp)
	for _, b := range batches {
		data = entry.AppendBatch(data, b.Node, b.Incarnation, b.Seq, b.Commands)
	}
	return data
}

// Control applies control commands as one entry.
func (d *Driver) Control(cmds ...entry.Command) []core.Effect {
	return d.Apply(Entry(d.Stamp, entry.Batch{Commands: encode(cmds)}))
}

// Batch applies commands as the next batch of a registered node.
func (d *Driver) Batch(node uint64, cmds ...entry.Command) []core.Effect {
	incarnation, _, seq := d.Machine.Incarnation(node)
	return d.Apply(Entry(d.Stamp, entry.Batch{Node: node, Incarnation: incarnation, Seq: seq + 1, Commands: encode(cmds)}))
}

func encode(cmds []entry.Command) []byte {
	var b []byte
	for _, c := range cmds {
		b = entry.Append(b, c)
	}
	return b
}

// Apply applies an entry, checks the machine's promises and answers all effects.
func (d *Driver) Apply(data []byte) []core.Effect {
	d.t.Helper()
	d.Index++
	d.Data = data
	fx := core.Effects{}
	if err := d.Machine.Apply(d.Index, data, &fx); err != nil {
		d.t.Fatal(err)
	}
	if told := slices.ContainsFunc(fx.List, func(e core.Effect) bool { return e.Kind == core.EffectLink }); told != fx.Linked {
		d.t.Fatalf("entry %d: that an effect is about the link is said to be %v", d.Index, fx.Linked)
	}
	d.note(fx.List)
	other := core.Effects{Node: d.Index % 3} // as node 1 or 2 gathers them, or nobody
	if err := d.replica.Apply(d.Index+replicaAhead, data, &other); err != nil {
		d.t.Fatal(err)
	}
	d.check()
	d.compare(gatheredBy(other.Node, fx.List), other.List)
	if d.standby.Machine.Link().Role == core.RoleStandby {
		d.standby.Follow(data, d.Machine.Fingerprint())
		d.audit("standby", d.standby.Machine)
	}
	return fx.List
}

// replicaAhead is how many entries more the replica's log has had.
const replicaAhead = 1000

// compare checks that the replica has answered the same, in the same order, and knows when it is due next: also where this machine was
// loaded from rows meanwhile, and that one was not.
func (d *Driver) compare(effects, others []core.Effect) {
	d.t.Helper()
	if len(effects) != len(others) {
		d.t.Fatalf("entry %d: %d effects, and %d on the replica", d.Index, len(effects), len(others))
	}
	for i := range others {
		e := others[i]
		e.Loc, e.Parts = d.moved(e.Loc), slices.Clone(e.Parts)
		for k := range e.Parts {
			e.Parts[k].Loc = d.moved(e.Parts[k].Loc)
		}
		if !reflect.DeepEqual(effects[i], e) {
			d.t.Fatalf("entry %d: effect %d is\n%+v and on the replica\n%+v", d.Index, i, effects[i], e)
		}
	}
	if got, want := d.Machine.NextDeadline(), d.replica.NextDeadline(); got != want {
		d.t.Fatalf("entry %d: the next deadline is %d, and %d on the replica", d.Index, got, want)
	}
	d.audit("machine", d.Machine)
	d.audit("replica", d.replica)
}

// gatheredBy is what a node gathers of all effects: those of its own sessions, the refusals of its own attaches, and what is for every node.
func gatheredBy(node uint64, all []core.Effect) []core.Effect {
	return slices.DeleteFunc(slices.Clone(all), func(e core.Effect) bool {
		ones := e.Session != 0 || e.Command == entry.KindAttach
		return node != 0 && ones && e.Node != node
	})
}

// moved is where a record of the replica's log lies in the driver's.
func (d *Driver) moved(loc message.Loc) message.Loc {
	if loc.Index() <= d.shared {
		return loc
	}
	return message.NewLoc(loc.Index()-replicaAhead, loc.Offset())
}

func (d *Driver) audit(which string, m *core.Machine) {
	d.t.Helper()
	if d.Audit == nil {
		return
	}
	if err := d.Audit(m); err != nil {
		d.t.Fatalf("entry %d: the %s: %v", d.Index, which, err)
	}
}

// note learns where sessions are from effects, and checks that a node that has registered begins with its first batch.
func (d *Driver) note(effects []core.Effect) {
	d.t.Helper()
	for i := range effects {
		if e := &effects[i]; e.Kind == core.EffectNode && e.Incarnation != 0 {
			if incarnation, nonce, seq := d.Machine.Incarnation(e.Node); incarnation < e.Incarnation || incarnation == e.Incarnation && nonce != 0 && seq != 0 {
				d.t.Fatalf("entry %d: node %d has registered anew, and its next batch is %d of incarnation %d", d.Index, e.Node, seq+1, incarnation)
			}
		}
		if e := &effects[i]; e.Kind == core.EffectAttached {
			d.LastSession = e.Session
			d.homes[e.Session] = home{node: e.Node, epoch: e.Epoch}
		}
	}
}

func (d *Driver) check() {
	d.t.Helper()
	want := d.Machine.Recompute()
	if got := d.Machine.Fingerprint(); got != want {
		d.t.Fatalf("entry %d: fingerprint %x is kept up wrongly, it is %x", d.Index, got, want)
	}
	if got := d.replica.Fingerprint(); got != want {
		d.t.Fatalf("entry %d: the replica's fingerprint is %x, not %x", d.Index, got, want)
	}
}

// Checkpoint writes the rows that changed.
func (d *Driver) Checkpoint() (puts, dels int) {
	d.Machine.Checkpoint(
		func(k, v []byte) { d.rows[string(k)] = slices.Clone(v); puts++ },
		func(k []byte) { delete(d.rows, string(k)); dels++ })
	return puts, dels
}

// Loaded answers a machine made from the rows of all checkpoints so far.
func (d *Driver) Loaded() *core.Machine {
	d.t.Helper()
	m := d.make(1)
	for _, k := range slices.Sorted(maps.Keys(d.rows)) {
		if err := m.Load([]byte(k), d.rows[k]); err != nil {
			d.t.Fatal(err)
		}
	}
	if err := m.Loaded(); err != nil {
		d.t.Fatal(err)
	}
	if got, want := m.Fingerprint(), d.Machine.Fingerprint(); got != want {
		d.t.Fatalf("entry %d: the loaded machine's fingerprint is %x, not %x", d.Index, got, want)
	}
	if got, want := sizes(m), sizes(d.Machine); got != want {
		d.t.Fatalf("entry %d: the loaded machine counts\n%sand not\n%s", d.Index, got, want)
	}
	return m
}

// sizes is what a machine counts of its queues' messages, which is in no row.
func sizes(m *core.Machine) string {
	var out strings.Builder
	for _, v := range m.Vhosts() {
		for _, q := range m.Queues(v.Name) {
			fmt.Fprintf(&out, "%s: %d ready in %d bytes, %d unacknowledged in %d\n", q.Name, q.Ready, q.ReadyBytes, q.Unacknowledged, q.UnacknowledgedBytes)
		}
	}
	return out.String()
}

// Restart replaces the machine by one loaded from its rows. The replica goes on as it is.
func (d *Driver) Restart() {
	d.t.Helper()
	d.Checkpoint()
	before := d.Machine
	d.Machine = d.Loaded()
	_, was := before.Live(0, 1<<40)
	if _, is := d.Machine.Live(0, 1<<40); was != is {
		d.t.Fatalf("%d bytes of content were live before the restart, %d after it", was, is)
	}
}

// Standby is a standby that has replayed every entry so far, and goes on to until it is promoted.
func (d *Driver) Standby() *Standby { return d.standby }

// Promote promotes the standby, which has replayed every entry so far, and goes on with it in the source's place.
func (d *Driver) Promote() {
	d.t.Helper()
	d.standby.Own(&entry.LinkPromote{Generation: entry.Generation{Number: 1, Cluster: StandbyCluster}})
	d.Machine, d.Index, d.shared = d.standby.Machine, d.standby.Index, d.standby.Index
	d.rows = map[string][]byte{}
	d.Checkpoint()
	d.replica = d.Loaded()
	d.check()
	d.audit("promoted machine", d.Machine)
}

// Rewound is a group of d's cluster that has come back as a standby of the one that is d's standby now and is about to be promoted with
// generation g: its state is d's, as a snapshot carries it, and the promotion's entry comes next.
func (d *Driver) Rewound(g entry.Generation) *Standby {
	d.t.Helper()
	d.Checkpoint()
	s := &Standby{t: d.t, Machine: d.make(1), Index: 11}
	for _, k := range slices.Sorted(maps.Keys(d.rows)) {
		if core.LocalRow([]byte(k)) {
			continue
		}
		if err := s.Machine.Load([]byte(k), d.rows[k]); err != nil {
			d.t.Fatal(err)
		}
	}
	if err := s.Machine.Loaded(); err != nil {
		d.t.Fatal(err)
	}
	s.Own(&entry.LinkAttach{Cluster: RewoundCluster, Source: StandbyCluster, Generation: g, Rewound: true,
		Position: entry.Position{Index: d.standby.Index, Term: 1, Hash: 7}, Fingerprint: d.Machine.Fingerprint()})
	return s
}

// Live is how many references there are to content in the log.
func (d *Driver) Live() int {
	n, _ := d.Machine.Live(0, 1<<40)
	return n
}

// Rows is how many rows the checkpoints so far have left.
func (d *Driver) Rows() int { return len(d.rows) }
