package failover

import (
	"context"
	"errors"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// residue is what lies in the state over a fault: messages that nobody consumes, some of them held unacknowledged by a
// connection to each node. Fingerprints are compared with it in place, since states that differed while there were
// messages may be equal again once all queues are empty.
type residue struct {
	queue   string
	sent    int
	holders []*amqp.Connection
}

// residueEach is how many messages are published per node, half of which are held.
const residueEach = 20

func leaveResidue(urls []string, queue string) (*residue, error) {
	r := &residue{queue: queue}
	for _, url := range urls {
		if err := r.leave(url); err != nil {
			return nil, errors.Join(fmt.Errorf("leaving messages behind at %s: %w", url, err), r.letGo())
		}
	}
	return r, nil
}

func (r *residue) leave(url string) error {
	conn, err := amqp.DialConfig(url, amqp.Config{Heartbeat: 5 * time.Second, Dial: amqp.DefaultDial(20 * time.Second)})
	if err != nil {
		return err
	}
	r.holders = append(r.holders, conn)
	ch, err := conn.Channel()
	if err != nil {
		return err
	}
	if _, err := ch.QueueDeclare(r.queue, true, false, false, false, nil); err != nil {
		return err
	}
	if err := ch.Confirm(false); err != nil {
		return err
	}
	for range residueEach {
		c, err := ch.PublishWithDeferredConfirm("", r.queue, false, false, amqp.Publishing{Body: fmt.Append(nil, r.sent)})
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		ok, err := c.WaitContext(ctx)
		cancel()
		if err != nil || !ok {
			return fmt.Errorf("publish: acked %v, %w", ok, err)
		}
		r.sent++
	}
	for range residueEach / 2 {
		if _, ok, err := ch.Get(r.queue, false); err != nil || !ok {
			return fmt.Errorf("get: found %v, %w", ok, err)
		}
	}
	return nil
}

// letGo closes the connections that still hold something; those that the fault broke are closed already.
func (r *residue) letGo() error {
	for _, conn := range r.holders {
		if err := conn.CloseDeadline(time.Now().Add(2 * time.Second)); err != nil && !errors.Is(err, amqp.ErrClosed) {
			return fmt.Errorf("closing a holder: %w", err)
		}
	}
	return nil
}

// collect takes everything back, in order, each once, and removes the queue.
func (r *residue) collect(ch *amqp.Channel) error {
	for want := range r.sent {
		d, ok, err := ch.Get(r.queue, false)
		if err != nil {
			return err
		}
		if !ok || string(d.Body) != fmt.Sprint(want) {
			return fmt.Errorf("queue %s: got %q (found %v) where message %d was left", r.queue, d.Body, ok, want)
		}
	}
	if _, more, err := ch.Get(r.queue, false); more || err != nil {
		return errors.Join(err, fmt.Errorf("queue %s: one more than the %d messages left there", r.queue, r.sent))
	}
	_, err := ch.QueueDelete(r.queue, false, false, false)
	return err
}
