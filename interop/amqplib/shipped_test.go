package amqplib

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/understudy-mq/understudy/interop/harness"
	"github.com/understudy-mq/understudy/interop/programs"
)

// shippedVersion is the last one whose npm package holds its tests, generatorVersion the one of the library by which some
// of them make their cases.
const (
	shippedVersion   = "2.2.0"
	generatorVersion = "0.4.1"
)

// fewestTests guards against a run that found nothing to run.
const fewestTests = 330

func TestShippedTestsOfAmqplibPass(t *testing.T) {
	node := harness.Start(t, harness.Options{}).Node(1)
	modules := programs.NodeModules(t, "amqplib-tests-"+shippedVersion, "amqplib@"+shippedVersion, "claire@"+generatorVersion)
	dir := copyPackage(t, modules, node)
	viaIPv6(t, dir, node)
	files, err := filepath.Glob(filepath.Join(dir, "test", "*.test.js"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", append([]string{"--test", "--test-concurrency=1", "--test-reporter=tap"}, files...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "NODE_PATH="+filepath.Join(modules, "node_modules"), "URL="+node.URL())
	out, err := cmd.CombinedOutput()
	failed, passed := verdicts(string(out))
	for _, name := range failed {
		t.Errorf("%s fails", name)
	}
	if err != nil || len(failed) > 0 || passed < fewestTests {
		t.Fatalf("%d shipped tests pass (%v)\n%s", passed, err, failures(string(out)))
	}
	t.Logf("%d shipped tests pass", passed)
}

// copyPackage copies the package and tells it what it takes for fixed: the port and the product's name.
func copyPackage(t *testing.T, modules string, node *harness.Node) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(modules, "node_modules", "amqplib"))); err != nil {
		t.Fatal(err)
	}
	replace(t, filepath.Join(dir, "lib", "connect.js"), "5672", port(t, node))
	replace(t, filepath.Join(dir, "test", "connect.test.js"), "'RabbitMQ'", "'Understudy'")
	return dir
}

// viaIPv6 has the one test that goes to the IPv6 loopback reach the node there, or on a machine that has none over IPv4.
func viaIPv6(t *testing.T, dir string, node *harness.Node) {
	t.Helper()
	if l, err := net.Listen("tcp", "[::1]:0"); err != nil {
		t.Logf("this machine has no IPv6 loopback: %v", err)
		replace(t, filepath.Join(dir, "test", "connect.test.js"), "amqp://[::1]", "amqp://127.0.0.1")
		return
	} else if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	programs.Forward(t, net.JoinHostPort("::1", port(t, node)), node.AMQP)
}

func port(t *testing.T, node *harness.Node) string {
	t.Helper()
	_, port, err := net.SplitHostPort(node.AMQP)
	if err != nil {
		t.Fatal(err)
	}
	return port
}

func replace(t *testing.T, path, from, to string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), from) {
		t.Fatalf("%s no longer has %s", path, from)
	}
	if err := os.WriteFile(path, []byte(strings.ReplaceAll(string(text), from, to)), 0o644); err != nil {
		t.Fatal(err)
	}
}

var verdict = regexp.MustCompile(`^\s*(not ok|ok) \d+ - (.*)$`)

// verdicts reads node's TAP: the names of the tests (and the suites that hold them) that failed, and how many tests passed,
// by the count at the end.
func verdicts(tap string) (failed []string, passed int) {
	for line := range strings.Lines(tap) {
		m := verdict.FindStringSubmatch(strings.TrimRight(line, "\n"))
		if m != nil && m[1] == "not ok" {
			failed = append(failed, m[2])
		}
		if m != nil && strings.Contains(m[2], "# SKIP") {
			failed = append(failed, m[2])
		}
		if count, isCount := strings.CutPrefix(line, "# pass "); isCount {
			for _, digit := range strings.TrimSpace(count) {
				passed = 10*passed + int(digit-'0')
			}
		}
	}
	return failed, passed
}

// failures are the parts of the TAP that tell of a failure.
func failures(tap string) string {
	var b strings.Builder
	left := 0
	for line := range strings.Lines(tap) {
		if strings.Contains(line, "not ok ") {
			left = 25
		}
		if left > 0 {
			b.WriteString(line)
			left--
		}
	}
	return b.String()
}

func TestVerdictsOfATapRun(t *testing.T) {
	failed, passed := verdicts("# Subtest: A\n    ok 1 - fine\n    not ok 2 - broken\n    ok 3 - left out # SKIP why\nnot ok 1 - A\n# pass 12\n")
	if strings.Join(failed, ",") != "broken,left out # SKIP why,A" || passed != 12 {
		t.Errorf("failed %q, passed %d", failed, passed)
	}
}
