package programs

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/understudy-mq/understudy/interop/harness"
)

// patience bounds the wait for a line.
const patience = harness.Patience

// lineMax bounds what a program may print in one line.
const lineMax = 1 << 20

// A program that prints is stopped by its full pipe once it is this far ahead of its test: so many bytes on their way and
// so many lines read. What the test does at a line, the kill of a node say, is done while the program has most of its work
// before it, however fast it is.
const (
	pipeBytes  = 4096
	linesAhead = 100
)

// Client makes the command for a family's program: an interpreter with a file, or a binary. Its environment gains what
// the package doc says.
type Client func(program string, args ...string) *exec.Cmd

// Program is a running one.
type Program struct {
	t     testing.TB
	name  string
	in    io.Writer
	lines chan string
	said  []string
	ahead []string // deliveries told of before what was waited for
}

// Start starts the family's program with the environment variables (KEY=VALUE) added. It is killed when the test ends, and
// waits wherever it prints once it is about 700 short lines ahead of what the test has read.
func (c Client) Start(t testing.TB, env []string, program string, args ...string) *Program {
	t.Helper()
	cmd := c(program, args...)
	if cmd.Env == nil {
		cmd.Env = os.Environ()
	}
	cmd.Env = append(cmd.Env, env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	out, err := smallPipe(cmd)
	if err != nil {
		t.Fatal(err)
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = cmd.Stdout // a traceback is a line that nobody expects
	if err := cmd.Start(); err != nil {
		t.Fatalf("%s: %v", program, err)
	}
	p := &Program{t: t, name: strings.Join(append([]string{program}, args...), " "), in: in, lines: make(chan string, linesAhead)}
	end := make(chan struct{})
	go p.read(out, end)
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		close(end)
		_ = cmd.Wait()
	})
	return p
}

// smallPipe gives the command a pipe of pipeBytes to print to.
func smallPipe(cmd *exec.Cmd) (io.Reader, error) {
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	raw, err := out.(*os.File).SyscallConn()
	if err != nil {
		return nil, err
	}
	var refused error
	err = raw.Control(func(fd uintptr) { _, refused = unix.FcntlInt(fd, unix.F_SETPIPE_SZ, pipeBytes) })
	return out, errors.Join(err, refused)
}

// read makes lines of what the program prints, until it ends or end is closed.
func (p *Program) read(out io.Reader, end <-chan struct{}) {
	defer close(p.lines)
	s := bufio.NewScanner(out)
	s.Buffer(nil, lineMax)
	for s.Scan() {
		select {
		case p.lines <- s.Text():
		case <-end:
			return
		}
	}
}

// Tell gives the program a line to read on its standard input.
func (p *Program) Tell(line string) {
	p.t.Helper()
	if _, err := fmt.Fprintln(p.in, line); err != nil {
		p.t.Fatalf("%s does not hear %q: %v\n%s", p.name, line, err, p.tail())
	}
}

// Line waits for the next line; more is false once the program has ended.
func (p *Program) Line() (line string, more bool) {
	p.t.Helper()
	select {
	case line, more = <-p.lines:
		if more {
			p.said = append(p.said, line)
		}
		return line, more
	case <-time.After(patience):
		p.t.Fatalf("%s says nothing for %v after:\n%s", p.name, patience, p.tail())
	}
	panic("unreachable")
}

// mustLine is Line of a program that must not end yet.
func (p *Program) mustLine() string {
	p.t.Helper()
	line, more := p.Line()
	if !more {
		p.t.Fatalf("%s ended after:\n%s", p.name, p.tail())
	}
	return line
}

// saidMeanwhile are the lines that nobody has waited for yet.
func (p *Program) saidMeanwhile() []string {
	var lines []string
	for {
		select {
		case line, more := <-p.lines:
			if !more {
				return lines
			}
			lines = append(lines, line)
		default:
			return lines
		}
	}
}

// Says waits for the next lines, which must be these.
func (p *Program) Says(lines ...string) {
	p.t.Helper()
	for _, want := range lines {
		if got := p.mustLine(); got != want {
			p.t.Fatalf("%s says %q, want %q\n%s", p.name, got, want, p.rest())
		}
	}
}

// Ends waits for the program's end, before which it says nothing more.
func (p *Program) Ends() {
	p.t.Helper()
	if line, more := p.Line(); more {
		p.t.Fatalf("%s says %q, want nothing more\n%s", p.name, line, p.rest())
	}
}

// tail is the last of what it said.
func (p *Program) tail() string {
	return strings.Join(p.said[max(0, len(p.said)-40):], "\n")
}

// rest is what more it says within a moment: a traceback has many lines.
func (p *Program) rest() string {
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
