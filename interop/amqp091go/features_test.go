package amqp091go

import (
	"context"
	"fmt"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// The queue and exchange features that applications declare.
func TestFeatures(t *testing.T) {
	run(t, []behaviour{
		{"E3 an expired message is dead-lettered with its history", expiredDeadLetter},
		{"A8 A9 CC and BCC of a dead letter", copiesOfDeadLetter},
		{"E10 rejected messages are dead-lettered in order", rejectedInOrder},
		{"E14 higher priorities come first", priorities},
		{"D6 a full queue that refuses nacks", refusingQueue},
		{"C10 one consumer of a queue is active", singleActive},
		{"D5 a transaction is seen whole or not at all", transaction},
		{"A23 direct reply-to", directReply},
		{"an alternate exchange takes what leads nowhere", alternate},
		{"arguments out of range are refused", refusedArguments},
	})
}

// declare declares a queue of the test's with arguments, and deletes it at the end.
func declare(t *testing.T, ch *amqp.Channel, name string, arguments amqp.Table) string {
	t.Helper()
	name = t.Name() + name
	_, err := ch.QueueDeclare(name, true, false, false, false, arguments)
	must(t, err)
	t.Cleanup(func() { _, _ = ch.QueueDelete(name, false, false, false) })
	return name
}

func expiredDeadLetter(t *testing.T, b broker) {
	ch := b.channel(t)
	dead := declare(t, ch, "dead", nil)
	queue := declare(t, ch, "", amqp.Table{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead, "x-message-ttl": int32(60000)})
	must(t, ch.PublishWithContext(context.Background(), "amq.direct", "nowhere", false, false, amqp.Publishing{}))
	must(t, ch.QueueBind(queue, "key", "amq.direct", false, nil))
	must(t, ch.PublishWithContext(context.Background(), "amq.direct", "key", false, false, amqp.Publishing{
		Expiration: "50", Headers: amqp.Table{"mine": "kept"}, Body: []byte("body"),
	}))
	d := next(t, consume(t, ch, dead, true))
	if d.Expiration != "" || d.Exchange != "" || d.RoutingKey != dead || string(d.Body) != "body" || d.Headers["mine"] != "kept" {
		t.Errorf("got %+v", d)
	}
	for header, want := range map[string]string{"x-first-death-reason": "expired", "x-first-death-queue": queue, "x-first-death-exchange": "amq.direct"} {
		if d.Headers[header] != want {
			t.Errorf("%s is %v, want %s", header, d.Headers[header], want)
		}
	}
	deaths, _ := d.Headers["x-death"].([]any)
	if len(deaths) != 1 {
		t.Fatalf("x-death is %v", d.Headers["x-death"])
	}
	death := deaths[0].(amqp.Table)
	if at, ok := death["time"].(time.Time); !ok || time.Since(at) > time.Hour {
		t.Errorf("time of death %v", death["time"])
	}
	delete(death, "time")
	want := amqp.Table{"count": int64(1), "reason": "expired", "queue": queue, "exchange": "amq.direct", "routing-keys": []any{"key"}, "original-expiration": "50"}
	if fmt.Sprint(death) != fmt.Sprint(want) {
		t.Errorf("death %v, want %v", death, want)
	}
}

func copiesOfDeadLetter(t *testing.T, b broker) {
	ch := b.channel(t)
	dead := declare(t, ch, "dead", nil)
	queue := declare(t, ch, "", amqp.Table{"x-dead-letter-exchange": "amq.topic", "x-max-length": int32(0)})
	must(t, ch.QueueBind(dead, "copy.*", "amq.topic", false, nil))
	must(t, ch.PublishWithContext(context.Background(), "", queue, false, false, amqp.Publishing{
		Headers: amqp.Table{"CC": []any{"copy.shown"}, "BCC": []any{"copy.hidden"}},
	}))
	d := next(t, consume(t, ch, dead, true))
	if _, shown := d.Headers["BCC"]; shown || fmt.Sprint(d.Headers["CC"]) != "[copy.shown]" || d.RoutingKey != queue {
		t.Errorf("key %s, headers %v", d.RoutingKey, d.Headers)
	}
}

func rejectedInOrder(t *testing.T, b broker) {
	ch := b.channel(t)
	dead := declare(t, ch, "dead", nil)
	queue := declare(t, ch, "", amqp.Table{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead})
	publish(t, ch, "", queue, "1", "2", "3")
	last := expect(t, consume(t, ch, queue, false), "1", "2", "3")
	must(t, last.Nack(true, false))
	expect(t, consume(t, ch, dead, true), "1", "2", "3")
}

func priorities(t *testing.T, b broker) {
	ch := b.channel(t)
	queue := declare(t, ch, "", amqp.Table{"x-max-priority": int32(10)})
	for _, p := range []uint8{0, 5, 255, 9} {
		must(t, ch.PublishWithContext(context.Background(), "", queue, false, false, amqp.Publishing{Priority: p, Body: fmt.Append(nil, p)}))
	}
	expect(t, consume(t, ch, queue, true), "255", "9", "5", "0")
}

func refusingQueue(t *testing.T, b broker) {
	ch := b.channel(t)
	queue := declare(t, ch, "", amqp.Table{"x-max-length": int32(1), "x-overflow": "reject-publish"})
	must(t, ch.Confirm(false))
	for _, want := range []bool{true, false} {
		c, err := ch.PublishWithDeferredConfirm("", queue, false, false, amqp.Publishing{})
		must(t, err)
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if ok, err := c.WaitContext(ctx); err != nil || ok != want {
			t.Errorf("publish %d acknowledged %v (%v), want %v", c.DeliveryTag, ok, err, want)
		}
	}
}

func singleActive(t *testing.T, b broker) {
	ch := b.channel(t)
	queue := declare(t, ch, "", amqp.Table{"x-single-active-consumer": true})
	first, err := ch.Consume(queue, "first", true, false, false, false, nil)
	must(t, err)
	second, err := ch.Consume(queue, "second", true, false, false, false, nil)
	must(t, err)
	publish(t, ch, "", queue, "1", "2")
	expect(t, first, "1", "2")
	must(t, ch.Cancel("first", false))
	publish(t, ch, "", queue, "3")
	expect(t, second, "3")
}

func transaction(t *testing.T, b broker) {
	conn := b.connect(t)
	ch, other := open(t, conn), open(t, conn)
	queue := declare(t, other, "", nil)
	must(t, ch.Tx())
	publish(t, ch, "", queue, "lost")
	must(t, ch.TxRollback())
	publish(t, ch, "", queue, "1", "2")
	if q, err := other.QueueDeclarePassive(queue, true, false, false, false, nil); err != nil || q.Messages != 0 {
		t.Errorf("%d messages before the commit, %v", q.Messages, err)
	}
	must(t, ch.TxCommit())
	if q, err := other.QueueDeclarePassive(queue, true, false, false, false, nil); err != nil || q.Messages != 2 {
		t.Errorf("%d messages after the commit, %v", q.Messages, err)
	}
	expect(t, consume(t, other, queue, true), "1", "2")
}

func directReply(t *testing.T, b broker) {
	conn := b.connect(t)
	client, server := open(t, conn), open(t, conn)
	queue := declare(t, server, "", nil)
	answers, err := client.Consume("amq.rabbitmq.reply-to", "", true, false, false, false, nil)
	must(t, err)
	must(t, client.PublishWithContext(context.Background(), "", queue, false, false, amqp.Publishing{ReplyTo: "amq.rabbitmq.reply-to", Body: []byte("question")}))
	request := next(t, consume(t, server, queue, true))
	publish(t, server, "", request.ReplyTo, "answer")
	expect(t, answers, "answer")
}

func alternate(t *testing.T, b broker) {
	ch := b.channel(t)
	main, other := t.Name()+"main", t.Name()+"other"
	queue := declare(t, ch, "", nil)
	must(t, ch.ExchangeDeclare(other, "fanout", false, true, false, false, nil))
	must(t, ch.QueueBind(queue, "", other, false, nil))
	must(t, ch.ExchangeDeclare(main, "direct", false, false, false, false, amqp.Table{"alternate-exchange": other}))
	publish(t, ch, main, "nowhere", "found")
	expect(t, consume(t, ch, queue, true), "found")
	must(t, ch.ExchangeDelete(main, false, false))
}

func refusedArguments(t *testing.T, b broker) {
	conn := b.connect(t)
	for _, x := range []struct {
		key   string
		value any
		want  string
	}{
		{"x-message-ttl", "soon", `"expected integer, got longstr"`},
		{"x-message-ttl", int32(-1), "{value_negative,-1}"},
		{"x-expires", int32(0), "{value_zero,0}"},
		{"x-max-length", int32(-1), "{value_negative,-1}"},
		{"x-max-priority", int32(256), "{max_value_exceeded,256}"},
		{"x-overflow", "drop-tail", "invalid_overflow"},
		{"x-dead-letter-routing-key", "key", "routing_key_but_no_dlx_defined"},
		{"x-single-active-consumer", int32(1), "{unacceptable_type,signedint}"},
	} {
		ch := open(t, conn)
		_, err := ch.QueueDeclare("refused", true, false, false, false, amqp.Table{x.key: x.value})
		refused(t, err, amqp.PreconditionFailed, fmt.Sprintf("PRECONDITION_FAILED - invalid arg '%s' for queue 'refused' in vhost '/': %s", x.key, x.want))
	}
}
