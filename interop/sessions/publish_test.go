package sessions

import (
	"math"
	"strings"
	"testing"

	"github.com/understudy-mq/understudy/interop/harness"
	"github.com/understudy-mq/understudy/interop/rawclient"
)

func dedup(headers table) props { return props{DeliveryMode: 2, Headers: headers} }

// confirming is a client of a session with a queue, in confirm mode.
func confirming(t *testing.T, c *harness.Cluster, node int, q string, properties table) *client {
	t.Helper()
	a := connect(t, c.Node(node).URL(), properties)
	a.declare(q, false)
	a.call("confirm.select-ok", 1, "confirm.select")
	return a
}

func TestAPublishSentAgainIsConfirmedAndEnqueuedOnce(t *testing.T) {
	c := shared()
	for name, k := range map[string]struct {
		properties []string
		p          props
		enqueued   uint64 // of the same publish, three times
	}{
		"by its id":                      {nil, dedup(table{"x-dedup-id": "i"}), 1},
		"by publisher and sequence":      {nil, dedup(table{"x-pub-name": "p", "x-pub-seq": int64(7)}), 1},
		"by the highest sequence":        {nil, dedup(table{"x-pub-name": "p", "x-pub-seq": int64(math.MaxInt64)}), 1},
		"by message id":                  {[]string{"x-session-dedup", "message-id"}, props{MessageID: "m"}, 1},
		"but not by message id unasked":  {nil, props{MessageID: "m"}, 3},
		"but not where dedup is off":     {[]string{"x-session-dedup", "off"}, dedup(table{"x-dedup-id": "i"}), 3},
		"but not without any of these":   {nil, dedup(table{"other": "i"}), 3},
		"but not by another's own names": {nil, dedup(table{"x-deduplication-header": "i"}), 3},
	} {
		id, q := unique("s"), unique("q")
		for node := 1; node <= 3; node++ { // each time on another connection, the one before is lost
			a := confirming(t, c, node, q, session(id, k.properties...))
			a.publish(1, q, "body", k.p)
			if node == 3 {
				want(t, name, a.count(q), k.enqueued)
			}
			a.cut()
		}
	}
}

func TestOnlyNamedSessionsLeaveOutRepetitions(t *testing.T) {
	c := shared()
	q := unique("q")
	a := confirming(t, c, 1, q, nil)
	for range 2 {
		a.publish(1, q, "body", dedup(table{"x-dedup-id": "i"}))
	}
	want(t, "messages", a.count(q), 2)
	got := a.call("basic.get-ok", 1, "basic.get", q, true)
	want(t, "the header of a plain client's", got.Properties.Headers["x-dedup-id"], "i")
}

func TestTheDedupIDIsTakenOut(t *testing.T) {
	c := shared()
	q := unique("q")
	a := confirming(t, c, 1, q, session(unique("s")))
	a.publish(1, q, "body", dedup(table{"a": "1", "x-dedup-id": "i", "z": "2"}))
	got := a.call("basic.get-ok", 1, "basic.get", q, true)
	want(t, "headers", got.Properties.Headers, table{"a": "1", "z": "2"})
}

func TestSequencesGoForwards(t *testing.T) {
	c := shared()
	q := unique("q")
	a := confirming(t, c, 1, q, session(unique("s")))
	number := func(n int64, body string) string {
		b := rawclient.AppendCall(nil, 1, "basic.publish", "", q)
		p := dedup(table{"x-pub-name": "p", "x-pub-seq": n})
		if err := a.Write(rawclient.AppendContent(b, 1, a.FrameMax, &p, []byte(body))); err != nil {
			t.Fatal(err)
		}
		e, err := a.Next()
		if err != nil {
			t.Fatal(err)
		}
		return e.Name
	}
	for _, step := range []struct {
		n    int64
		want string
	}{
		{1, "basic.ack"}, {2, "basic.ack"}, {5, "basic.ack"}, {4, "basic.ack"}, {2, "basic.ack"},
		{1 << 40, "basic.ack"}, {6, "basic.nack"}, {1 << 40, "basic.ack"}, {1<<40 - 1, "basic.ack"},
	} {
		want(t, "the answer", number(step.n, "body"), step.want)
	}
	want(t, "messages: 1 2 5 4 2^40 2^40-1", a.count(q), 6)
	publishers := string(a.call("basic.get-ok", 1, "basic.get", "amq.session", true).Body)
	hasText(t, "the status", publishers, `"last_sequence":1099511627776`)
}

func TestBadSequencesAndIDsCloseTheChannel(t *testing.T) {
	c := shared()
	for text, headers := range map[string]table{
		"x-pub-seq must be a whole number from 1":   {"x-pub-name": "p", "x-pub-seq": int64(math.MinInt64)}, // 2^63
		"x-pub-seq must be a whole number":          {"x-pub-name": "p", "x-pub-seq": int64(0)},
		"x-pub-name and x-pub-seq need each other":  {"x-pub-seq": int64(1)},
		"x-pub-name must be text of 1 to 128 bytes": {"x-pub-name": strings.Repeat("p", 129), "x-pub-seq": int64(1)},
		"x-dedup-id must be text of 1 to 1024":      {"x-dedup-id": strings.Repeat("i", 1025)},
	} {
		a := connect(t, c.Node(1).URL(), session(unique("s")))
		b := rawclient.AppendCall(nil, 1, "basic.publish", "", "q")
		p := dedup(headers)
		if err := a.Write(rawclient.AppendContent(b, 1, a.FrameMax, &p, []byte("x"))); err != nil {
			t.Fatal(err)
		}
		closed := a.next("channel.close")
		want(t, "code", closed.Number(0), 406)
		hasText(t, "text", closed.Text(1), text)
	}
}

func TestUnroutablePublishesMayBeSentAgain(t *testing.T) {
	c := shared()
	q := unique("q")
	a := connect(t, c.Node(1).URL(), session(unique("s")))
	a.call("confirm.select-ok", 1, "confirm.select")
	a.publish(1, q, "nowhere", dedup(table{"x-dedup-id": "i"}))
	a.declare(q, false)
	a.publish(1, q, "there", dedup(table{"x-dedup-id": "i"}))
	want(t, "messages", a.count(q), 1)
}

func TestAPolicyGivesSessionsAndTheirTerms(t *testing.T) {
	c := shared()
	prefix := unique("policed")
	policy := `{"pattern":"^` + prefix + `","apply-to":"connections","definition":{"session":"connection-name","session-expiry":7,` +
		`"session-inflight":"keep","session-dedup":"message-id","session-dedup-headers":["x-deduplication-header"],"session-user":"guest"}}`
	if _, err := c.Node(2).Do(t.Context(), "PUT", "/api/policies/%2F/"+prefix, strings.NewReader(policy)); err != nil {
		t.Fatal(err)
	}
	q := unique("q")
	a := confirming(t, c, 2, q, table{"connection_name": prefix + "-worker"})
	status := a.status()
	want(t, "expiry", status["x-session-expiry"], 7)
	want(t, "in flight", status["x-session-inflight"], "keep")
	for range 2 {
		a.publish(1, q, "1", props{MessageID: "m"})
		a.publish(1, q, "2", dedup(table{"x-deduplication-header": "h"}))
	}
	want(t, "messages", a.count(q), 2)
	a.cut()
	b := connect(t, c.Node(2).URL(), table{"connection_name": prefix + "-worker"})
	if state := b.status()["x-session-state"]; state == "new" {
		t.Errorf("the second connection's session is %v", state)
	}
	plain := connect(t, c.Node(2).URL(), table{"connection_name": "other"})
	want(t, "a connection of another name", plain.status()["x-session-expiry"], 0)
}
