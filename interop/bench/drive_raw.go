package bench

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/understudy-mq/understudy/interop/rawclient"
)

// rawProduce publishes as fast as confirms allow until ctx ends.
func rawProduce(ctx context.Context, l load, m *meter, url, queue string) {
	conn, err := rawclient.Dial(url)
	if err != nil {
		m.fail(err)
		return
	}
	p, err := conn.Publisher(queue, l.bytes)
	if err != nil {
		m.fail(err)
		return
	}
	w := newWindow(l.window)
	read := make(chan struct{})
	go func() {
		defer close(read)
		defer w.end()
		rawConfirms(ctx, m, conn, w)
	}()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close(); w.end() })
	defer stop()
	flush := func() { _ = conn.Flush() } // an error comes to the reader too
	for tag := uint64(1); w.enter(flush); tag++ {
		now := time.Now()
		w.stamp(tag, now)
		binary.BigEndian.PutUint64(p.Body(), uint64(now.UnixNano()))
		if p.Publish() != nil {
			break
		}
		m.published.Add(1)
	}
	_ = conn.Close()
	<-read
}

func rawConfirms(ctx context.Context, m *meter, conn *rawclient.Conn, w *window) {
	var samples []time.Duration
	defer func() { m.add(samples, nil) }()
	last := uint64(0)
	for {
		tag, multiple, err := conn.Confirm()
		if err != nil {
			if ctx.Err() == nil {
				m.fail(fmt.Errorf("producer: %w", err))
			}
			return
		}
		n := uint64(1)
		if multiple {
			n = tag - last
		}
		last += n // single confirms may come out of order; for a window their number is enough
		m.confirmed.Add(int64(n))
		if m.on.Load() {
			samples = append(samples, w.since(tag))
		}
		w.leave(n)
	}
}

// rawConsume takes and acknowledges until ctx ends.
func rawConsume(ctx context.Context, l load, m *meter, url, queue string) {
	conn, err := rawclient.Dial(url)
	if err == nil {
		err = conn.Consume(queue, l.prefetch)
	}
	if err != nil {
		m.fail(err)
		return
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	var samples []time.Duration
	defer func() { m.add(nil, samples) }()
	newest, n := int64(0), 0
	for {
		d, err := conn.Next()
		if err != nil {
			if ctx.Err() == nil {
				m.fail(fmt.Errorf("consumer: %w", err))
			}
			return
		}
		if newest, err = l.examine(d.Body, newest); err != nil {
			m.fail(err)
			return
		}
		if n++; m.on.Load() && n%31 == 0 {
			samples = append(samples, time.Duration(time.Now().UnixNano()-newest))
		}
		m.consumed.Add(1)
		if n%l.ackEvery == 0 {
			conn.Ack(d.Tag, l.ackEvery > 1)
		}
		if !conn.Pending() {
			_ = conn.Flush() // an error comes to Next
		}
	}
}
