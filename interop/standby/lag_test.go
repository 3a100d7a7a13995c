package standby

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/understudy-mq/understudy/interop/harness"
)

// never stands for the age of a contact, or of a moment of completeness, that there was none of.
const never = -1

// lag is what a standby's node says of how far it is behind, in one of three places.
type lag struct{ seconds, contact, complete float64 }

// lagOf asks GET /api/link, `understudy link status` and the metrics for a group's lag. What none of them may ever say is an error.
func lagOf(ctx context.Context, t *testing.T, n *harness.Node, group uint64) (list []lag, err error) {
	l, err := n.LinkStatus(ctx)
	if err != nil {
		return nil, err
	}
	for _, g := range l.Groups {
		if g.Group == group {
			x := lag{g.LagSeconds, never, never}
			if g.ContactAge != nil {
				x.contact = *g.ContactAge
			}
			if g.CompleteAge != nil {
				x.complete = *g.CompleteAge
			}
			list = append(list, x)
		}
	}
	table, err := lagInTable(string(understudy(t, "link", "status", "--admin-url", "http://"+n.Admin)), group)
	if err != nil {
		return nil, err
	}
	m, err := n.Metrics(ctx)
	if err != nil {
		return nil, err
	}
	label := fmt.Sprintf(`{group="%d"}`, group)
	x := lag{m["understudy_link_lag_seconds"+label], never, never}
	if age, ok := m["understudy_link_contact_age_seconds"+label]; ok {
		x.contact = age
	}
	if age, ok := m["understudy_link_complete_age_seconds"+label]; ok {
		x.complete = age
	}
	list = append(list, table, x)
	for i, x := range list {
		if len(list) != 3 || x.seconds < 0 || math.IsNaN(x.seconds) || !isAge(x.contact) || !isAge(x.complete) {
			t.Fatalf("reading %d of %d: %+v", i, len(list), x)
		}
	}
	return list, nil
}

func isAge(x float64) bool { return x >= 0 || x == never }

// lagInTable finds the group's row of the table of groups, which is the first one.
func lagInTable(out string, group uint64) (lag, error) {
	_, rows, _ := strings.Cut(out, "CONTACT AGE")
	for line := range strings.Lines(rows) {
		f := strings.Fields(line)
		if len(f) < 8 || f[0] != strconv.FormatUint(group, 10) {
			continue
		}
		var x [3]float64
		for i := range x {
			if f[5+i] == "never" {
				x[i] = never
				continue
			}
			var err error
			if x[i], err = strconv.ParseFloat(f[5+i], 64); err != nil {
				return lag{}, err
			}
		}
		return lag{x[0], x[1], x[2]}, nil
	}
	return lag{}, fmt.Errorf("no row of group %d in %q", group, out)
}

// awaitLag waits until all three places say so for a number of looks in succession.
func awaitLag(t *testing.T, n *harness.Node, what string, looks int, holds func(lag) bool) {
	t.Helper()
	run := 0
	err := harness.Await(harness.Patience, func(ctx context.Context) error {
		list, err := lagOf(ctx, t, n, 1)
		if err != nil {
			return err
		}
		for _, x := range list {
			if !holds(x) {
				run = 0
				return fmt.Errorf("lag and contact %+v", list)
			}
		}
		if run++; run < looks {
			return errors.New("not for long enough yet")
		}
		return nil
	})
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// What lies between a moment that passes and trouble, in seconds: a source is asked several times a second.
const (
	little = 1.0
	much   = 3.0
)

func healthy(x lag) bool {
	return x.seconds < little && x.contact != never && x.contact < little && x.complete != never && x.complete < little
}
func silent(x lag) bool { return x.seconds > much && x.contact > much && x.complete > much }

// steady publishes at a modest rate until it is stopped.
func steady(t *testing.T, n *harness.Node) (stop func()) {
	t.Helper()
	ch := channelTo(t, n, "/")
	if _, err := ch.QueueDeclare("lag", true, false, false, false, amqp.Table{"x-max-length": 100}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for tick := time.NewTicker(2 * time.Millisecond); ctx.Err() == nil; <-tick.C {
			if ch.PublishWithContext(ctx, "", "lag", false, false, amqp.Publishing{Body: []byte("x")}) != nil {
				return
			}
		}
	}()
	return func() { cancel(); <-done }
}

// behind is what a source's node says of its only reader in group 1: in /api/link and in the metrics.
func behind(ctx context.Context, n *harness.Node) (entries uint64, idle float64, err error) {
	l, err := n.LinkStatus(ctx)
	if err != nil {
		return 0, 0, err
	}
	if len(l.Readers) != 1 || len(l.Holds) != 1 {
		return 0, 0, fmt.Errorf("readers %+v, holds %+v", l.Readers, l.Holds)
	}
	for _, p := range l.Readers[0].Positions {
		if p.Group == 1 {
			entries = p.Behind
		}
	}
	m, err := n.Metrics(ctx)
	if err != nil {
		return 0, 0, err
	}
	metric := m[fmt.Sprintf(`understudy_link_reader_behind_entries{group="1",reader="%s"}`, l.Readers[0].Name)]
	return min(entries, uint64(metric)), l.Readers[0].Idle, nil
}

// Lag that is small, a source that has nothing to say, a link that is cut and a source that is dead each look as they are, in all
// places, and on both sides.
func TestLagIsSmallWhileTheLinkIsWellAndGrowsWhenItIsCutOrTheSourceIsDead(t *testing.T) {
	p := harness.StartPair(t, harness.PairOptions{Args: []string{"--groups", "1"}})
	source, standby := p.Source.Node(1), p.Standby.Node(1)

	stop := steady(t, source)
	awaitLag(t, standby, "under load", 10, healthy)
	stop()
	if err := p.WaitCaughtUp(harness.Patience); err != nil {
		t.Fatal(err)
	}
	awaitLag(t, standby, "with a source that has nothing to say", 5, func(x lag) bool {
		l, err := standby.LinkStatus(t.Context())
		return err == nil && time.Since(time.UnixMilli(l.Groups[1].Position.Stamp)).Seconds() > much && x.seconds == 0 && healthy(x)
	})

	p.CutLinks()
	stop = steady(t, source)
	awaitLag(t, standby, "cut off", 2, silent)
	stop()
	err := harness.Await(harness.Patience, func(ctx context.Context) error {
		entries, idle, err := behind(ctx, source)
		if err == nil && (entries < 10 || idle < much) {
			err = fmt.Errorf("the source says that its reader is %d entries behind and was last heard of %.1f s ago", entries, idle)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	p.HealLinks()
	awaitLag(t, standby, "healed", 5, healthy)
	if err := p.WaitCaughtUp(harness.Patience); err != nil {
		t.Fatal(err)
	}

	source.Kill9()
	awaitLag(t, standby, "with a dead source", 2, silent)
	standby.Kill9()
	if err := standby.Start(); err != nil {
		t.Fatal(err)
	}
	awaitLag(t, standby, "with a source that it has not heard of since its own start", 2, func(x lag) bool {
		return x.seconds > much && x.contact == never && x.complete == never
	})
	if _, err := standby.Promote(t.Context(), "promote"); err != nil {
		t.Fatal(err)
	}
	awaitLag(t, standby, "promoted", 5, func(x lag) bool { return x.seconds == 0 && x.contact == never && x.complete == never })
}
