package main

import (
	"io"
	"strings"
	"testing"
)

func TestReport(t *testing.T) {
	for _, c := range []struct {
		name, events string
		want         bool
	}{
		{"all passed", `{"Action":"pass","Package":"p","Test":"T"}` + "\n" + `{"Action":"pass","Package":"p"}`, true},
		{"a package without tests", `{"Action":"skip","Package":"p"}`, true},
		{"a skipped test", `{"Action":"skip","Package":"p","Test":"T"}` + "\n" + `{"Action":"pass","Package":"p"}`, false},
		{"a failed test", `{"Action":"fail","Package":"p","Test":"T"}` + "\n" + `{"Action":"fail","Package":"p"}`, false},
		{"a failed build", `{"Action":"build-fail","ImportPath":"p"}`, false},
	} {
		if got := report(strings.NewReader(c.events), io.Discard); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestReportShowsTheOutputOfWhatFailed(t *testing.T) {
	events := `{"Action":"output","Package":"good","Output":"quiet\n"}
{"Action":"pass","Package":"good"}
{"Action":"output","Package":"bad","Test":"U","Output":"quiet too\n"}
{"Action":"pass","Package":"bad","Test":"U"}
{"Action":"output","Package":"bad","Test":"T","Output":"the reason\n"}
{"Action":"fail","Package":"bad","Test":"T"}
{"Action":"fail","Package":"bad"}`
	var out strings.Builder
	report(strings.NewReader(events), &out)
	if !strings.Contains(out.String(), "the reason") || strings.Contains(out.String(), "quiet") {
		t.Errorf("output:\n%s", out.String())
	}
}

func TestReportShowsTheOutputOfATestThatNeverEnded(t *testing.T) {
	events := `{"Action":"output","Package":"p","Test":"T","Output":"panic: test timed out\n"}
{"Action":"fail","Package":"p"}`
	var out strings.Builder
	report(strings.NewReader(events), &out)
	if !strings.Contains(out.String(), "timed out") {
		t.Errorf("output:\n%s", out.String())
	}
}
