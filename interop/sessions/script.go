package sessions

import (
	"bytes"
	"fmt"
)

// bigBytes is more than the frame size that talks agree on.
const (
	talkFrameMax = 4096
	bigBytes     = talkFrameMax + 200
)

// message makes a publish with a dedup id.
func (t *talk) message(exchange, key, id string) *parcel {
	return &parcel{exchange: exchange, key: key, body: []byte("m" + id), properties: props{DeliveryMode: 2, Headers: table{"x-dedup-id": id, "n": id}}}
}

func (t *talk) messages(exchange, key, name string, n int) []*parcel {
	list := make([]*parcel, n)
	for i := range list {
		list[i] = t.message(exchange, key, fmt.Sprintf("%s%02d", name, i))
	}
	return list
}

// conversation is the scripted one: two channels, topology, confirms, dedup ids, every way to settle, gets, a cancel, a body
// larger than a frame, exclusive and server-named queues, and direct replies.
func (t *talk) conversation() error {
	for _, act := range []func() error{t.actOpen, t.actWork, t.actBig, t.actGet, t.actOwn, t.actReply, t.actEnd} {
		if err := act(); err != nil {
			return err
		}
	}
	return nil
}

// steps carries out one after the other.
func steps(list ...func() error) error {
	for i, step := range list {
		if err := step(); err != nil {
			return fmt.Errorf("step %d: %w", i+1, err)
		}
	}
	return nil
}

func (t *talk) declare(channel uint16, queue string, exclusive bool) error {
	e, err := t.ask(channel, "queue.declare-ok", "queue.declare", queue, false, false, exclusive, false, false, table{})
	if err == nil {
		t.say("declared %s", e.Text(0))
	}
	return err
}

func (t *talk) actOpen() error {
	return steps(
		t.attachFirst,
		func() error { return t.openChannel(1, 8) },
		func() error { return t.openChannel(2, 50) },
		func() error { return t.confirmSelect(1) },
		func() error {
			_, err := t.ask(1, "exchange.declare-ok", "exchange.declare", t.prefix+"x", "topic", false, false, true, false, false, table{})
			return err
		},
		func() error { return t.declare(1, t.prefix+"q", false) },
		func() error {
			_, err := t.ask(1, "queue.bind-ok", "queue.bind", t.prefix+"q", t.prefix+"x", "k.#", false, table{})
			return err
		},
	)
}

func (t *talk) attachFirst() error { return t.do(func() error { return nil }) }

// actWork publishes 24 messages, of which 8 are in flight at a time, and settles them in all ways.
func (t *talk) actWork() error {
	return steps(
		func() error { return t.publish(1, t.messages(t.prefix+"x", "k.1", "a", 12)...) },
		func() error { return t.consume(1, t.prefix+"q", "c1", table{}) },
		func() error { return t.receive(1, "c1", 8) },
		func() error { return t.ack(1, 1, false) },
		func() error { return t.receive(1, "c1", 9) },
		func() error { return t.ack(1, 4, true) },
		func() error { return t.receive(1, "c1", 12) },
		func() error { return t.nack(1, 6, false) },
		func() error { return t.nack(1, 7, true) },
		func() error { return t.receive(1, "c1", 13) },
		func() error { return t.publish(1, t.messages(t.prefix+"x", "k.2", "b", 12)...) },
		func() error { return t.ack(1, 13, true) },
		func() error { return t.receive(1, "c1", 21) },
		func() error { return t.ack(1, 17, true) },
		func() error { return t.receive(1, "c1", 25) },
	)
}

func (t *talk) actBig() error {
	big := t.message("", t.prefix+"q", "big")
	big.body = bytes.Repeat([]byte("B"), bigBytes)
	return steps(
		func() error { return t.ack(1, 25, true) },
		func() error { return t.publish(1, big) },
		func() error { return t.receive(1, "c1", 26) },
		func() error { return t.cancel(1, "c1") },
		func() error { return t.ack(1, 26, false) },
	)
}

func (t *talk) actGet() error {
	var first, second uint64
	return steps(
		func() error { return t.publish(1, t.messages(t.prefix+"x", "k.3", "c", 6)...) },
		func() (err error) { first, err = t.get(2, t.prefix+"q"); return err },
		func() (err error) { second, err = t.get(2, t.prefix+"q"); return err },
		func() error { return t.ack(2, second, false) },
		func() error { return t.nack(2, first, true) },
		func() error { return t.consume(2, t.prefix+"q", "c2", table{}) },
		func() error { return t.receive(2, "c2", 5) },
		func() error { return t.ack(2, 7, true) },
	)
}

// actOwn uses queues that belong to the session.
func (t *talk) actOwn() error {
	var named string
	return steps(
		func() error { return t.declare(2, t.prefix+"e", true) },
		func() error {
			e, err := t.ask(2, "queue.declare-ok", "queue.declare", "", false, false, true, true, false, table{"x-session-name": "mine"})
			if err == nil {
				named = e.Text(0)
			}
			return err
		},
		func() error {
			_, err := t.ask(2, "queue.bind-ok", "queue.bind", named, t.prefix+"x", "own.#", false, table{})
			return err
		},
		func() error {
			return t.publish(1, append(t.messages("", t.prefix+"e", "d", 4), t.messages(t.prefix+"x", "own.1", "e", 4)...)...)
		},
		func() error { return t.consume(2, t.prefix+"e", "c3", table{}) },
		func() error { return t.receive(2, "c3", 4) },
		func() error { return t.consume(2, named, "c4", table{}) },
		func() error { return t.receive(2, "c4", 4) },
		func() error { return t.ackAll(2) },
		func() error { return t.same(2, named) },
	)
}

// same declares the server-named queue once more: it is the one that was there.
func (t *talk) same(channel uint16, named string) error {
	e, err := t.ask(channel, "queue.declare-ok", "queue.declare", "", false, false, true, true, false, table{"x-session-name": "mine"})
	if err == nil && e.Text(0) != named {
		err = fmt.Errorf("the queue was called %s and is now %s", named, e.Text(0))
	}
	return err
}

// actReply asks over direct reply-to and answers: the address of the request holds, whatever happened in between.
func (t *talk) actReply() error {
	request := t.message("", t.prefix+"r", "ask")
	request.properties.ReplyTo, request.mandatory = "amq.rabbitmq.reply-to", true
	return steps(
		func() error { return t.declare(1, t.prefix+"r", false) },
		func() error { return t.consumeReplies(1) },
		func() error { return t.publish(1, request) },
		func() error { return t.answer() },
	)
}

func (t *talk) consumeReplies(channel uint16) error {
	t.replies = channel
	first := t.resumed
	return t.do(func() error {
		if t.resumed > first {
			return nil
		}
		return t.restoreReplies()
	})
}

const repliesTag = "replies"

func (t *talk) restoreReplies() error {
	_, err := t.call(t.lane(t.replies), "basic.consume-ok", "basic.consume", "amq.rabbitmq.reply-to", repliesTag, false, true)
	return err
}

// answer takes the request and publishes to its reply address, mandatory: it must be there.
func (t *talk) answer() error {
	return steps(
		func() error { return t.consume(2, t.prefix+"r", "c5", table{}) },
		func() error { return t.receive(2, "c5", 1) },
		func() error { return t.ackAll(2) },
		func() error {
			reply := t.message("", t.replyTo, "answer")
			reply.mandatory = true
			return t.publish(1, reply)
		},
	)
}

func (t *talk) actEnd() error {
	empty := func(queue string) func() error {
		return func() error {
			e, err := t.ask(1, "queue.declare-ok", "queue.declare", queue, true)
			if err == nil {
				t.say("%s has %d messages", queue, e.Number(1))
			}
			return err
		}
	}
	return steps(
		empty(t.prefix+"q"), empty(t.prefix+"e"), empty(t.prefix+"r"),
		func() error { return t.cancel(2, "c2") },
		func() error { return t.cancel(2, "c5") },
		func() error {
			_, err := t.ask(1, "queue.delete-ok", "queue.delete", t.prefix+"q")
			return err
		},
		func() error {
			_, err := t.ask(1, "queue.delete-ok", "queue.delete", t.prefix+"r")
			return err
		},
		func() error {
			_, err := t.ask(1, "exchange.delete-ok", "exchange.delete", t.prefix+"x")
			return err
		},
		t.close,
	)
}
