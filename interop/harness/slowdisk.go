package harness

import (
	"bufio"
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
	if _, err := exec.LookPath("strace"); err != nil {
		return nil, "", fmt.Errorf("slow disk: %w: install strace", err)
	}
	cmd := exec.Command("strace", "-f", "-p", fmt.Sprint(n.Pid()), "-o", "/dev/null", "-e", "trace=fdatasync,fsync",
		"-e", fmt.Sprintf("inject=fdatasync,fsync:delay_exit=%d", delay.Microseconds()))
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	said, err := cmd.StderrPipe()
	if err != nil {
		return nil, "", fmt.Errorf("slow disk: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, "", fmt.Errorf("slow disk: %w", err)
	}
	line, _ := bufio.NewReader(said).ReadString('\n')
	if !strings.Contains(line, "attached") {
		_ = cmd.Wait()
		return n.strobe(50 * time.Millisecond), "process strobed, since strace may not attach", nil
	}
	return func() {
		_ = cmd.Process.Signal(syscall.SIGINT) // strace detaches and leaves the node running
		_ = cmd.Wait()
	}, fmt.Sprintf("fdatasync delayed by %v", delay), nil
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
