package core

import (
	"fmt"

	"github.com/understudy-mq/understudy/core/entry"
	"github.com/understudy-mq/understudy/core/internal/ledger"
	ready "github.com/understudy-mq/understudy/core/internal/queue"
	"github.com/understudy-mq/understudy/core/message"
)

// Machine is the state of one raft group's vhosts.
type Machine struct {
	group  uint64
	bounds bounds

	header    header
	local     local
	link      link
	nodes     []*node // by id
	vhosts    []*vhost
	vhost     map[string]*vhost
	sessions  series[*session]
	session   map[uint64]*session
	lastUsed  *session
	queuePool ready.Pool
	tagPool   ledger.Pool
	live      liveness
	returns   timers   // of sessions and channels
	timers    timers   // of all else
	draining  []*vhost // deleted, or with remains; by number
	access    access
	registry  vhosts
	counts    SessionCounts
	dedup     dedup

	fingerprint uint64
	touched     []object // changed in the entry at hand
	dirty       []object // changed since the last checkpoint
	coder       rowCoder

	// The entry at hand.
	index     uint64
	data      []byte
	fx        *Effects
	gate      *Gate   // what it has to pass: of the cluster that made it
	replaying bool    // it is a source's
	muted     Gate    // for a standby's own entries
	nowhere   Effects // of what was replayed
	batch     entry.Batch
	waiting   []*queue    // to be served at the end of the command
	owing     []*consumer // that are owed deliveries and have credit, at the end of the command
	doomed    []*exchange
	dueLeft   int    // how much that is due may still be carried out
	clearLeft int    // how much may still be let go of
	commands  uint64 // of this process: tells the command at hand from others
	cascade   int    // dead letters of messages that came with the command at hand

	// Scratch, so that nothing is allocated per message.
	publish entry.Publish
	marked  bool  // the publish at hand has a token
	token   token // of the publish at hand
	hashing []byte
	settle  entry.Settle
	written entry.Written
	record  message.Record
	routes  []uint32
	buried  []uint32 // routes of a dead letter
	headers func() message.Table
}

// New makes the empty state of a group.
func New(group uint64) *Machine {
	m := &Machine{
		group:   group,
		bounds:  ourBounds,
		vhost:   make(map[string]*vhost),
		session: make(map[uint64]*session),
	}
	m.local.local, m.link.local = true, true
	m.muted, m.gate = mutedGate(), &m.link.Gate
	m.headers = m.recordHeaders
	m.fingerprint = m.Recompute()
	m.each(func(o object) { o.state().hash = m.rowHash(o) })
	return m
}

// Group is the id of the raft group.
func (m *Machine) Group() uint64 { return m.group }

// ClusterID is the cluster's UUID, "" before ClusterInit.
func (m *Machine) ClusterID() string { return m.local.ClusterID }

// Stamp is the newest stamp applied, in Unix milliseconds.
func (m *Machine) Stamp() int64 { return m.header.Stamp }

// Incarnation is a node's registration: its newest incarnation, the nonce that it was made for and the sequence number of
// the last batch applied. The nonce is 0 for a node that was marked down, all are 0 for one never seen.
func (m *Machine) Incarnation(node uint64) (incarnation, nonce, seq uint64) {
	n := m.node(node)
	switch {
	case n == nil:
		return 0, 0, 0
	case !n.Up:
		return n.Incarnation, 0, n.Seq
	}
	return n.Incarnation, n.Nonce, n.Seq
}

// Apply applies one entry in the format of core/entry and appends to fx what the outside must do. Empty data (raft's own
// entries) changes nothing. index only makes Locs; the state does not depend on it. Records in effects are views into
// data, which must stay as it is.
//
// Errors: entry.ErrUnknown and entry.ErrMalformed, wrapped. The group must stop then: the state is half-way.
func (m *Machine) Apply(index uint64, data []byte, fx *Effects) error {
	if len(data) == 0 {
		return nil
	}
	if entry.IsReplay(data) {
		return m.applyReplay(index, data)
	}
	r, err := entry.Read(data)
	if err != nil {
		return m.failed(index, err)
	}
	m.gate = &m.link.Gate
	if m.link.Role == RoleStandby {
		m.gate, r.Stamp = &m.muted, 0 // its time is the source's
	}
	return m.run(index, data, r, fx)
}

func (m *Machine) failed(index uint64, err error) error {
	return fmt.Errorf("entry %d of group %d: %w", index, m.group, err)
}

// run applies the batches of an entry.
func (m *Machine) run(index uint64, data []byte, r entry.Reader, fx *Effects) (err error) {
	m.index, m.data, m.fx, m.dueLeft, m.clearLeft = index, data, fx, m.bounds.dues, m.bounds.clears
	if r.Stamp > m.header.Stamp {
		m.header.Stamp = r.Stamp
		m.touch(&m.header)
	}
	for b, ok := r.Next(); ok; b, ok = r.Next() {
		if err = m.applyBatch(b); err != nil {
			break
		}
	}
	if err == nil {
		err = r.Err()
	}
	m.settleRows()
	m.data, m.fx, m.batch = nil, nil, entry.Batch{}
	if err != nil {
		return m.failed(index, err)
	}
	return nil
}

// applyBatch applies a batch exactly once and in the node's order: a repeated, overtaken or out-dated one does nothing.
func (m *Machine) applyBatch(b entry.Batch) error {
	m.batch = b
	if b.Incarnation != 0 {
		n := m.node(b.Node)
		if m.gate == &m.muted || n == nil || !n.Up || n.Incarnation != b.Incarnation || b.Seq != n.Seq+1 {
			return nil
		}
		n.Seq = b.Seq
		m.touch(n)
	}
	for rest := b.Commands; len(rest) > 0; {
		var err error
		if m.gate.Fenced {
			rest, err = m.applyFenced(rest)
		} else {
			rest, err = m.applyNext(rest)
		}
		if err != nil {
			return err
		}
		if len(m.waiting) > 0 || len(m.owing) > 0 {
			m.serve()
		}
	}
	return nil
}

// begin is where a command begins, or something else after which queues are served: nothing has come with it yet.
func (m *Machine) begin() {
	m.commands++
	m.cascade = 0
}

// applyNext applies the first command of b and answers what follows it. The commands that come once per message are
// decoded into structs that the machine keeps.
func (m *Machine) applyNext(b []byte) (rest []byte, err error) {
	m.begin()
	switch entry.Kind(b[0]) {
	case entry.KindPublish:
		if rest, err = entry.DecodePublish(b, &m.publish); err == nil {
			m.applyPublish(&m.publish, m.offset(rest)-len(m.publish.Record))
		}
		return rest, err
	case entry.KindSettle:
		if rest, err = entry.DecodeSettle(b, &m.settle); err == nil {
			m.applySettle(&m.settle)
		}
		return rest, err
	case entry.KindWritten:
		if rest, err = entry.DecodeWritten(b, &m.written); err == nil {
			m.applyWritten(&m.written)
		}
		return rest, err
	}
	cmd, rest, err := entry.Next(b)
	if err != nil {
		return nil, err
	}
	if x, ok := cmd.(*entry.Fragment); ok {
		m.applyFragment(x, m.offset(rest)-len(x.Piece))
		return rest, nil
	}
	m.apply(cmd)
	return rest, nil
}

// offset is where rest, the batch's remaining commands, begins in the entry.
func (m *Machine) offset(rest []byte) int {
	return m.batch.Offset + len(m.batch.Commands) - len(rest)
}

func (m *Machine) apply(cmd entry.Command) {
	switch x := cmd.(type) {
	case *entry.NodeUp:
		m.applyNodeUp(x)
	case *entry.NodeDown:
		m.applyNodeDown(x)
	case *entry.NodeAlarm:
		m.applyNodeAlarm(x)
	case *entry.LeaderUp:
		m.applyLeaderUp(x)
	case *entry.LevelRaise:
		m.applyLevelRaise(x)
	case *entry.Tick:
		m.applyTick()
	case *entry.ClusterInit:
		m.applyClusterInit(x)
	case *entry.VhostCreate:
		m.applyVhostCreate(x)
	case *entry.VhostDelete:
		m.applyVhostDelete(x)
	case *entry.VhostLimit:
		m.applyVhostLimit(x)
	case *entry.PolicySet:
		m.applyPolicySet(x)
	case *entry.PolicyDelete:
		m.applyPolicyDelete(x)
	case *entry.Attach:
		m.applyAttach(x)
	case *entry.Detach:
		m.applyDetach(x)
	case *entry.End:
		m.applyEnd(x)
	case *entry.Answered:
		m.applyAnswered(x)
	case *entry.SessionStatus:
		m.applySessionStatus(x)
	case *entry.NodeAddress:
		m.applyNodeAddress(x)
	case *entry.SessionClose:
		m.applySessionClose(x)
	default:
		if !m.applyAccess(cmd) && !m.applyLink(cmd) && !m.applyVhosts(cmd) {
			m.applyOnChannel(cmd)
		}
	}
}

func (m *Machine) applyOnChannel(cmd entry.Command) {
	switch x := cmd.(type) {
	case *entry.ChannelOpen:
		m.applyChannelOpen(x)
	case *entry.ChannelClose:
		m.applyChannelClose(x)
	case *entry.ConfirmSelect:
		m.applyConfirmSelect(x)
	case *entry.Qos:
		m.applyQos(x)
	case *entry.ExchangeDeclare:
		m.applyExchangeDeclare(x)
	case *entry.ExchangeDelete:
		m.applyExchangeDelete(x)
	case *entry.ExchangeBind:
		m.applyBind(&x.Binding, entry.KindExchangeBind)
	case *entry.ExchangeUnbind:
		m.applyUnbind(&x.Binding, entry.KindExchangeUnbind)
	case *entry.QueueBind:
		m.applyBind(&x.Binding, entry.KindQueueBind)
	case *entry.QueueUnbind:
		m.applyUnbind(&x.Binding, entry.KindQueueUnbind)
	case *entry.QueueDeclare:
		m.applyQueueDeclare(x)
	case *entry.QueueDelete:
		m.applyQueueDelete(x)
	case *entry.QueuePurge:
		m.applyQueuePurge(x)
	case *entry.Consume:
		m.applyConsume(x)
	case *entry.Cancel:
		m.applyCancel(x)
	case *entry.Get:
		m.applyGet(x)
	case *entry.Recover:
		m.applyRecover(x)
	case *entry.TxSelect:
		m.applyTxSelect(x)
	case *entry.TxCommit:
		m.applyTxCommit(x)
	case *entry.TxRollback:
		m.applyTxRollback(x)
	}
}
