package standby

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/understudy-mq/understudy/interop/harness"
)

func TestAStandbyNodeThatReachesTheSourceReadsForALeaderThatDoesNot(t *testing.T) {
	p := harness.StartPair(t, harness.PairOptions{Nodes: 3, Args: []string{"--groups", "2"}})
	leader, _, err := p.Standby.WaitLeader(1, harness.Patience)
	if err != nil {
		t.Fatal(err)
	}
	p.CutLinksOf(leader)
	touch(t, p.Source)
	if err := p.WaitCaughtUp(harness.Patience); err != nil {
		t.Fatal(err)
	}
}

// A leader that finds no quorum for longer than an election takes goes on planning once it has one again, or another does.
func TestAStandbyWhoseLeaderLostItsQuorumForAWhileGoesOn(t *testing.T) {
	p := harness.StartPair(t, harness.PairOptions{Nodes: 3, Args: []string{"--groups", "2"}})
	leader, _, err := p.Standby.WaitLeader(1, harness.Patience)
	if err != nil {
		t.Fatal(err)
	}
	for id := 1; id <= 3; id++ { // nobody has a quorum
		p.Standby.Isolate(id)
	}
	touch(t, p.Source)
	err = harness.Await(harness.Patience, func(ctx context.Context) error {
		l, err := p.Standby.Node(leader).LinkStatus(ctx)
		if err != nil {
			return err
		}
		for _, g := range l.Groups {
			if g.LagSeconds > 2 {
				return nil
			}
		}
		return errors.New("no group has lagged for two seconds yet")
	})
	if err != nil {
		t.Fatal(err)
	}
	p.Standby.Heal()
	if err := p.WaitCaughtUp(harness.Patience); err != nil {
		t.Fatal(err)
	}
}

// Its machine knows its source's nodes by the same ids: they are not its own.
func TestANodeOfAStandbyThatComesLateIsLetInAndOneThatLostItsDataIsNot(t *testing.T) {
	p := harness.NewPair(t, harness.PairOptions{Nodes: 3, Args: []string{"--groups", "1"}})
	if err := p.StartSource(); err != nil {
		t.Fatal(err)
	}
	first, late := p.Standby.Node(1), p.Standby.Node(3)
	for _, n := range []*harness.Node{first, p.Standby.Node(2)} {
		if err := n.Start(); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.WaitCaughtUp(harness.Patience); err != nil {
		t.Fatal(err)
	}
	if err := late.Start(); err != nil {
		t.Fatal(err)
	}
	if err := p.Standby.WaitReady(harness.Patience); err != nil {
		t.Fatal(err)
	}
	if err := p.WaitCaughtUp(harness.Patience); err != nil {
		t.Fatal(err)
	}
	err := harness.Await(harness.Patience, func(ctx context.Context) error {
		l, err := first.LinkStatus(ctx)
		if err == nil && l.Level.Members == 0 {
			err = errors.New("not every node has told of itself")
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	late.Kill9()
	if err := os.RemoveAll(late.Data); err != nil {
		t.Fatal(err)
	}
	if err := late.Start(); err != nil {
		t.Fatal(err)
	}
	err = harness.Await(harness.Patience, func(context.Context) error {
		if !strings.Contains(first.LogTail(4000), "node 3 is a voter but has lost its data") {
			return errors.New("a voter without its data was not kept out")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Three nodes are asked at once and one of them is killed: the others answer alike, and serve.
func TestAPromotionGoesOnWhereANodeThatWasAskedIsKilled(t *testing.T) {
	p := harness.StartPair(t, harness.PairOptions{Nodes: 3, Args: []string{"--groups", "3"}})
	put(t, p.Source.Node(1), "a")
	if err := p.WaitCaughtUp(harness.Patience); err != nil {
		t.Fatal(err)
	}
	leader, _, err := p.Standby.WaitLeader(0, harness.Patience)
	if err != nil {
		t.Fatal(err)
	}
	p.Source.KillAll()
	type answer struct {
		harness.Promotion
		err error
	}
	answers := make(chan answer, 3)
	for _, n := range p.Standby.Members() {
		if n.ID == leader {
			go func() { _, _ = n.Promote(t.Context(), "promote") }()
			continue
		}
		go func() {
			report, err := n.Promote(t.Context(), "promote")
			answers <- answer{report, err}
		}()
	}
	p.Standby.Node(leader).Kill9()
	var reports []harness.Promotion
	for range 2 {
		a := <-answers
		if a.err != nil {
			t.Fatal(a.err)
		}
		reports = append(reports, a.Promotion)
	}
	for i, g := range reports[0].Groups {
		if other := reports[1].Groups[i]; other.Position != g.Position || reports[0].Generation != 1 || reports[1].Generation != 1 {
			t.Errorf("two nodes tell of group %d: %+v and %+v", g.Group, g, other)
		}
	}
	for _, n := range p.Standby.Running() {
		put(t, n, fmt.Sprint("after ", n.ID))
	}
}

// touch has the source commit something in a data group.
func touch(t *testing.T, c *harness.Cluster) {
	t.Helper()
	conn, err := amqp.Dial(c.Node(1).URL())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ch, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ch.QueueDeclare("", true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
}
