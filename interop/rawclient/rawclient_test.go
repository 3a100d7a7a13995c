package rawclient

import (
	"encoding/binary"
	"os"
	"strings"
	"testing"

	"github.com/understudy-mq/understudy/interop/harness"
)

func TestMain(m *testing.M) { os.Exit(harness.Main(m)) }

// brokerURL is a node's, or that of another broker in INTEROP_AMQP_URL.
func brokerURL(t *testing.T) string {
	if url := os.Getenv("INTEROP_AMQP_URL"); url != "" {
		return url
	}
	return harness.Start(t, harness.Options{}).Node(1).URL()
}

func dial(t *testing.T, url string) *Conn {
	t.Helper()
	c, err := Dial(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestPublishesAreConfirmedAndComeBackInOrder(t *testing.T) {
	url := brokerURL(t)
	const n, size = 3000, 1000
	out := dial(t, url)
	must(t, out.DeclareQueue("rawclient"))
	p, err := out.Publisher("rawclient", size)
	must(t, err)
	for i := range uint64(n) {
		binary.BigEndian.PutUint64(p.Body(), i)
		must(t, p.Publish())
	}
	must(t, out.Flush())
	for seen := uint64(0); seen < n; {
		tag, multiple, err := out.Confirm()
		must(t, err)
		if multiple {
			seen = max(seen, tag)
		} else {
			seen++
		}
	}
	in := dial(t, url)
	must(t, in.Consume("rawclient", 100))
	for i := range uint64(n) {
		d, err := in.Next()
		must(t, err)
		if d.Tag != i+1 || d.Redelivered || len(d.Body) != size || binary.BigEndian.Uint64(d.Body) != i {
			t.Fatalf("delivery %d: tag %d, redelivered %v, %d bytes, number %d", i, d.Tag, d.Redelivered, len(d.Body), binary.BigEndian.Uint64(d.Body))
		}
		if i%50 == 49 || i == n-1 {
			in.Ack(d.Tag, true)
			must(t, in.Flush())
		}
	}
	must(t, in.Barrier())
}

func TestWhatTheBrokerClosesIsAnErrorWithItsText(t *testing.T) {
	c := dial(t, brokerURL(t))
	must(t, c.Consume("no such queue", 1))
	if _, err := c.Next(); err == nil || !strings.Contains(err.Error(), "404 NOT_FOUND - no queue 'no such queue' in vhost '/'") {
		t.Fatalf("got %v", err)
	}
}
