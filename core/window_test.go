package core_test

import (
	"strings"
	"testing"

	"github.com/understudy-mq/understudy/core"
	"github.com/understudy-mq/understudy/core/coretest"
	"github.com/understudy-mq/understudy/core/entry"
)

const windowMessages, windowBytes = 2000, 4 << 20

// fill publishes n messages to q as batches.
func fill(d *coretest.Driver, n int, body string) {
	for n > 0 {
		var cmds []entry.Command
		for range min(n, 500) {
			cmds = append(cmds, publish(body))
		}
		d.Batch(1, cmds...)
		n -= len(cmds)
	}
}

func delivered(fx []core.Effect) int { return len(only(fx, core.EffectDelivered)) }

func TestConsumerWithoutPrefetchHasAWindowOfMessages(t *testing.T) {
	for _, noAck := range []bool{false, true} {
		d := started(t)
		fill(d, 2*windowMessages+10, "x")
		fx := d.Batch(1, &entry.Consume{Ref: ref, Queue: "q", Tag: "ct", NoAck: noAck})
		if n := delivered(fx); n != windowMessages {
			t.Fatalf("no-ack %v: %d deliveries at once, want %d", noAck, n, windowMessages)
		}
		if n := delivered(d.Batch(1, &entry.Written{Ref: ref, Tag: 5})); n != 5 {
			t.Errorf("no-ack %v: %d deliveries after 5 were written, want 5", noAck, n)
		}
		if n := delivered(d.Batch(1, &entry.Written{Ref: ref, Tag: 5})); n != 0 {
			t.Errorf("no-ack %v: %d deliveries for what had been written before, want none", noAck, n)
		}
		d.Restart()
		if n := delivered(d.Batch(1, &entry.Written{Ref: ref, Tag: 1 << 40})); n != windowMessages {
			t.Errorf("no-ack %v: %d deliveries after all were written, want %d", noAck, n, windowMessages)
		}
	}
}

func TestWindowIsGivenBackOnceBySettlementBeforeWriting(t *testing.T) {
	d := started(t)
	fill(d, windowMessages+100, "x")
	d.Batch(1, &entry.Consume{Ref: ref, Queue: "q", Tag: "ct"})
	fx := d.Batch(1, &entry.Settle{Ref: ref, First: 1, Last: 3})
	if n := delivered(fx); n != 3 {
		t.Errorf("%d deliveries after 3 acks, want 3", n)
	}
	if n := delivered(d.Batch(1, &entry.Written{Ref: ref, Tag: 5})); n != 2 {
		t.Errorf("%d deliveries after 5 were written of which 3 were settled, want 2", n)
	}
	if n := delivered(d.Batch(1, &entry.Settle{Ref: ref, First: 4, Last: 5})); n != 0 {
		t.Errorf("%d deliveries for acks of what was written, want none", n)
	}
}

func TestConsumerWithoutPrefetchHasAWindowOfBytes(t *testing.T) {
	d := started(t)
	body := strings.Repeat("x", 1<<20)
	for range 6 {
		d.Batch(1, publish(body))
	}
	n := delivered(d.Batch(1, &entry.Consume{Ref: ref, Queue: "q", Tag: "ct", NoAck: true}))
	if n != windowBytes>>20 {
		t.Errorf("%d deliveries of 1 MiB at once, want %d", n, windowBytes>>20)
	}
	if n := delivered(d.Batch(1, &entry.Written{Ref: ref, Tag: 1})); n != 1 {
		t.Errorf("%d deliveries after one was written, want 1", n)
	}
}

func TestNoAckDeliveriesAreNeverGivenBack(t *testing.T) {
	d := started(t)
	fill(d, 3, "x")
	d.Batch(1, &entry.Get{Ref: ref, Queue: "q", NoAck: true})
	d.Batch(1, &entry.Consume{Ref: ref, Queue: "q", Tag: "ct", NoAck: true})
	d.Batch(1, &entry.Recover{Ref: ref, Requeue: true}, &entry.Settle{Ref: ref, Multiple: true, Outcome: entry.Released})
	if live := d.Live(); live != 3 {
		t.Errorf("%d contents alive before they are written, want 3", live)
	}
	d.Batch(1, &entry.ChannelClose{Ref: ref})
	if q := d.Machine.Queues("/")[0]; q.Ready != 0 || d.Live() != 0 {
		t.Errorf("%d messages came back, %d contents alive; want none", q.Ready, d.Live())
	}
}

func TestPiecesOfABigMessageAreBounded(t *testing.T) {
	d := started(t)
	piece := make([]byte, 15<<20)
	refused := 0
	for range 9 {
		refused += len(only(d.Batch(1, &entry.Fragment{Ref: ref, Piece: piece}), core.EffectRefused))
	}
	if refused != 1 || d.Live() != 0 {
		t.Errorf("%d refusals of 135 MiB, and %d pieces are kept; want 1 and none", refused, d.Live())
	}
}
