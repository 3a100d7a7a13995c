package harness

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// buildOnce and buildCuttableOnce build the broker for this test process.
var (
	buildOnce         = sync.OnceValues(build)
	buildCuttableOnce = sync.OnceValues(func() (string, error) { return goBuild("understudy-powerloss", "-tags", "powerloss") })
)

// Binary answers the path of the broker's binary, built on first use. UNDERSTUDY_BINARY names a ready one instead.
func Binary(t testing.TB) string {
	t.Helper()
	path, err := buildOnce()
	if err != nil {
		t.Fatalf("building the broker: %v", err)
	}
	return path
}

// cuttable is the binary of nodes whose power can be cut: it differs from the shipped one in its file system alone.
func cuttable(t testing.TB) string {
	t.Helper()
	path, err := buildCuttableOnce()
	if err != nil {
		t.Fatalf("building the broker whose power can be cut: %v", err)
	}
	return path
}

// Main runs a package's tests and removes the binary afterwards: func TestMain(m *testing.M) { os.Exit(harness.Main(m)) }.
func Main(m *testing.M) int {
	code := m.Run()
	Clean()
	return code
}

// Clean removes the binary, for packages whose TestMain does more than Main.
func Clean() { _ = os.RemoveAll(buildDir()) }

// buildDir is this process's own folder for the binary.
func buildDir() string {
	return filepath.Join(os.TempDir(), fmt.Sprintf("understudy-interop-%d", os.Getpid()))
}

func build() (string, error) {
	if path := os.Getenv("UNDERSTUDY_BINARY"); path != "" {
		return path, nil
	}
	return goBuild("understudy")
}

func goBuild(name string, flags ...string) (string, error) {
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	path := filepath.Join(buildDir(), name)
	cmd := exec.Command("go", append(append([]string{"build", "-o", path}, flags...), "./cmd/understudy")...)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build ./cmd/understudy: %w\n%s", err, out)
	}
	return path, nil
}

func moduleRoot() (string, error) {
	out, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOMOD: %w", err)
	}
	return filepath.Dir(strings.TrimSpace(string(out))), nil
}
