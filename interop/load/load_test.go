package load

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/understudy-mq/understudy/interop/checker"
	"github.com/understudy-mq/understudy/interop/harness"
)

func TestMain(m *testing.M) { os.Exit(harness.Main(m)) }

func TestALoadGoesOnOverAKilledNodeAndItsHistoryIsGood(t *testing.T) {
	node := harness.Start(t, harness.Options{}).Node(1)
	ctx, cancel := context.WithTimeout(t.Context(), 5*harness.Patience)
	defer cancel()
	l, err := Start(ctx, Options{URLs: []string{node.URL()}, Rate: 500, Seed: 1, Queues: []Queue{{Name: "one", Producers: 2, Consumers: 1}, {Name: "two", Producers: 1, Consumers: 2}}})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Stop()
	confirmed(t, l, 300)
	node.Kill9()
	if err := node.Start(); err != nil {
		t.Fatal(err)
	}
	confirmed(t, l, 300)
	if l.Breaks() == 0 {
		t.Error("no connection is said to have broken")
	}
	l.StopProducers()
	if err := l.WaitEmpty(ctx); err != nil {
		t.Fatal(err)
	}
	l.StopConsumers()
	if err := l.Drain(ctx); err != nil {
		t.Fatal(err)
	}
	report := checker.Check(l.History, l.Single)
	t.Log(report)
	if !report.OK() || report.Confirmed < 600 {
		t.Error(strings.Join(report.Examples, "\n"))
	}
	if err := l.Delete(ctx); err != nil {
		t.Error(err)
	}
}

func confirmed(t *testing.T, l *Load, n int64) {
	t.Helper()
	was := l.History.Confirmed()
	if err := harness.Await(harness.Patience, func(context.Context) error {
		if now := l.History.Confirmed() - was; now < n {
			return fmt.Errorf("%d of %d confirmed", now, n)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

func TestAMixedLoadGoesOnOverAKilledNodeAndItsHistoryIsGood(t *testing.T) {
	node := harness.Start(t, harness.Options{}).Node(1)
	ctx, cancel := context.WithTimeout(t.Context(), 5*harness.Patience)
	defer cancel()
	queues, rules := Mixture("test")
	l, err := Start(ctx, Options{URLs: []string{node.URL()}, Rate: 60, Prefetch: 10, Seed: 1, Queues: queues, Rules: rules})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Stop()
	confirmed(t, l, 600)
	node.Kill9()
	if err := node.Start(); err != nil {
		t.Fatal(err)
	}
	confirmed(t, l, 600)
	l.StopProducers()
	l.StopConsumers()
	if err := l.Drain(ctx); err != nil {
		t.Fatal(err)
	}
	report := l.Mixed()
	t.Log(report)
	if !report.OK() {
		t.Error(strings.Join(report.Examples, "\n"))
	}
	for what, n := range map[string]int{
		"expired": report.Deaths["expired"], "maxlen": report.Deaths["maxlen"], "rejected": report.Deaths["rejected"],
		"delivery_limit": report.Deaths["delivery_limit"], "dropped": report.Dropped, "refused": report.Refused, "transactions": report.Batches,
	} {
		if n < 10 {
			t.Errorf("%s: %d, too few to show anything", what, n)
		}
	}
	if err := l.Delete(ctx); err != nil {
		t.Error(err)
	}
}
