package bench

import (
	"encoding/binary"
	"flag"
	"os"
	"testing"
	"time"

	"github.com/understudy-mq/understudy/interop/harness"
)

// go test ./interop/bench -count=1 -timeout 40m -v -args -measure [-duration=10s] [-only=NAME]
var (
	measuring = flag.Bool("measure", false, "measure all loads for -duration each")
	duration  = flag.Duration("duration", 10*time.Second, "measured time per load")
	only      = flag.String("only", "", "only the load of this name")
)

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(harness.Main(m))
}

// loads are what `make bench` measures.
var loads = []load{
	{name: "lib", nodes: 1, queues: 1, bytes: 256, window: 1000, prefetch: 1000, ackEvery: 1},
	{name: "lib-4096", nodes: 1, queues: 1, bytes: 4096, window: 1000, prefetch: 1000, ackEvery: 1},
	{name: "lib-500", nodes: 1, queues: 1, bytes: 256, window: 1000, prefetch: 1000, ackEvery: 1, rate: 500},
	{name: "raw", nodes: 1, raw: true, queues: 1, bytes: 256, window: 1000, prefetch: 1000, ackEvery: 100},
	{name: "raw-4", nodes: 1, raw: true, queues: 4, bytes: 256, window: 1000, prefetch: 1000, ackEvery: 100},
	{name: "lib3", nodes: 3, queues: 1, bytes: 256, window: 1000, prefetch: 1000, ackEvery: 1},
	{name: "lib3-500", nodes: 3, queues: 1, bytes: 256, window: 1000, prefetch: 1000, ackEvery: 1, rate: 500},
	{name: "raw3", nodes: 3, raw: true, queues: 1, bytes: 256, window: 1000, prefetch: 1000, ackEvery: 100},
	{name: "raw3-4", nodes: 3, raw: true, queues: 4, bytes: 256, window: 1000, prefetch: 1000, ackEvery: 100},
}

// TestLoadsRunToTheirEnd runs each kind of driver for a moment; with -measure all loads for long.
func TestLoadsRunToTheirEnd(t *testing.T) {
	chosen, warmup, lasts := []load{loads[0], loads[3]}, 200*time.Millisecond, 500*time.Millisecond
	if *measuring {
		chosen, warmup, lasts = loads, 3*time.Second, *duration
	}
	for _, l := range chosen {
		if *only != "" && *only != l.name {
			continue
		}
		t.Run(l.name, func(t *testing.T) {
			f, err := measure(harness.Start(t, harness.Options{Nodes: l.nodes, Direct: true}), l, warmup, lasts)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%-8s %d nodes %d queues %4d bytes: %s", l.name, l.nodes, l.queues, l.bytes, f)
		})
	}
}

func TestABodyOfAnotherSizeOrOutOfItsOrderIsRefused(t *testing.T) {
	l := load{bytes: 16}
	body := make([]byte, 16)
	binary.BigEndian.PutUint64(body, 100)
	if at, err := l.examine(body, 99); err != nil || at != 100 {
		t.Errorf("a good body: %d, %v", at, err)
	}
	if _, err := l.examine(body, 101); err == nil {
		t.Error("out of order and taken")
	}
	if _, err := l.examine(body[:15], 0); err == nil {
		t.Error("too short and taken")
	}
}

func TestAWindowHoldsItsSizeAndLetsGoWhenItEnds(t *testing.T) {
	w := newWindow(2)
	for range 2 {
		if !w.enter(nil) {
			t.Fatal("no room in an empty window")
		}
	}
	idle, entered := make(chan struct{}), make(chan bool)
	go func() { entered <- w.enter(func() { close(idle) }) }()
	<-idle // it has to wait
	select {
	case <-entered:
		t.Fatal("a third found room")
	default:
	}
	w.leave(1)
	if !<-entered {
		t.Fatal("ended")
	}
	go func() { entered <- w.enter(func() {}) }()
	w.end()
	if <-entered {
		t.Fatal("entered a window that has ended")
	}
}
