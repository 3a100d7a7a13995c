package main

import (
	"os"
	"strings"
	"syscall"
)

// calmMonitor has the Go runtime's monitor thread (sysmon) poll, from every 20 us while system calls block to every 10 ms,
// instead of falling asleep when all is idle. A node is idle between any two batches; the first system call after that wakes
// a sleeping monitor, which then polls every 20 us for a millisecond: of three nodes' processor time a third, wake-ups of
// other threads included. The runtime keeps its monitor awake only while it traces its scheduler, and reads that setting
// only when a process begins. So this one begins anew, once, under the same process id. The trace's first line is due when
// the machine has been up for 25 days, and one every 25 days from then on.
const calmMonitor = "schedtrace=2147483647"

// calm begins this process anew with a calm monitor, unless it has one or GODEBUG says how often to trace. It returns if
// it need not or cannot: a node serves all the same.
func calm() error {
	environment, anew := calmEnvironment(os.Environ())
	if !anew {
		return nil
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	return &os.PathError{Op: "exec", Path: program, Err: syscall.Exec(program, os.Args, environment)}
}

// calmEnvironment is the environment for a calm monitor, and whether it differs from what is given.
func calmEnvironment(environ []string) ([]string, bool) {
	settings := []string{calmMonitor}
	var rest []string
	for _, v := range environ {
		value, is := strings.CutPrefix(v, "GODEBUG=")
		switch {
		case !is:
			rest = append(rest, v)
		case strings.Contains(","+value, ",schedtrace="):
			return environ, false
		case value != "":
			settings = append(settings, value)
		}
	}
	return append(rest, "GODEBUG="+strings.Join(settings, ",")), true
}
