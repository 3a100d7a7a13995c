package standby

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/understudy-mq/understudy/interop/harness"
)

func load(t *testing.T, n *harness.Node, queue string, count, size int) {
	t.Helper()
	conn, err := amqp.Dial(n.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ch, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ch.QueueDeclare(queue, true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	if err := ch.Confirm(false); err != nil {
		t.Fatal(err)
	}
	body := make([]byte, size)
	var last *amqp.DeferredConfirmation
	for i := range count {
		c, err := ch.PublishWithDeferredConfirm("", queue, false, false, amqp.Publishing{Body: body})
		if err != nil {
			t.Fatal(err)
		}
		if i%1000 == 999 && !c.Wait() {
			t.Fatal("nack")
		}
		last = c
	}
	if !last.Wait() {
		t.Fatal("nack")
	}
}

func TestMeasureRejoin(t *testing.T) {
	mb, _ := strconv.Atoi(os.Getenv("MEASURE_MB"))
	size, _ := strconv.Atoi(os.Getenv("MEASURE_SIZE"))
	if mb == 0 {
		return
	}
	for _, way := range []string{"rewind", "seed"} {
		p := harness.StartPair(t, harness.PairOptions{Direct: true})
		old, next := p.Source.Node(1), p.Standby.Node(1)
		load(t, old, "work", mb<<20/size, size)
		if err := p.WaitCaughtUp(time.Minute); err != nil {
			t.Fatal(err)
		}
		time.Sleep(40 * time.Second)
		load(t, old, "work", 1000, size)
		if err := p.WaitCaughtUp(time.Minute); err != nil {
			t.Fatal(err)
		}
		old.Kill9()
		if _, err := next.Promote(t.Context(), "promote"); err != nil {
			t.Fatal(err)
		}
		load(t, next, "work", 1000, size)
		began := time.Now()
		var args []string
		if way == "seed" {
			args = append(args, "--seed")
		}
		r := rejoin(t, old, next, p.Token, args...)
		before, _ := next.IO("wchar")
		if err := old.Start("--link-seed", "1", "--link-source", next.Link, "--link-token-file", p.Token); err != nil {
			t.Fatal(err)
		}
		want, err := next.Queue(t.Context(), "work")
		if err != nil {
			t.Fatal(err)
		}
		err = harness.Await(3*time.Minute, func(ctx context.Context) error {
			q, err := old.Queue(ctx, "work")
			if err == nil && q.Messages != want.Messages {
				err = fmt.Errorf("%d of %d", q.Messages, want.Messages)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		after, _ := next.IO("wchar")
		t.Logf("%s: %+v; following after %.1f s; the serving node wrote %d bytes meanwhile (link, log and files)", way, r, time.Since(began).Seconds(), after-before)
		p.Source.Stop()
		p.Standby.Stop()
	}
}
