package bench

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/understudy-mq/understudy/interop/harness"
)

// load is what is put on the broker.
type load struct {
	name     string
	nodes    int
	raw      bool
	queues   int // each with one producer and one consumer
	bytes    int // of a body, 8 at least
	window   int // unconfirmed publishes per producer
	prefetch int
	ackEvery int // deliveries per ack
	rate     int // publishes per second and producer, 0 as fast as confirms allow; not with raw
}

// examine checks a body's size and its place behind the one before, and answers when it was published.
func (l load) examine(body []byte, newest int64) (int64, error) {
	if len(body) != l.bytes {
		return 0, fmt.Errorf("a body of %d bytes instead of %d", len(body), l.bytes)
	}
	at := int64(binary.BigEndian.Uint64(body))
	if at < newest {
		return 0, errors.New("deliveries ran backwards")
	}
	return at, nil
}

// figures are what was measured. Counters of the broker are summed over its nodes and divided by the messages consumed.
type figures struct {
	publishRate, consumeRate             float64 // messages per second
	cpu                                  float64 // microseconds per message
	syncs, reads, writes                 float64 // fsyncs, read and write calls per 1,000 messages
	allocations                          float64 // per message
	confirm50, confirm99, e2e50, e2e99ms float64 // milliseconds
}

func (f figures) String() string {
	return fmt.Sprintf("publish %7.0f/s  consume %7.0f/s  cpu %6.1f us/msg  fsyncs %6.1f  reads %6.1f  writes %6.1f /1000 msg  allocs %5.2f/msg  confirm p50 %6.2f p99 %6.2f ms  e2e p50 %6.2f p99 %6.2f ms",
		f.publishRate, f.consumeRate, f.cpu, f.syncs, f.reads, f.writes, f.allocations, f.confirm50, f.confirm99, f.e2e50, f.e2e99ms)
}

// measure puts a load on a cluster, lets it warm up and measures for the duration.
func measure(c *harness.Cluster, l load, warmup, duration time.Duration) (figures, error) {
	ctx, cancel := context.WithCancel(context.Background())
	m := newMeter()
	var wg sync.WaitGroup
	stop := func() { cancel(); wg.Wait() }
	defer stop()
	if err := l.start(ctx, c.URLs(), m, &wg); err != nil {
		return figures{}, err
	}
	if err := m.hold(warmup); err != nil {
		return figures{}, err
	}
	m.on.Store(true)
	f, err := m.span(c, duration)
	m.on.Store(false)
	stop()
	f.confirm50, f.confirm99 = percentiles(m.confirms)
	f.e2e50, f.e2e99ms = percentiles(m.e2es)
	return f, err
}

// span is what the cluster spends and its clients do in a duration, or until something is consumed where a disk stalls for longer; latencies
// apart.
func (m *meter) span(c *harness.Cluster, duration time.Duration) (figures, error) {
	before, err := count(c)
	if err != nil {
		return figures{}, err
	}
	confirmed, consumed, begin := m.confirmed.Load(), m.consumed.Load(), time.Now()
	if err := m.hold(duration); err != nil {
		return figures{}, err
	}
	for m.consumed.Load() == consumed && time.Since(begin) < duration+harness.Patience {
		if err := m.hold(10 * time.Millisecond); err != nil {
			return figures{}, err
		}
	}
	took := time.Since(begin).Seconds()
	confirmed, consumed = m.confirmed.Load()-confirmed, m.consumed.Load()-consumed
	after, err := count(c)
	if err != nil {
		return figures{}, err
	}
	if consumed == 0 {
		return figures{}, errors.New("nothing was consumed")
	}
	f := after.minus(before).per(float64(consumed))
	f.publishRate, f.consumeRate = float64(confirmed)/took, float64(consumed)/took
	return f, nil
}

// hold waits, or answers the drivers' first error.
func (m *meter) hold(d time.Duration) error {
	select {
	case err := <-m.failed:
		return err
	case <-time.After(d):
		return nil
	}
}

// start declares the queues and starts the drivers, spread over the nodes: consumers first.
func (l load) start(ctx context.Context, urls []string, m *meter, wg *sync.WaitGroup) error {
	conn, ch, err := dialLib(urls[0])
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	produce, consume := libProduce, libConsume
	if l.raw {
		produce, consume = rawProduce, rawConsume
	}
	for i := range l.queues {
		queue := fmt.Sprintf("bench-%s-%d", l.name, i)
		if _, err := ch.QueueDeclare(queue, true, false, false, false, nil); err != nil {
			return err
		}
		wg.Go(func() { consume(ctx, l, m, urls[(i+1)%len(urls)], queue) })
		wg.Go(func() { produce(ctx, l, m, urls[i%len(urls)], queue) })
	}
	return nil
}

// counters are what the nodes have spent, summed.
type counters struct {
	cpu                             time.Duration
	syncs, reads, writes, allocated float64
}

func count(c *harness.Cluster) (counters, error) {
	var sum counters
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for _, n := range c.Running() {
		cpu, err1 := n.CPU()
		reads, err2 := n.IO("syscr")
		writes, err3 := n.IO("syscw")
		metrics, err4 := n.Metrics(ctx)
		if err := errors.Join(err1, err2, err3, err4); err != nil {
			return sum, err
		}
		for _, name := range []string{syncsMetric, allocationsMetric} {
			if _, ok := metrics[name]; !ok {
				return sum, fmt.Errorf("/metrics has no %s", name)
			}
		}
		sum.cpu += cpu
		sum.reads += float64(reads)
		sum.writes += float64(writes)
		sum.syncs += metrics[syncsMetric]
		sum.allocated += metrics[allocationsMetric]
	}
	return sum, nil
}

// The names under which /metrics counts syncs of the log and allocations.
const (
	syncsMetric       = "understudy_log_fsync_seconds_count"
	allocationsMetric = "go_memstats_mallocs_total"
)

func (c counters) minus(b counters) counters {
	return counters{c.cpu - b.cpu, c.syncs - b.syncs, c.reads - b.reads, c.writes - b.writes, c.allocated - b.allocated}
}

func (c counters) per(messages float64) figures {
	return figures{
		cpu: float64(c.cpu.Microseconds()) / messages, allocations: c.allocated / messages,
		syncs: 1000 * c.syncs / messages, reads: 1000 * c.reads / messages, writes: 1000 * c.writes / messages,
	}
}
