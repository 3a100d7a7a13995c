package bench

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// dialLib opens a connection of the client library and a channel.
func dialLib(url string) (*amqp.Connection, *amqp.Channel, error) {
	conn, err := amqp.Dial(url)
	if err != nil {
		return nil, nil, err
	}
	ch, err := conn.Channel()
	return conn, ch, err
}

// libProduce publishes with amqp091-go until ctx ends, at the load's rate if it has one.
func libProduce(ctx context.Context, l load, m *meter, url, queue string) {
	conn, ch, err := dialLib(url)
	if err == nil {
		err = ch.Confirm(false)
	}
	if err != nil {
		m.fail(err)
		return
	}
	w := newWindow(l.window)
	acks := ch.NotifyPublish(make(chan amqp.Confirmation, l.window))
	read := make(chan struct{})
	go func() {
		defer close(read)
		defer w.end()
		libConfirms(ctx, l, m, acks, w)
	}()
	stop := context.AfterFunc(ctx, func() { _ = conn.CloseDeadline(time.Now().Add(time.Second)); w.end() })
	defer stop()
	body, begin := make([]byte, l.bytes), time.Now()
	for tag := uint64(1); w.enter(func() {}); tag++ {
		now := time.Now()
		if l.rate > 0 {
			// Latency counts from when the publish was due, so that a stall is not hidden.
			now = begin.Add(time.Duration(tag) * time.Second / time.Duration(l.rate))
			wait(ctx, time.Until(now))
		}
		w.stamp(tag, now)
		binary.BigEndian.PutUint64(body, uint64(now.UnixNano()))
		if ch.PublishWithContext(ctx, "", queue, false, false, amqp.Publishing{DeliveryMode: amqp.Persistent, Body: body}) != nil {
			break // the reader of the confirms tells
		}
		m.published.Add(1)
	}
	<-read
}

func libConfirms(ctx context.Context, l load, m *meter, acks <-chan amqp.Confirmation, w *window) {
	var samples []time.Duration
	defer func() { m.add(samples, nil) }()
	for a := range acks {
		if !a.Ack {
			m.fail(fmt.Errorf("publish %d was refused", a.DeliveryTag))
			return
		}
		m.confirmed.Add(1)
		if m.on.Load() && (l.rate > 0 || a.DeliveryTag%7 == 0) {
			samples = append(samples, w.since(a.DeliveryTag))
		}
		w.leave(1)
	}
	if ctx.Err() == nil {
		m.fail(errors.New("producer: the channel was closed"))
	}
}

// libConsume takes and acknowledges with amqp091-go until ctx ends.
func libConsume(ctx context.Context, l load, m *meter, url, queue string) {
	conn, ch, err := dialLib(url)
	if err == nil {
		err = ch.Qos(l.prefetch, 0, false)
	}
	var in <-chan amqp.Delivery
	if err == nil {
		in, err = ch.Consume(queue, "", false, false, false, false, nil)
	}
	if err != nil {
		m.fail(err)
		return
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.CloseDeadline(time.Now().Add(time.Second)) })
	defer stop()
	var samples []time.Duration
	defer func() { m.add(nil, samples) }()
	newest, n := int64(0), 0
	for d := range in {
		if newest, err = l.examine(d.Body, newest); err != nil {
			m.fail(err)
			return
		}
		if n++; m.on.Load() && (l.rate > 0 || n%7 == 0) {
			samples = append(samples, time.Duration(time.Now().UnixNano()-newest))
		}
		m.consumed.Add(1)
		if n%l.ackEvery == 0 {
			_ = d.Ack(l.ackEvery > 1) // a broken connection ends the deliveries
		}
	}
	if ctx.Err() == nil {
		m.fail(errors.New("consumer: the channel was closed"))
	}
}
