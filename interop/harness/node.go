package harness

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Node is one broker process and what it keeps over restarts: its data folder, its ports, its log.
type Node struct {
	ID    int
	AMQP  string // host:port
	Admin string // host:port
	Peer  string // host:port, the real one, behind the proxies
	Link  string // host:port, likewise
	Data  string // data folder
	Log   string // file with everything it has printed

	argv []string
	env  []string

	mu     sync.Mutex
	cmd    *exec.Cmd
	exited chan struct{} // closed when cmd has ended
	paused bool
}

// URL is where AMQP clients find the node.
func (n *Node) URL() string { return "amqp://guest:guest@" + n.AMQP + "/" }

// start begins the process; Pdeathsig ends it with the test process, whatever becomes of that.
func (n *Node) start() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cmd != nil {
		return fmt.Errorf("node %d runs already (pid %d)", n.ID, n.cmd.Process.Pid)
	}
	log, err := os.OpenFile(n.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("node %d: %w", n.ID, err)
	}
	defer func() { _ = log.Close() }()
	fmt.Fprintf(log, "--- start %s\n", strings.Join(n.argv, " "))
	cmd := exec.Command(n.argv[0], n.argv[1:]...)
	cmd.Env = append(os.Environ(), n.env...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("node %d: %w", n.ID, err)
	}
	exited := make(chan struct{})
	n.cmd, n.exited, n.paused = cmd, exited, false
	go func() {
		_ = cmd.Wait() // the exit code stays in ProcessState
		close(exited)
	}()
	return nil
}

// Pid is the process id, 0 when it does not run.
func (n *Node) Pid() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cmd == nil {
		return 0
	}
	return n.cmd.Process.Pid
}

// Running says whether the process was started and has not ended.
func (n *Node) Running() bool {
	n.mu.Lock()
	exited := n.exited
	n.mu.Unlock()
	if exited == nil {
		return false
	}
	select {
	case <-exited:
		return false
	default:
		return true
	}
}

// Paused says whether SIGSTOP holds it.
func (n *Node) Paused() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.paused
}

func (n *Node) signal(s syscall.Signal) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cmd == nil {
		return fmt.Errorf("node %d does not run", n.ID)
	}
	if err := n.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signal %v to node %d: %w", s, n.ID, err)
	}
	switch s {
	case syscall.SIGSTOP:
		n.paused = true
	case syscall.SIGCONT:
		n.paused = false
	}
	return nil
}

// Kill9 ends the process with SIGKILL and waits until it is gone. A node that does not run is left alone.
func (n *Node) Kill9() {
	if n.Pid() == 0 {
		return
	}
	_ = n.signal(syscall.SIGKILL)
	_, _ = n.wait(context.Background())
}

// Terminate asks the process to end (SIGTERM) and answers its exit code, or an error if it has not ended with ctx.
func (n *Node) Terminate(ctx context.Context) (int, error) {
	if err := n.signal(syscall.SIGTERM); err != nil {
		return -1, err
	}
	return n.wait(ctx)
}

// wait waits for the end of the process and forgets it.
func (n *Node) wait(ctx context.Context) (int, error) {
	n.mu.Lock()
	cmd, exited := n.cmd, n.exited
	n.mu.Unlock()
	if cmd == nil {
		return -1, fmt.Errorf("node %d does not run", n.ID)
	}
	select {
	case <-exited:
	case <-ctx.Done():
		return -1, fmt.Errorf("node %d has not ended: %w", n.ID, ctx.Err())
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cmd == cmd {
		n.cmd, n.exited, n.paused = nil, nil, false
	}
	return cmd.ProcessState.ExitCode(), nil
}

// Pause stops the process with SIGSTOP, and waits until each of its threads stands still; Resume lets it go on.
func (n *Node) Pause() error {
	if err := n.signal(syscall.SIGSTOP); err != nil {
		return err
	}
	return Await(Patience, func(context.Context) error { return standsStill(n.Pid()) })
}

// standsStill fails while a thread of a process is not stopped. A process that is gone has none.
func standsStill(pid int) error {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil {
		return err
	}
	for _, path := range threads {
		stat, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		_, state, _ := strings.Cut(string(stat), ") ")                        // behind the program's name
		if state = state[:min(1, len(state))]; state != "T" && state != "t" { // t under a tracer
			return fmt.Errorf("a thread of process %d has not stopped: %s", pid, state)
		}
	}
	return nil
}

// Resume undoes Pause.
func (n *Node) Resume() error { return n.signal(syscall.SIGCONT) }

// Start starts a spare node or one that was killed or has ended, with its data and ports. Further arguments of serve
// hold for later starts too.
func (n *Node) Start(args ...string) error {
	n.argv = append(n.argv, args...)
	if !n.Running() && n.Pid() != 0 {
		_, _ = n.wait(context.Background())
	}
	return n.start()
}

// Without takes a flag of serve and its value from the node's later starts.
func (n *Node) Without(flag string) {
	if i := slices.Index(n.argv, flag); i >= 0 {
		n.argv = slices.Delete(n.argv, i, i+2)
	}
}

// Ready says whether the node answers 200 on /health/ready.
func (n *Node) Ready(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+n.Admin+"/health/ready", nil)
	if err != nil {
		return false
	}
	resp, err := adminClient.Do(req)
	if err != nil {
		return false
	}
	_ = resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// WaitReady waits until the node is ready; it gives up early if the process ends.
func (n *Node) WaitReady(ctx context.Context) error {
	for {
		if n.Ready(ctx) {
			return nil
		}
		if !n.Running() {
			return fmt.Errorf("node %d ended instead of becoming ready:\n%s", n.ID, n.LogTail(2000))
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("node %d is not ready: %w", n.ID, ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// LogTail is the end of the node's log, at most so many bytes.
func (n *Node) LogTail(bytesMax int) string {
	data, err := os.ReadFile(n.Log)
	if err != nil {
		return err.Error()
	}
	return string(data[max(0, len(data)-bytesMax):])
}

// VmHWM is the process's peak resident memory in bytes.
func (n *Node) VmHWM() (int64, error) { return procStatusBytes(n.Pid(), "VmHWM:") }

// VmRSS is the process's resident memory in bytes.
func (n *Node) VmRSS() (int64, error) { return procStatusBytes(n.Pid(), "VmRSS:") }

// CPU is the processor time that the process has used.
func (n *Node) CPU() (time.Duration, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", n.Pid()))
	if err != nil {
		return 0, err
	}
	_, after, _ := bytes.Cut(data, []byte(") "))
	f := strings.Fields(string(after))
	if len(f) < 13 {
		return 0, fmt.Errorf("/proc/%d/stat has %d fields after the name", n.Pid(), len(f))
	}
	user, err1 := strconv.ParseInt(f[11], 10, 64)
	system, err2 := strconv.ParseInt(f[12], 10, 64)
	const ticksPerSecond = 100 // USER_HZ, the same on every Linux that Go runs on
	return time.Duration(user+system) * time.Second / ticksPerSecond, errors.Join(err1, err2)
}

// IO answers a counter of /proc/PID/io: syscr, syscw, read_bytes, write_bytes.
func (n *Node) IO(counter string) (int64, error) {
	return procField(fmt.Sprintf("/proc/%d/io", n.Pid()), counter+":")
}

func procStatusBytes(pid int, field string) (int64, error) {
	kb, err := procField(fmt.Sprintf("/proc/%d/status", pid), field)
	return kb << 10, err
}

func procField(path, field string) (int64, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(data)) {
		if f := strings.Fields(line); len(f) >= 2 && f[0] == field {
			return strconv.ParseInt(f[1], 10, 64)
		}
	}
	return 0, fmt.Errorf("%s has no %s", path, field)
}

// DataBytes is the size of the data folder's files in bytes as du counts them: blocks in use.
func (n *Node) DataBytes() (int64, error) {
	var total int64
	err := filepath.WalkDir(n.Data, func(_ string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return skipGone(err)
		}
		info, err := d.Info()
		if err != nil {
			return skipGone(err)
		}
		if st, ok := info.Sys().(*syscall.Stat_t); ok {
			total += st.Blocks * 512
		}
		return nil
	})
	return total, err
}

// skipGone forgives a file that went away while the folder was walked.
func skipGone(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}
