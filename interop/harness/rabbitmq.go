package harness

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/understudy-mq/understudy/cmd/loopback"
)

// rabbitMQBoot is how long RabbitMQ may take to start on a busy machine.
const rabbitMQBoot = 2 * time.Minute

// StartRabbitMQ starts the RabbitMQ that is installed, with its management plugin, in folders and on ports of its own, and answers
// the URLs of its HTTP API and of its AMQP port. It ends with the test.
func StartRabbitMQ(t testing.TB) (admin, amqp string) {
	t.Helper()
	programs, err := filepath.Glob("/usr/lib/rabbitmq/lib/rabbitmq_server-*/sbin/rabbitmq-server")
	if err != nil || len(programs) == 0 {
		t.Fatalf("no RabbitMQ to compare with (`make interop CLIENT=tools` installs it with apt-get): %v", err)
	}
	dir, addresses := t.TempDir(), loopback.Addresses(t, 4)
	for name, text := range map[string]string{
		"rabbitmq.conf":   fmt.Sprintf("listeners.tcp.1 = %s\nmanagement.tcp.ip = 127.0.0.1\nmanagement.tcp.port = %s\n", addresses[0], port(addresses[1])),
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
		"RABBITMQ_DIST_PORT="+port(addresses[2]), "ERL_EPMD_PORT="+port(addresses[3]), "ERL_EPMD_ADDRESS=127.0.0.1",
		"ERL_EPMD_RELAXED_COMMAND_CHECK=1") // epmd, which is in no group, is to end although it thinks that RabbitMQ lives
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // the whole group
		_ = cmd.Wait()
		_ = exec.Command("epmd", "-port", port(addresses[3]), "-kill").Run()
		_ = log.Close()
	})
	admin, amqp = "http://"+addresses[1], "amqp://guest:guest@"+addresses[0]+"/"
	for end := time.Now().Add(rabbitMQBoot); ; time.Sleep(200 * time.Millisecond) {
		// It answers before it knows anything of itself.
		if text, err := ask(t.Context(), http.MethodGet, admin+"/api/nodes", nil); err == nil && strings.Contains(string(text), `"os_pid"`) {
			return admin, amqp
		}
		if time.Now().After(end) {
			text, _ := os.ReadFile(log.Name())
			t.Fatalf("RabbitMQ has not started in %v:\n%s", rabbitMQBoot, text)
		}
	}
}

// port is what stands behind the last colon of an address or an admin URL.
func port(address string) string { return address[strings.LastIndexByte(address, ':')+1:] }
