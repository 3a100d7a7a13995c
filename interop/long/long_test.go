package long

import (
	"context"
	"flag"
	"os"
	"testing"
	"time"

	"github.com/understudy-mq/understudy/interop/harness"
)

// go test ./interop/long -count=1 -timeout 40m -v -args -long
var long = flag.Bool("long", false, "full sizes, and the promises about them")

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(harness.Main(m))
}

// scaled is a hundredth of n unless -long is given.
func scaled(n int) int {
	if *long {
		return n
	}
	return n / 100
}

// atMost checks a promise that is made for full sizes.
func atMost(t *testing.T, what string, got, most int64) {
	t.Helper()
	t.Logf("%s: %.1f MB (at most %d MB promised)", what, float64(got)/(1<<20), most>>20)
	if *long && got > most {
		t.Errorf("%s: %d bytes, over %d", what, got, most)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// must1 is must for a value: must1(t)(f()).
func must1(t *testing.T) func(int64, error) int64 {
	return func(v int64, err error) int64 {
		t.Helper()
		must(t, err)
		return v
	}
}

// largest samples the size of a node's data folder until the answered function is called, which answers the largest.
func largest(n *harness.Node) (stop func() int64) {
	end, answer := make(chan struct{}), make(chan int64)
	go func() {
		var most int64
		for {
			if size, err := n.DataBytes(); err == nil {
				most = max(most, size)
			}
			select {
			case <-end:
				answer <- most
				return
			case <-time.After(500 * time.Millisecond):
			}
		}
	}()
	return func() int64 { close(end); return <-answer }
}

func ready(t *testing.T, n *harness.Node) time.Duration {
	t.Helper()
	begin := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), harness.Patience)
	defer cancel()
	must(t, n.WaitReady(ctx))
	return time.Since(begin)
}
