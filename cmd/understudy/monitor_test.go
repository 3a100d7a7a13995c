package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

func TestANodeRunsWithACalmMonitorUnderTheProcessIdThatItWasStartedWith(t *testing.T) {
	s := serveNode(t)
	environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", s.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(strings.Split(string(environ), "\x00"), "GODEBUG="+calmMonitor) {
		t.Errorf("the node's environment is\n%s", strings.ReplaceAll(string(environ), "\x00", "\n"))
	}
}

func TestACalmMonitorLeavesOtherSettingsOfTheRuntimeAlone(t *testing.T) {
	for _, c := range []struct {
		given, want []string
		anew        bool
	}{
		{[]string{"A=1"}, []string{"A=1", "GODEBUG=" + calmMonitor}, true},
		{[]string{"GODEBUG=", "A=1"}, []string{"A=1", "GODEBUG=" + calmMonitor}, true},
		{[]string{"GODEBUG=gctrace=1", "A=1"}, []string{"A=1", "GODEBUG=" + calmMonitor + ",gctrace=1"}, true},
		{[]string{"GODEBUG=gctrace=1,schedtrace=500"}, []string{"GODEBUG=gctrace=1,schedtrace=500"}, false},
		{[]string{"GODEBUG=schedtrace=0"}, []string{"GODEBUG=schedtrace=0"}, false},
		{[]string{"GODEBUG=" + calmMonitor}, []string{"GODEBUG=" + calmMonitor}, false},
	} {
		if got, anew := calmEnvironment(c.given); !slices.Equal(got, c.want) || anew != c.anew {
			t.Errorf("%q: %q %v, want %q %v", c.given, got, anew, c.want, c.anew)
		}
	}
}
