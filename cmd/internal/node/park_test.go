package node

import (
	"context"
	"errors"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/understudy-mq/understudy/cmd/internal/config"
	"github.com/understudy-mq/understudy/core"
	"github.com/understudy-mq/understudy/session"
)

// parking starts a source and a standby that has its clients wait.
func parking(t *testing.T) (standby *Node) {
	t.Helper()
	from, to := pair(t)
	to.StandbyClients = config.ClientsPark
	source, standby := start(t, from), start(t, to)
	ready(t, source, standby)
	follows(t, source, standby)
	return standby
}

// dialed is how an attempt to connect ended.
type dialed struct {
	conn *amqp.Connection
	err  error
}

// knock connects to a node that may take its time to answer.
func knock(n *Node) <-chan dialed {
	answer := make(chan dialed, 1)
	go func() {
		c, err := amqp.Dial("amqp://guest:guest@" + address(n, protocolAMQP) + "/")
		answer <- dialed{c, err}
	}()
	return answer
}

// seeks has a client ask to be let in, for as long as it takes.
func seeks(ctx context.Context, n *Node) (answer chan error) {
	answer = make(chan error, 1)
	go func() { answer <- n.admit(ctx) }()
	return answer
}

// wantRefused wants the answer, soon, to be what every client of a standby is told.
func wantRefused(t *testing.T, answer chan error) {
	t.Helper()
	eventually(t, "there is an answer", func() bool { return len(answer) > 0 })
	var refusal *session.Error
	if err := <-answer; !errors.As(err, &refusal) || refusal.Code != core.CodeConnectionForced || refusal.Text != standbyReason {
		t.Errorf("%v", err)
	}
}

func TestAParkedClientIsServedOnceTheStandbyIsPromoted(t *testing.T) {
	standby := parking(t)
	answer := knock(standby)
	eventually(t, "the client waits", func() bool { return standby.linkage.parked.Load() == 1 })
	if _, err := standby.Promote(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := <-answer
	if got.err != nil {
		t.Fatal(got.err)
	}
	defer got.conn.Close()
	send(t, got.conn, "work", "after")
	if n := standby.linkage.parked.Load(); n != 0 {
		t.Errorf("%d clients wait still", n)
	}
}

func TestParkedClientsAreBoundedAndThoseBeyondAreToldAtOnce(t *testing.T) {
	standby := parking(t)
	standby.linkage.parked.Add(parkedMax)
	wantRefused(t, seeks(context.Background(), standby))
	standby.linkage.parked.Add(-1)
	answer := knock(standby)
	eventually(t, "the client waits", func() bool { return standby.linkage.parked.Load() == parkedMax })
	if _, err := standby.Promote(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := <-answer; got.err != nil {
		t.Error(got.err)
	} else {
		_ = got.conn.Close()
	}
}

// A client that has waited for as long as a handshake may take is told what it would have been told at once.
func TestAParkedClientWhoseTimeIsUpIsToldWhereItIs(t *testing.T) {
	standby := parking(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	answer := seeks(ctx, standby)
	eventually(t, "the client waits", func() bool { return standby.linkage.parked.Load() == 1 })
	cancel()
	wantRefused(t, answer)
}

func TestAStandbyThatIsStoppedLetsItsParkedClientsGo(t *testing.T) {
	standby := parking(t)
	answer := seeks(context.Background(), standby)
	eventually(t, "the client waits", func() bool { return standby.linkage.parked.Load() == 1 })
	stop(t, standby)
	wantRefused(t, answer)
}

// takenOver starts a node that was promoted and serves.
func takenOver(t *testing.T) *Node {
	t.Helper()
	n := parking(t)
	if _, err := n.Promote(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it has served", n.served.Load)
	return n
}

// Between its promotion and its registration a node hears of no changes, and there are none: who comes then waits until it is
// registered in every group.
func TestAClientThatComesInTheMidstOfAPromotionWaitsForItsEnd(t *testing.T) {
	n := takenOver(t)
	for _, g := range n.groups {
		n.registered.set(g, false)
	}
	n.served.Store(false)
	go n.serveAsPromoted(t.Context())
	answer := knock(n)
	eventually(t, "its login is judged", func() bool { return n.attempts.amqp091.succeeded.Load() > 0 })
	for i, g := range n.groups {
		if n.served.Load() || len(answer) > 0 {
			t.Errorf("it serves with %d of %d groups", i, len(n.groups))
		}
		n.registered.set(g, true)
	}
	if got := <-answer; got.err != nil {
		t.Error(got.err)
	} else {
		_ = got.conn.Close()
	}
}

// One of whose groups has lost its leader: who is to be told so, or wants another group's vhost, must not wait as in a promotion.
func TestANodeThatHasServedSinceItsPromotionIsAsAnyOther(t *testing.T) {
	n := takenOver(t)
	observer := n.observer()
	observer.Unregistered(1, "no leader")
	if n.Ready() == nil {
		t.Fatal("it is ready without a group")
	}
	now, cancel := context.WithCancel(t.Context())
	cancel()
	if err := n.admit(now); err != nil {
		t.Errorf("a client is not let in: %v", err)
	}
	observer.Unregistered(systemGroup, "no leader")
	got := <-knock(n)
	wantReply(t, "open", got.err, 320, "CONNECTION_FORCED - node cannot reach the system group's leader")
}
