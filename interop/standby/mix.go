package standby

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// What every vhost has beside its work: messages that end otherwise than by being consumed, transactions, requests.
const (
	mixedRate  = 60 // publishes a second of messages that age, are rejected or delayed
	callRate   = 15 // requests a second
	ageLimit   = 300 * time.Millisecond
	shortDelay = 400 * time.Millisecond
	longDelay  = 5 * time.Second // of messages that are to come after the switch
	batchSize  = 4
	batchPause = 80 * time.Millisecond
	undoEvery  = 5 // one transaction in so many is rolled back
)

// furnish declares a vhost's queues and exchange.
func furnish(ch *amqp.Channel) error {
	dead := amqp.Table{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
	expires := amqp.Table{"x-message-ttl": ageLimit.Milliseconds()}
	for k, v := range dead {
		expires[k] = v
	}
	for queue, arguments := range map[string]amqp.Table{
		"work": nil, "aged": expires, "picky": dead, "dead": nil, "late": nil, "tx-a": nil, "tx-b": nil, "calls": nil,
	} {
		if _, err := ch.QueueDeclare(queue, true, false, false, false, arguments); err != nil {
			return err
		}
	}
	if err := ch.ExchangeDeclare("later", "x-delayed-message", true, false, false, false, amqp.Table{"x-delayed-type": "direct"}); err != nil {
		return err
	}
	return ch.QueueBind("late", "late", "later", false, nil)
}

// writeWork publishes what is simply consumed.
func writeWork(int) letter { return letter{route: work, key: "work"} }

// mixture writes messages that age, are rejected or come later, in turn. While ahead is set, some of the latter come much later.
func mixture(ahead *atomic.Bool) func(int) letter {
	return func(n int) letter {
		switch n % 4 {
		case 0:
			return letter{route: aged, key: "aged"}
		case 1:
			return letter{route: picky, key: "picky"}
		case 2:
			if ahead.Load() {
				return letter{route: later, exchange: "later", key: "late", delay: longDelay}
			}
		}
		return letter{route: later, exchange: "later", key: "late", delay: shortDelay}
	}
}

// writeCall asks for answers in an exclusive queue and by direct reply-to in turn.
func writeCall(n int) letter {
	if n%2 == 0 {
		return letter{route: calls, key: "calls", replyTo: "amq.rabbitmq.reply-to"}
	}
	return letter{route: calls, key: "calls", replyTo: "replies"}
}

// listen has a caller take its answers, on the channel that it asks on.
func listen(h *history) func(attached) error {
	return func(a attached) error {
		if _, err := a.QueueDeclare("replies", false, false, true, false, nil); err != nil {
			return err
		}
		in, err := a.Consume("replies", "replies", false, false, false, false, nil)
		if err != nil {
			return err
		}
		straight, err := a.Consume("amq.rabbitmq.reply-to", "direct", true, false, false, false, nil)
		if err != nil {
			return err
		}
		a.busy.Go(func() { h.take(in, "replies", a, linger, accept) })
		a.busy.Go(func() { h.take(straight, "direct", a, 0, ignore) })
		return nil
	}
}

// answer publishes the answer to a request, and takes the request as done once that is confirmed. A request that comes again
// gets the same answer again: the session's dedup id is to see to it that it comes once.
func answer(h *history, vhost int) handler {
	return func(a attached, d amqp.Delivery) error {
		r := replies
		if d.ReplyTo != "replies" {
			r = direct
		}
		m := h.begin(message{id: "re-" + d.MessageId, route: r, vhost: vhost, by: a.at})
		ctx, cancel := context.WithTimeout(context.Background(), answerPatience)
		defer cancel()
		c, err := a.PublishWithDeferredConfirmWithContext(ctx, "", d.ReplyTo, false, false, amqp.Publishing{
			MessageId: m.id, CorrelationId: d.MessageId, Headers: amqp.Table{"x-dedup-id": m.id}, Body: []byte(m.id),
		})
		if err != nil {
			return err
		}
		if ok, err := c.WaitContext(ctx); err != nil || !ok {
			return errors.Join(errors.New("the answer was not confirmed"), err)
		}
		if m.confirmed.IsZero() {
			h.settle(a.at, m)
		}
		return d.Ack(false)
	}
}

// transactor publishes in transactions. One whose commit was not answered it lets be: nobody knows what became of it.
type transactor struct {
	client
	h       *history
	number  int
	batches int
}

func (x *transactor) run(ctx context.Context) {
	x.visit(ctx, func(a attached) {
		if a.Tx() != nil {
			return
		}
		for x.transact(a) == nil {
			select {
			case <-ctx.Done():
				return
			case <-time.After(batchPause):
			}
		}
	})
}

// transact publishes to both queues in turn and ends the transaction.
func (x *transactor) transact(a attached) error {
	x.batches++
	undo := x.batches%undoEvery == 0
	var batch []*message
	for i := range batchSize {
		m := x.h.begin(message{
			id: fmt.Sprintf("%s-%05d-%d", x.session, x.batches, i), route: twins, vhost: x.number, by: a.at,
			batch: x.number<<20 | x.batches, undone: undo,
		})
		batch = append(batch, m)
		if err := a.Publish("", ends[twins][i%2], false, false, amqp.Publishing{MessageId: m.id, Body: []byte(m.id)}); err != nil {
			return err
		}
	}
	if undo {
		return a.TxRollback()
	}
	if err := a.TxCommit(); err != nil {
		return err
	}
	x.h.settle(a.at, batch...)
	return nil
}

// cast is who works in one vhost: those who publish, and those who consume.
func (r *round) cast(i int) (publish, consume []func(context.Context)) {
	who := func(role string) client {
		return client{places: r.places, vhost: vhostName(i), session: fmt.Sprintf("%s-%d", role, i), at: r.rng.IntN(3)}
	}
	queues := map[string]handler{"picky": reject, "dead": accept, "late": accept, "tx-a": accept, "tx-b": accept}
	publish = append(publish,
		(&publisher{client: who("work"), h: r.h, number: i, rate: r.rate, write: writeWork}).run,
		(&publisher{client: who("mix"), h: r.h, number: i, rate: mixedRate, write: mixture(&r.ahead)}).run,
		(&transactor{client: who("tx"), h: r.h, number: i}).run,
	)
	caller := &publisher{client: who("caller"), h: r.h, number: i, rate: callRate, write: writeCall, ready: listen(r.h), stay: r.consuming}
	consume = append(consume,
		func(context.Context) { caller.run(r.publishing) },
		(&consumer{client: who("worker"), h: r.h, queues: map[string]handler{"work": accept}, keep: linger / 8}).run,
		(&consumer{client: who("taker"), h: r.h, queues: queues, keep: linger}).run,
		(&consumer{client: who("answerer"), h: r.h, queues: map[string]handler{"calls": answer(r.h, i)}, keep: linger}).run,
	)
	return publish, consume
}

// endsIn says whether messages of the route end in a queue.
func (x route) endsIn(queue string) bool { return slices.Contains(ends[x], queue) }
