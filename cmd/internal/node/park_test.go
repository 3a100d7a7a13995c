package node

import (
	"context"
	"errors"
	"strings"
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
	_, err := amqp.Dial("amqp://guest:guest@" + address(standby, protocolAMQP) + "/")
	var closed *amqp.Error
	if !errors.As(err, &closed) || closed.Code != amqp.ConnectionForced || !strings.Contains(closed.Reason, standbyReason) {
		t.Errorf("one more client: %v", err)
	}
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
	answer := make(chan error, 1)
	go func() { answer <- standby.admit(ctx) }()
	eventually(t, "the client waits", func() bool { return standby.linkage.parked.Load() == 1 })
	cancel()
	var refusal *session.Error
	if err := <-answer; !errors.As(err, &refusal) || refusal.Code != core.CodeConnectionForced || refusal.Text != standbyReason {
		t.Errorf("%v", err)
	}
}

func TestAStandbyThatIsStoppedLetsItsParkedClientsGo(t *testing.T) {
	standby := parking(t)
	answer := knock(standby)
	eventually(t, "the client waits", func() bool { return standby.linkage.parked.Load() == 1 })
	stop(t, standby)
	if got := <-answer; got.err == nil {
		t.Error("a client was served by a standby that is gone")
	}
}
