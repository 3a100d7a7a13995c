package node

import (
	"fmt"
	"testing"
	"time"

	"github.com/understudy-mq/understudy/cmd/internal/api"
)

func TestRatesAreMeansSinceALookThatIsOldEnough(t *testing.T) {
	m := &meter{readings: map[string]*reading{}}
	start := time.Unix(1000, 0)
	for _, look := range []struct {
		after float64 // seconds since the start
		value uint64
		want  float64
	}{
		{0, 100, 0},  // the first look
		{5, 150, 10}, // since the first
		{6, 170, 70.0 / 6},
		{9.9, 199, 10}, // still since the first
		{10, 250, 20},  // since the look at 5
		{70, 850, 10},  // a slow caller gets the mean since its last look
		{80, 5, 0},     // a node that was started anew counts from 0
		{90, 25, 2},
	} {
		now := start.Add(time.Duration(look.after * float64(time.Second)))
		got := m.stats(now, "q", []count{{name: "n", value: look.value}})
		if got["n"] != look.value || fmt.Sprint(got["n_details"]) != fmt.Sprint(api.Rate{Rate: look.want}) {
			t.Errorf("after %v s: %v, want %v a second", look.after, got, look.want)
		}
	}
	m.stats(start, "gauge", []count{{name: "n", value: 100, gauge: true}})
	if got := rateOf(m.stats(start.Add(10*time.Second), "gauge", []count{{name: "n", gauge: true}}), "n"); got.Rate != -10 {
		t.Errorf("a queue of 100 that was emptied in 10 s: rate %v, want -10", got.Rate)
	}
	m.stats(start.Add(time.Hour), "other", nil)
	if len(m.readings) != 1 {
		t.Errorf("%d readings are kept, want the one that was asked for", len(m.readings))
	}
}
