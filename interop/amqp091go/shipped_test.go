package amqp091go

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/understudy-mq/understudy/interop/harness"
)

// shippedFiles are the files of the module that carry the build tag "integration".
var shippedFiles = []string{"connection_test.go", "integration_test.go", "recovery_test.go"}

// alone names shipped tests that take long enough for a process of their own: this one opens and closes 80,000 channels, eight at a time,
// and on a slow disk that takes minutes.
var alone = []string{"TestChannelCounterShouldNotPanicIssue136"}

// verdict is what a shipped test came to: pass, fail, skip, or none when its process ended before.
type verdict struct{ action, output string }

func TestShippedIntegrationTestsPassButForThoseThatAreListed(t *testing.T) {
	node := harness.Start(t, harness.Options{}).Node(1)
	dir := copyModule(t, node)
	names := testNames(t, dir)
	binary := filepath.Join(dir, "shipped.test")
	if out, err := command(dir, "go", "test", "-tags", "integration", "-c", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("building the module's tests: %v\n%s", err, out)
	}
	verdicts := runShipped(t, binary, node, chunks(names))
	passed := 0
	for _, name := range names {
		v, reason := verdicts[name], needs[name]
		switch {
		case reason == "" && v.action != "pass":
			t.Errorf("%s: %s\n%s", name, v.action, v.output)
		case reason != "" && v.action == "pass":
			t.Errorf("%s passes: take it off the list in shipped.go and README.md (it was said to need %s)", name, reason)
		case v.action == "pass":
			passed++
		}
	}
	t.Logf("%d of %d shipped tests pass, %d are listed", passed, len(names), len(needs))
	for name := range needs {
		if !slices.Contains(names, name) {
			t.Errorf("%s is listed and is not in the module", name)
		}
	}
}

func TestReadmeNamesEveryListedTest(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	for name := range needs {
		if !bytes.Contains(readme, []byte("`"+name+"`")) {
			t.Errorf("README.md does not name %s", name)
		}
	}
}

// copyModule copies the client's module and tells it what it takes for fixed: the port of the HTTP API, and that the
// tests which do nothing unless the product is RabbitMQ are meant for us too.
func copyModule(t *testing.T, node *harness.Node) string {
	t.Helper()
	module := "github.com/rabbitmq/amqp091-go"
	if out, err := command(".", "go", "mod", "download", module).CombinedOutput(); err != nil {
		t.Fatalf("go mod download %s: %v\n%s", module, err, out)
	}
	from, err := command(".", "go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		t.Fatal(err)
	}
	to := t.TempDir()
	if err := os.CopyFS(to, os.DirFS(strings.TrimSpace(string(from)))); err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(node.Admin)
	if err != nil {
		t.Fatal(err)
	}
	replace(t, to, "recovery_test.go", `"15672"`, `"`+port+`"`)
	replace(t, to, "internal/utils/http.go", "localhost:15672", "127.0.0.1:"+port)
	replace(t, to, "integration_test.go", `server == "RabbitMQ"`, `server == "Understudy"`)
	replace(t, to, "integration_test.go", `product.(string) == "RabbitMQ"`, `product.(string) == "Understudy"`)
	return to
}

func replace(t *testing.T, dir, file, from, to string) {
	t.Helper()
	path := filepath.Join(dir, file)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(text, []byte(from)) {
		t.Fatalf("%s of the module no longer has %s", file, from)
	}
	if err := os.Chmod(path, fs.FileMode(0o644)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, bytes.ReplaceAll(text, []byte(from), []byte(to)), 0o644); err != nil {
		t.Fatal(err)
	}
}

func testNames(t *testing.T, dir string) []string {
	t.Helper()
	var names []string
	for _, file := range shippedFiles {
		text, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains(text, []byte("//go:build integration")) {
			t.Fatalf("%s is no longer an integration test", file)
		}
		for _, m := range regexp.MustCompile(`(?m)^func (Test\w+)\(t \*testing\.T\)`).FindAllSubmatch(text, -1) {
			names = append(names, string(m[1]))
		}
	}
	if len(names) < 90 {
		t.Fatalf("found only %d shipped tests", len(names))
	}
	return names
}

// chunks splits the tests into groups, each for a process: slow and listed ones alone, the others by eights.
func chunks(names []string) [][]string {
	var single, rest [][]string
	var open []string
	for _, name := range names {
		if needs[name] != "" || slices.Contains(alone, name) {
			single = append(single, []string{name})
			continue
		}
		if open = append(open, name); len(open) == 8 {
			rest, open = append(rest, open), nil
		}
	}
	return append(append(single, rest...), open)
}

// runShipped runs the groups, several at a time: most of them wait more than they work.
func runShipped(t *testing.T, binary string, node *harness.Node, groups [][]string) map[string]verdict {
	t.Helper()
	verdicts := map[string]verdict{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	turns := make(chan struct{}, 6)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	for _, group := range groups {
		wg.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			cmd := exec.CommandContext(ctx, binary, "-test.v", "-test.run", "^("+strings.Join(group, "|")+")$", "-test.timeout", "8m")
			cmd.Dir = filepath.Dir(binary)
			cmd.Env = append(os.Environ(), "AMQP_URL="+node.URL())
			out, _ := cmd.CombinedOutput() // the verdicts are in the output
			mu.Lock()
			defer mu.Unlock()
			for _, name := range group {
				verdicts[name] = judge(name, string(out))
			}
		})
	}
	wg.Wait()
	return verdicts
}

// judge finds a test's verdict in what its process printed.
func judge(name, out string) verdict {
	for action, word := range map[string]string{"pass": "PASS", "fail": "FAIL", "skip": "SKIP"} {
		end := strings.Index(out, fmt.Sprintf("--- %s: %s (", word, name))
		if end < 0 {
			continue
		}
		begin := max(0, strings.LastIndex(out[:end], "=== RUN   "+name+"\n"))
		after := out[end:]
		if next := strings.Index(after, "\n=== RUN "); next >= 0 {
			after = after[:next]
		}
		return verdict{action, out[begin:end] + after}
	}
	return verdict{"no verdict", out[max(0, len(out)-4000):]}
}

func TestJudgeTellsPassFailSkipAndNothing(t *testing.T) {
	out := "=== RUN   TestA\n--- PASS: TestA (0.1s)\n=== RUN   TestB\n    x.go:1: bad\n--- FAIL: TestB (0.1s)\n=== RUN   TestC\n--- SKIP: TestC (0.0s)\npanic: oh\n"
	for name, want := range map[string]string{"TestA": "pass", "TestB": "fail", "TestC": "skip", "TestD": "no verdict"} {
		if got := judge(name, out); got.action != want {
			t.Errorf("%s: %+v, want %s", name, got, want)
		}
	}
	if got := judge("TestB", out); !strings.Contains(got.output, "x.go:1: bad") || strings.Contains(got.output, "TestA") {
		t.Errorf("output of TestB: %q", got.output)
	}
}

func command(dir, name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	return cmd
}
