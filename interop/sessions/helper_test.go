package sessions

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/understudy-mq/understudy/interop/harness"
	"github.com/understudy-mq/understudy/session/resume"
)

// The application under test. It has no code for failover.

// publishUntil publishes "NAME NUMBER" with numbers from 1 until stop, and answers the last one once all are confirmed.
func publishUntil(ctx context.Context, s *resume.Session, queue, name string, stop <-chan struct{}) (int, error) {
	p, err := s.Publisher(ctx)
	if err != nil {
		return 0, err
	}
	var last *resume.Receipt
	for n := 1; ; n++ {
		if last, err = p.Publish(ctx, "", queue, true, amqp.Publishing{Body: fmt.Appendf(nil, "%s %d", name, n)}); err != nil {
			return n - 1, err
		}
		select {
		case <-stop:
			return n, last.Wait(ctx)
		case <-time.After(time.Millisecond): // the application's own pace
		}
	}
}

// seen is what a consumer has had, by publisher.
type seen struct {
	mu     sync.Mutex
	last   map[string]int
	total  int
	faults []string
}

func (x *seen) take(body string) {
	name, number, _ := strings.Cut(body, " ")
	n, err := strconv.Atoi(number)
	x.mu.Lock()
	defer x.mu.Unlock()
	if err != nil || n != x.last[name]+1 {
		x.faults = append(x.faults, fmt.Sprintf("%q after %d", body, x.last[name]))
	}
	x.last[name] = n
	x.total++
}

// consumeInto works on each delivery for a moment before it acknowledges it; now and then it acknowledges several at once.
func consumeInto(c *resume.Consumer, x *seen) error {
	var unacked int
	for d := range c.Deliveries() {
		x.take(string(d.Body))
		if unacked++; unacked < 3 {
			continue
		}
		unacked = 0
		if err := d.Ack(true); err != nil {
			return err
		}
	}
	return nil
}

// later is a queue that a consumer comes to when all is over.
const later = "later"

// helped is a run of the application on nodes that are behind doors.
type helped struct {
	t     *testing.T
	ctx   context.Context
	doors []*door
	event func(resume.Event) // hears of what happens to the sessions' connections

	publishing, consuming *resume.Session
	consumer              *resume.Consumer
	consumed              sync.WaitGroup
	seen                  seen
	mu                    sync.Mutex
	published             map[string]int
}

func newHelped(t *testing.T, ctx context.Context, nodes []*harness.Node, event func(resume.Event)) *helped {
	t.Helper()
	h := &helped{t: t, ctx: ctx, event: event, seen: seen{last: map[string]int{}}, published: map[string]int{}}
	for _, n := range nodes {
		d, err := openDoor(n.AMQP)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(d.close)
		h.doors = append(h.doors, d)
	}
	h.publishing, h.consuming = h.dial(0), h.dial(1)
	var err error
	if h.consumer, err = h.consuming.Consume(ctx, "helped", resume.ConsumeOptions{Prefetch: 30}); err != nil {
		t.Fatal(err)
	}
	h.consumed.Go(func() {
		if err := consumeInto(h.consumer, &h.seen); err != nil {
			t.Error(err)
		}
	})
	return h
}

// dial opens a session that tries the doors in turn, from one of them on.
func (h *helped) dial(first int) *resume.Session {
	h.t.Helper()
	var urls []string
	for i := range h.doors {
		urls = append(urls, h.doors[(first+i)%len(h.doors)].url())
	}
	s, err := resume.Dial(h.ctx, resume.Options{
		URLs: urls,
		Setup: func(ch *amqp.Channel) error {
			for _, queue := range []string{"helped", later} {
				if _, err := ch.QueueDeclare(queue, true, false, false, false, nil); err != nil {
					return err
				}
			}
			return nil
		},
		Events: h.event,
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return s
}

// publish runs publishers by those names until stop is closed, and answers how many messages are in.
func (h *helped) publish(stop <-chan struct{}, names ...string) (wait func() int) {
	var running sync.WaitGroup
	for _, name := range names {
		running.Go(func() {
			n, err := publishUntil(h.ctx, h.publishing, "helped", name, stop)
			if err != nil {
				h.t.Error(err)
			}
			h.mu.Lock()
			h.published[name] = n
			h.mu.Unlock()
		})
	}
	return func() (total int) {
		running.Wait()
		for _, n := range h.published {
			total += n
		}
		return total
	}
}

// delivered is how many messages came.
func (h *helped) delivered() int {
	h.seen.mu.Lock()
	defer h.seen.mu.Unlock()
	return h.seen.total
}

// judge waits until all is delivered, and no more than that.
func (h *helped) judge(total int) {
	h.t.Helper()
	err := harness.Await(harness.Patience, func(context.Context) error {
		h.seen.mu.Lock()
		defer h.seen.mu.Unlock()
		if h.seen.total < total && len(h.seen.faults) == 0 {
			return fmt.Errorf("%d of %d delivered", h.seen.total, total)
		}
		return nil
	})
	for _, s := range []*resume.Session{h.publishing, h.consuming} {
		if err := s.Close(h.ctx); err != nil {
			h.t.Error(err)
		}
	}
	h.consumed.Wait()
	h.t.Logf("published %v, delivered %v", h.published, h.seen.last)
	if err != nil || len(h.seen.faults) > 0 || h.seen.total != total {
		h.t.Errorf("published %d, delivered %d: %v %.10q", total, h.seen.total, err, h.seen.faults)
	}
}

// TestHelperPublishesAndDeliversOnceInOrderWhileNodesDie runs publishers and a consumer through session/resume while every two
// seconds a node is killed or connections are cut.
func TestHelperPublishesAndDeliversOnceInOrderWhileNodesDie(t *testing.T) {
	length := 10 * time.Second
	if *long {
		length = 60 * time.Second
	}
	first := firstSeed(t)
	ctx, cancel := context.WithTimeout(t.Context(), length+90*time.Second)
	defer cancel()
	c := harness.Start(t, harness.Options{Nodes: 3})
	h := newHelped(t, ctx, c.Members(), func(e resume.Event) { t.Logf("%s %s %v", e.Kind, e.Address, e.Err) })
	stop := make(chan struct{})
	total := h.publish(stop, "a", "b")
	disturb(t, ctx, c, h.doors, length, rand.New(rand.NewPCG(first, 1)))
	close(stop)
	h.judge(total())
}

// disturb kills a node and starts it again, or cuts connections at the doors, every two seconds.
func disturb(t *testing.T, ctx context.Context, c *harness.Cluster, doors []*door, length time.Duration, random *rand.Rand) {
	t.Helper()
	end := time.After(length)
	tick := time.NewTicker(2 * time.Second)
	defer tick.Stop()
	for {
		select {
		case <-end:
			return
		case <-tick.C:
		}
		if random.IntN(2) == 0 {
			i := slices.IndexFunc(doors, func(d *door) bool { return d.connections() > 0 })
			if i >= 0 { // else they are being made
				t.Logf("cut %d connections of node %d", doors[i].cut(), i+1)
			}
			continue
		}
		n := c.Node(random.IntN(len(c.Members())) + 1)
		t.Logf("kill node %d", n.ID)
		n.Kill9()
		if err := n.Start(); err != nil {
			t.Fatal(err)
		}
		if err := n.WaitReady(ctx); err != nil {
			t.Fatal(err)
		}
	}
}

func TestTheHelpersExampleRuns(t *testing.T) {
	c := harness.Start(t, harness.Options{Nodes: 3})
	program := filepath.Join(t.TempDir(), "example")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "github.com/understudy-mq/understudy/session/resume/example").CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, append([]string{"-orders", "20000"}, c.URLs()...)...)
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	// Once it is under way, the node that it is connected to is killed.
	err := harness.Await(harness.Patience, func(ctx context.Context) error {
		q, err := c.Node(2).Queue(ctx, "example.orders")
		if err == nil && q.Messages == 0 {
			err = fmt.Errorf("no order yet")
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	c.Node(1).Kill9()
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	hasText(t, "what it prints", out.String(), "attached "+c.Node(1).AMQP, "resumed ", "20000 orders published, 20000 worked off")
}
