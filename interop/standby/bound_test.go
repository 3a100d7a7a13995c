package standby

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/understudy-mq/understudy/interop/harness"
)

// The leader of a source is stopped; the others elect another and confirm something. When it goes on, alone with the standby, it answers what
// waited, and what is asked then, as if it led: the report of a promotion must not take it at its word.
func TestALeaderThatWasStoppedAndIsAllThatAStandbyReachesMovesNoBound(t *testing.T) {
	p := harness.StartPair(t, harness.PairOptions{Nodes: 3, Args: []string{"--groups", "1"}})
	standby := p.Standby.Node(1)
	old, _, err := p.Source.WaitLeader(1, harness.Patience)
	if err != nil {
		t.Fatal(err)
	}
	group := func(ctx context.Context) (harness.LinkGroup, error) {
		l, err := standby.LinkStatus(ctx)
		if err != nil || len(l.Groups) != 2 {
			return harness.LinkGroup{}, fmt.Errorf("groups %+v: %w", l.Groups, err)
		}
		return l.Groups[1], nil
	}
	until(t, "the standby knows since when it has everything", func(ctx context.Context) error {
		g, err := group(ctx)
		if err == nil && g.CompleteAge == nil {
			err = errors.New("not known")
		}
		return err
	})

	if err := p.Source.Node(old).Pause(); err != nil {
		t.Fatal(err)
	}
	for _, n := range p.Standby.Members() {
		for _, s := range p.Source.Members() {
			if s.ID != old {
				p.CutLink(n.ID, s.ID)
			}
		}
	}
	until(t, "the others confirm", func(ctx context.Context) error { return confirms(ctx, p.Source.Node(old%3+1)) })
	confirmed := time.Now()
	p.Source.Isolate(old)
	if err := p.Source.Node(old).Resume(); err != nil {
		t.Fatal(err)
	}
	until(t, "it answers", func(ctx context.Context) error {
		g, err := group(ctx)
		if err == nil && *g.ContactAge > time.Since(confirmed).Seconds() {
			err = fmt.Errorf("the newest answer was asked for %.1f s ago", *g.ContactAge)
		}
		return err
	})

	report, err := standby.Promote(t.Context(), "promote")
	if err != nil {
		t.Fatal(err)
	}
	g := report.Groups[1]
	if g.MissingSince == nil || time.UnixMilli(*g.MissingSince).After(confirmed) {
		t.Errorf("what was confirmed at %v is missing; the report: %+v", confirmed, g)
	}
	if g.LastContact == nil || time.UnixMilli(*g.LastContact).Before(confirmed) {
		t.Errorf("the last answer was asked for at %v, before anything was confirmed: this tests nothing", g.LastContact)
	}
}

// confirms has a node of the source confirm a message.
func confirms(ctx context.Context, n *harness.Node) error {
	conn, err := amqp.Dial(n.URL())
	if err != nil {
		return err
	}
	defer conn.Close()
	ch, err := conn.Channel()
	if err != nil {
		return err
	}
	if _, err := ch.QueueDeclare("late", true, false, false, false, nil); err != nil {
		return err
	}
	if err := ch.Confirm(false); err != nil {
		return err
	}
	c, err := ch.PublishWithDeferredConfirmWithContext(ctx, "", "late", false, false, amqp.Publishing{Body: []byte("x")})
	if err != nil {
		return err
	}
	_, err = c.WaitContext(ctx)
	return err
}

func until(t *testing.T, what string, holds func(context.Context) error) {
	t.Helper()
	if err := harness.Await(harness.Patience, holds); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}
