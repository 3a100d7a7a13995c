//go:build interop

package tools

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// bootTime is how long RabbitMQ may take to start on a busy machine.
const bootTime = 2 * time.Minute

// rabbitMQ is startRabbitMQ for those who need the admin URL alone.
func rabbitMQ(t testing.TB) (admin string) {
	t.Helper()
	admin, _ = startRabbitMQ(t)
	return admin
}

// startRabbitMQ starts the RabbitMQ that is installed, with its management plugin, in folders and on ports of its own, and answers
// the URLs of its HTTP API and of its AMQP port. It ends with the test.
func startRabbitMQ(t testing.TB) (admin, amqp string) {
	t.Helper()
	programs, err := filepath.Glob("/usr/lib/rabbitmq/lib/rabbitmq_server-*/sbin/rabbitmq-server")
	if err != nil || len(programs) == 0 {
		t.Fatalf("no RabbitMQ to compare with (`make interop CLIENT=tools` installs it with apt-get): %v", err)
	}
	dir, ports := t.TempDir(), freePorts(t, 4)
	for name, text := range map[string]string{
		"rabbitmq.conf":   fmt.Sprintf("listeners.tcp.1 = 127.0.0.1:%d\nmanagement.tcp.ip = 127.0.0.1\nmanagement.tcp.port = %d\n", ports[0], ports[1]),
		"enabled_plugins": "[rabbitmq_management].\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	log, err := os.Create(filepath.Join(dir, "out"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(programs[0])
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(os.Environ(), "HOME="+dir, "RABBITMQ_NODENAME=tools@localhost", "RABBITMQ_CONF_ENV_FILE=/dev/null",
		"RABBITMQ_CONFIG_FILE="+filepath.Join(dir, "rabbitmq"), "RABBITMQ_ENABLED_PLUGINS_FILE="+filepath.Join(dir, "enabled_plugins"),
		"RABBITMQ_MNESIA_BASE="+dir, "RABBITMQ_LOG_BASE="+dir, "RABBITMQ_PID_FILE="+filepath.Join(dir, "pid"),
		fmt.Sprintf("RABBITMQ_DIST_PORT=%d", ports[2]), fmt.Sprintf("ERL_EPMD_PORT=%d", ports[3]), "ERL_EPMD_ADDRESS=127.0.0.1",
		"ERL_EPMD_RELAXED_COMMAND_CHECK=1") // epmd, which is in no group, is to end although it thinks that RabbitMQ lives
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // the whole group
		_ = cmd.Wait()
		_ = exec.Command("epmd", "-port", fmt.Sprint(ports[3]), "-kill").Run()
		_ = log.Close()
	})
	admin, amqp = fmt.Sprintf("http://127.0.0.1:%d", ports[1]), fmt.Sprintf("amqp://guest:guest@127.0.0.1:%d/", ports[0])
	for end := time.Now().Add(bootTime); ; time.Sleep(200 * time.Millisecond) {
		// It answers before it knows anything of itself.
		if status, text, err := call(admin, "GET", "/api/nodes", ""); err == nil && status == http.StatusOK && strings.Contains(text, `"os_pid"`) {
			return admin, amqp
		}
		if time.Now().After(end) {
			text, _ := os.ReadFile(log.Name())
			t.Fatalf("RabbitMQ has not started in %v:\n%s", bootTime, text)
		}
	}
}

// freePorts are loopback ports that nothing listened on a moment ago.
func freePorts(t testing.TB, n int) (ports []int) {
	t.Helper()
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports
}

// port is an admin URL's.
func port(admin string) string { return admin[strings.LastIndexByte(admin, ':')+1:] }
