package amqp_test

import (
	"context"
	"testing"

	client "github.com/rabbitmq/amqp091-go"
)

// A busy client's socket does not wake its reader for every write (lowWater): what comes last is to be read all the same.
func TestWhatABusyClientSendsLastIsServedToo(t *testing.T) {
	_, _, address := serve(t, nil)
	c, err := client.Dial("amqp://guest:guest@" + address + "/")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close() //nolint:errcheck
	ch := channel(t, c)
	q := declare(t, ch, "")
	if err := ch.Confirm(false); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	body := make([]byte, 1000)
	for round := range 10 {
		var last *client.DeferredConfirmation
		for range 2000 {
			if last, err = ch.PublishWithDeferredConfirmWithContext(ctx, "", q, false, false, client.Publishing{Body: body}); err != nil {
				t.Fatal(err)
			}
		}
		if ok, err := last.WaitContext(ctx); !ok || err != nil {
			t.Fatalf("round %d: the last publish: confirmed %v, %v", round, ok, err)
		}
		for i := range 3 { // nor is anything lost of what comes alone behind it
			if d, ok, err := ch.Get(q, true); err != nil || !ok || len(d.Body) != 1000 {
				t.Fatalf("round %d, get %d: %v %v", round, i, ok, err)
			}
		}
	}
}
