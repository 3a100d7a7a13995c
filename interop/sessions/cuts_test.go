package sessions

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/understudy-mq/understudy/interop/harness"
)

// atOnce is how many conversations go on at the same time.
const atOnce = 24

var talks atomic.Int64

// newTalk is a conversation that begins at one node and goes on at the others.
func newTalk(c *harness.Cluster, first int, properties table) *talk {
	id := fmt.Sprintf("t%06d", talks.Add(1))
	t := &talk{prefix: id + ".", frameMax: talkFrameMax, properties: table{
		"x-session-id": id + "-session", "x-session-expiry": "120", "x-session-incarnation": "one",
		"capabilities": table{"authentication_failure_close": true, "consumer_cancel_notify": true},
	}}
	for k, v := range properties {
		t.properties[k] = v
	}
	nodes := c.Members()
	for i := range nodes {
		t.urls = append(t.urls, nodes[(first+i)%len(nodes)].URL())
	}
	return t
}

// cutAt is a place to cut the first connection of a conversation.
type cutAt struct {
	up    bool
	octet int64
	end   ending
}

func (c cutAt) String() string {
	way := "to the client"
	if c.up {
		way = "to the broker"
	}
	return fmt.Sprintf("after octet %d %s, %s", c.octet, way, [...]string{"closed", "reset", "half open"}[c.end])
}

// runCut carries out a conversation whose first connection passes a cutter.
func runCut(c *harness.Cluster, at cutAt, properties table) (t *talk, passed [2]int64, err error) {
	t = newTalk(c, int(at.octet+1), properties)
	target := strings.TrimSuffix(strings.TrimPrefix(t.urls[0], "amqp://guest:guest@"), "/")
	cut, err := startCutter(target, at.up, at.octet, at.end)
	if err != nil {
		return t, passed, err
	}
	defer cut.close()
	direct := t.urls[0]
	t.urls[0] = "amqp://guest:guest@" + cut.address() + "/"
	t.dialled = func() { t.urls[0] = direct }
	err = t.conversation()
	if t.f != nil {
		_ = t.f.Close()
	}
	return t, [2]int64{cut.passed[0].Load(), cut.passed[1].Load()}, err
}

// TestACutConversationIsTheConversationWithoutACut is the guarantee of sessions in one: at whatever octet the connection is cut,
// the conversation that goes on at another node is the one that would have been held without it.
func TestACutConversationIsTheConversationWithoutACut(t *testing.T) {
	c := shared()
	uncut, passed, err := runCut(c, cutAt{octet: -1}, nil)
	if err != nil {
		t.Fatalf("uncut: %v\n%s", err, strings.Join(uncut.trace, "\n"))
	}
	t.Logf("uncut: %d octets to the broker, %d to the client, %d lines of trace", passed[0], passed[1], len(uncut.trace))
	points := cutPoints(passed, firstSeed(t))
	t.Logf("%d cut points", len(points))
	failures := runAll(t.Context(), c, points, uncut.told())
	for _, f := range failures[:min(len(failures), 5)] {
		t.Error(f)
	}
	if len(failures) > 0 {
		t.Fatalf("%d of %d cut points failed", len(failures), len(points))
	}
}

// sampleSize is how many cut points the short run has.
const sampleSize = 300

// cutPoints are all places, or a sample of them.
func cutPoints(passed [2]int64, first uint64) []cutAt {
	var all []cutAt
	for way, n := range passed {
		for octet := range n + 1 {
			all = append(all, cutAt{up: way == 0, octet: octet, end: ending((octet + int64(way)) % 3)})
		}
	}
	random := rand.New(rand.NewPCG(first, 0))
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	if *long {
		return all
	}
	return all[:sampleSize]
}

func runAll(ctx context.Context, c *harness.Cluster, points []cutAt, want []string) (failures []error) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	work := make(chan cutAt)
	for range atOnce {
		wg.Go(func() {
			for at := range work {
				if err := sameTrace(c, at, want); err != nil {
					mu.Lock()
					failures = append(failures, fmt.Errorf("cut %s: %w", at, err))
					mu.Unlock()
				}
			}
		})
	}
	for _, at := range points {
		mu.Lock()
		enough := len(failures) >= 20
		mu.Unlock()
		if enough || ctx.Err() != nil {
			break
		}
		work <- at
	}
	close(work)
	wg.Wait()
	return failures
}

func sameTrace(c *harness.Cluster, at cutAt, want []string) error {
	t, _, err := runCut(c, at, nil)
	if err == nil && !slices.Equal(t.told(), want) {
		err = errors.New("the trace differs")
	}
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", t.prefix, err, difference(t.told(), want))
	}
	return nil
}

// difference shows where two traces part.
func difference(got, want []string) string {
	i := 0
	for i < len(got) && i < len(want) && got[i] == want[i] {
		i++
	}
	at := func(trace []string) string {
		return strings.Join(trace[min(i, len(trace)):min(i+3, len(trace))], "\n       ")
	}
	return fmt.Sprintf("after %d equal lines:\n  got: %s\n want: %s", i, at(got), at(want))
}
