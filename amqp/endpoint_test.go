package amqp_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	client "github.com/rabbitmq/amqp091-go"

	"github.com/understudy-mq/understudy/amqp"
)

func dial(t testing.TB, address string) *client.Connection {
	t.Helper()
	c, err := client.Dial("amqp://guest:guest@" + address + "/")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func channel(t testing.TB, c *client.Connection) *client.Channel {
	t.Helper()
	ch, err := c.Channel()
	if err != nil {
		t.Fatal(err)
	}
	return ch
}

func declare(t testing.TB, ch *client.Channel, name string) string {
	t.Helper()
	q, err := ch.QueueDeclare(name, false, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	return q.Name
}

// patience bounds every wait of these tests.
const patience = time.Minute

func take(t testing.TB, d <-chan client.Delivery) client.Delivery {
	t.Helper()
	select {
	case x, ok := <-d:
		if !ok {
			t.Fatal("the consumer was cancelled")
		}
		return x
	case <-time.After(patience):
		t.Fatal("no delivery")
	}
	panic("unreachable")
}

func TestMessagesArePublishedConfirmedConsumedAndAcknowledged(t *testing.T) {
	_, m, address := serve(t, nil)
	ch := channel(t, dial(t, address))
	q := declare(t, ch, "")
	if !strings.HasPrefix(q, "amq.gen-") {
		t.Errorf("server-named queue %q", q)
	}
	if err := ch.Confirm(false); err != nil {
		t.Fatal(err)
	}
	const n = 1000
	var last *client.DeferredConfirmation
	for i := range n {
		var err error
		last, err = ch.PublishWithDeferredConfirm("", q, false, false, client.Publishing{
			Body: fmt.Appendf(nil, "m%d", i), ContentType: "text/plain", Headers: client.Table{"i": int32(i)},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if ok, err := last.WaitContext(t.Context()); err != nil || !ok {
		t.Fatal(ok, err)
	}
	if err := ch.Qos(100, 0, false); err != nil {
		t.Fatal(err)
	}
	deliveries, err := ch.Consume(q, "", false, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		d := take(t, deliveries)
		if string(d.Body) != fmt.Sprint("m", i) || d.Headers["i"] != int32(i) || d.ContentType != "text/plain" || d.Redelivered || d.DeliveryTag != uint64(i+1) {
			t.Fatalf("delivery %d is %+v", i, d)
		}
		if err := d.Ack(false); err != nil {
			t.Fatal(err)
		}
	}
	state, err := ch.QueueDeclarePassive(q, false, false, false, false, nil)
	if err != nil || state.Messages != 0 || state.Consumers != 1 {
		t.Fatalf("%+v %v", state, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if info := m.machine.Queues("/"); len(info) != 1 || info[0].Unacknowledged != 0 {
		t.Errorf("after all acks: %+v", info)
	}
}

func TestNoAckConsumerTakesMoreThanAWindow(t *testing.T) {
	_, _, address := serve(t, nil)
	ch := channel(t, dial(t, address))
	q := declare(t, ch, "q")
	const n = 10000
	for range n {
		if err := ch.Publish("", q, false, false, client.Publishing{Body: []byte("x")}); err != nil {
			t.Fatal(err)
		}
	}
	deliveries, err := ch.Consume(q, "", true, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	for range n {
		take(t, deliveries)
	}
}

func TestUnlimitedConsumerTakesMoreThanAWindow(t *testing.T) {
	_, _, address := serve(t, nil)
	ch := channel(t, dial(t, address))
	q := declare(t, ch, "q")
	const n = 5000
	for range n {
		if err := ch.Publish("", q, false, false, client.Publishing{Body: []byte("x")}); err != nil {
			t.Fatal(err)
		}
	}
	deliveries, err := ch.Consume(q, "", false, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	var d client.Delivery
	for range n {
		d = take(t, deliveries)
	}
	if err := d.Ack(true); err != nil {
		t.Fatal(err)
	}
}

func TestBodiesOfAllSizesComeBack(t *testing.T) {
	_, _, address := serve(t, nil)
	c, err := client.DialConfig("amqp://guest:guest@"+address+"/", client.Config{FrameSize: 4096})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close() //nolint:errcheck
	ch := channel(t, c)
	q := declare(t, ch, "q")
	for _, n := range []int{0, 1, 4087, 4088, 4089, 8176, 8177, 512 << 10, 512<<10 + 1, 3<<20 + 7} {
		body := bytes.Repeat([]byte{byte(n), 1, 2}, n/3+1)[:n]
		if err := ch.Publish("", q, false, false, client.Publishing{Body: body, Headers: client.Table{"n": int64(n)}}); err != nil {
			t.Fatal(err)
		}
		d, ok, err := ch.Get(q, true)
		if err != nil || !ok || !bytes.Equal(d.Body, body) || d.Headers["n"] != int64(n) {
			t.Fatalf("%d octets: %v %v, %d came back", n, ok, err, len(d.Body))
		}
	}
}

func TestD1_ReturnsComeBeforeTheirConfirms(t *testing.T) {
	_, _, address := serve(t, nil)
	ch := channel(t, dial(t, address))
	q := declare(t, ch, "q")
	if err := ch.Confirm(false); err != nil {
		t.Fatal(err)
	}
	returns := ch.NotifyReturn(make(chan client.Return, 1000))
	confirms := ch.NotifyPublish(make(chan client.Confirmation, 1000))
	for i := range 1000 {
		key := q
		if i%3 == 2 {
			key = "nowhere"
		}
		if err := ch.Publish("", key, true, false, client.Publishing{MessageId: fmt.Sprint(i + 1), Body: []byte("x")}); err != nil {
			t.Fatal(err)
		}
	}
	returned := 0
	for i := range 1000 {
		c := <-confirms
		if !c.Ack || c.DeliveryTag != uint64(i+1) {
			t.Fatalf("confirm %d is %+v", i, c)
		}
		if i%3 != 2 {
			continue
		}
		select {
		case r := <-returns:
			if r.MessageId != fmt.Sprint(i+1) || r.ReplyCode != 312 || r.ReplyText != "NO_ROUTE" || string(r.Body) != "x" {
				t.Fatalf("return %d is %+v", i, r)
			}
			returned++
		default:
			t.Fatalf("publish %d was confirmed before it was returned", i+1)
		}
	}
	if returned != 333 {
		t.Errorf("%d returned", returned)
	}
}

func TestChannelErrorsHaveTheTextsThatApplicationsMatch(t *testing.T) {
	_, _, address := serve(t, nil)
	c := dial(t, address)
	for _, x := range []struct {
		do   func(*client.Channel) error
		code int
		text string
	}{
		{func(ch *client.Channel) error {
			_, err := ch.QueueDeclarePassive("none", false, false, false, false, nil)
			return err
		}, 404, "NOT_FOUND - no queue 'none' in vhost '/'"},
		{func(ch *client.Channel) error { return ch.QueueBind("none", "k", "amq.direct", false, nil) }, 404, "NOT_FOUND - no queue 'none' in vhost '/'"},
		{func(ch *client.Channel) error {
			closed := ch.NotifyClose(make(chan *client.Error, 1))
			_ = ch.Ack(9, false)
			return <-closed
		}, 406, "PRECONDITION_FAILED - unknown delivery tag 9"},
	} {
		err := x.do(channel(t, c))
		var e *client.Error
		if !errors.As(err, &e) || e.Code != x.code || !strings.Contains(e.Reason, x.text) {
			t.Errorf("%v, want %d %s", err, x.code, x.text)
		}
	}
}

func TestRefusedLoginIsTold(t *testing.T) {
	_, _, address := serve(t, nil)
	for name, login := range map[string]string{"wrong password": "guest:wrong", "55 blank password": "guest:", "unknown user": "nobody:guest"} {
		_, err := client.Dial("amqp://" + login + "@" + address + "/")
		if !errors.Is(err, client.ErrCredentials) && !strings.Contains(fmt.Sprint(err), "403") {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err := client.Dial("amqp://guest:guest@" + address + "/nowhere")
	if !errors.Is(err, client.ErrVhost) && !strings.Contains(fmt.Sprint(err), "vhost nowhere not found") {
		t.Error(err)
	}
}

func TestConnectionsAreListedAndClosed(t *testing.T) {
	s, _, address := serve(t, nil)
	c := dial(t, address)
	channel(t, c)
	list := s.Connections()
	if len(list) != 1 {
		t.Fatalf("%+v", list)
	}
	x := list[0]
	if x.User != "guest" || x.Vhost != "/" || x.State != "running" || x.Channels != 1 || x.Peer != c.LocalAddr().String() || x.Received == 0 || x.Sent == 0 {
		t.Errorf("%+v", x)
	}
	closed := c.NotifyClose(make(chan *client.Error, 1))
	if s.CloseConnection("nobody", "x") || !s.CloseConnection(x.Name, "Closed via management plugin") {
		t.Error("CloseConnection found the wrong one")
	}
	if e := <-closed; e == nil || e.Code != 320 || e.Reason != "CONNECTION_FORCED - Closed via management plugin" {
		t.Error(e)
	}
}

func TestCloseTellsEveryClient(t *testing.T) {
	s, m, address := serve(t, nil)
	c := dial(t, address)
	channel(t, c)
	closed := c.NotifyClose(make(chan *client.Error, 1))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := s.Close(ctx, "shutdown"); err != nil {
		t.Error(err)
	}
	if e := <-closed; e == nil || e.Code != 320 || e.Reason != "CONNECTION_FORCED - broker forced connection closure with reason 'shutdown'" {
		t.Error(e)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if left := m.machine.Sessions("/"); len(left) != 0 {
		t.Errorf("sessions left: %+v", left)
	}
}

func TestLimitOfConnectionsIsTold(t *testing.T) {
	_, _, address := serve(t, func(o *amqp.Options) { o.ConnectionsMax = 1 })
	dial(t, address)
	_, err := client.Dial("amqp://guest:guest@" + address + "/")
	if err == nil {
		t.Fatal("a second connection was taken")
	}
}
