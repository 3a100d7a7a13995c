package programs

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// tries is how often an installation is begun.
const tries = 3

// Install answers the folder of what a family needs, kept in the user's cache under the key (which holds the pinned
// versions), and fills it on first use. The folder goes to fill empty; if fill fails three times the test does.
func Install(t testing.TB, key string, fill func(dir string) error) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatalf("where to keep clients: %v", err)
	}
	dir := filepath.Join(cache, "understudy-clients", key)
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	lock, err := os.OpenFile(dir+".lock", os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lock.Close() }() // and with it goes the lock
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatalf("locking %s: %v", lock.Name(), err)
	}
	for try := 1; ; try++ { // a registry that does not answer once says nothing of the broker
		err := fillOnce(dir, fill)
		if err == nil {
			return dir
		}
		if try == tries {
			t.Fatalf("installing %s: %v", key, err)
		}
		t.Logf("installing %s, once more: %v", key, err)
	}
}

// fillOnce fills the folder unless that was done to the end before.
func fillOnce(dir string, fill func(dir string) error) error {
	done := filepath.Join(dir, ".complete")
	if _, err := os.Stat(done); err == nil {
		return nil
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	if err := fill(dir); err != nil {
		return err
	}
	return os.WriteFile(done, nil, 0o644)
}

// Run runs a command of an installation in the folder; the error holds what it printed.
func Run(dir, name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w (`make interop` installs what is missing with apt-get)\n%s", name, strings.Join(args, " "), err, out)
	}
	return nil
}

// Python answers a client that runs the .py files in the folder programs of the test's package, with the packages
// (name==version) and what they depend on in a virtual environment.
func Python(t testing.TB, key string, packages ...string) Client {
	t.Helper()
	dir := Install(t, key, func(dir string) error {
		if err := Run(dir, "python3", "-m", "venv", "."); err != nil {
			return err
		}
		return Run(dir, "bin/python", append([]string{"-m", "pip", "install", "--quiet", "--disable-pip-version-check"}, packages...)...)
	})
	return func(program string, args ...string) *exec.Cmd {
		cmd := exec.Command(filepath.Join(dir, "bin", "python"), append([]string{"-u", filepath.Join("programs", program+".py")}, args...)...)
		cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
		return cmd
	}
}

// Maven answers a Java class path of the jar files that a pom.xml pins, kept under a hash of it.
func Maven(t testing.TB, pom string) string {
	t.Helper()
	text, err := os.ReadFile(pom)
	if err != nil {
		t.Fatal(err)
	}
	return Install(t, fmt.Sprintf("java-%x", sha256.Sum256(text)), func(dir string) error {
		if err := os.WriteFile(filepath.Join(dir, "pom.xml"), text, 0o644); err != nil {
			return err
		}
		return Run(dir, "mvn", "--batch-mode", "--quiet", "dependency:copy-dependencies", "-DoutputDirectory="+dir)
	}) + "/*"
}

// Node answers a client that runs the .js files in the folder programs of the test's package, with the npm packages
// (name@version) and what they depend on.
func Node(t testing.TB, key string, packages ...string) Client {
	t.Helper()
	dir := NodeModules(t, key, packages...)
	return func(program string, args ...string) *exec.Cmd {
		cmd := exec.Command("node", append([]string{filepath.Join("programs", program+".js")}, args...)...)
		cmd.Env = append(os.Environ(), "NODE_PATH="+filepath.Join(dir, "node_modules"))
		return cmd
	}
}

// NodeModules answers a folder whose node_modules has the packages.
func NodeModules(t testing.TB, key string, packages ...string) string {
	t.Helper()
	return Install(t, key, func(dir string) error {
		return Run(dir, "npm", append([]string{"install", "--no-package-lock", "--ignore-scripts", "--no-audit", "--no-fund"}, packages...)...)
	})
}
