package differential

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/understudy-mq/understudy/interop/harness"
	"github.com/understudy-mq/understudy/interop/rawclient"
)

func TestMain(m *testing.M) { os.Exit(harness.Main(m)) }

// pairsOfOne are a node beside itself: two vhosts for each pair.
func pairsOfOne(t *testing.T, count int) []*Pair {
	t.Helper()
	n := harness.Start(t, harness.Options{}).Node(1)
	broker := func(vhost string) Broker {
		if err := harness.MakeVhost("http://"+n.Admin, vhost); err != nil {
			t.Fatal(err)
		}
		return Broker{URL: n.URL() + vhost}
	}
	pairs := make([]*Pair, count)
	for i := range pairs {
		pairs[i] = &Pair{Ours: broker(fmt.Sprint("ours", i)), Theirs: broker(fmt.Sprint("theirs", i)), Patience: 5 * time.Second}
	}
	return pairs
}

func TestABrokerBesideItselfDiffersInNothing(t *testing.T) {
	const each = 2
	var steps, unclear atomic.Int64
	var wg sync.WaitGroup
	for i, p := range pairsOfOne(t, 8) {
		wg.Go(func() {
			for seed := range uint64(each) {
				r, err := p.Walk(uint64(i*each)+seed, 30)
				if err != nil || r.Difference != "" {
					t.Errorf("seed %d: %v\n%s", uint64(i*each)+seed, err, r)
				}
				if steps.Add(int64(r.Steps)); r.Unclear {
					unclear.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if t.Logf("%d steps, %d conversations broken off", steps.Load(), unclear.Load()); steps.Load() < 400 || unclear.Load() > 4 {
		t.Error("that compares too little")
	}
}

// planted are differences, by what one of the brokers is made to say.
var planted = []struct {
	what    string
	distort func(*rawclient.Event)
}{
	{"a text", func(e *rawclient.Event) {
		if e.Name == "channel.close" && e.Channel < barrierChannel {
			e.Arguments[1] = strings.Replace(e.Text(1), "NOT_FOUND - no ", "NOT_FOUND - ", 1)
		}
	}},
	{"a flag", func(e *rawclient.Event) {
		if e.Name == "basic.deliver" {
			e.Arguments[2] = e.Arguments[2] != true
		}
	}},
	{"a count", func(e *rawclient.Event) {
		if e.Name == "queue.declare-ok" && e.Number(1) > 1 {
			e.Arguments[1] = e.Number(1) - 1
		}
	}},
	{"a reply", func(e *rawclient.Event) {
		if e.Name == "queue.bind-ok" {
			e.Name = "queue.unbind-ok"
		}
	}},
	{"a property", func(e *rawclient.Event) {
		if p := e.Properties.Raw; len(p) > 2 && e.Name == "basic.get-ok" {
			p[len(p)-1] ^= 1
		}
	}},
}

func TestAPlantedDifferenceIsFound(t *testing.T) {
	var wg sync.WaitGroup
	for i, p := range pairsOfOne(t, len(planted)) {
		p.Theirs.Distort = planted[i].distort
		p.Patience = 50 * time.Millisecond
		wg.Go(func() {
			for seed := range uint64(40) {
				r, err := p.Walk(seed, 40)
				if err != nil {
					t.Error(err)
					return
				}
				if r.Difference != "" {
					less := p.Shrink(r, time.Second)
					t.Logf("%s: seed %d, %d moves of %d\n%s", planted[i].what, seed, len(less.moves), len(r.moves), less)
					return
				}
			}
			t.Errorf("%s is not found", planted[i].what)
		})
	}
	wg.Wait()
}
