package standby

import (
	"errors"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/understudy-mq/understudy/interop/harness"
)

// A standby that parks its clients holds each for as long as a handshake may take, tells it then what others are told at once,
// and serves those that wait when it is promoted.
func TestAStandbyThatParksHoldsAClientUntilThePromotionOrAHandshakesTime(t *testing.T) {
	p := harness.StartPair(t, harness.PairOptions{Args: []string{"--groups", "1"}, StandbyArgs: []string{"--standby", "--standby-clients", "park"}})
	n := p.Standby.Node(1)
	began := time.Now()
	_, err := amqp.Dial(n.URL())
	if held := time.Since(began); held < 5*time.Second {
		t.Errorf("it was held for %v only", held)
	}
	var told *amqp.Error
	if !errors.As(err, &told) || told.Code != amqp.ConnectionForced || told.Reason != "CONNECTION_FORCED - standby, not promoted" {
		t.Errorf("a client whose time is up: %v", err)
	}
	answer := make(chan error, 1)
	go func() {
		conn, err := amqp.Dial(n.URL())
		if err == nil {
			err = conn.Close()
		}
		answer <- err
	}()
	if _, err := n.Promote(t.Context(), "promote"); err != nil {
		t.Fatal(err)
	}
	if err := <-answer; err != nil {
		t.Errorf("a client that waited for the promotion, or came just behind it: %v", err)
	}
}
