//go:build interop

package java

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/understudy-mq/understudy/interop/harness"
	"github.com/understudy-mq/understudy/interop/programs"
)

func TestMain(m *testing.M) { os.Exit(harness.Main(m)) }

// client compiles the programs against the libraries that pom.xml pins. A program is a class with its name, each word
// with a capital.
func client(t *testing.T) programs.Client {
	t.Helper()
	path := programs.Maven(t, "programs/pom.xml")
	sources, err := filepath.Glob("programs/*.java")
	if err != nil {
		t.Fatal(err)
	}
	classes := t.TempDir()
	if err := programs.Run(".", "javac", append([]string{"-Xlint:all,-try", "-Werror", "-cp", path, "-d", classes}, sources...)...); err != nil {
		t.Fatal(err)
	}
	return func(program string, args ...string) *exec.Cmd {
		class := ""
		for word := range strings.SplitSeq(program, "-") {
			class += strings.ToUpper(word[:1]) + word[1:]
		}
		return exec.Command("java", append([]string{"-XX:TieredStopAtLevel=1", "-cp", classes + ":" + path, class}, args...)...)
	}
}

func TestTutorialsWithTheJavaClient(t *testing.T) { client(t).Tutorials(t, programs.Broker(t)) }

func TestEveryPartOfTheProtocolWithTheJavaClient(t *testing.T) {
	client(t).Basics(t, programs.Broker(t))
}

func TestNodeKilledUnderTheJavaClientsAutomaticRecovery(t *testing.T) { client(t).Failover(t) }

// spring runs the programs whose classes have that prefix.
func spring(t *testing.T) programs.Client {
	t.Helper()
	plain := client(t)
	return func(program string, args ...string) *exec.Cmd { return plain("spring-"+program, args...) }
}

func TestNodeKilledUnderSpringsListenerContainer(t *testing.T) { spring(t).Failover(t) }

// TestWhatSpringDoesAgainstOneNode: an application with @RabbitListener over both kinds of container, declarations by RabbitAdmin,
// correlated confirms with returns and refusals, retries and dead letters, acks by hand from a quorum queue, replies, batches,
// transactions, a container that is stopped and started, and one whose queue is deleted.
func TestWhatSpringDoesAgainstOneNode(t *testing.T) {
	spring(t).Prints(t, programs.Broker(t), "basics",
		"declared: spring.q spring.dead",
		"confirmed: 20, received by 2",
		"returned: 312 NO_ROUTE zzz",
		"full: true, then false",
		"missing exchange: false",
		"dead: after 3 calls, rejected from spring.q",
		"by hand: task, task again",
		"fanout: all, all",
		"direct reply: PING",
		"reply over a queue: PONG",
		"batch: 1 2 3",
		"transactions: 0 rolled back, then one two",
		"restarted: 0 consumers, then waits",
		"redeclared: found",
		"closed",
	)
}

func TestSessionOutlivesTwoNodesUnderTheJavaClientsAutomaticRecovery(t *testing.T) {
	client(t).Session(t)
}

func TestSessionOutlivesTheSourceUnderTheJavaClientsAutomaticRecovery(t *testing.T) {
	client(t).TakeOver(t)
}
