//go:build interop

package tools

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/understudy-mq/understudy/interop/harness"
)

func TestMain(m *testing.M) { os.Exit(harness.Main(m)) }

// brokers are the one under test and the one to compare with.
func brokers(t *testing.T) map[string]string {
	t.Helper()
	rabbit, _ := harness.StartRabbitMQ(t)
	return map[string]string{"understudy": "http://" + harness.Start(t, harness.Options{}).Node(1).Admin, "RabbitMQ": rabbit}
}

func TestRabbitHoleFindsEverythingItAsksFor(t *testing.T) {
	program := filepath.Join(t.TempDir(), "rabbithole")
	build := exec.Command("go", "build", "-o", program, ".")
	build.Dir = "rabbithole"
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	for name, admin := range brokers(t) {
		if out, err := exec.Command(program, admin).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
	cluster := harness.Start(t, harness.Options{Nodes: 3}) // through a node that need not lead
	if out, err := exec.Command(program, "http://"+cluster.Node(3).Admin).CombinedOutput(); err != nil {
		t.Errorf("three nodes: %v\n%s", err, out)
	}
}
