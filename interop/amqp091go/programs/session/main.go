package main

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

const held = 100

// worker is what outlives the connections.
type worker struct {
	mu        sync.Mutex
	published int // times that all was
	holding   []amqp.Delivery
}

func main() {
	w := &worker{}
	run := map[string]func() error{"loop": w.loop, "recovery": w.recovery}[os.Args[1]]
	if err := run(); err != nil {
		fmt.Println("failed:", err)
	}
}

func config() amqp.Config {
	properties := amqp.NewConnectionProperties()
	properties["x-session-id"] = os.Getenv("AMQP_SESSION")
	return amqp.Config{Properties: properties}
}

// loop connects to one address after the other, and does everything anew on each connection.
func (w *worker) loop() error {
	addresses := strings.Split(os.Getenv("AMQP_URLS"), ",")
	for try := 0; ; try++ {
		conn, err := amqp.DialConfig(addresses[try%len(addresses)], config())
		if err != nil {
			time.Sleep(50 * time.Millisecond)
			continue
		}
		lost := conn.NotifyClose(make(chan *amqp.Error, 1))
		w.forget()
		if err := w.work(conn); err != nil && !conn.IsClosed() {
			return err
		}
		<-lost
	}
}

func (w *worker) work(conn *amqp.Connection) error {
	publisher, in, err := w.prepare(conn)
	if err != nil {
		return err
	}
	go w.take(in)
	return w.publish(publisher)
}

// prepare declares what the program works with, and consumes.
func (w *worker) prepare(conn *amqp.Connection) (*amqp.Channel, <-chan amqp.Delivery, error) {
	publisher, err := conn.Channel()
	if err != nil {
		return nil, nil, err
	}
	if _, err := publisher.QueueDeclare("session.own", false, false, true, false, nil); err != nil {
		return nil, nil, err
	}
	if _, err := publisher.QueueDeclare("session.q", true, false, false, false, nil); err != nil {
		return nil, nil, err
	}
	if err := publisher.Confirm(false); err != nil {
		return nil, nil, err
	}
	consumer, err := conn.Channel()
	if err != nil {
		return nil, nil, err
	}
	if err := consumer.Qos(held, 0, false); err != nil {
		return nil, nil, err
	}
	in, err := consumer.Consume("session.q", "worker", false, false, false, false, nil)
	return publisher, in, err
}

// recovery leaves everything to the library: channels, prefetch, queues and the consumer, whose Go channel goes on.
func (w *worker) recovery() error {
	c := config()
	c.Recovery = &amqp.Recovery{ReconnectionConfig: &amqp.ReconnectionConfig{MaxRetryCount: 100, RetryInterval: 100 * time.Millisecond}}
	c.Dial = dialAny(strings.Split(os.Getenv("AMQP_URLS"), ","))
	conn, err := amqp.DialConfig(os.Getenv("AMQP_URL"), c)
	if err != nil {
		return err
	}
	states := make(chan *amqp.StateChanged, 100)
	conn.NotifyStateChange(states)
	publisher, in, err := w.prepare(conn)
	if err != nil {
		return err
	}
	go w.take(in)
	if err := w.publish(publisher); err != nil {
		return err
	}
	for s := range states {
		switch {
		case s.To == amqp.StateReconnecting:
			w.forget()
		case s.To == amqp.StateOpen && s.From == amqp.StateReconnecting:
			if err := w.publish(publisher); err != nil {
				return err
			}
		case s.Err != nil:
			return s.Err
		}
	}
	return nil
}

// dialAny dials the first of the addresses that answers: the library itself knows one.
func dialAny(addresses []string) func(network, address string) (net.Conn, error) {
	return func(network, _ string) (conn net.Conn, err error) {
		for _, address := range addresses {
			u, parseErr := url.Parse(address)
			if parseErr != nil {
				return nil, parseErr
			}
			if conn, err = net.DialTimeout(network, u.Host, time.Second); err == nil {
				return conn, conn.SetDeadline(time.Now().Add(10 * time.Second))
			}
		}
		return nil, err
	}
}

// publish says what the exclusive queue holds, or fills it, and publishes everything, again with the same ids.
func (w *worker) publish(ch *amqp.Channel) error {
	if err := w.own(ch); err != nil {
		return err
	}
	var last *amqp.DeferredConfirmation
	for n := 1; n <= held; n++ {
		var err error
		if last, err = ch.PublishWithDeferredConfirm("", "session.q", true, false, amqp.Publishing{
			DeliveryMode: amqp.Persistent, Headers: amqp.Table{"x-dedup-id": fmt.Sprintf("message-%d", n)}, Body: fmt.Append(nil, n),
		}); err != nil {
			return err
		}
	}
	if !last.Wait() {
		return amqp.ErrClosed
	}
	w.mu.Lock()
	w.published++
	w.mu.Unlock()
	fmt.Println("published")
	return w.settle()
}

func (w *worker) own(ch *amqp.Channel) error {
	w.mu.Lock()
	first := w.published == 0
	w.mu.Unlock()
	if first {
		return ch.Publish("", "session.own", false, false, amqp.Publishing{Body: []byte("mine")})
	}
	q, err := ch.QueueDeclarePassive("session.own", false, false, true, false, nil)
	if err == nil {
		fmt.Println("own", q.Messages)
	}
	return err
}

// take holds the deliveries of one consumer.
func (w *worker) take(in <-chan amqp.Delivery) {
	for d := range in {
		again := ""
		if d.Redelivered {
			again = " again"
		}
		w.mu.Lock()
		fmt.Printf("held %s %d%s\n", d.Body, d.DeliveryTag, again)
		w.holding = append(w.holding, d)
		w.mu.Unlock()
		if err := w.settle(); err != nil {
			fmt.Println("failed:", err)
		}
	}
}

func (w *worker) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.holding = nil
}

// settle acks all once they are held for the third time and the third publishing is over.
func (w *worker) settle() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.holding) < held || w.published < 3 {
		return nil
	}
	for _, d := range w.holding {
		if err := d.Ack(false); err != nil {
			return err
		}
	}
	w.holding = nil
	fmt.Println("settled")
	return nil
}
