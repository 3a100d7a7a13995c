package standby

import (
	"context"
	"fmt"
	"sync"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/understudy-mq/understudy/interop/harness"
)

// ledger is what publishers know of their messages: whether they were confirmed, by id.
type ledger struct {
	mu        sync.Mutex
	confirmed map[string]bool
	count     int
}

func (l *ledger) sent(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.confirmed[id] = false
}

func (l *ledger) settled(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.confirmed[id] = true
	l.count++
}

// await waits for n more confirms.
func (l *ledger) await(t *testing.T, n int) {
	t.Helper()
	confirms := func() int {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.count
	}
	before := confirms()
	err := harness.Await(harness.Patience, func(context.Context) error {
		if more := confirms() - before; more < n {
			return fmt.Errorf("%d of %d more confirms", more, n)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// publishUntilLost publishes to the queue, some hundred messages ahead of their confirms, until its connection is lost.
func publishUntilLost(ch *amqp.Channel, name string, l *ledger) {
	const ahead = 100
	if ch.Confirm(false) != nil {
		return
	}
	answers := ch.NotifyPublish(make(chan amqp.Confirmation, 2*ahead))
	id := func(tag uint64) string { return fmt.Sprintf("%s-%d", name, tag) }
	for tag, open := uint64(1), uint64(0); ; tag++ {
		l.sent(id(tag))
		if ch.Publish("", "tail", false, false, amqp.Publishing{MessageId: id(tag), Body: []byte("x")}) != nil {
			return
		}
		for open++; open >= ahead || len(answers) > 0; open-- {
			a, ok := <-answers
			if !ok {
				return
			}
			if a.Ack {
				l.settled(id(a.DeliveryTag))
			}
		}
	}
}

// The tails that the nodes of a source kept say together exactly what is not at the promoted cluster: everything that was
// confirmed and is lost, nothing that is there, and nothing that nobody sent.
func TestTheLostTailIsWhatWasConfirmedAndIsNotAtThePromotedCluster(t *testing.T) {
	p := harness.StartPair(t, harness.PairOptions{Nodes: 3, Args: []string{"--groups", "2"}})
	l := &ledger{confirmed: map[string]bool{}}
	if _, err := channelTo(t, p.Source.Node(1), "/").QueueDeclare("tail", true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	var publishing sync.WaitGroup
	for _, n := range p.Source.Members() {
		ch := channelTo(t, n, "/")
		publishing.Go(func() { publishUntilLost(ch, fmt.Sprint("p", n.ID), l) })
	}
	l.await(t, 500)
	if err := p.WaitCaughtUpWithin(1000, harness.Patience); err != nil {
		t.Fatal(err)
	}
	p.CutLinks()
	l.await(t, 500)
	p.Source.KillAll()
	publishing.Wait()
	next := p.Standby.Node(1)
	if _, err := next.Promote(t.Context(), "promote"); err != nil {
		t.Fatal(err)
	}

	present := map[string]bool{}
	for _, d := range all(t, channelTo(t, next, "/"), "tail") {
		present[d.MessageId] = true
	}
	told := map[string]bool{}
	for _, n := range p.Source.Members() {
		for _, id := range lostIDs(t, understudy(t, "link", "lost-tail", "--data", n.Data, "--admin-url", "http://"+next.Admin)) {
			told[id] = true
		}
	}
	lost := 0
	for id, confirmed := range l.confirmed {
		if confirmed && !present[id] {
			lost++
			if !told[id] {
				t.Errorf("%s was confirmed and is lost, and no node's tail tells of it", id)
			}
		}
	}
	for id := range told {
		if _, sent := l.confirmed[id]; !sent || present[id] {
			t.Errorf("the tail tells of %s: sent %v, at the promoted cluster %v", id, sent, present[id])
		}
	}
	t.Logf("confirmed %d, at the promoted cluster %d, lost %d, told of %d", l.count, len(present), lost, len(told))
	if lost < 500 {
		t.Errorf("%d are lost: what was confirmed while the link was cut are 500 at least", lost)
	}

	for _, n := range p.Source.Members() { // each adds what those before it had not
		understudy(t, "link", "lost-tail", "--data", n.Data, "--admin-url", "http://"+next.Admin, "--amqp-url", next.URL(), "--into", "lost")
	}
	quarantined := map[string]int{}
	for _, d := range all(t, channelTo(t, next, "lost"), "tail") {
		quarantined[d.MessageId]++
	}
	for id, times := range quarantined {
		if times != 1 || !told[id] {
			t.Errorf("%s is in quarantine %d times, told of %v", id, times, told[id])
		}
	}
	if len(quarantined) != len(told) {
		t.Errorf("%d messages are in quarantine of %d that are told of", len(quarantined), len(told))
	}
}
