package sessions

import (
	"context"
	"fmt"
	"math/rand/v2"
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

// TestHelperPublishesAndDeliversOnceInOrderWhileNodesDie runs publishers and a consumer through session/resume while every two
// seconds a node is killed or connections are cut.
func TestHelperPublishesAndDeliversOnceInOrderWhileNodesDie(t *testing.T) {
	length := 10 * time.Second
	if *long {
		length = 60 * time.Second
	}
	first := *seed
	if first == 0 {
		first = uint64(time.Now().Unix())
	}
	t.Logf("-seed=%d", first)
	c := harness.Start(t, harness.Options{Nodes: 3})
	var urls []string
	var doors []*door
	for _, n := range c.Members() {
		d, err := openDoor(n.AMQP)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(d.close)
		doors, urls = append(doors, d), append(urls, d.url())
	}
	ctx, cancel := context.WithTimeout(t.Context(), length+90*time.Second)
	defer cancel()
	var events sync.Map
	dial := func(first int) *resume.Session {
		s, err := resume.Dial(ctx, resume.Options{
			URLs: append(urls[first:len(urls):len(urls)], urls[:first]...),
			Setup: func(ch *amqp.Channel) error {
				_, err := ch.QueueDeclare("helped", true, false, false, false, nil)
				return err
			},
			Events: func(e resume.Event) {
				n, _ := events.LoadOrStore(e.Kind, new(int))
				*n.(*int)++
				t.Logf("%s %s %v", e.Kind, e.Address, e.Err)
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	publishing, consuming := dial(0), dial(1)
	consumer, err := consuming.Consume(ctx, "helped", resume.ConsumeOptions{Prefetch: 30})
	if err != nil {
		t.Fatal(err)
	}
	x := &seen{last: map[string]int{}}
	var work sync.WaitGroup
	work.Go(func() {
		if err := consumeInto(consumer, x); err != nil {
			t.Error(err)
		}
	})
	stop := make(chan struct{})
	var mu sync.Mutex
	published := map[string]int{}
	var publishers sync.WaitGroup
	for _, name := range []string{"a", "b"} {
		publishers.Go(func() {
			n, err := publishUntil(ctx, publishing, "helped", name, stop)
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			published[name] = n
			mu.Unlock()
		})
	}
	disturb(t, ctx, c, doors, length, rand.New(rand.NewPCG(first, 1)))
	close(stop)
	publishers.Wait()
	total := published["a"] + published["b"]
	err = harness.Await(30*time.Second, func(context.Context) error {
		x.mu.Lock()
		defer x.mu.Unlock()
		if x.total < total && len(x.faults) == 0 {
			return fmt.Errorf("%d of %d delivered", x.total, total)
		}
		return nil
	})
	x.mu.Lock()
	t.Logf("published %v, delivered %v", published, x.last)
	if err != nil || len(x.faults) > 0 || x.total != total {
		t.Errorf("published %d, delivered %d: %v %.10q", total, x.total, err, x.faults)
	}
	x.mu.Unlock()
	if err := publishing.Close(ctx); err != nil {
		t.Error(err)
	}
	if err := consuming.Close(ctx); err != nil {
		t.Error(err)
	}
	work.Wait()
}

// disturb kills a node and starts it again, or cuts connections, every two seconds.
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
		i := random.IntN(len(doors))
		if random.IntN(2) == 0 {
			t.Logf("cut %d connections of node %d", doors[i].cut(), i+1)
			continue
		}
		n := c.Node(i + 1)
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
