package standby

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/understudy-mq/understudy/interop/harness"
)

// understudy runs a verb and answers what it printed.
func understudy(t *testing.T, args ...string) []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), harness.Patience)
	defer cancel()
	out, err := exec.CommandContext(ctx, harness.Binary(t), args...).CombinedOutput()
	if err != nil {
		t.Fatalf("understudy %v: %v\n%s", args, err, out)
	}
	return out
}

// put publishes messages with these ids to a queue and waits for their confirms.
func put(t *testing.T, n *harness.Node, ids ...string) {
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
	if _, err := ch.QueueDeclare("work", true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	if err := ch.Confirm(false); err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		c, err := ch.PublishWithDeferredConfirm("", "work", false, false, amqp.Publishing{MessageId: id, Body: []byte(id)})
		if err != nil || !c.Wait() {
			t.Fatal(err, "not confirmed")
		}
	}
}

func TestAFormerSourceComesBackAsAStandbyAndASecondSwitchReturns(t *testing.T) {
	t.Run("wound back", func(t *testing.T) { comesBack(t, "rewind") })
	t.Run("with a seed", func(t *testing.T) { comesBack(t, "seed", "--seed") })
}

// rejoined is what rejoin says with --json.
type rejoined struct {
	Way       string  `json:"way"`
	Reason    string  `json:"reason"`
	Former    string  `json:"former"`
	LinkBytes int64   `json:"link_bytes"`
	Bytes     int64   `json:"bytes"`
	Seconds   float64 `json:"seconds"`
}

// rejoin makes a former source's stopped node a standby of the cluster that serves.
func rejoin(t *testing.T, former, serving *harness.Node, token string, args ...string) (r rejoined) {
	t.Helper()
	args = append([]string{"link", "rejoin", "--json", "--data", former.Data, "--source", serving.Link, "--link-token-file", token}, args...)
	if err := json.Unmarshal(understudy(t, args...), &r); err != nil {
		t.Fatal(err)
	}
	return r
}

func comesBack(t *testing.T, way string, args ...string) {
	p := harness.StartPair(t, harness.PairOptions{Args: []string{"--groups", "2"}})
	old, next := p.Source.Node(1), p.Standby.Node(1)
	put(t, old, "a", "b")
	if err := p.WaitCaughtUp(harness.Patience); err != nil {
		t.Fatal(err)
	}
	p.CutLinks()
	tail := []string{"c", "d", "e"}
	put(t, old, tail...)
	old.Kill9()
	if _, err := next.Promote(t.Context(), "promote"); err != nil {
		t.Fatal(err)
	}

	if lost := lostIDs(t, understudy(t, "link", "lost-tail", "--data", old.Data, "--admin-url", "http://"+next.Admin)); !slices.Equal(lost, tail) {
		t.Errorf("the lost tail has %v, want %v", lost, tail)
	}
	r := rejoin(t, old, next, p.Token, args...)
	if r.Way != way || way == "rewind" && (r.LinkBytes == 0 || r.LinkBytes > 10_000 || r.Bytes == 0) {
		t.Errorf("rejoined: %+v", r)
	}
	if lost := lostIDs(t, understudy(t, "link", "lost-tail", "--data", r.Former, "--admin-url", "http://"+next.Admin)); !slices.Equal(lost, tail) {
		t.Errorf("the lost tail is %v afterwards, want %v", lost, tail)
	}
	if err := old.Start("--link-seed", "1", "--link-source", next.Link, "--link-token-file", p.Token); err != nil {
		t.Fatal(err)
	}
	put(t, next, "f")
	err := harness.Await(harness.Patience, func(ctx context.Context) error {
		q, err := old.Queue(ctx, "work")
		if err != nil {
			return err
		}
		if q.Messages != 3 {
			return fmt.Errorf("the former source has %d of 3 messages", q.Messages)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	report, err := old.Promote(t.Context(), "switchover")
	if err != nil {
		t.Fatal(err)
	}
	if report.Kind != "planned" || report.Generation != 2 {
		t.Errorf("report %+v", report)
	}
	put(t, old, "g")
	if l, err := next.LinkStatus(t.Context()); err != nil || !l.Fenced {
		t.Errorf("the source of the second switch: fenced %v, %v", l.Fenced, err)
	}
}

// lostIDs are the message ids of the publishes among the lines of lost-tail.
func lostIDs(t *testing.T, out []byte) (ids []string) {
	t.Helper()
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		var l struct {
			Command   string `json:"command"`
			MessageID string `json:"message_id"`
		}
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			t.Fatalf("%s: %v", lines.Bytes(), err)
		}
		if l.Command == "Publish" {
			ids = append(ids, l.MessageID)
		}
	}
	return ids
}
