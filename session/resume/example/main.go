package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/understudy-mq/understudy/session/resume"
)

const queue = "example.orders"

func main() {
	orders := flag.Int("orders", 1000, "how many")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, flag.Args(), *orders); err != nil {
		fmt.Fprintln(os.Stderr, "example:", err)
		os.Exit(1)
	}
}

// run publishes and consumes. None of it deals with lost connections.
func run(ctx context.Context, urls []string, orders int) error {
	s, err := resume.Dial(ctx, resume.Options{
		URLs: urls,
		Setup: func(ch *amqp.Channel) error {
			_, err := ch.QueueDeclare(queue, true, false, true, false, nil)
			return err
		},
		Events: func(e resume.Event) { fmt.Println(e.Kind, e.Address) },
	})
	if err != nil {
		return err
	}
	c, err := s.Consume(ctx, queue, resume.ConsumeOptions{})
	if err != nil {
		return err
	}
	p, err := s.Publisher(ctx)
	if err != nil {
		return err
	}
	published := make(chan error, 1)
	go func() { published <- publish(ctx, p, orders) }()
	for n := 1; n <= orders; n++ {
		select {
		case d := <-c.Deliveries():
			if want := fmt.Sprintf("order %d", n); string(d.Body) != want {
				return fmt.Errorf("%q came, not %q: %w", d.Body, want, c.Err())
			}
			if err := d.Ack(false); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	err = errors.Join(<-published, s.Close(ctx))
	fmt.Printf("%d orders published, %d worked off\n", orders, orders)
	return err
}

func publish(ctx context.Context, p *resume.Publisher, orders int) error {
	var last *resume.Receipt
	for n := 1; n <= orders; n++ {
		var err error
		if last, err = p.Publish(ctx, "", queue, true, amqp.Publishing{Body: fmt.Appendf(nil, "order %d", n)}); err != nil {
			return err
		}
	}
	return last.Wait(ctx)
}
