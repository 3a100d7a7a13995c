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

// report prints each package's result, the output of those that failed, and the tests that were skipped. It answers
// whether every test ran and passed.
func report(events io.Reader, out io.Writer) bool {
	output := map[string]*strings.Builder{}
	var skipped, failed []string
	lines := bufio.NewScanner(events)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			fmt.Fprintln(out, lines.Text())
			continue
		}
		name := e.Package + e.ImportPath
		if output[name] == nil {
			output[name] = &strings.Builder{}
		}
		switch {
		case e.Output != "":
			output[name].WriteString(e.Output)
		case e.Action == "skip" && e.Test != "":
			skipped = append(skipped, name+" "+e.Test)
		case e.Action == "fail" && e.Test == "" || e.Action == "build-fail":
			failed = append(failed, name)
			fmt.Fprint(out, output[name].String())
		case e.Action == "pass" && e.Test == "":
			fmt.Fprintf(out, "ok    %s  %.1fs\n", name, e.Elapsed)
		}
		if e.Test == "" && (e.Action == "pass" || e.Action == "fail") {
			delete(output, name)
		}
	}
	slices.Sort(skipped)
	for _, s := range skipped {
		fmt.Fprintln(out, "SKIPPED", s)
	}
	if len(skipped)+len(failed) > 0 {
		fmt.Fprintf(out, "%d packages failed, %d tests were skipped\n", len(failed), len(skipped))
	}
	return len(skipped)+len(failed) == 0 && lines.Err() == nil
}
