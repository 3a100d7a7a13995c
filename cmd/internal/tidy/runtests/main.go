package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
)

func main() {
	cmd := exec.Command("go", append([]string{"test", "-json"}, os.Args[1:]...)...)
	cmd.Stderr = os.Stderr
	events, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "runtests:", err)
		os.Exit(1)
	}
	ok := report(events, os.Stdout)
	if cmd.Wait() != nil || !ok {
		os.Exit(1)
	}
}

// event is a line of `go test -json`.
type event struct {
	Action     string
	Package    string
	ImportPath string // of a build event
	Test       string
	Elapsed    float64 // seconds
	Output     string
}

// report prints each package's result, the output of the tests that failed, and the tests that were skipped. It answers
// whether every test ran and passed.
func report(events io.Reader, out io.Writer) bool {
	output := map[string]*strings.Builder{} // by package and test
	var skipped []string
	failed := 0
	lines := bufio.NewScanner(events)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			fmt.Fprintln(out, lines.Text())
			continue
		}
		name := e.Package + e.ImportPath
		key := name + " " + e.Test
		switch {
		case e.Output != "":
			if output[key] == nil {
				output[key] = &strings.Builder{}
			}
			output[key].WriteString(e.Output)
			continue
		case e.Action == "skip" && e.Test != "":
			skipped = append(skipped, key)
		case e.Action == "fail" || e.Action == "build-fail":
			if e.Test == "" { // with what tests said that a panic or time-out cut off
				failed++
				key = name + " "
			}
			for k, o := range output {
				if k == key || e.Test == "" && strings.HasPrefix(k, key) {
					fmt.Fprint(out, o)
					delete(output, k)
				}
			}
		case e.Action == "pass" && e.Test == "":
			fmt.Fprintf(out, "ok    %s  %.1fs\n", name, e.Elapsed)
		default:
			if e.Action != "pass" {
				continue
			}
		}
		delete(output, key)
	}
	slices.Sort(skipped)
	for _, s := range skipped {
		fmt.Fprintln(out, "SKIPPED", s)
	}
	if len(skipped)+failed > 0 {
		fmt.Fprintf(out, "%d packages failed, %d tests were skipped\n", failed, len(skipped))
	}
	return len(skipped)+failed == 0 && lines.Err() == nil
}
