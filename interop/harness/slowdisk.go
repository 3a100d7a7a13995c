package harness

import (
	"bufio"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// SlowDisk makes every fdatasync and fsync of the node take longer by delay, by attaching strace with an injected delay,
// until stop is called. It needs strace and the right to trace another process; where that right is missing, the process
// is stopped and let go in turn instead (50 ms each), which how says.
func (n *Node) SlowDisk(delay time.Duration) (stop func(), how string, err error) {
	stop, attached, err := n.inject("fdatasync,fsync", fmt.Sprintf("delay_exit=%d", delay.Microseconds()))
	if err != nil {
		return nil, "", fmt.Errorf("slow disk: %w", err)
	}
	if !attached {
		return n.strobe(50 * time.Millisecond), "process strobed, since strace may not attach", nil
	}
	return stop, fmt.Sprintf("fdatasync delayed by %v", delay), nil
}

// FullDisk lets the node find no room for another file of its log, by attaching strace with an injected error, until stop is
// called. It needs strace and the right to trace another process.
func (n *Node) FullDisk() (stop func(), err error) {
	stop, attached, err := n.inject("fallocate", "error=ENOSPC")
	if err == nil && !attached {
		err = errors.New("strace may not attach")
	}
	if err != nil {
		return nil, fmt.Errorf("full disk: %w", err)
	}
	return stop, nil
}

// inject attaches strace, which does something to the node's calls of some kinds until stop is called; attached is false where
// it may not trace another process.
func (n *Node) inject(calls, what string) (stop func(), attached bool, err error) {
	if _, err := exec.LookPath("strace"); err != nil {
		return nil, false, fmt.Errorf("%w: install strace", err)
	}
	cmd := exec.Command("strace", "-f", "-p", fmt.Sprint(n.Pid()), "-o", "/dev/null", "-e", "trace="+calls, "-e", "inject="+calls+":"+what)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	said, err := cmd.StderrPipe()
	if err != nil {
		return nil, false, err
	}
	if err := cmd.Start(); err != nil {
		return nil, false, err
	}
	line, _ := bufio.NewReader(said).ReadString('\n')
	if !strings.Contains(line, "attached") {
		_ = cmd.Wait()
		return nil, false, nil
	}
	return func() {
		_ = cmd.Process.Signal(syscall.SIGINT) // strace detaches and leaves the node running
		_ = cmd.Wait()
	}, true, nil
}

// strobe stops the process and lets it go in turn until the answered function is called.
func (n *Node) strobe(period time.Duration) (stop func()) {
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(period)
		defer tick.Stop()
		for stopped := false; ; stopped = !stopped {
			if stopped {
				_ = n.Resume()
			} else {
				_ = n.Pause()
			}
			select {
			case <-tick.C:
			case <-end:
				_ = n.Resume()
				return
			}
		}
	}()
	return func() { close(end); <-ended }
}
