package sessions

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/understudy-mq/understudy/cmd/loopback"
	"github.com/understudy-mq/understudy/interop/harness"
	"github.com/understudy-mq/understudy/session/resume"
)

// sourceAndStandby are two clusters of a node each, of which the second follows the first.
func sourceAndStandby(t *testing.T) (source, standby *harness.Cluster) {
	t.Helper()
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	link := loopback.Addresses(t, 1)[0]
	source = harness.Start(t, harness.Options{Args: []string{"--link", link, "--link-serve-token-file", token}})
	standby = harness.Start(t, harness.Options{Args: []string{"--link-source", link, "--link-token-file", token, "--standby"}})
	return source, standby
}

// pairOf is a run of the application over a source and its standby.
type pairOf struct {
	t               *testing.T
	ctx             context.Context
	source, standby *harness.Node
	promoted        chan struct{} // one for each session that has noticed

	publishing, consuming *resume.Session
	consumed              sync.WaitGroup
	seen                  atLeastOnce
}

func newPair(t *testing.T, ctx context.Context) *pairOf {
	t.Helper()
	source, standby := sourceAndStandby(t)
	p := &pairOf{t: t, ctx: ctx, source: source.Node(1), standby: standby.Node(1), promoted: make(chan struct{}, 2)}
	p.publishing, p.consuming = p.dial(), p.dial()
	consumer, err := p.consuming.Consume(ctx, "helped", resume.ConsumeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	p.consumed.Go(func() {
		for d := range consumer.Deliveries() {
			p.seen.take(string(d.Body))
			if err := d.Ack(false); err != nil {
				t.Error(err)
			}
		}
	})
	return p
}

func (p *pairOf) dial() *resume.Session {
	p.t.Helper()
	s, err := resume.Dial(p.ctx, resume.Options{
		URLs: []string{p.source.URL(), p.standby.URL()},
		Setup: func(ch *amqp.Channel) error {
			_, err := ch.QueueDeclare("helped", true, false, false, false, nil)
			return err
		},
		Events: func(e resume.Event) {
			if e.Kind == resume.Promoted {
				p.promoted <- struct{}{}
			}
		},
	})
	if err != nil {
		p.t.Fatal(err)
	}
	return s
}

// await waits for a condition of the run.
func (p *pairOf) await(atMost time.Duration, condition func(context.Context) error) {
	p.t.Helper()
	if err := harness.Await(atMost, condition); err != nil {
		p.t.Fatal(err)
	}
}

// loseTheLastMoment kills the source when the standby has not heard of n deliveries, and promotes that.
func (p *pairOf) loseTheLastMoment(n int) {
	p.t.Helper()
	p.await(30*time.Second, func(ctx context.Context) error {
		_, err := p.standby.Queue(ctx, "helped")
		return err
	})
	if err := p.standby.Pause(); err != nil {
		p.t.Fatal(err)
	}
	before := p.seen.count()
	p.await(20*time.Second, func(context.Context) error {
		if more := p.seen.count() - before; more < n {
			return fmt.Errorf("%d deliveries while the standby is silent", more)
		}
		return nil
	})
	p.source.Kill9()
	if err := p.standby.Resume(); err != nil {
		p.t.Fatal(err)
	}
	p.await(time.Minute, func(ctx context.Context) error {
		_, err := p.standby.Do(ctx, "POST", "/api/link/promote", strings.NewReader("{}"))
		return err
	})
	for range 2 {
		select {
		case <-p.promoted:
		case <-p.ctx.Done():
			p.t.Fatal("a session has not noticed the promotion")
		}
	}
}

// TestHelperLosesNothingWhenAStandbyIsPromotedThatHadNotHeardOfTheLastMoment: the standby is silent for a moment while the source
// confirms and delivers, and then the source dies. What was confirmed in that moment is published again, and comes again.
func TestHelperLosesNothingWhenAStandbyIsPromotedThatHadNotHeardOfTheLastMoment(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	p := newPair(t, ctx)
	stop := make(chan struct{})
	published := make(chan int, 1)
	go func() {
		n, err := publishUntil(ctx, p.publishing, "helped", "a", stop)
		if err != nil {
			t.Error(err)
		}
		published <- n
	}()
	p.loseTheLastMoment(200)
	close(stop)
	total := <-published
	p.await(30*time.Second, func(context.Context) error { return p.seen.complete(total) })
	for _, s := range []*resume.Session{p.publishing, p.consuming} {
		if err := s.Close(ctx); err != nil {
			t.Error(err)
		}
	}
	p.consumed.Wait()
	after := connect(t, p.standby.URL(), session(unique("s")))
	want(t, "generation", after.status()["x-session-generation"], 1)
	p.await(20*time.Second, func(context.Context) error { // and not of the dead source's nodes
		if hosts := after.status()["x-session-hosts"]; hosts != p.standby.AMQP {
			return fmt.Errorf("clients are told of %q", hosts)
		}
		return nil
	})
	t.Logf("published %d; %d came once more", total, p.seen.repeated)
	if p.seen.fault != "" {
		t.Error(p.seen.fault)
	}
	if p.seen.repeated == 0 {
		t.Error("nothing came once more: the standby had heard of everything, and the test shows nothing")
	}
}

// atLeastOnce takes "NAME NUMBER" with numbers that leave none out; some may come once more.
type atLeastOnce struct {
	mu                    sync.Mutex
	last, taken, repeated int
	fault                 string
}

func (x *atLeastOnce) take(body string) {
	var n int
	_, err := fmt.Sscanf(body, "a %d", &n)
	x.mu.Lock()
	defer x.mu.Unlock()
	x.taken++
	switch {
	case err != nil || n > x.last+1:
		x.fault += fmt.Sprintf("%q after %d; ", body, x.last)
	case n <= x.last:
		x.repeated++
		return
	}
	x.last = n
}

func (x *atLeastOnce) count() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.taken
}

func (x *atLeastOnce) complete(total int) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.last < total {
		return fmt.Errorf("%d of %d came", x.last, total)
	}
	return nil
}
