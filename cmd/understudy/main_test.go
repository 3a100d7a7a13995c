package main

import (
	"bufio"
	"bytes"
	"errors"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/understudy-mq/understudy/amqp/v091"
	"github.com/understudy-mq/understudy/amqp/v091/wire"
	"github.com/understudy-mq/understudy/cmd/loopback"
)

// asProgram makes the test binary be the program.
const asProgram = "TEST_AS_UNDERSTUDY"

// patience bounds every wait of these tests.
const patience = 2 * time.Minute

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// program is a run of the binary.
func program(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, args...)
	cmd.Env = append(os.Environ(), asProgram+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

// run answers what the program printed, and its exit code.
func run(t *testing.T, args ...string) (out, errors string, code int) {
	t.Helper()
	cmd := program(t, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()
}

func TestFailuresAreOneLineAndANonZeroExit(t *testing.T) {
	nobody := "127.0.0.1:1" // nothing listens on port 1
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"frobnicate"}, 2, "unknown command"},
		{[]string{"serve", "--no-such-flag"}, 2, "unknown flag"},
		{[]string{"queues", "list", "--no-such-flag"}, 2, "(see understudy help queues list)"},
		{[]string{"permissions", "topic", "frobnicate"}, 2, "(see understudy help permissions topic)"},
		{[]string{"--no-such-flag"}, 2, "(see understudy help)"},
		{[]string{"serve", "extra"}, 2, "usage: understudy serve"},
		{[]string{"serve", "--config", "/no/such/file"}, 2, "/no/such/file"},
		{[]string{"status", "--admin-url", "http://" + nobody}, 1, "is the node running?"},
		{[]string{"status", "--user", "guest"}, 2, "USER:PASSWORD"},
		{[]string{"status", "--admin-url", nobody}, 2, "is not http://HOST:PORT"},
		{[]string{"users", "delete", ""}, 2, "a name is empty"},
		{[]string{"vhosts", "add", ""}, 2, "a name is empty"},
		{[]string{"queues", "purge", ""}, 2, "a name is empty"},
		{[]string{"get", "q", "--amqp-url", nobody}, 2, "--amqp-url"},
		{[]string{"get", "q", "--count", "0"}, 2, "--count"},
		{[]string{"consume", "q", "--count", "-1"}, 2, "--count"},
		{[]string{"consume", "q", "--prefetch", "70000"}, 2, "--prefetch"},
		{[]string{"fingerprint", "--at", "1=2"}, 2, "--data"},
		{[]string{"link", "lost-tail"}, 2, "--data"},
		{[]string{"link", "switchover", "--drain-timeout", "-1"}, 2, "--drain-timeout: a drain of -1 seconds"},
		{[]string{"link", "switchover", "--drain-timeout", "NaN"}, 2, "--drain-timeout"},
		{[]string{"link", "switchover", "--drain-timeout", "1e9"}, 2, "from 0 to 100"},
		{[]string{"members", "add", "2"}, 2, "ID=HOST:PORT"},
		{[]string{"members", "promote", "x"}, 2, "no node id"},
		{[]string{"members", "transfer-leader", "x", "1"}, 2, "no group"},
		{[]string{"members", "frobnicate"}, 2, "unknown verb"},
		{[]string{"policies", "set", "p", "x", "max-length=1"}, 2, "JSON object"},
		{[]string{"publish", "q", "x", "--amqp-url", "amqp://" + nobody + "/"}, 1, "connect"},
		{[]string{"recover", "--data", "/no/such/folder"}, 2, "--force-new-cluster"},
		{[]string{"dump-log", "--data", t.TempDir()}, 1, "no node's data folder"},
	} {
		_, text, code := run(t, c.args...)
		if code != c.code || !strings.Contains(text, c.says) || strings.Count(text, "\n") != 1 {
			t.Errorf("%v: exit %d, want %d and one line with %q:\n%s", c.args, code, c.code, c.says, text)
		}
	}
}

func TestVerbsForAStoppedNodeMakeNothingWhereAPathIsMisspelled(t *testing.T) {
	misspelled := filepath.Join(t.TempDir(), "misspelled")
	for _, args := range [][]string{
		{"dump-log"},
		{"recover", "--force-new-cluster"},
		{"fingerprint", "--at", "1=2"},
		{"link", "lost-tail"},
		{"link", "rejoin", "--source", "127.0.0.1:1", "--link-token-file", "/no/such/file"},
	} {
		_, text, code := run(t, append(args, "--data", misspelled)...)
		if code != exitFailure || !strings.Contains(text, misspelled+" is no node's data folder") {
			t.Errorf("%v: exit %d:\n%s", args, code, text)
		}
		if _, err := os.Stat(misspelled); !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("%v made the folder: %v", args, err)
		}
	}
}

func TestWrongSettingsAreListedAllAtOnceWithExit2(t *testing.T) {
	_, text, code := run(t, "serve", "--groups", "0", "--node-id", "0", "--log-level", "loud", "--data", filepath.Join(t.TempDir(), "d"))
	if code != exitUsage {
		t.Errorf("exit %d, want 2", code)
	}
	for _, key := range []string{"--groups", "--node-id", "--log-level"} {
		if !strings.Contains(text, key) {
			t.Errorf("no word of %s in:\n%s", key, text)
		}
	}
}

func TestPrintConfigPrintsWhatWouldBeServed(t *testing.T) {
	out, _, code := run(t, "serve", "--print-config", "--groups", "9")
	if code != 0 || !strings.Contains(out, "groups: 9\n") || !strings.Contains(out, "amqp: :5672\n") {
		t.Errorf("exit %d:\n%s", code, out)
	}
}

func TestADemoThatIsInterruptedRemovesWhatItMade(t *testing.T) {
	dir := t.TempDir()
	cmd := program(t, "demo")
	cmd.Env = append(cmd.Env, "TMPDIR="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stuck := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
	defer stuck.Stop()
	lines := bufio.NewScanner(out)
	if !lines.Scan() { // the clusters are up
		t.Error("it said nothing")
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	for lines.Scan() {
	}
	_ = cmd.Wait()
	if left, _ := filepath.Glob(filepath.Join(dir, "understudy-demo-*")); cmd.ProcessState.ExitCode() != exitFailure || len(left) > 0 {
		t.Errorf("%v, it left %v", cmd.ProcessState, left)
	}
}

func TestVersionHelpAndCompletion(t *testing.T) {
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"--version"}, version},
		{[]string{"help", "serve"}, "--node-id"},
		{[]string{"completion", "bash"}, "understudy"},
		{[]string{"help", "recover"}, "lose"},
	} {
		if out, _, code := run(t, c.args...); code != 0 || !strings.Contains(out, c.says) {
			t.Errorf("%v: exit %d, no %q in\n%.300s", c.args, code, c.says, out)
		}
	}
}

// server is a running node.
type server struct {
	t           *testing.T
	cmd         *exec.Cmd
	lines       *bufio.Scanner
	admin, amqp string // URLs
	data        string
	log         *bytes.Buffer // standard error; to be read after exit
}

// serveNode starts a node and waits for its ready line.
func serveNode(t *testing.T, args ...string) *server {
	t.Helper()
	ports := loopback.Addresses(t, 3)
	s := &server{t: t, admin: "http://" + ports[0], amqp: "amqp://guest:guest@" + ports[1] + "/", data: filepath.Join(t.TempDir(), "d"), log: &bytes.Buffer{}}
	args = append([]string{"serve", "--data", s.data, "--admin", ports[0], "--amqp", ports[1], "--peer", ports[2], "--groups", "1", "--disk-free-min", "0"}, args...)
	s.cmd = program(t, args...)
	s.cmd.Stderr = s.log
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.cmd.Process.Kill(); _ = s.cmd.Wait() })
	s.lines = bufio.NewScanner(out)
	if !s.lines.Scan() || !strings.HasPrefix(s.lines.Text(), "ready") {
		t.Fatalf("it printed %q, want a line that begins with ready", s.lines.Text())
	}
	return s
}

// signal sends a signal.
func (s *server) signal(sig os.Signal) {
	s.t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.t.Fatal(err)
	}
}

// exit waits for the end and answers the exit code.
func (s *server) exit() int {
	s.t.Helper()
	killed := time.AfterFunc(patience, func() { _ = s.cmd.Process.Kill() })
	defer killed.Stop()
	if s.lines.Scan() {
		s.t.Errorf("more than one line on standard output: %q", s.lines.Text())
	}
	_ = s.cmd.Wait()
	return s.cmd.ProcessState.ExitCode()
}

func TestOnlyItsOwnUserReadsWhatANodeWrites(t *testing.T) {
	s, files := serveNode(t), 0
	err := filepath.WalkDir(s.data, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) { // the store's files come and go
			return nil
		}
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s may be used by others: %v", path, info.Mode())
		}
		files++
		return nil
	})
	if err != nil || files < 10 {
		t.Errorf("%d files, %v", files, err)
	}
}

func TestVerbsWorkOnARunningNode(t *testing.T) {
	s := serveNode(t)
	declare(t, s.amqp, "q")
	admin := []string{"--admin-url", s.admin}
	for _, c := range []struct {
		args []string
		says string // on standard output
	}{
		{[]string{"publish", "q", "hello", "--amqp-url", s.amqp}, ""},
		{append([]string{"queues", "list"}, admin...), "/      q     1      0"},
		{append([]string{"queues", "list", "--json", "--vhost", "/"}, admin...), `"messages_ready":1`},
		{[]string{"get", "q", "--requeue", "--amqp-url", s.amqp}, "hello\n"},
		{[]string{"get", "q", "--requeue", "--json", "--amqp-url", s.amqp}, `"redelivered":true`},
		{[]string{"consume", "q", "--count", "1", "--amqp-url", s.amqp}, "hello\n"},
		{[]string{"get", "q", "--amqp-url", s.amqp}, ""},
		{append([]string{"status"}, admin...), "voter"},
		{append([]string{"status", "--json"}, admin...), `"groups":[{"group":0`},
		{append([]string{"members", "list"}, admin...), "NODE  ADDRESS"},
		{append([]string{"fingerprint"}, admin...), `[{"group":0,"applied":`},
		{append([]string{"exchanges", "list"}, admin...), "amq.topic"},
		{append([]string{"bindings", "list"}, admin...), "queue  q"},
		{append([]string{"consumers", "list"}, admin...), "PREFETCH"},
		{append([]string{"connections", "list"}, admin...), "CHANNELS"},
		{append([]string{"policies", "set", "p", "^q", `{"max-length":3}`, "--priority", "2", "--apply-to", "queues"}, admin...), ""},
		{append([]string{"policies", "set", "o", "", `{"message-ttl":9}`, "--operator"}, admin...), ""},
		{append([]string{"policies", "list"}, admin...), `/      p     ^q       queues    2         {"max-length":3}`},
		{append([]string{"policies", "list", "--operator", "--json", "--vhost", "/"}, admin...), `"name":"o"`},
		{append([]string{"policies", "delete", "p"}, admin...), ""},
		{[]string{"publish", "q", "again", "--amqp-url", s.amqp}, ""},
		{append([]string{"queues", "purge", "q"}, admin...), ""},
		{append([]string{"queues", "delete", "q", "--if-empty", "--if-unused"}, admin...), ""},
	} {
		out, text, code := run(t, c.args...)
		if code != 0 || !strings.Contains(out, c.says) || c.says == "" && out != "" {
			t.Errorf("%v: exit %d, want 0 and %q:\n%s%s", c.args, code, c.says, out, text)
		}
	}
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"publish", "nowhere", "x", "--amqp-url", s.amqp}, "NO_ROUTE"},
		{[]string{"get", "nowhere", "--amqp-url", s.amqp}, "NOT_FOUND"},
		{append([]string{"members", "remove", "7"}, admin...), "not a member"},
		{append([]string{"connections", "close", "nobody"}, admin...), "404 not found: nothing is at /api/connections/nobody"},
		{append([]string{"policies", "set", "p", "(", `{"max-length":3}`}, admin...), "pattern of policy"},
		{append([]string{"policies", "delete", "p"}, admin...), "404"},
		{append([]string{"queues", "delete", "q"}, admin...), "no queue 'q'"},
		{append([]string{"queues", "purge", "q"}, admin...), "no queue 'q'"},
		{append([]string{"status", "--user", "guest:wrong"}, admin...), `Login failed (asked as "guest"; --user USER:PASSWORD`},
		{[]string{"dump-log", "--data", s.data}, "in use by another process"},
		{[]string{"recover", "--data", s.data, "--force-new-cluster"}, "in use by another process"},
	} {
		if _, text, code := run(t, c.args...); code != exitFailure || !strings.Contains(text, c.says) || strings.Count(text, "\n") != 1 {
			t.Errorf("%v: exit %d, want 1 and one line with %q:\n%s", c.args, code, c.says, text)
		}
	}
	wantVariables(t, s)
	s.signal(syscall.SIGTERM)
	if code := s.exit(); code != 0 {
		t.Errorf("exit %d after SIGTERM, want 0", code)
	}
	out, text, code := run(t, "dump-log", "--data", s.data)
	if code != 0 || !strings.Contains(out, "Publish") || !strings.Contains(out, "ClusterInit") {
		t.Errorf("dump-log: exit %d:\n%s%s", code, out, text)
	}
	if _, text, code = run(t, "dump-log", "--group", "9", "--data", s.data); code != exitUsage || !strings.Contains(text, "groups 0 to 1") {
		t.Errorf("dump-log of a group that is none: exit %d:\n%s", code, text)
	}
	out, text, code = run(t, "dump-log", "--json", "--group", "0", "--data", s.data)
	if code != 0 || strings.Contains(out, `"group":1`) || !strings.Contains(out, `"kind":"ClusterInit","command":{"ID":"`) {
		t.Errorf("dump-log --json: exit %d:\n%s%s", code, out, text)
	}
}

// wantVariables checks that the environment stands in for flags that are not given.
func wantVariables(t *testing.T, s *server) {
	t.Helper()
	t.Setenv("UNDERSTUDY_ADMIN_URL", s.admin)
	t.Setenv("UNDERSTUDY_USER", "nobody:x")
	t.Setenv("UNDERSTUDY_AMQP_URL", strings.Replace(s.amqp, "guest:guest", "nobody:x", 1))
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"status"}, exitFailure, `asked as "nobody"`},
		{[]string{"status", "--user", "guest:guest"}, 0, ""},
		{[]string{"get", "q"}, exitFailure, "--amqp-url names broker, user, password and vhost"},
	} {
		if _, text, code := run(t, c.args...); code != c.code || !strings.Contains(text, c.says) {
			t.Errorf("%v by variables: exit %d, want %d and %q:\n%s", c.args, code, c.code, c.says, text)
		}
	}
}

// declare makes a queue, which no verb does yet.
func declare(t *testing.T, url, queue string) {
	t.Helper()
	err := withChannel(url, func(ch *amqp.Channel) error {
		_, err := ch.QueueDeclare(queue, true, false, false, false, nil)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A client that says nothing holds a drain up for half of its time, here longer than the test's patience; a second signal
// does not wait for it.
func TestASecondSignalEndsTheProcessAtOnce(t *testing.T) {
	s := serveNode(t, "--drain-seconds", "600")
	address := strings.TrimSuffix(strings.SplitN(s.amqp, "@", 2)[1], "/")
	silent, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	openSilently(t, silent)
	s.signal(syscall.SIGTERM)
	awaitRefusal(t, address)
	s.signal(syscall.SIGTERM)
	if code := s.exit(); code != exitFailure {
		t.Errorf("exit %d, want %d", code, exitFailure)
	}
}

// openSilently opens a connection that will not answer its close: one that has not opened would be cut at once.
func openSilently(t *testing.T, c net.Conn) {
	t.Helper()
	hello := []byte(v091.Header)
	for _, m := range []wire.Method{
		&wire.ConnectionStartOk{Mechanism: "PLAIN", Response: []byte("\x00guest\x00guest")}, &wire.ConnectionTuneOk{}, &wire.ConnectionOpen{VirtualHost: "/"},
	} {
		hello = wire.AppendMethod(hello, 0, m)
	}
	if _, err := c.Write(hello); err != nil {
		t.Fatal(err)
	}
	opened := wire.AppendMethod(nil, 0, &wire.ConnectionOpenOk{})
	var got []byte
	for buf := make([]byte, 4096); !bytes.HasSuffix(got, opened); {
		n, err := c.Read(buf)
		if err != nil {
			t.Fatalf("the connection was not opened: %v", err)
		}
		got = append(got, buf[:n]...)
	}
}

// awaitRefusal waits until nothing listens on an address: the drain has begun.
func awaitRefusal(t *testing.T, address string) {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		c, err := net.Dial("tcp", address)
		if err != nil {
			return
		}
		_ = c.Close()
		if time.Now().After(end) {
			t.Fatalf("%s is still listened on", address)
		}
	}
}
