package amqp091go

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/understudy-mq/understudy/interop/harness"
)

// What applications rely on; the codes are those of public bug reports about other brokers.
func TestBehaviours(t *testing.T) {
	run(t, []behaviour{
		{"publish, confirm, consume, acknowledge", wholePath},
		{"D1 a mandatory return comes before its confirm", returnBeforeConfirm},
		{"D2 what was pipelined behind a failed publish is dropped", failedPublish},
		{"C3 a requeued message goes back to its place", requeueOrder},
		{"C3 what a broken connection held comes back in order and marked", brokenConnection},
		{"C5 a cancelled consumer's deliveries stay to be acknowledged", ackAfterCancel},
		{"C6 prefetch holds for the consumers that come after it", prefetchPerConsumer},
		{"C8 a deleted queue cancels its consumers", cancelNotify},
		{"C1 an ack of tag 0 with multiple and nothing outstanding is nothing", ackNothing},
		{"C22 consumers take turns", roundRobin},
		{"an exclusive queue is its connection's and goes with it", exclusiveQueue},
		{"an exclusive consumer keeps others out", exclusiveConsumer},
		{"an auto-delete queue goes with its last consumer", autoDelete},
		{"B1 an empty body and its headers arrive", emptyBody},
		{"B9 headers of every type arrive as they were", headerTypes},
		{"big messages arrive whole", bigMessages},
		{"a channel error closes the channel alone, and its number can be used again", channelError},
		{"A15 the default exchange cannot be bound to or deleted", defaultExchange},
		{"A21 a redeclaration with other properties is refused", redeclaration},
		{"A24 deleting what does not exist is no error", deleteMissing},
		{"C19 basic.get says how many are left", getCount},
		{"a delivery acknowledged twice closes the channel", ackTwice},
		{"purge, if-unused and if-empty", purgeAndConditions},
		{"exchanges bound to exchanges", exchangeToExchange},
		{"100,000 messages wait and are consumed in order", backlog},
		{"the product is Understudy", product},
	})
}

func wholePath(t *testing.T, b broker) {
	conn := b.connect(t)
	ch := open(t, conn)
	queue := b.queue(t, ch)
	must(t, ch.Confirm(false))
	sent := amqp.Publishing{
		ContentType: "text/plain", ContentEncoding: "identity", DeliveryMode: amqp.Persistent, Priority: 3, CorrelationId: "c", ReplyTo: "r",
		MessageId: "m", Timestamp: time.Unix(1_700_000_000, 0), Type: "t", UserId: "guest", AppId: "a", Headers: amqp.Table{"k": "v"}, Body: []byte("body"),
	}
	c, err := ch.PublishWithDeferredConfirm("", queue, false, false, sent)
	must(t, err)
	confirmed(t, c)
	d := expect(t, consume(t, ch, queue, false), "body")
	got := amqp.Publishing{
		ContentType: d.ContentType, ContentEncoding: d.ContentEncoding, DeliveryMode: d.DeliveryMode, Priority: d.Priority, CorrelationId: d.CorrelationId, ReplyTo: d.ReplyTo,
		MessageId: d.MessageId, Timestamp: d.Timestamp, Type: d.Type, UserId: d.UserId, AppId: d.AppId, Headers: d.Headers, Body: d.Body,
	}
	if !reflect.DeepEqual(got, sent) || d.Exchange != "" || d.RoutingKey != queue || d.Redelivered {
		t.Errorf("got %+v, sent %+v", d, sent)
	}
	must(t, d.Ack(false))
	if q := ready(t, ch, queue); q.Messages != 0 || q.Consumers != 1 {
		t.Errorf("%+v", q)
	}
}

func returnBeforeConfirm(t *testing.T, b broker) {
	ch := b.channel(t)
	queue := b.queue(t, ch)
	must(t, ch.Confirm(false))
	// Without buffers, the library hands over what it reads in the order in which it came.
	returns, acks := ch.NotifyReturn(make(chan amqp.Return)), ch.NotifyPublish(make(chan amqp.Confirmation))
	const n = 1000
	go func() {
		for i := 1; i <= n; i++ {
			key := queue
			if i%3 == 0 {
				key = "nowhere"
			}
			_ = ch.PublishWithContext(context.Background(), "", key, true, false, amqp.Publishing{MessageId: fmt.Sprint(i), Body: []byte(key)})
		}
	}()
	returned := map[string]bool{}
	for seen := 0; seen < n; {
		select {
		case r := <-returns:
			if r.ReplyCode != amqp.NoRoute || string(r.Body) != "nowhere" {
				t.Fatalf("returned %+v", r)
			}
			returned[r.MessageId] = true
		case a := <-acks:
			seen++
			if unroutable := a.DeliveryTag%3 == 0; !a.Ack || unroutable != returned[fmt.Sprint(a.DeliveryTag)] {
				t.Fatalf("publish %d: acked %v, returned before %v", a.DeliveryTag, a.Ack, returned[fmt.Sprint(a.DeliveryTag)])
			}
		case <-time.After(patience):
			t.Fatalf("%d confirms came", seen)
		}
	}
}

func failedPublish(t *testing.T, b broker) {
	conn := b.connect(t)
	ch := open(t, conn)
	queue := b.queue(t, ch)
	must(t, ch.Confirm(false))
	closed := ch.NotifyClose(make(chan *amqp.Error, 1))
	acks := ch.NotifyPublish(make(chan amqp.Confirmation, 10))
	for _, exchange := range []string{"", "no such exchange", "", ""} {
		_ = ch.PublishWithContext(context.Background(), exchange, queue, false, false, amqp.Publishing{Body: []byte("x")})
	}
	select {
	case err := <-closed:
		refused(t, err, amqp.NotFound, "NOT_FOUND - no exchange 'no such exchange' in vhost '/'")
	case <-time.After(patience):
		t.Fatal("the channel is still open")
	}
	var acked []uint64
	for a := range acks {
		if a.Ack {
			acked = append(acked, a.DeliveryTag)
		}
	}
	if len(acked) > 1 || len(acked) == 1 && acked[0] != 1 {
		t.Errorf("acked %v, want the first alone", acked)
	}
	if q := ready(t, open(t, conn), queue); q.Messages != 1 {
		t.Errorf("%d messages were enqueued, want 1", q.Messages)
	}
}

func requeueOrder(t *testing.T, b broker) {
	conn := b.connect(t)
	ch := open(t, conn)
	queue := b.queue(t, ch)
	publishConfirmed(t, conn, "", queue, "a", "b", "c")
	must(t, get(t, ch, queue, "a").Nack(false, true))
	a, second := get(t, ch, queue, "a"), get(t, ch, queue, "b")
	if !a.Redelivered || second.Redelivered {
		t.Errorf("redelivered: a %v, b %v", a.Redelivered, second.Redelivered)
	}
	must(t, second.Nack(true, true)) // both
	get(t, ch, queue, "a")
	get(t, ch, queue, "b")
	get(t, ch, queue, "c")
	//lint:ignore SA1019 deprecated for applications; old ones still send it
	must(t, ch.Recover(true))
	for _, want := range []string{"a", "b", "c"} {
		if d := get(t, ch, queue, want); !d.Redelivered {
			t.Errorf("%s does not say redelivered", want)
		}
	}
}

func brokenConnection(t *testing.T, b broker) {
	holder := b.connect(t)
	ch := open(t, holder)
	queue := b.queue(t, ch)
	bodies := []string{"1", "2", "3", "4", "5", "6", "7", "8"}
	publishConfirmed(t, holder, "", queue, bodies...)
	must(t, ch.Qos(5, 0, false))
	expect(t, consume(t, ch, queue, false), bodies[:5]...)
	must(t, holder.Close())
	other := b.channel(t)
	for i, want := range bodies {
		if d := get(t, other, queue, want); d.Redelivered != (i < 5) {
			t.Errorf("%s: redelivered %v", want, d.Redelivered)
		}
	}
}

func ackAfterCancel(t *testing.T, b broker) {
	conn := b.connect(t)
	ch := open(t, conn)
	queue := b.queue(t, ch)
	publishConfirmed(t, conn, "", queue, "a", "b", "c")
	must(t, ch.Qos(2, 0, false))
	in, err := ch.Consume(queue, "tag", false, false, false, false, nil)
	must(t, err)
	expect(t, in, "a")
	last := expect(t, in, "b")
	must(t, ch.Cancel("tag", false))
	if q := ready(t, ch, queue); q.Messages != 1 || q.Consumers != 0 {
		t.Errorf("after the cancel: %+v", q)
	}
	must(t, last.Ack(true))
	must(t, ch.Close())
	if q := ready(t, open(t, conn), queue); q.Messages != 1 {
		t.Errorf("%d messages left, want 1", q.Messages)
	}
}

// received counts what comes in until it is as much as wanted.
func received(t *testing.T, in <-chan amqp.Delivery, want int) {
	t.Helper()
	for range want {
		next(t, in)
	}
}

func prefetchPerConsumer(t *testing.T, b broker) {
	conn := b.connect(t)
	ch := open(t, conn)
	queue := b.queue(t, ch)
	must(t, ch.Qos(10, 0, false))
	first := consume(t, ch, queue, false)
	must(t, ch.Qos(100, 0, false))
	second := consume(t, ch, queue, false)
	publishConfirmed(t, conn, "", queue, make([]string, 200)...)
	received(t, first, 10)
	received(t, second, 100)
	if q := ready(t, ch, queue); q.Messages != 90 {
		t.Errorf("%d messages ready, want 90", q.Messages)
	}
	select {
	case <-first:
		t.Error("the first consumer has more than its prefetch")
	case <-second:
		t.Error("the second consumer has more than its prefetch")
	default:
	}
}

func cancelNotify(t *testing.T, b broker) {
	conn := b.connect(t)
	ch := open(t, conn)
	queue := b.queue(t, ch)
	in, err := ch.Consume(queue, "tag", false, false, false, false, nil)
	must(t, err)
	cancelled := ch.NotifyCancel(make(chan string, 1))
	_, err = b.channel(t).QueueDelete(queue, false, false, false)
	must(t, err)
	select {
	case tag := <-cancelled:
		if tag != "tag" {
			t.Errorf("cancelled %q", tag)
		}
	case <-time.After(patience):
		t.Fatal("no basic.cancel came")
	}
	if _, more := <-in; more {
		t.Error("a delivery after the cancel")
	}
	must(t, ch.Cancel("tag", false))
}

func ackNothing(t *testing.T, b broker) {
	ch := b.channel(t)
	must(t, ch.Ack(0, true))
	must(t, ch.Qos(1, 0, false)) // the channel lives
	closed := ch.NotifyClose(make(chan *amqp.Error, 1))
	must(t, ch.Ack(0, false))
	refused(t, <-closed, amqp.PreconditionFailed, "PRECONDITION_FAILED - unknown delivery tag 0")
}

func roundRobin(t *testing.T, b broker) {
	conn := b.connect(t)
	queue := b.queue(t, open(t, conn))
	var ins []<-chan amqp.Delivery
	for range 3 {
		ch := open(t, conn)
		must(t, ch.Qos(1, 0, false))
		ins = append(ins, consume(t, ch, queue, false))
	}
	counts := make([]int, 3)
	publishConfirmed(t, conn, "", queue, make([]string, 300)...)
	for range 100 { // each has one; all acknowledge, each gets the next
		for i, in := range ins {
			d := next(t, in)
			counts[i]++
			must(t, d.Ack(false))
		}
	}
	if counts[0]+counts[1]+counts[2] != 300 {
		t.Errorf("%v", counts)
	}
}

func exclusiveQueue(t *testing.T, b broker) {
	owner := b.connect(t)
	q, err := open(t, owner).QueueDeclare("", false, false, true, false, nil)
	must(t, err)
	other := b.connect(t)
	_, err = open(t, other).QueueDeclarePassive(q.Name, false, false, true, false, nil)
	refused(t, err, amqp.ResourceLocked, "RESOURCE_LOCKED - cannot obtain exclusive access to locked queue '"+q.Name+"' in vhost '/'")
	_, err = open(t, other).Consume(q.Name, "", false, false, false, false, nil)
	refused(t, err, amqp.ResourceLocked, "RESOURCE_LOCKED")
	must(t, owner.Close())
	_, err = open(t, other).QueueDeclarePassive(q.Name, false, false, true, false, nil)
	refused(t, err, amqp.NotFound, "NOT_FOUND - no queue '"+q.Name+"' in vhost '/'")
}

func exclusiveConsumer(t *testing.T, b broker) {
	owner, other := b.connect(t), b.connect(t)
	queue := b.queue(t, open(t, owner))
	_, err := open(t, owner).Consume(queue, "", false, true, false, false, nil)
	must(t, err)
	_, err = open(t, other).Consume(queue, "", false, false, false, false, nil)
	refused(t, err, amqp.AccessRefused, "ACCESS_REFUSED - queue '"+queue+"' in vhost '/' in exclusive use")
	must(t, owner.Close())
	_, err = open(t, other).Consume(queue, "", false, true, false, false, nil)
	must(t, err)
}

func autoDelete(t *testing.T, b broker) {
	ch := b.channel(t)
	name := "auto-delete"
	_, err := ch.QueueDeclare(name, false, true, false, false, nil)
	must(t, err)
	publish(t, ch, "", name, "x")
	get(t, ch, name, "x") // a get is no consumer
	if q := ready(t, ch, name); q.Name != name {
		t.Fatal("gone without ever having had a consumer")
	}
	_, err = ch.Consume(name, "tag", true, false, false, false, nil)
	must(t, err)
	must(t, ch.Cancel("tag", false))
	_, err = ch.QueueDeclarePassive(name, false, true, false, false, nil)
	refused(t, err, amqp.NotFound, "NOT_FOUND")
}

func emptyBody(t *testing.T, b broker) {
	ch := b.channel(t)
	queue := b.queue(t, ch)
	must(t, ch.Confirm(false))
	c, err := ch.PublishWithDeferredConfirm("", queue, false, false, amqp.Publishing{Headers: amqp.Table{"ham": "spam"}})
	must(t, err)
	confirmed(t, c)
	publish(t, ch, "", queue, "not empty", "")
	in := consume(t, ch, queue, true)
	if d := expect(t, in, ""); d.Headers["ham"] != "spam" {
		t.Errorf("headers %v", d.Headers)
	}
	expect(t, in, "not empty", "")
}

func headerTypes(t *testing.T, b broker) {
	ch := b.channel(t)
	queue := b.queue(t, ch)
	sent := amqp.Table{
		"bool": true, "int8": int8(-8), "uint8": uint8(200), "int16": int16(-300), "int32": int32(-70000), "int64": int64(-1 << 40),
		"float32": float32(1.5), "float64": 2.25, "decimal": amqp.Decimal{Scale: 2, Value: 314}, "string": "ünïcode", "bytes": []byte{0, 1, 255},
		"time": time.Unix(1_700_000_000, 0), "void": nil, "table": amqp.Table{"in": amqp.Table{}}, "array": []any{"a", int32(1), amqp.Table{"x": "y"}, []any(nil)},
	}
	must(t, ch.PublishWithContext(context.Background(), "", queue, false, false, amqp.Publishing{Headers: sent}))
	got := next(t, consume(t, ch, queue, true)).Headers
	for k, v := range sent {
		if when, ok := v.(time.Time); ok && when.Equal(got[k].(time.Time)) {
			continue
		}
		if !reflect.DeepEqual(got[k], v) {
			t.Errorf("%s: got %#v, want %#v", k, got[k], v)
		}
	}
	if len(got) != len(sent) {
		t.Errorf("%d headers, want %d", len(got), len(sent))
	}
}

func bigMessages(t *testing.T, b broker) {
	ch := b.channel(t)
	queue := b.queue(t, ch)
	must(t, ch.Confirm(false))
	in := consume(t, ch, queue, false)
	rng := rand.NewChaCha8([32]byte{1})
	for _, size := range []int{1<<20 - 1, 1 << 20, 1<<20 + 1, 5 << 20, 16<<20 - 1<<10} {
		body := make([]byte, size)
		_, _ = rng.Read(body)
		c, err := ch.PublishWithDeferredConfirm("", queue, false, false, amqp.Publishing{Body: body})
		must(t, err)
		confirmed(t, c)
		d := next(t, in)
		if !bytes.Equal(d.Body, body) {
			t.Fatalf("a body of %d bytes came as another of %d", size, len(d.Body))
		}
		must(t, d.Ack(false))
	}
}

func channelError(t *testing.T, b broker) {
	conn := b.connect(t)
	for range 3 {
		ch := open(t, conn)
		_, err := ch.QueueDeclarePassive("no such queue", true, false, false, false, nil)
		refused(t, err, amqp.NotFound, "NOT_FOUND - no queue 'no such queue' in vhost '/'")
	}
	ch := open(t, conn)
	queue := b.queue(t, ch)
	publishConfirmed(t, conn, "", queue, "x")
	expect(t, consume(t, ch, queue, true), "x")
}

func defaultExchange(t *testing.T, b broker) {
	conn := b.connect(t)
	queue := b.queue(t, open(t, conn))
	for name, do := range map[string]func(*amqp.Channel) error{
		"bind":    func(ch *amqp.Channel) error { return ch.QueueBind(queue, "k", "", false, nil) },
		"unbind":  func(ch *amqp.Channel) error { return ch.QueueUnbind(queue, queue, "", nil) },
		"declare": func(ch *amqp.Channel) error { return ch.ExchangeDeclare("", "direct", true, false, false, false, nil) },
		"delete":  func(ch *amqp.Channel) error { return ch.ExchangeDelete("", false, false) },
	} {
		t.Run(name, func(t *testing.T) { refused(t, do(open(t, conn)), amqp.AccessRefused, "ACCESS_REFUSED") })
	}
}

func redeclaration(t *testing.T, b broker) {
	conn := b.connect(t)
	ch := open(t, conn)
	queue := b.queue(t, ch)
	_, err := ch.QueueDeclare(queue, false, false, false, false, nil)
	refused(t, err, amqp.PreconditionFailed, "PRECONDITION_FAILED - inequivalent arg 'durable' for queue '"+queue+"' in vhost '/': received 'false' but current is 'true'")
	must(t, open(t, conn).ExchangeDeclare("redeclared", "fanout", true, false, false, false, nil))
	err = open(t, conn).ExchangeDeclare("redeclared", "topic", true, false, false, false, nil)
	refused(t, err, amqp.PreconditionFailed, "PRECONDITION_FAILED - inequivalent arg 'type' for exchange 'redeclared' in vhost '/': received 'topic' but current is 'fanout'")
	must(t, open(t, conn).ExchangeDelete("redeclared", false, false))
}

func deleteMissing(t *testing.T, b broker) {
	ch := b.channel(t)
	n, err := ch.QueueDelete("never was", false, false, false)
	must(t, err)
	must(t, ch.ExchangeDelete("never was", false, false))
	if n != 0 {
		t.Errorf("%d messages deleted", n)
	}
}

func getCount(t *testing.T, b broker) {
	conn := b.connect(t)
	ch := open(t, conn)
	queue := b.queue(t, ch)
	publishConfirmed(t, conn, "", queue, "a", "b", "c")
	for i, want := range []string{"a", "b", "c"} {
		if d := get(t, ch, queue, want); d.MessageCount != uint32(2-i) {
			t.Errorf("%s: %d left, want %d", want, d.MessageCount, 2-i)
		}
	}
	if _, ok, err := ch.Get(queue, false); ok || err != nil {
		t.Errorf("got one from an empty queue (%v)", err)
	}
}

func ackTwice(t *testing.T, b broker) {
	conn := b.connect(t)
	ch := open(t, conn)
	queue := b.queue(t, ch)
	publishConfirmed(t, conn, "", queue, "a")
	closed := ch.NotifyClose(make(chan *amqp.Error, 1))
	d := get(t, ch, queue, "a")
	must(t, d.Ack(false))
	must(t, d.Ack(false))
	refused(t, <-closed, amqp.PreconditionFailed, "PRECONDITION_FAILED - unknown delivery tag 1")
}

func purgeAndConditions(t *testing.T, b broker) {
	conn := b.connect(t)
	ch := open(t, conn)
	queue := b.queue(t, ch)
	publishConfirmed(t, conn, "", queue, "a", "b", "c")
	get(t, ch, queue, "a")
	_, err := open(t, conn).QueueDelete(queue, false, true, false)
	refused(t, err, amqp.PreconditionFailed, "PRECONDITION_FAILED - queue '"+queue+"' in vhost '/' not empty")
	n, err := ch.QueuePurge(queue, false)
	must(t, err)
	if n != 2 {
		t.Errorf("purged %d, want the 2 that were ready", n)
	}
	consume(t, ch, queue, false)
	_, err = open(t, conn).QueueDelete(queue, true, false, false)
	refused(t, err, amqp.PreconditionFailed, "PRECONDITION_FAILED - queue '"+queue+"' in vhost '/' in use")
}

func exchangeToExchange(t *testing.T, b broker) {
	ch := b.channel(t)
	must(t, ch.ExchangeDeclare("e2e.source", "topic", false, true, false, false, nil))
	must(t, ch.ExchangeDeclare("e2e.target", "fanout", false, false, false, false, nil))
	must(t, ch.ExchangeBind("e2e.target", "a.#", "e2e.source", false, nil))
	in := subscribe(t, b, "e2e.target", "")
	for _, key := range []string{"a", "b", "a.b"} {
		publish(t, ch, "e2e.source", key, key)
	}
	expect(t, in, "a", "a.b")
	must(t, ch.ExchangeUnbind("e2e.target", "a.#", "e2e.source", false, nil))
	err := ch.ExchangeDeclarePassive("e2e.source", "topic", false, true, false, false, nil)
	refused(t, err, amqp.NotFound, "NOT_FOUND - no exchange 'e2e.source' in vhost '/'")
	must(t, b.channel(t).ExchangeDelete("e2e.target", false, false))
}

func backlog(t *testing.T, b broker) {
	conn := b.connect(t)
	ch := open(t, conn)
	queue := b.queue(t, ch)
	const n = 100_000
	bodies := make([]string, n)
	for i := range bodies {
		bodies[i] = fmt.Sprintf("%099d", i)
	}
	publishConfirmed(t, conn, "", queue, bodies...)
	if q := ready(t, ch, queue); q.Messages != n {
		t.Fatalf("%d messages wait, want %d", q.Messages, n)
	}
	must(t, ch.Qos(2000, 0, false))
	in := consume(t, ch, queue, false)
	for i, want := range bodies {
		d := expect(t, in, want)
		if i%500 == 499 {
			must(t, d.Ack(true))
		}
	}
	if q := ready(t, ch, queue); q.Messages != 0 {
		t.Errorf("%d messages left", q.Messages)
	}
}

func product(t *testing.T, b broker) {
	props := b.connect(t).Properties
	if props["product"] != "Understudy" && os.Getenv(otherBroker) == "" {
		t.Errorf("product %v", props["product"])
	}
	able, _ := props["capabilities"].(amqp.Table)
	for _, name := range []string{"publisher_confirms", "exchange_exchange_bindings", "basic.nack", "consumer_cancel_notify", "per_consumer_qos", "authentication_failure_close"} {
		if able[name] != true {
			t.Errorf("capability %s is %v", name, able[name])
		}
	}
}

func TestWhatWasConfirmedIsThereInOrderAfterAKillAndARestart(t *testing.T) {
	node := harness.Start(t, harness.Options{}).Node(1)
	b := broker{node.URL()}
	ch := b.channel(t)
	for queue, durable := range map[string]bool{"durable": true, "transient": false} {
		_, err := ch.QueueDeclare(queue, durable, false, false, false, nil)
		must(t, err)
	}
	must(t, ch.ExchangeDeclare("kept", "fanout", true, false, false, false, nil))
	must(t, ch.QueueBind("durable", "", "kept", false, nil))
	bodies := make([]string, 1000)
	for i := range bodies {
		bodies[i] = fmt.Sprint(i)
	}
	publishConfirmed(t, b.connect(t), "kept", "", bodies...)
	held := get(t, ch, "durable", "0")
	must(t, get(t, ch, "durable", "1").Ack(false))
	must(t, ch.Qos(1, 0, false)) // the ack is committed
	_, err := ch.QueueDelete("transient", false, false, false)
	must(t, err)
	node.Kill9()
	must(t, node.Start())
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	must(t, node.WaitReady(ctx))
	ch = b.channel(t)
	_, err = open(t, b.connect(t)).QueueDeclarePassive("transient", false, false, false, false, nil)
	refused(t, err, amqp.NotFound, "NOT_FOUND") // what was deleted stays so
	in := consume(t, ch, "durable", false)
	if d := expect(t, in, string(held.Body)); !d.Redelivered {
		t.Error("what was held before the kill does not say redelivered")
	}
	last := expect(t, in, bodies[2:]...)
	if last.Redelivered {
		t.Error("what was never delivered says redelivered")
	}
}
