package programs

import (
	"fmt"
	"strings"
	"testing"
)

// told is a run of 200 messages with a kill after the first 50, changed line by line.
func told(t *testing.T, change func(line string) []string) *ledger {
	t.Helper()
	l := newLedger(200)
	say := func(line string) {
		for _, line := range change(line) {
			if err := l.note(line); err != nil {
				t.Fatal(err)
			}
		}
	}
	for n := 1; n <= 200; n++ {
		if n == 51 {
			l.killed = true
			say("reconnected")
			say("received 50 again")
			say("published 51 again")
			say("received 51")
		}
		say(fmt.Sprintf("confirmed %d", n))
		say(fmt.Sprintf("received %d", n))
	}
	return l
}

func TestJudgementFindsLossDoublesAndAnIdleRun(t *testing.T) {
	for _, c := range []struct{ name, from, to, fault string }{
		{"a good run", "", "", ""},
		{"a lost message", "received 77", "", "77 was confirmed and is lost"},
		{"a message without a confirm", "confirmed 78", "", "78 was never confirmed"},
		{"a doubled message", "received 79", "received 79;received 79", "79 came 2 times as new and was published 1 times"},
		{"no reconnection", "reconnected", "", "the kill was not felt"},
	} {
		l := told(t, func(line string) []string {
			if line != c.from {
				return []string{line}
			}
			return strings.FieldsFunc(c.to, func(r rune) bool { return r == ';' })
		})
		got := strings.Join(l.faults(), "\n")
		if c.fault == "" && got != "" || !strings.Contains(got, c.fault) {
			t.Errorf("%s: %q, want %q", c.name, got, c.fault)
		}
	}
	for _, line := range []string{"Traceback", "received x", "received 201", "received 0", "published 3", "confirmed 3 again"} {
		if newLedger(200).note(line) == nil {
			t.Errorf("%q is taken", line)
		}
	}
}
