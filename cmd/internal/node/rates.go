package node

import (
	"strings"
	"sync"
	"time"

	"github.com/understudy-mq/understudy/cmd/internal/api"
	"github.com/understudy-mq/understudy/core"
)

const (
	rateSpan   = 5 * time.Second  // that a rate is the mean of, at least
	rateForget = 10 * time.Minute // after which a reading that nobody has asked for again goes
)

// meter makes rates of counters. It keeps readings of what is asked for alone: a rate is the mean since the last look that is
// at least rateSpan old, and 0 at the first look.
type meter struct {
	mu       sync.Mutex
	readings map[string]*reading
	swept    time.Time
}

type reading struct {
	base, newest sample
}

type sample struct {
	at     time.Time
	values []uint64
}

// count is a counter, or with gauge a number that goes up and down.
type count struct {
	name  string
	value uint64
	gauge bool
}

// stats are counters as RabbitMQ lists them: each by its name, and its rate a second. key names whose they are.
func (m *meter) stats(now time.Time, key string, counts []count) map[string]any {
	base := m.base(now, key, counts)
	out := make(map[string]any, 2*len(counts))
	for i, c := range counts {
		rate := 0.0
		if span := now.Sub(base.at).Seconds(); base.values != nil && span > 0 && (c.gauge || c.value >= base.values[i]) {
			rate = (float64(c.value) - float64(base.values[i])) / span
		}
		if !c.gauge {
			out[c.name] = c.value
		}
		out[c.name+"_details"] = api.Rate{Rate: rate}
	}
	return out
}

// base is the reading to compare with; it takes note of this one.
func (m *meter) base(now time.Time, key string, counts []count) sample {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sweep(now)
	r := m.readings[key]
	if r == nil || len(r.newest.values) != len(counts) {
		r = &reading{}
		m.readings[key] = r
	}
	if r.newest.values == nil || now.Sub(r.newest.at) >= rateSpan {
		r.base = r.newest
		r.newest = sample{at: now}
		for _, c := range counts {
			r.newest.values = append(r.newest.values, c.value)
		}
	}
	return r.base
}

// sweep forgets what nobody asks for any more.
func (m *meter) sweep(now time.Time) {
	if now.Sub(m.swept) < rateForget {
		return
	}
	m.swept = now
	for key, r := range m.readings {
		if now.Sub(r.newest.at) >= rateForget {
			delete(m.readings, key)
		}
	}
}

func queueCounts(c *core.QueueCounters) []count {
	return []count{
		{name: "publish", value: c.Published}, {name: "deliver", value: c.Delivered}, {name: "deliver_no_ack", value: c.DeliveredNoAck},
		{name: "get", value: c.Got}, {name: "get_no_ack", value: c.GotNoAck}, {name: "get_empty", value: c.GotEmpty},
		{name: "deliver_get", value: c.Delivered + c.DeliveredNoAck + c.Got + c.GotNoAck},
		{name: "redeliver", value: c.Redelivered}, {name: "ack", value: c.Acknowledged},
	}
}

func vhostCounts(c *core.Counters) []count {
	queue := core.QueueCounters{
		Published: c.Published, Delivered: c.Delivered, DeliveredNoAck: c.DeliveredNoAck, Redelivered: c.Redelivered, Got: c.Got,
		GotNoAck: c.GotNoAck, GotEmpty: c.GotEmpty, Acknowledged: c.Acknowledged,
	}
	return append(queueCounts(&queue), count{name: "confirm", value: c.Confirmed}, count{name: "return_unroutable", value: c.Returned},
		count{name: "drop_unroutable", value: c.Dropped})
}

func totalCounts(ready, unacknowledged uint64) []count {
	return []count{
		{name: "messages", value: ready + unacknowledged, gauge: true}, {name: "messages_ready", value: ready, gauge: true},
		{name: "messages_unacknowledged", value: unacknowledged, gauge: true},
	}
}

// rateOf is the rate of a counter among stats.
func rateOf(stats map[string]any, name string) api.Rate {
	rate, _ := stats[name+"_details"].(api.Rate)
	return rate
}

// Totals are the numbers of messages in some vhosts.
func (n *Node) Totals(vhosts []string) map[string]any {
	var ready, unacknowledged uint64
	for _, vhost := range vhosts {
		home, ok := n.vhostHome(vhost)
		if !ok {
			continue
		}
		n.states[home.Group].View(func(m *core.Machine) {
			v, _ := m.Vhost(vhost)
			ready, unacknowledged = ready+v.Ready, unacknowledged+v.Unacknowledged
		})
	}
	counts := totalCounts(ready, unacknowledged)
	out := n.rates.stats(time.Now(), "totals\x00"+strings.Join(vhosts, "\x00"), counts)
	for _, c := range counts {
		out[c.name] = c.value
	}
	return out
}

// Traffic is what has passed through some vhosts since this node's start.
func (n *Node) Traffic(vhosts []string) api.Traffic {
	var all core.Counters
	for _, vhost := range vhosts {
		for _, c := range n.countersOf(vhost) {
			all.Add(&c)
		}
	}
	key, now := strings.Join(vhosts, "\x00"), time.Now()
	return api.Traffic{
		MessageStats: n.rates.stats(now, "vhosts\x00"+key, vhostCounts(&all)),
		ChurnRates: n.rates.stats(now, "churn\x00"+key, []count{
			{name: "channel_created", value: all.ChannelsOpened}, {name: "channel_closed", value: all.ChannelsClosed},
			{name: "connection_created", value: all.SessionsOpened}, {name: "connection_closed", value: all.SessionsClosed},
			{name: "queue_declared", value: all.QueuesDeclared}, {name: "queue_created", value: all.QueuesCreated},
			{name: "queue_deleted", value: all.QueuesDeleted},
		}),
	}
}

func (n *Node) countersOf(vhost string) (list []core.Counters) {
	if home, ok := n.vhostHome(vhost); ok {
		n.states[home.Group].View(func(m *core.Machine) { list, _ = m.Counters(vhost) })
	}
	return list
}
