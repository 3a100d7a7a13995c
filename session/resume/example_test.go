package resume_test

import (
	"context"
	"fmt"
	"log"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/understudy-mq/understudy/session/resume"
)

// A publisher need not know of connections: PublishWait answers when the message is in the queue, once.
//
// The program in the folder example does this and more, against a real cluster.
func ExamplePublisher() {
	ctx := context.Background()
	s, err := resume.Dial(ctx, resume.Options{URLs: []string{"amqp://10.0.0.1", "amqp://10.0.0.2", "amqp://10.0.0.3"}})
	if err != nil {
		log.Fatal(err)
	}
	p, err := s.Publisher(ctx)
	if err != nil {
		log.Fatal(err)
	}
	if err := p.PublishWait(ctx, "", "orders", true, amqp.Publishing{Body: []byte("one coffee")}); err != nil {
		log.Fatal(err)
	}
	if err := s.Close(ctx); err != nil {
		log.Fatal(err)
	}
}

// Each delivery comes once while the application works on it, and its acknowledgement arrives, whatever becomes of the
// connection.
func ExampleSession_Consume() {
	ctx := context.Background()
	s, err := resume.Dial(ctx, resume.Options{
		URLs:    []string{"amqp://10.0.0.1", "amqp://10.0.0.2", "amqp://10.0.0.3"},
		Session: "0b2f3f6c-7a4e-4f5e-9c9b-5a3f3a0e9d11", // known to this program alone, so that it finds its queues after a restart
		Setup: func(ch *amqp.Channel) error {
			_, err := ch.QueueDeclare("orders", true, false, false, false, nil)
			return err
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	c, err := s.Consume(ctx, "orders", resume.ConsumeOptions{Prefetch: 20})
	if err != nil {
		log.Fatal(err)
	}
	for d := range c.Deliveries() {
		fmt.Printf("%s\n", d.Body)
		if err := d.Ack(false); err != nil {
			log.Fatal(err)
		}
	}
	log.Fatal(c.Err())
}

// What has no method of its own goes through Do. A function that a lost connection interrupted is called again.
func ExampleSession_Do() {
	ctx := context.Background()
	s, err := resume.Dial(ctx, resume.Options{URLs: []string{"amqp://10.0.0.1"}})
	if err != nil {
		log.Fatal(err)
	}
	err = s.Do(ctx, func(ch *amqp.Channel) error {
		return ch.QueueBind("orders", "coffee.#", "amq.topic", false, nil)
	})
	if err != nil {
		log.Fatal(err)
	}
}
