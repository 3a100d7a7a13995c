package amqp091go

import (
	"context"
	"fmt"
	"strconv"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
)

// What RabbitMQ's tutorials teach, one after the other.
func TestTutorials(t *testing.T) {
	run(t, []behaviour{
		{"1 hello world", helloWorld},
		{"2 work queues: fair dispatch and no loss when a worker dies", workQueues},
		{"3 publish and subscribe", publishSubscribe},
		{"4 routing", routing},
		{"5 topics", topics},
		{"6 remote procedure call", remoteProcedureCall},
		{"7 publisher confirms", publisherConfirms},
	})
}

func helloWorld(t *testing.T, b broker) {
	ch := b.channel(t)
	q, err := ch.QueueDeclare("hello", false, false, false, false, nil)
	must(t, err)
	publish(t, ch, "", q.Name, "Hello World!")
	expect(t, consume(t, b.channel(t), q.Name, true), "Hello World!")
}

func workQueues(t *testing.T, b broker) {
	boss := b.channel(t)
	queue := b.queue(t, boss)
	dying, living := b.connect(t), b.channel(t)
	doomed := open(t, dying)
	must(t, doomed.Qos(1, 0, false))
	must(t, living.Qos(1, 0, false))
	first, second := consume(t, doomed, queue, false), consume(t, living, queue, false)
	publish(t, boss, "", queue, "1", "2", "3", "4")
	held := next(t, first)
	if held.Redelivered {
		t.Error("a first delivery says redelivered")
	}
	took := map[string]bool{}
	for range 3 { // the other worker gets all the rest, one by one
		d := next(t, second)
		took[string(d.Body)] = true
		must(t, d.Ack(false))
	}
	if took[string(held.Body)] {
		t.Fatalf("both workers have %q", held.Body)
	}
	must(t, dying.Close())
	again := expect(t, second, string(held.Body))
	if !again.Redelivered {
		t.Error("the dead worker's task does not say redelivered")
	}
	must(t, again.Ack(false))
}

// subscribe binds a queue of its own to an exchange with some keys.
func subscribe(t *testing.T, b broker, exchange string, keys ...string) <-chan amqp.Delivery {
	t.Helper()
	ch := b.channel(t)
	q, err := ch.QueueDeclare("", false, false, true, false, nil)
	must(t, err)
	for _, key := range keys {
		must(t, ch.QueueBind(q.Name, key, exchange, false, nil))
	}
	return consume(t, ch, q.Name, true)
}

func publishSubscribe(t *testing.T, b broker) {
	ch := b.channel(t)
	must(t, ch.ExchangeDeclare("logs", "fanout", true, false, false, false, nil))
	one, two := subscribe(t, b, "logs", ""), subscribe(t, b, "logs", "")
	publish(t, ch, "logs", "", "info: Hello World!", "and again")
	expect(t, one, "info: Hello World!", "and again")
	expect(t, two, "info: Hello World!", "and again")
}

func routing(t *testing.T, b broker) {
	ch := b.channel(t)
	must(t, ch.ExchangeDeclare("logs_direct", "direct", true, false, false, false, nil))
	all, errors := subscribe(t, b, "logs_direct", "info", "warning", "error"), subscribe(t, b, "logs_direct", "error")
	for _, severity := range []string{"info", "error", "debug", "warning", "error"} {
		publish(t, ch, "logs_direct", severity, severity)
	}
	expect(t, all, "info", "error", "warning", "error")
	expect(t, errors, "error", "error")
}

func topics(t *testing.T, b broker) {
	ch := b.channel(t)
	must(t, ch.ExchangeDeclare("logs_topic", "topic", true, false, false, false, nil))
	all := subscribe(t, b, "logs_topic", "#")
	kern := subscribe(t, b, "logs_topic", "kern.*")
	critical := subscribe(t, b, "logs_topic", "*.critical")
	either := subscribe(t, b, "logs_topic", "kern.*", "*.critical")
	keys := []string{"kern.info", "cron.critical", "kern.critical", "kern.a.b", "kern", ""}
	for _, key := range keys {
		publish(t, ch, "logs_topic", key, key)
	}
	expect(t, all, keys...)
	expect(t, kern, "kern.info", "kern.critical")
	expect(t, critical, "cron.critical", "kern.critical")
	expect(t, either, "kern.info", "cron.critical", "kern.critical") // once, though two bindings match
	publish(t, ch, "logs_topic", "kern.end", "end")
	expect(t, kern, "end")
	expect(t, either, "end")
}

func remoteProcedureCall(t *testing.T, b broker) {
	server := b.channel(t)
	queue := b.queue(t, server)
	must(t, server.Qos(1, 0, false))
	requests := consume(t, server, queue, false)
	go func() {
		for d := range requests {
			n, _ := strconv.Atoi(string(d.Body))
			_ = server.PublishWithContext(context.Background(), "", d.ReplyTo, false, false, amqp.Publishing{
				CorrelationId: d.CorrelationId, Body: []byte(strconv.Itoa(fibonacci(n))),
			})
			_ = d.Ack(false)
		}
	}()
	client := b.channel(t)
	reply, err := client.QueueDeclare("", false, false, true, false, nil)
	must(t, err)
	replies := consume(t, client, reply.Name, true)
	for i := range 20 {
		id := fmt.Sprintf("call-%d", i)
		must(t, client.PublishWithContext(context.Background(), "", queue, false, false, amqp.Publishing{
			ContentType: "text/plain", CorrelationId: id, ReplyTo: reply.Name, Body: []byte(strconv.Itoa(i)),
		}))
		if d := expect(t, replies, strconv.Itoa(fibonacci(i))); d.CorrelationId != id {
			t.Fatalf("reply to %q, want %q", d.CorrelationId, id)
		}
	}
}

func fibonacci(n int) int {
	a, b := 0, 1
	for range n {
		a, b = b, a+b
	}
	return a
}

func publisherConfirms(t *testing.T, b broker) {
	ch := b.channel(t)
	queue := b.queue(t, ch)
	must(t, ch.Confirm(false))
	for i := range 10 { // one by one
		c, err := ch.PublishWithDeferredConfirm("", queue, false, false, amqp.Publishing{Body: []byte(strconv.Itoa(i))})
		must(t, err)
		confirmed(t, c)
	}
	var batch []*amqp.DeferredConfirmation
	for i := range 1000 { // many under way
		c, err := ch.PublishWithDeferredConfirm("", queue, false, false, amqp.Publishing{Body: []byte(strconv.Itoa(i))})
		must(t, err)
		batch = append(batch, c)
	}
	for _, c := range batch {
		confirmed(t, c)
	}
	// What is confirmed is there for everybody.
	if q := ready(t, b.channel(t), queue); q.Messages != 1010 {
		t.Errorf("%d messages, want 1010", q.Messages)
	}
}
