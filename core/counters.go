package core

// Counters count what has passed through a vhost since this replica of it was loaded. They are no part of the state: they are
// neither stored nor in the fingerprint, and replicas that were loaded at different times differ.
type Counters struct {
	Node             uint64 // whose clients' doing it was
	Published        uint64 // messages taken in
	PublishedConfirm uint64 // of them those to be confirmed
	PublishedBytes   uint64 // of their bodies
	// Sizes counts them by the size of their bodies: up to the bound of SizeBounds in its place, and in the last above all.
	Sizes          [len(SizeBounds) + 1]uint64
	Routed         uint64 // of them those that went to a queue at least
	Returned       uint64 // of them those that went to none, and back
	Dropped        uint64 // of them those that went to none, and were dropped
	Confirmed      uint64
	Nacked         uint64
	Delivered      uint64 // to consumers that acknowledge
	DeliveredNoAck uint64 // to consumers that do not
	Redelivered    uint64 // of all deliveries those that were not the first
	Got, GotNoAck  uint64 // with basic.get
	GotEmpty       uint64 // gets that found nothing
	Acknowledged   uint64
	ChannelsOpened uint64
	SessionsOpened uint64
	SessionsClosed uint64
	ChannelsClosed uint64
	QueuesDeclared uint64 // declarations, of queues that were there too
	QueuesCreated  uint64
	QueuesDeleted  uint64
}

// SizeBounds are the bounds of Counters.Sizes, in bytes; RabbitMQ's.
var SizeBounds = [...]uint64{100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 50_000_000, 100_000_000}

// QueueCounters count what has passed through one queue, as Counters do.
type QueueCounters struct {
	Published                             uint64 // messages that entered, dead letters included
	Delivered, DeliveredNoAck             uint64
	Redelivered                           uint64
	Got, GotNoAck, GotEmpty, Acknowledged uint64
}

// ExchangeCounters count what has passed through one exchange, as Counters do.
type ExchangeCounters struct {
	In  uint64 // messages published to it
	Out uint64 // copies that went to queues
}

// Buried counts dead letters by reason, as Counters do.
type Buried struct {
	Rejected, Expired, MaxLength, DeliveryLimit uint64
	Arrived                                     uint64 // of all those that went to a queue at least
}

// published counts a message with a body of so many bytes.
func (c *Counters) published(size uint64) {
	c.Published++
	c.PublishedBytes += size
	i := 0
	for i < len(SizeBounds) && size > SizeBounds[i] {
		i++
	}
	c.Sizes[i]++
}

// ClientsOf counts what a node's clients have: open channels that have published, and consumers.
func (m *Machine) ClientsOf(node uint64) (publishers, consumers int) {
	m.sessions.each(func(s *session) {
		if s.Node != node {
			return
		}
		for _, h := range s.channels {
			consumers += len(h.consumers)
			if h.publishes {
				publishers++
			}
		}
	})
	return publishers, consumers
}

// Add adds another's.
func (b *Buried) Add(x Buried) {
	b.Rejected += x.Rejected
	b.Expired += x.Expired
	b.MaxLength += x.MaxLength
	b.DeliveryLimit += x.DeliveryLimit
	b.Arrived += x.Arrived
}

// counters are the session's vhost's for the session's node.
func (s *session) counters() *Counters {
	if s.counted == nil || s.counted.Node != s.Node {
		s.counted = s.vhost.countersOf(s.Node)
	}
	return s.counted
}

// answered counts an answer to a publish on a channel that confirms.
func (c *Counters) answered(kind EffectKind) {
	if kind == EffectNacked {
		c.Nacked++
	} else {
		c.Confirmed++
	}
}

func (c *Counters) delivered(q *QueueCounters, noAck, again bool) {
	if noAck {
		c.DeliveredNoAck++
		q.DeliveredNoAck++
	} else {
		c.Delivered++
		q.Delivered++
	}
	c.again(q, again)
}

func (c *Counters) got(q *QueueCounters, noAck, again bool) {
	if noAck {
		c.GotNoAck++
		q.GotNoAck++
	} else {
		c.Got++
		q.Got++
	}
	c.again(q, again)
}

func (c *Counters) again(q *QueueCounters, again bool) {
	if again {
		c.Redelivered++
		q.Redelivered++
	}
}

func (v *vhost) countersOf(node uint64) *Counters {
	for _, c := range v.counted {
		if c.Node == node {
			return c
		}
	}
	c := &Counters{Node: node}
	v.counted = append(v.counted, c)
	return c
}

// Add adds b to a; the node stays.
func (a *Counters) Add(b *Counters) {
	a.Published += b.Published
	a.PublishedConfirm += b.PublishedConfirm
	a.PublishedBytes += b.PublishedBytes
	for i := range a.Sizes {
		a.Sizes[i] += b.Sizes[i]
	}
	a.Routed += b.Routed
	a.Returned += b.Returned
	a.Dropped += b.Dropped
	a.Confirmed += b.Confirmed
	a.Nacked += b.Nacked
	a.Delivered += b.Delivered
	a.DeliveredNoAck += b.DeliveredNoAck
	a.Redelivered += b.Redelivered
	a.Got += b.Got
	a.GotNoAck += b.GotNoAck
	a.GotEmpty += b.GotEmpty
	a.Acknowledged += b.Acknowledged
	a.ChannelsOpened += b.ChannelsOpened
	a.ChannelsClosed += b.ChannelsClosed
	a.SessionsOpened += b.SessionsOpened
	a.SessionsClosed += b.SessionsClosed
	a.QueuesDeclared += b.QueuesDeclared
	a.QueuesCreated += b.QueuesCreated
	a.QueuesDeleted += b.QueuesDeleted
}

// Counters are a vhost's, by node in no order; those of things that no client did are node 0's.
func (m *Machine) Counters(vhost string) (list []Counters, buried Buried) {
	v := m.vhost[vhost]
	if v == nil {
		return nil, Buried{}
	}
	for _, c := range v.counted {
		list = append(list, *c)
	}
	b := &v.buried
	return list, Buried{Rejected: b[reasonRejected], Expired: b[reasonExpired], MaxLength: b[reasonMaxLength], DeliveryLimit: b[reasonDeliveryLimit],
		Arrived: v.arrived}
}
