package pika

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/understudy-mq/understudy/interop/harness"
)

// version of pika that is tested with.
const version = "1.3.2"

// patience bounds the wait for a line.
const patience = 30 * time.Second

func TestMain(m *testing.M) { os.Exit(harness.Main(m)) }

// python is an interpreter that has pika, and a broker for its programs.
type python struct{ path, url string }

// TestTutorialsWithPika runs them one after the other; INTEROP_AMQP_URL names another broker to compare with.
func TestTutorialsWithPika(t *testing.T) {
	p := &python{path: venv(t), url: os.Getenv("INTEROP_AMQP_URL")}
	if p.url == "" {
		p.url = harness.Start(t, harness.Options{}).Node(1).URL()
	}
	t.Run("1 hello world", p.helloWorld)
	t.Run("2 work queues", p.workQueues)
	t.Run("3 publish and subscribe", p.publishSubscribe)
	t.Run("4 routing", p.routing)
	t.Run("5 topics", p.topics)
	t.Run("6 rpc", p.rpc)
	t.Run("7 publisher confirms", p.confirms)
}

// venv makes a virtual environment with the pinned pika and answers its interpreter.
func venv(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if out, err := exec.Command("python3", "-m", "venv", dir).CombinedOutput(); err != nil {
		t.Fatalf("python3 -m venv: %v (on Debian: apt-get install python3-venv)\n%s", err, out)
	}
	path := filepath.Join(dir, "bin", "python")
	if out, err := exec.Command(path, "-m", "pip", "install", "--quiet", "--no-deps", "--disable-pip-version-check", "pika=="+version).CombinedOutput(); err != nil {
		t.Fatalf("pip install pika==%s: %v\n%s", version, err, out)
	}
	return path
}

// program is a running tutorial.
type program struct {
	t     *testing.T
	name  string
	cmd   *exec.Cmd
	lines chan string
}

func (p *python) start(t *testing.T, script string, args ...string) *program {
	t.Helper()
	cmd := exec.Command(p.path, append([]string{"-u", filepath.Join("tutorials", script)}, args...)...)
	cmd.Env = append(os.Environ(), "AMQP_URL="+p.url, "PYTHONDONTWRITEBYTECODE=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = cmd.Stdout // a traceback is a line that nobody expects
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	prog := &program{t: t, name: strings.Join(append([]string{script}, args...), " "), cmd: cmd, lines: make(chan string, 1000)}
	go func() {
		defer close(prog.lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			prog.lines <- s.Text()
		}
	}()
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return prog
}

// says waits for the next lines, which must be these.
func (p *program) says(lines ...string) {
	p.t.Helper()
	for _, want := range lines {
		select {
		case got, ok := <-p.lines:
			if !ok {
				p.t.Fatalf("%s ended, want %q", p.name, want)
			}
			if got != want {
				p.t.Fatalf("%s says %q, want %q\n%s", p.name, got, want, p.rest())
			}
		case <-time.After(patience):
			p.t.Fatalf("%s says nothing, want %q", p.name, want)
		}
	}
}

// rest is what more it says within a moment: a traceback has many lines.
func (p *program) rest() string {
	var b strings.Builder
	for {
		select {
		case line, ok := <-p.lines:
			if !ok {
				return b.String()
			}
			b.WriteString(line + "\n")
		case <-time.After(time.Second):
			return b.String()
		}
	}
}

// ends waits for the program's end, which says nothing more.
func (p *program) ends() {
	p.t.Helper()
	select {
	case line, more := <-p.lines:
		if more {
			p.t.Fatalf("%s says %q, want nothing more\n%s", p.name, line, p.rest())
		}
	case <-time.After(patience):
		p.t.Fatalf("%s does not end", p.name)
	}
}

func (p *python) helloWorld(t *testing.T) {
	send := p.start(t, "hello.py", "send")
	send.says(" [x] Sent 'Hello World!'")
	send.ends()
	p.start(t, "hello.py", "receive").says(" [*] Waiting for messages", " [x] Received Hello World!")
}

func (p *python) workQueues(t *testing.T) {
	dying := p.start(t, "work.py", "worker", "die")
	dying.says(" [*] Waiting for messages")
	p.start(t, "work.py", "task", "First.", "Second", "Third..").says(" [x] Sent First.", " [x] Sent Second", " [x] Sent Third..")
	dying.says(" [x] Received First.")
	dying.ends()
	living := p.start(t, "work.py", "worker")
	living.says(" [*] Waiting for messages", " [x] Received First. again", " [x] Done First.", " [x] Received Second", " [x] Done Second",
		" [x] Received Third..", " [x] Done Third..")
}

func (p *python) publishSubscribe(t *testing.T) {
	one, two := p.start(t, "logs.py", "receive", "fanout"), p.start(t, "logs.py", "receive", "fanout")
	one.says(" [*] Waiting for logs")
	two.says(" [*] Waiting for logs")
	p.start(t, "logs.py", "emit", "fanout", "", "info").says(" [x] Sent :info")
	one.says(" [x] :info")
	two.says(" [x] :info")
}

func (p *python) routing(t *testing.T) {
	all, errors := p.start(t, "logs.py", "receive", "direct", "info", "error"), p.start(t, "logs.py", "receive", "direct", "error")
	all.says(" [*] Waiting for logs")
	errors.says(" [*] Waiting for logs")
	for _, key := range []string{"info", "debug", "error"} {
		emit := p.start(t, "logs.py", "emit", "direct", key, "text")
		emit.says(" [x] Sent " + key + ":text")
		emit.ends()
	}
	all.says(" [x] info:text", " [x] error:text")
	errors.says(" [x] error:text")
}

func (p *python) topics(t *testing.T) {
	all := p.start(t, "logs.py", "receive", "topic", "#")
	kern := p.start(t, "logs.py", "receive", "topic", "kern.*")
	critical := p.start(t, "logs.py", "receive", "topic", "*.critical")
	for _, r := range []*program{all, kern, critical} {
		r.says(" [*] Waiting for logs")
	}
	for _, key := range []string{"kern.info", "cron.critical", "kern.critical"} {
		emit := p.start(t, "logs.py", "emit", "topic", key, "text")
		emit.says(" [x] Sent " + key + ":text")
		emit.ends()
	}
	all.says(" [x] kern.info:text", " [x] cron.critical:text", " [x] kern.critical:text")
	kern.says(" [x] kern.info:text", " [x] kern.critical:text")
	critical.says(" [x] cron.critical:text", " [x] kern.critical:text")
}

func (p *python) rpc(t *testing.T) {
	server := p.start(t, "rpc.py", "server")
	server.says(" [x] Awaiting requests")
	client := p.start(t, "rpc.py", "client", "10", "20")
	client.says(" [.] Got 55 for fib(10)", " [.] Got 6765 for fib(20)")
	client.ends()
	server.says(" [.] fib(10)", " [.] fib(20)")
}

func (p *python) confirms(t *testing.T) {
	c := p.start(t, "confirms.py")
	c.says(" [x] 200 messages confirmed", " [x] returned lost: 312 NO_ROUTE", " [x] in order: True")
	c.ends()
}
