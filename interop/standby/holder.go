package standby

import (
	"context"
	"errors"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

const (
	held              = 10 // deliveries that a holder keeps over the switch
	exclusiveMessages = 5
	holderPatience    = 2 * time.Minute
)

// holder keeps deliveries unsettled over the switch, and has an exclusive queue.
type holder struct {
	client
	conn *amqp.Connection // of one that stays attached for as long as its node lives; nil for one that went away
	ids  []string
}

// begin publishes to a queue, takes some deliveries of it and keeps them.
func (h *holder) begin(ctx context.Context, stays bool) error {
	conn, ch, _, err := h.dial(ctx)
	if err != nil {
		return err
	}
	if err := h.fill(ctx, ch); err != nil {
		return errors.Join(err, conn.CloseDeadline(time.Now()))
	}
	if stays {
		h.conn = conn
	} else {
		drop(conn)
	}
	return nil
}

func (h *holder) fill(ctx context.Context, ch *amqp.Channel) error {
	if _, err := ch.QueueDeclare("held", true, false, false, false, nil); err != nil {
		return err
	}
	if _, err := ch.QueueDeclare("mine", false, false, true, false, nil); err != nil {
		return err
	}
	for i := range 2 * held {
		m := amqp.Publishing{MessageId: heldID(i), Body: []byte("x")}
		if err := ch.PublishWithContext(ctx, "", "held", true, false, m); err != nil {
			return err
		}
	}
	for range exclusiveMessages {
		if err := ch.PublishWithContext(ctx, "", "mine", true, false, amqp.Publishing{Body: []byte("y")}); err != nil {
			return err
		}
	}
	in, err := hold(ch)
	if err != nil {
		return err
	}
	for i := range held {
		d, err := next(in)
		if err != nil {
			return fmt.Errorf("%d of %d deliveries came to be held: %w", i, held, err)
		}
		h.ids = append(h.ids, d.MessageId)
	}
	return nil
}

func heldID(i int) string { return fmt.Sprint("held-", i) }

// hold consumes the held queue, a few at a time.
func hold(ch *amqp.Channel) (<-chan amqp.Delivery, error) {
	if err := ch.Qos(held, 0, false); err != nil {
		return nil, err
	}
	return ch.Consume("held", "holder", false, false, false, false, nil)
}

func next(in <-chan amqp.Delivery) (amqp.Delivery, error) {
	select {
	case d, ok := <-in:
		if !ok {
			return d, errors.New("the channel was closed")
		}
		return d, nil
	case <-time.After(holderPatience):
		return amqp.Delivery{}, fmt.Errorf("none came for %v", holderPatience)
	}
}

// finish says whether what was held is still the session's own and can be settled: each comes again, its acknowledgement makes
// room for the next one. It answers once all that it has acknowledged is committed.
func (h *holder) finish(ctx context.Context) error {
	if h.conn != nil {
		drop(h.conn)
	}
	conn, ch, at, err := h.dial(ctx)
	if err != nil {
		return err
	}
	defer drop(conn)
	if at.source {
		return fmt.Errorf("node %d of the source let a holder in after the switch", at.node)
	}
	in, err := hold(ch)
	if err != nil {
		return fmt.Errorf("consuming what is held: %w", err)
	}
	for i := range 2 * held {
		d, err := next(in)
		if err != nil {
			return fmt.Errorf("delivery %d of what is held: %w", i, err)
		}
		again := i < held
		want := heldID(i)
		if again {
			want = h.ids[i]
		}
		if d.MessageId != want || d.Redelivered != again {
			return fmt.Errorf("delivery %d of what is held is %s (redelivered %v), not %s (%v)", i, d.MessageId, d.Redelivered, want, again)
		}
		if err := d.Ack(false); err != nil {
			return err
		}
	}
	q, err := ch.QueueDeclarePassive("mine", false, false, true, false, nil)
	if err != nil {
		return fmt.Errorf("the exclusive queue: %w", err)
	}
	if q.Messages != exclusiveMessages {
		return fmt.Errorf("the exclusive queue has %d of %d messages", q.Messages, exclusiveMessages)
	}
	return nil
}
