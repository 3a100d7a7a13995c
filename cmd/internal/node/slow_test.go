package node

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/understudy-mq/understudy/cmd/internal/api"
	"github.com/understudy-mq/understudy/core/entry"
	"github.com/understudy-mq/understudy/core/message"
)

// relay is a way to an address that can be cut. Both sides of a connection see its end at once.
type relay struct {
	net.Listener
	to string

	mu    sync.Mutex
	cut   bool
	conns map[net.Conn]struct{}
}

func newRelay(t *testing.T, to string) *relay {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{Listener: l, to: to, conns: map[net.Conn]struct{}{}}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			running.Go(func() { r.carry(c) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		r.set(true)
		running.Wait()
	})
	return r
}

func (r *relay) carry(near net.Conn) {
	defer near.Close()
	far, err := net.Dial("tcp", r.to)
	if err != nil {
		return
	}
	defer far.Close()
	if !r.add(near, far) {
		return
	}
	var back sync.WaitGroup
	back.Go(func() { _, _ = io.Copy(near, far); _ = near.Close() })
	_, _ = io.Copy(far, near)
	_ = far.Close()
	back.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.conns, near)
	delete(r.conns, far)
}

func (r *relay) add(conns ...net.Conn) (whole bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range conns {
		r.conns[c] = struct{}{}
	}
	return !r.cut
}

// set cuts the way or mends it.
func (r *relay) set(cut bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cut = cut
	for c := range r.conns {
		if cut {
			_ = c.Close()
		}
	}
}

// elsewhere makes a vhost in another group than the first vhost's.
func elsewhere(t *testing.T, n *Node) string {
	t.Helper()
	for i := range 20 {
		name := fmt.Sprint("other", i)
		adminCall(t, n, "PUT", vhostPath(name), `{}`, 201)
		if at, ok := n.vhostHome(name); ok && at.Group != home(n) {
			return name
		}
	}
	t.Fatal("twenty vhosts, and all are in one group")
	return ""
}

// publisher is a client that hears whether it has to wait, and a channel of it with confirms and a queue.
func publisher(t *testing.T, n *Node, vhost string) (*amqp.Connection, *amqp.Channel, <-chan amqp.Blocking) {
	t.Helper()
	c := inVhost(t, n, vhost)
	heard := c.NotifyBlocked(make(chan amqp.Blocking, 4))
	return c, channelWithConfirms(t, c), heard
}

// consuming is what a new consumer of a queue is delivered.
func consuming(t *testing.T, ch *amqp.Channel, queue string) <-chan amqp.Delivery {
	t.Helper()
	deliveries, err := ch.Consume(queue, "", false, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	return deliveries
}

func next(t *testing.T, deliveries <-chan amqp.Delivery) amqp.Delivery {
	t.Helper()
	select {
	case d := <-deliveries:
		return d
	case <-time.After(patience):
		t.Fatalf("nothing was delivered within %v", patience)
		return amqp.Delivery{}
	}
}

func ack(t *testing.T, d amqp.Delivery) {
	t.Helper()
	if err := d.Ack(false); err != nil {
		t.Fatal(err)
	}
}

func waitsFor(n *Node, vhost string) string {
	reason, _ := n.broker.Flow().Blocked(vhost)
	return reason
}

func TestPublishersWaitWhileTheStandbyIsFurtherBehindThanTheirPolicyHasIt(t *testing.T) {
	from, to := pair(t)
	link := newRelay(t, from.Link)
	to.LinkSource = link.Addr().String()
	source, standby := start(t, from), start(t, to)
	ready(t, source, standby)
	other := elsewhere(t, source)
	confirmPolicy(t, source, message.Field{Key: "link-confirm", Value: "bounded"}, message.Field{Key: "link-max-lag", Value: "300ms"})
	eventually(t, "the standby holds the gate", func() bool { return source.gateState() == entry.GateUp })
	c, ch, heard := publisher(t, source, firstVhost)
	send(t, c, "more", "what the standby has")
	mustConfirm(t, publish(t, ch))
	deliveries, more := consuming(t, ch, "q"), consuming(t, ch, "more")
	d := next(t, deliveries)
	t.Cleanup(func() { link.set(false) }) // a client that closes waits for what it published

	link.set(true)
	ack(t, next(t, more))
	eventually(t, "publishers have to wait", func() bool { return waitsFor(source, firstVhost) != "" })
	held := publish(t, ch)
	wantBlocking(t, heard, true, "standby-"+standby.ClusterID()+" is more than 300ms behind (link-max-lag)")
	ack(t, d)
	eventually(t, "the acknowledgement counts, and nothing was published", func() bool { return messagesIn(source, "q") == 0 })
	late, err := dial(t, source).Channel()
	if err != nil {
		t.Fatal(err)
	}
	consuming(t, late, "more")
	if reason := waitsFor(source, other); reason != "" {
		t.Fatalf("publishers of another group have to wait: %s", reason)
	}
	send(t, inVhost(t, source, other), "q", "of another group")
	if _, metrics := ask(t, source, "/metrics"); !strings.Contains(metrics, "understudy_link_publishers_wait 1\n") {
		t.Error("the metrics do not show that a vhost's publishers wait")
	}
	adminCall(t, source, "POST", "/api/exchanges/%2F/amq.default/publish",
		`{"properties":{},"routing_key":"q","payload":"x","payload_encoding":"string"}`, 503)
	if held.Acked() {
		t.Error("what is held back was confirmed")
	}

	link.set(false)
	wantBlocking(t, heard, false, "")
	mustConfirm(t, held)
	if d := next(t, deliveries); string(d.Body) != "body" {
		t.Errorf("delivered %q", d.Body)
	}
	follows(t, source, standby)
}

// messagesIn counts what a queue of the first vhost has.
func messagesIn(n *Node, queue string) (count uint64) {
	for _, q := range queuesOf(n, firstVhost) {
		if q.Name == queue {
			count += uint64(q.Messages)
		}
	}
	return count
}

// unsettled has a client hold a delivery, so that a drain takes its time, and answers how to settle it.
func unsettled(t *testing.T, n *Node) (settle func()) {
	t.Helper()
	c := dial(t, n)
	send(t, c, "work", "in flight")
	ch, err := c.Channel()
	if err != nil {
		t.Fatal(err)
	}
	d, ok, err := ch.Get("work", false)
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	return func() { ack(t, d) }
}

func TestWhatIsPublishedDuringADrainWaitsAndIsPublishedAgainAtTheStandby(t *testing.T) {
	from, to := pair(t)
	source, standby := start(t, from), start(t, to)
	ready(t, source, standby)
	settle := unsettled(t, source)
	c, ch, heard := publisher(t, source, firstVhost)
	closed := c.NotifyClose(make(chan *amqp.Error, 1))
	follows(t, source, standby)
	switched := make(chan error, 1)
	go func() {
		_, err := standby.Switchover(t.Context(), api.Switchover{DrainSeconds: 60})
		switched <- err
	}()
	eventually(t, "publishers have to wait", func() bool { return waitsFor(source, firstVhost) != "" })
	held := publish(t, ch)
	wantBlocking(t, heard, true, handingOver)
	settle()
	if err := <-switched; err != nil {
		t.Fatal(err)
	}
	wantClosed(t, closed, "handed over")
	if held.Acked() {
		t.Fatal("what was held back was confirmed by the source")
	}
	if reason := source.slowPublishers(nil)[firstVhost]; reason != handingOver {
		t.Errorf("behind the fence publishers wait for %q: what is held back could be let go, and dropped", reason)
	}
	if n := messagesIn(standby, "q") + messagesIn(standby, "work"); n != 0 {
		t.Errorf("the standby has %d messages, want none: the one was acknowledged, the other not published", n)
	}
	send(t, dial(t, standby), "q", "again")
	if body := take(t, dial(t, standby), "q"); body != "again" {
		t.Errorf("got %q", body)
	}
}

func TestWhatIsPublishedDuringADrainThatIsCancelledIsTakenThen(t *testing.T) {
	from, to := pair(t)
	source, standby := start(t, from), start(t, to)
	ready(t, source, standby)
	unsettled(t, source)
	_, ch, heard := publisher(t, source, firstVhost)
	follows(t, source, standby)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	switched := make(chan error, 1)
	go func() {
		_, err := standby.Switchover(ctx, api.Switchover{DrainSeconds: 60})
		switched <- err
	}()
	eventually(t, "publishers have to wait", func() bool { return waitsFor(source, firstVhost) != "" })
	held := publish(t, ch)
	wantBlocking(t, heard, true, handingOver)
	cancel()
	if err := <-switched; err == nil || !strings.Contains(err.Error(), "cancel") {
		t.Fatalf("the switch: %v", err)
	}
	wantBlocking(t, heard, false, "")
	mustConfirm(t, held)
	if n := messagesIn(source, "q"); n != 1 {
		t.Errorf("the queue has %d messages", n)
	}
}
