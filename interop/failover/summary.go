package failover

import (
	"fmt"
	"strings"
	"time"
)

// line is a round in one line.
func (r *result) line() string {
	verdict, judged := "ok", "not judged"
	if r.err != nil {
		verdict = "FAILED"
	}
	if r.report != nil {
		judged = r.report.String() + " | mixed: " + r.mixed.String()
	}
	return fmt.Sprintf("round %2d %-17s seed %-6d %-6s %s | bite: %s | %d confirmed since | first confirm %s, delivery %s | %s | %.0f s",
		r.number, r.fault, r.seed, verdict, r.what, r.bite, r.after, seconds(r.confirm), seconds(r.delivery), judged, r.took.Seconds())
}

func seconds(d time.Duration) string {
	if d == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f s", d.Seconds())
}

// replay is the command that repeats a round.
func (r *result) replay() string {
	return fmt.Sprintf("go test ./interop/failover -count=1 -timeout 40m -v -args -runs=1 -only=%s -seed=%d", r.fault, r.seed)
}

// totals add up rounds of one fault.
type totals struct {
	rounds, failed                         int
	after                                  int64
	lost, phantom, copies, disorder, spoil int
	mixed                                  int // faults that only the mixed load can have
	dead                                   int // dead letters
	confirms, deliveries                   []time.Duration
}

func add(rs []result) map[string]*totals {
	all := map[string]*totals{}
	for i := range rs {
		r := &rs[i]
		t := all[r.fault]
		if t == nil {
			t = &totals{}
			all[r.fault] = t
		}
		t.rounds++
		if r.err != nil {
			t.failed++
		}
		t.after += r.after
		if r.report != nil {
			t.lost += r.report.Lost
			t.phantom += r.report.Phantom
			t.copies += r.report.Copies
			t.disorder += r.report.Disorder
			t.spoil += r.report.Corrupt
			t.lost += r.mixed.Lost
			t.phantom += r.mixed.Phantom
			t.copies += r.mixed.Copies
			t.disorder += r.mixed.Disorder
			t.spoil += r.mixed.Corrupt
			t.mixed += r.mixed.WrongDeath + r.mixed.Undead + r.mixed.Torn + r.mixed.Inversion
			t.dead += r.mixed.Dead()
		}
		if r.confirm > 0 {
			t.confirms = append(t.confirms, r.confirm)
		}
		if r.delivery > 0 {
			t.deliveries = append(t.deliveries, r.delivery)
		}
	}
	return all
}

// table is the account of all rounds: one row per fault, times from the fault to the first new confirm and delivery on
// a node that did not suffer, as median and maximum.
func table(rs []result) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-18s %6s %6s %9s %5s %7s %6s %8s %7s %6s %7s  %-18s %-18s\n", "fault", "rounds", "failed", "confirmed", "lost", "phantom", "copies", "disorder", "corrupt", "mixed", "dead", "confirm med/max", "delivery med/max")
	all := add(rs)
	for _, f := range faults {
		t := all[f.name]
		if t == nil {
			continue
		}
		fmt.Fprintf(&b, "%-18s %6d %6d %9d %5d %7d %6d %8d %7d %6d %7d  %-18s %-18s\n", f.name, t.rounds, t.failed, t.after, t.lost, t.phantom, t.copies, t.disorder, t.spoil, t.mixed, t.dead, spread(t.confirms), spread(t.deliveries))
	}
	return b.String()
}

func spread(ds []time.Duration) string {
	return seconds(percentile(ds, 50)) + " / " + seconds(percentile(ds, 100))
}
