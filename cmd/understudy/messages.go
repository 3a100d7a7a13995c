package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/spf13/cobra"
)

const (
	dialTimeout    = 10 * time.Second
	confirmTimeout = 30 * time.Second
)

// amqpFlags declares --amqp-url.
func amqpFlags(cmd *cobra.Command) *string {
	return cmd.Flags().String("amqp-url", "amqp://guest:guest@127.0.0.1:5672/", "broker, user, password and vhost (or UNDERSTUDY_AMQP_URL, which others of this machine cannot see)")
}

// withChannel runs f on a channel of a new connection.
func withChannel(url string, f func(*amqp.Channel) error) error {
	if _, err := amqp.ParseURI(url); err != nil {
		return usageError{fmt.Errorf("--amqp-url: %w", err)}
	}
	conn, err := amqp.DialConfig(url, amqp.Config{
		Dial: func(network, address string) (net.Conn, error) {
			return amqp.DefaultDial(dialTimeout)(network, address)
		},
		Properties: amqp.Table{"connection_name": "understudy command line"},
	})
	if err != nil {
		return fmt.Errorf("connect: %w (--amqp-url names broker, user, password and vhost)", err)
	}
	defer conn.Close()
	ch, err := conn.Channel()
	if err != nil {
		return fmt.Errorf("open a channel: %w", err)
	}
	return f(ch)
}

func publishCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "publish ROUTING-KEY [BODY]",
		Short: "Publish a message and wait for its confirm",
		Long: `Publish a message (BODY, or standard input if it is left out) and wait until the broker has confirmed it.
A message that reaches no queue is a failure.`,
		Args: arguments(cobra.RangeArgs(1, 2)),
	}
	url := amqpFlags(cmd)
	exchange := cmd.Flags().String("exchange", "", "exchange to publish to (default the one that routes by queue name)")
	contentType := cmd.Flags().String("content-type", "", "content type of the body")
	transient := cmd.Flags().Bool("transient", false, "publish with delivery mode 1 instead of 2")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		m := amqp.Publishing{ContentType: *contentType, DeliveryMode: amqp.Persistent}
		if *transient {
			m.DeliveryMode = amqp.Transient
		}
		if len(args) == 2 {
			m.Body = []byte(args[1])
		} else {
			var err error
			if m.Body, err = io.ReadAll(cmd.InOrStdin()); err != nil {
				return fmt.Errorf("read the body: %w", err)
			}
		}
		return withChannel(*url, func(ch *amqp.Channel) error { return publish(ch, *exchange, args[0], m) })
	}
	return cmd
}

// publish publishes as mandatory and waits for the confirm. The return of an unroutable message comes before it.
func publish(ch *amqp.Channel, exchange, key string, m amqp.Publishing) error {
	if err := ch.Confirm(false); err != nil {
		return err
	}
	returned := ch.NotifyReturn(make(chan amqp.Return, 1))
	closed := ch.NotifyClose(make(chan *amqp.Error, 1))
	ctx, cancel := context.WithTimeout(context.Background(), confirmTimeout)
	defer cancel()
	confirm, err := ch.PublishWithDeferredConfirmWithContext(ctx, exchange, key, true, false, m)
	if err != nil {
		return err
	}
	select {
	case <-confirm.Done():
	case err := <-closed:
		return fmt.Errorf("not confirmed: %w", err)
	case <-ctx.Done():
		return fmt.Errorf("not confirmed within %v", confirmTimeout)
	}
	select {
	case r := <-returned:
		return fmt.Errorf("returned: %s (exchange %q, routing key %q)", r.ReplyText, r.Exchange, r.RoutingKey)
	default:
	}
	if !confirm.Acked() {
		return errors.New("refused by a queue (nack)")
	}
	return nil
}

// received is a message as get and consume print it.
type received struct {
	Exchange    string         `json:"exchange"`
	RoutingKey  string         `json:"routing_key"`
	Redelivered bool           `json:"redelivered"`
	Properties  map[string]any `json:"properties,omitempty"`
	Headers     amqp.Table     `json:"headers,omitempty"`
	Body        []byte         `json:"payload_base64"`
	Text        string         `json:"payload"`
}

// show prints a message: its body and a line end, or with --json one object a line.
func show(out io.Writer, asJSON bool, d *amqp.Delivery) error {
	if !asJSON {
		_, err := fmt.Fprintf(out, "%s\n", d.Body)
		return err
	}
	r := received{
		Exchange: d.Exchange, RoutingKey: d.RoutingKey, Redelivered: d.Redelivered,
		Headers: d.Headers, Body: d.Body, Text: string(d.Body), Properties: map[string]any{},
	}
	for name, value := range map[string]string{
		"content_type": d.ContentType, "correlation_id": d.CorrelationId, "reply_to": d.ReplyTo,
		"message_id": d.MessageId, "type": d.Type, "app_id": d.AppId,
	} {
		if value != "" {
			r.Properties[name] = value
		}
	}
	return json.NewEncoder(out).Encode(r)
}

func getCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "get QUEUE",
		Short: "Take messages from a queue, if there are any",
		Args:  arguments(cobra.ExactArgs(1)),
	}
	url := amqpFlags(cmd)
	count := cmd.Flags().Int("count", 1, "how many at most")
	requeue := cmd.Flags().Bool("requeue", false, "put them back instead of acknowledging them")
	asJSON := cmd.Flags().Bool("json", false, "print one JSON object a message")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if *count < 1 {
			return usageError{fmt.Errorf("--count: %d is not 1 or more", *count)}
		}
		return withChannel(*url, func(ch *amqp.Channel) error {
			return getMessages(cmd.OutOrStdout(), ch, args[0], *count, *requeue, *asJSON)
		})
	}
	return cmd
}

func getMessages(out io.Writer, ch *amqp.Channel, queue string, count int, requeue, asJSON bool) error {
	var last *amqp.Delivery
	for range count {
		d, ok, err := ch.Get(queue, false)
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		if err := show(out, asJSON, &d); err != nil {
			return err
		}
		last = &d
	}
	if last == nil {
		return nil
	}
	if requeue {
		if err := last.Nack(true, true); err != nil {
			return err
		}
	} else if err := last.Ack(true); err != nil {
		return err
	}
	return ch.Close() // its reply says that the acknowledgements are committed
}

func consumeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "consume QUEUE",
		Short: "Print a queue's messages as they come, acknowledging each",
		Args:  arguments(cobra.ExactArgs(1)),
	}
	url := amqpFlags(cmd)
	count := cmd.Flags().Int("count", 0, "stop after so many (default never)")
	prefetch := cmd.Flags().Int("prefetch", 100, "unacknowledged messages at a time")
	asJSON := cmd.Flags().Bool("json", false, "print one JSON object a message")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if *count < 0 {
			return usageError{fmt.Errorf("--count: %d is not 0 or more", *count)}
		}
		if *prefetch < 0 || *prefetch > math.MaxUint16 {
			return usageError{fmt.Errorf("--prefetch: %d is not from 0 (no limit) to %d", *prefetch, math.MaxUint16)}
		}
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		return withChannel(*url, func(ch *amqp.Channel) error {
			if err := ch.Qos(*prefetch, 0, false); err != nil {
				return err
			}
			return consume(ctx, cmd.OutOrStdout(), ch, args[0], *count, *asJSON)
		})
	}
	return cmd
}

// consume prints and acknowledges until count messages (0: no end), a signal, or the end of the consumer.
func consume(ctx context.Context, out io.Writer, ch *amqp.Channel, queue string, count int, asJSON bool) error {
	closed := ch.NotifyClose(make(chan *amqp.Error, 1))
	deliveries, err := ch.ConsumeWithContext(ctx, queue, "", false, false, false, false, nil)
	if err != nil {
		return err
	}
	for n := 0; count == 0 || n < count; n++ {
		d, ok := <-deliveries
		if !ok && ctx.Err() != nil {
			break
		}
		if !ok {
			return ended(closed)
		}
		if err := show(out, asJSON, &d); err != nil {
			return err
		}
		if err := d.Ack(false); err != nil {
			return err
		}
	}
	return ch.Close()
}

// ended says why deliveries have stopped. A closed channel is told before its deliveries end.
func ended(closed <-chan *amqp.Error) error {
	select {
	case err := <-closed:
		if err != nil {
			return err
		}
		return errors.New("the broker closed the channel")
	default:
		return errors.New("the broker cancelled the consumer: its queue is gone")
	}
}
