package amqp091go

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/understudy-mq/understudy/interop/programs"
)

// sessionProgram builds programs/session; who is the one that reconnects.
func sessionProgram(t *testing.T, who string) programs.Client {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "session")
	if err := programs.Run(".", "go", "build", "-o", binary, "./programs/session"); err != nil {
		t.Fatal(err)
	}
	return func(string, ...string) *exec.Cmd { return exec.Command(binary, who) }
}

func TestSessionOutlivesTwoNodesUnderTheApplicationsOwnLoop(t *testing.T) {
	sessionProgram(t, "loop").Session(t)
}

func TestSessionOutlivesTwoNodesUnderTheLibrarysRecovery(t *testing.T) {
	sessionProgram(t, "recovery").Session(t)
}

func TestSessionOutlivesTheSourceUnderTheApplicationsOwnLoop(t *testing.T) {
	sessionProgram(t, "loop").TakeOver(t)
}

func TestSessionOutlivesTheSourceUnderTheLibrarysRecovery(t *testing.T) {
	sessionProgram(t, "recovery").TakeOver(t)
}
