package core

import (
	"github.com/understudy-mq/understudy/core/internal/ledger"
	ready "github.com/understudy-mq/understudy/core/internal/queue"
	"github.com/understudy-mq/understudy/core/internal/route"
	"github.com/understudy-mq/understudy/core/message"
)

// The objects of the state. Each has its replicated fields in a struct of its own (the row), so that a test can walk them
// by reflection; what stands beside the row is derived from rows and rebuilt when they are loaded.

type headerRow struct {
	Stamp    int64  // newest stamp applied, Unix ms
	Leader   uint64 // node that sent the last LeaderUp
	Term     uint64
	Vhosts   uint32 // number of the last vhost
	Sessions uint64 // id of the last session

	Generation uint64 // of the cluster: how often it was promoted
	Chunks     uint64 // number of the last window
	Level      uint64 // the feature level that may be needed to read the log
}

type header struct {
	meta
	headerRow
}

func (*header) key(dst []byte) []byte { return keyOf(dst, tableHeader) }
func (h *headerRow) code(c *rowCoder) {
	c.i64(&h.Stamp)
	c.u64(&h.Leader)
	c.u64(&h.Term)
	c.u32(&h.Vhosts)
	c.u64(&h.Sessions)
	c.u64(&h.Generation)
	c.u64(&h.Chunks)
	c.level(&h.Level)
}

// localRow is what this cluster alone knows.
type localRow struct {
	ClusterID string
	Addresses []NodeAddress // by node
}

type local struct {
	meta
	localRow
}

func (*local) key(dst []byte) []byte { return keyOf(dst, tableLocal) }
func (l *localRow) code(c *rowCoder) {
	c.str(&l.ClusterID)
	c.addresses(&l.Addresses)
}

type nodeRow struct {
	Node        uint64
	Incarnation uint64
	Nonce       uint64
	Seq         uint64 // of the last batch applied
	Up          bool
	Alarms      uint8 // what it is short of; package core does not look into it
}

type node struct {
	meta
	nodeRow
}

func (n *node) key(dst []byte) []byte { return keyOf(dst, tableNode, n.Node) }
func (n *nodeRow) code(c *rowCoder) {
	c.u64(&n.Node)
	c.u64(&n.Incarnation)
	c.u64(&n.Nonce)
	c.u64(&n.Seq)
	c.boolean(&n.Up)
	c.u8(&n.Alarms)
}

type vhostRow struct {
	Vhost                     uint32
	ID, Name                  string
	Messages                  uint64 // number of the last message
	Queues                    uint32 // id of the last queue
	Consumers                 uint32 // number of the last consumer
	Held                      uint64 // id of the last held message
	Deleted                   bool   // it goes in pieces
	QueueType                 string // of queues that do not name theirs, "" for classic
	MaxQueues, MaxConnections int64  // none for no limit
	Remains                   []remainsRow
}

type vhost struct {
	meta
	vhostRow
	held          series[*held]
	remains       []*remains // what is let go of in pieces, the oldest first
	drained       []*remains // what was, but for the rows
	delaying      int        // exchanges that delay
	policies      []*policy  // operator policies behind the others, each by name
	router        *route.Router
	exchanges     []*exchange // by name
	exchange      map[string]*exchange
	queues        []*queue // by id
	queue         map[uint32]*queue
	queueByName   map[string]*queue
	consumer      map[uint32]*consumer
	bindings      []*binding // in no order
	binding       map[string]*binding
	contents      []*content // in no order
	content       map[uint64]*content
	letters       []*letter // in no order
	letter        map[uint64]*letter
	sharing       sharing // of letters
	rejecting     int     // queues that refuse messages when they are full
	deadLettering int     // queues that dead-letter
	byHeaders     int     // bindings of headers exchanges
	lastQueue     *queue
	lastConsumer  *consumer
	lastExchange  *exchange
	counted       []*Counters // by node, in no order
	buried        [len(reasonNames)]uint64
	arrived       uint64                  // of the dead letters
	fresh         uint64                  // messages behind this number came with a command:
	freshIn       uint64                  // Machine.commands then
	sessions      int                     // of any kind
	byKey         map[sessionKey]*session // the named ones
	namedOf       map[string]uint32       // named sessions per user
}

func (v *vhost) key(dst []byte) []byte { return keyOf(dst, tableVhost, uint64(v.Vhost)) }
func (v *vhostRow) code(c *rowCoder) {
	c.u32(&v.Vhost)
	c.str(&v.ID)
	c.str(&v.Name)
	c.u64(&v.Messages)
	c.u32(&v.Queues)
	c.u32(&v.Consumers)
	c.u64(&v.Held)
	c.boolean(&v.Deleted)
	c.str(&v.QueueType)
	c.i64(&v.MaxQueues)
	c.i64(&v.MaxConnections)
	n := uint64(len(v.Remains))
	if c.count(&n); !c.encoding {
		v.Remains = make([]remainsRow, n)
	}
	for i := range v.Remains {
		v.Remains[i].code(c)
	}
	if n == 0 {
		v.Remains = nil
	}
}

type exchangeRow struct {
	Vhost      uint32
	Name       string
	Type       route.Kind
	Durable    bool
	AutoDelete bool
	Internal   bool
	Delayed    bool // x-delayed-message, of type Type
	Arguments  []byte
}

type exchange struct {
	meta
	exchangeRow
	configured       bool
	policy, operator *policy // that count for it
	counters         ExchangeCounters
	from             []*binding // it is the source; in no order
	to               []*binding // it is the destination; in no order
}

func (x *exchange) key(dst []byte) []byte {
	return append(keyOf(dst, tableExchange, uint64(x.Vhost)), x.Name...)
}

func (x *exchangeRow) code(c *rowCoder) {
	c.u32(&x.Vhost)
	c.str(&x.Name)
	c.u8((*uint8)(&x.Type))
	c.boolean(&x.Durable)
	c.boolean(&x.AutoDelete)
	c.boolean(&x.Internal)
	c.boolean(&x.Delayed)
	c.bytes(&x.Arguments)
}

type bindingRow struct {
	Vhost               uint32
	Source, Destination string
	ToQueue             bool
	Key                 string
	Arguments           []byte
}

type binding struct {
	meta
	bindingRow
	identity     string // the row's key
	source       *exchange
	queue        *queue    // the destination, or
	exchange     *exchange // this
	at           int       // in vhost.bindings
	atFrom, atTo int       // in source.from and the destination's list
}

func (b *binding) key(dst []byte) []byte { return append(dst, b.identity...) }
func (b *bindingRow) code(c *rowCoder) {
	c.u32(&b.Vhost)
	c.str(&b.Source)
	c.str(&b.Destination)
	c.boolean(&b.ToQueue)
	c.str(&b.Key)
	c.bytes(&b.Arguments)
}

type queueRow struct {
	Vhost      uint32
	ID         uint32
	Name       string
	Durable    bool
	AutoDelete bool
	Generated  bool
	Owner      uint64   // session of an exclusive queue, 0 for others
	Unacked    uint32   // deliveries in flight that await a settlement
	Active     uint32   // consumer that alone is served, of a queue with a single active one; 0 for none
	Turns      uint64   // the last turn given to a consumer
	First      uint64   // number of the first ready message; tells what of the first chunk is consumed
	Firsts     []uint64 // of the lanes of priorities 1 and up
	Used       int64    // stamp of the last use, of a queue that expires
	Arguments  []byte
	naming
}

type queue struct {
	meta
	queueRow
	held             []*held // that return to it; in no order
	configured       bool
	policy, operator *policy // that count for it
	vhost            *vhost
	set              settings
	plain            bool // messages need neither lane nor note
	trims            bool // it drops messages when it is too full
	counts           bool // clients see how many deliveries failed
	timer            timer
	ready            lanes
	notes            ready.Notes
	bytes            uint64      // of the ready messages, as sizeOf has them
	flying           uint64      // of those in flight that Unacked counts
	bodies           uint64      // of their bodies, where the queue has a limit of bytes
	consumers        []*consumer // by number
	first            *consumer   // the service ring: who gets the next message
	last             *consumer
	exclusive        *consumer // the one that asked to be alone
	bindings         []*binding
	waiting          bool // on Machine.waiting
	counters         QueueCounters
}

func (q *queue) timing() *timer { return &q.timer }

func (q *queue) key(dst []byte) []byte { return keyOf(dst, tableQueue, uint64(q.Vhost), uint64(q.ID)) }
func (q *queue) code(c *rowCoder) {
	if c.encoding {
		q.First = q.ready.zero.First()
		q.Firsts = q.ready.firsts(q.Firsts)
	}
	q.queueRow.code(c)
}

func (q *queueRow) code(c *rowCoder) {
	c.u32(&q.Vhost)
	c.u32(&q.ID)
	c.str(&q.Name)
	c.boolean(&q.Durable)
	c.boolean(&q.AutoDelete)
	c.boolean(&q.Generated)
	c.u64(&q.Owner)
	c.u32(&q.Unacked)
	c.u32(&q.Active)
	c.u64(&q.Turns)
	c.u64(&q.First)
	c.u64s(&q.Firsts)
	c.i64(&q.Used)
	c.bytes(&q.Arguments)
	q.naming.code(c)
}

type consumerRow struct {
	Vhost          uint32
	Number         uint32
	Queue          uint32
	Session        uint64
	Channel        uint16
	Tag            string
	NoAck          bool
	Exclusive      bool
	Priority       int64  // who has the highest is served first
	Timeout        int64  // of its deliveries, none for the queue's
	Limit          uint32 // of unsettled deliveries, 0 for the window
	InFlight       uint32 // unsettled
	Unwritten      uint32 // of a windowed consumer: deliveries not yet written to the socket
	UnwrittenBytes uint64
	Turn           uint64 // its place in the queue's service ring, 0 if it has none
	Arguments      []byte
	Claim          bool   // of a lost connection: it waits for its client, and gets nothing
	Owed           uint32 // of its deliveries those that are to be sent again; it gets nothing new before
	Cursor         uint64 // tag of the last one that was sent again
}

type consumer struct {
	meta
	consumerRow
	queue          *queue
	channel        *channel
	next, previous *consumer // in the service ring
	owing          bool      // on Machine.owing
}

func (s *consumer) key(dst []byte) []byte {
	return keyOf(dst, tableConsumer, uint64(s.Vhost), uint64(s.Number))
}

func (s *consumerRow) code(c *rowCoder) {
	c.u32(&s.Vhost)
	c.u32(&s.Number)
	c.u32(&s.Queue)
	c.u64(&s.Session)
	c.u16(&s.Channel)
	c.str(&s.Tag)
	c.boolean(&s.NoAck)
	c.boolean(&s.Exclusive)
	c.i64(&s.Priority)
	c.i64(&s.Timeout)
	c.u32(&s.Limit)
	c.u32(&s.InFlight)
	c.u32(&s.Unwritten)
	c.u64(&s.UnwrittenBytes)
	c.u64(&s.Turn)
	c.bytes(&s.Arguments)
	c.boolean(&s.Claim)
	c.u32(&s.Owed)
	c.u64(&s.Cursor)
}

type sessionRow struct {
	ID          uint64
	Epoch       uint64
	Vhost       uint32
	Node        uint64
	Incarnation uint64
	User        string
	Key         string
	Connection  string
	Failed      bool // a command was refused with a hard code
	terms            // of a named one
}

type session struct {
	meta
	sessionRow
	vhost      *vhost
	timer      timer
	channels   []*channel // by number
	exclusive  []*queue   // by id
	generated  []*queue   // that it had the server name; by id
	windows    []*window  // by number
	publishers []*publisher
	lastUsed   *channel
	lastEffect int // place of its newest effect in Effects.List
	counted    *Counters
}

func (s *session) key(dst []byte) []byte { return keyOf(dst, tableSession, s.ID) }
func (s *sessionRow) code(c *rowCoder) {
	c.u64(&s.ID)
	c.u64(&s.Epoch)
	c.u32(&s.Vhost)
	c.u64(&s.Node)
	c.u64(&s.Incarnation)
	c.str(&s.User)
	c.str(&s.Key)
	c.str(&s.Connection)
	c.boolean(&s.Failed)
	if s.Key != "" {
		s.terms.code(c)
	}
}

type channelRow struct {
	Session   uint64
	Number    uint16
	Dead      bool // commands do nothing: it has failed, or is parked
	Confirm   bool
	Prefetch  uint32 // of new consumers
	Limit     uint32 // of the whole channel, 0 for none
	InFlight  uint32 // unsettled deliveries to consumers: what Limit limits
	LastTag   uint64
	Written   uint64 // deliveries up to this tag have reached the socket
	Served    uint32 // consumer that got the newest delivery
	PartBytes uint64
	Parts     []message.Part // of a big message on its way in
	Tx        bool
	Pending   []pending // publishes that wait for a commit
	Settled   []settled // settlements that do
	Runs      []run     // when deliveries were made
	Shortest  int64     // time-out of a delivery so far, 0 for the usual one
	Checked   int64     // stamp until which no delivery is late
	again               // of a named session's
}

type channel struct {
	meta
	channelRow
	timer     timer
	publishes bool // it has published
	session   *session
	flight    ledger.Ledger
	consumers []*consumer // by number
}

func newChannel(s *session, row channelRow) *channel {
	h := &channel{session: s, channelRow: row}
	h.timer = timer{table: tableChannel, id: row.Session<<16 | uint64(row.Number), owner: h}
	return h
}

func (h *channel) key(dst []byte) []byte {
	return keyOf(dst, tableChannel, h.Session, uint64(h.Number))
}

func (h *channelRow) code(c *rowCoder) {
	c.u64(&h.Session)
	c.u16(&h.Number)
	c.boolean(&h.Dead)
	c.boolean(&h.Confirm)
	c.u32(&h.Prefetch)
	c.u32(&h.Limit)
	c.u32(&h.InFlight)
	c.u64(&h.LastTag)
	c.u64(&h.Written)
	c.u32(&h.Served)
	c.u64(&h.PartBytes)
	c.parts(&h.Parts)
	h.codeTx(c)
	h.again.code(c)
	c.runs(&h.Runs, h.Resumed)
	c.i64(&h.Shortest)
	c.i64(&h.Checked)
}

// contentRow is the side table of fragmented messages: most messages have no parts, and pay nothing for those that do.
type contentRow struct {
	Vhost  uint32
	Number uint64
	Refs   uint32 // queues and deliveries that refer to it
	Parts  []message.Part
}

type content struct {
	meta
	contentRow
	at int // in vhost.contents
}

func (t *content) key(dst []byte) []byte {
	return keyOf(dst, tableContent, uint64(t.Vhost), t.Number)
}

func (t *contentRow) code(c *rowCoder) {
	c.u32(&t.Vhost)
	c.u64(&t.Number)
	c.u32(&t.Refs)
	c.parts(&t.Parts)
}
