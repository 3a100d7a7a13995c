package programs

import (
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/understudy-mq/understudy/interop/harness"
)

const (
	sessionHeld   = 100 // messages in flight
	sessionCycles = 2
	sessionQueue  = "session.q"
)

// Session runs program "session" against three nodes. Its library is configured with the session id of AMQP_SESSION (in
// client properties, or as connection_name's suffix), and with nothing else of sessions. The program
//
//   - declares the exclusive queue session.own and publishes one message there
//   - declares the durable queue session.q, publishes 1 to 100 there with confirms and the header x-dedup-id, and says
//     "published"
//   - consumes session.q with a prefetch of 100, acks nothing and says "held N TAG" or "held N TAG again" for each delivery,
//     where TAG is its delivery tag on the wire
//
// whereupon the node that it is attached to is killed with -9. It reconnects by the library's own means, or its own loop
// where the library has none, declares session.own again and says "own N", N being the messages there; publishes 1 to 100
// again and says "published"; consumes again. The dead node comes back, and the attached one is killed once more. When the
// program holds all 100 for the third time, it acks each and says "settled".
//
// It must hold the same messages under the same tags every time, marked as redelivered; a rival consumer on another node
// gets none of them meanwhile, neither by expiry of the lost connection nor as a duplicate; and the acks empty the queue.
func (c Client) Session(t *testing.T) {
	t.Helper()
	cluster := harness.Start(t, harness.Options{Nodes: 3})
	p := c.Start(t, append(Addresses(t, cluster), "AMQP_SESSION=interop-"+strconv.Itoa(int(time.Now().UnixNano()%1e9))), "session")
	p.mustSay("published")
	tags := p.holds(nil)
	for range sessionCycles {
		rival := StartRival(t, cluster, sessionQueue)
		dead, killed := KillAttached(t, cluster, rival.node), time.Now()
		p.mustSay("own 1")
		p.mustSay("published")
		p.holds(tags)
		t.Logf("node %d killed; all is as it was %v later", dead.ID, time.Since(killed).Round(time.Millisecond))
		rival.Stop()
		if err := dead.Start(); err != nil {
			t.Fatal(err)
		}
		if err := cluster.WaitReady(harness.Patience); err != nil {
			t.Fatal(err)
		}
	}
	p.mustSay("settled")
	awaitEmpty(t, cluster, sessionQueue)
}

// mustSay waits for the line, whatever deliveries are told of before it.
func (p *Program) mustSay(want string) {
	p.t.Helper()
	for {
		line := p.mustLine()
		if line == want {
			return
		}
		if !strings.HasPrefix(line, "held ") {
			p.t.Fatalf("%s says %q, want %q\n%s", p.name, line, want, p.rest())
		}
		p.ahead = append(p.ahead, line)
	}
}

// holds waits until the program holds all messages, and answers their tags by message. If it held them before, under these
// tags, they must be the same and say that they come again.
func (p *Program) holds(before map[string]string) map[string]string {
	p.t.Helper()
	tags := map[string]string{}
	for len(tags) < sessionHeld {
		words := strings.Fields(p.nextHeld())
		switch {
		case len(words) < 3 || words[0] != "held":
			p.t.Fatalf("%s says %q, want a delivery\n%s", p.name, strings.Join(words, " "), p.rest())
		case before != nil && before[words[1]] != words[2]:
			p.t.Fatalf("message %s has tag %s, and had %q before", words[1], words[2], before[words[1]])
		case before != nil && len(words) != 4:
			p.t.Fatalf("message %s comes again and does not say so", words[1])
		case tags[words[1]] != "":
			p.t.Fatalf("message %s came twice on one connection", words[1])
		}
		tags[words[1]] = words[2]
	}
	return tags
}

func (p *Program) nextHeld() string {
	p.t.Helper()
	if len(p.ahead) > 0 {
		line := p.ahead[0]
		p.ahead = p.ahead[1:]
		return line
	}
	return p.mustLine()
}

// Rival is a consumer of a session's queue that belongs to nobody's session. It must get nothing.
type Rival struct {
	t    testing.TB
	node *harness.Node
	conn *amqp.Connection
	got  atomic.Int64
	over chan struct{} // closed when no delivery comes any more
}

// StartRival consumes from the queue at a node that has no client, so that it outlives the kill.
func StartRival(t testing.TB, c *harness.Cluster, queue string) *Rival {
	t.Helper()
	return startRivalAt(t, idle(t, c), queue)
}

func startRivalAt(t testing.TB, n *harness.Node, queue string) *Rival {
	t.Helper()
	r := &Rival{t: t, node: n, conn: connectTo(t, n), over: make(chan struct{})}
	ch, err := r.conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	in, err := ch.Consume(queue, "rival", true, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(r.over)
		for range in {
			r.got.Add(1)
		}
	}()
	return r
}

// Node is where it consumes.
func (r *Rival) Node() *harness.Node { return r.node }

// Stop ends it; that it got something, or was cut off, fails the test.
func (r *Rival) Stop() {
	r.t.Helper()
	if r.conn.IsClosed() {
		r.t.Fatal("the rival lost its connection")
	}
	if err := r.conn.Close(); err != nil {
		r.t.Fatal(err)
	}
	<-r.over
	if n := r.got.Load(); n > 0 {
		r.t.Errorf("another consumer got %d of the session's messages", n)
	}
}

// idle is a node without clients.
func idle(t testing.TB, c *harness.Cluster) *harness.Node {
	t.Helper()
	for _, n := range c.Running() {
		if clients(t, n) == 0 {
			return n
		}
	}
	t.Fatal("every node has a client: " + fmt.Sprint(len(c.Running())))
	return nil
}
