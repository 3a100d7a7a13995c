package programs

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/understudy-mq/understudy/interop/harness"
)

// A program that could be done in a moment must have most of its work before it when its test acts upon a line.
func TestAFastProgramWaitsUntilItsLinesAreRead(t *testing.T) {
	const lines = 2000
	ended := filepath.Join(t.TempDir(), "ended")
	shell := Client(func(string, ...string) *exec.Cmd {
		return exec.Command("sh", "-c", `echo $$; for i in $(seq 2000); do echo confirmed $i; done; : > "$ENDED"`)
	})
	p := shell.Start(t, []string{"ENDED=" + ended}, "many")
	pid := p.mustLine()
	for range 300 {
		p.mustLine()
	}
	if err := harness.Await(patience, func(context.Context) error { return sleeping(pid) }); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(ended); err == nil {
		t.Error("it has ended, and most of what it said is unread")
	}
	for range lines - 300 {
		p.mustLine()
	}
	p.Ends()
	if _, err := os.Stat(ended); err != nil {
		t.Error(err)
	}
}

// sleeping is nil if the process waits for something.
func sleeping(pid string) error {
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	if err == nil && !strings.Contains(string(stat), ") S ") {
		err = errors.New("it runs")
	}
	return err
}

func TestAProgramHearsWhatItIsTold(t *testing.T) {
	echo := Client(func(string, ...string) *exec.Cmd { return exec.Command("sh", "-c", `read x; echo "heard $x"`) })
	p := echo.Start(t, nil, "echo")
	p.Tell("it is dead")
	p.Says("heard it is dead")
	p.Ends()
}
