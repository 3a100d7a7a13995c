//go:build interop

package java

import (
	"crypto/sha256"
	"fmt"
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
	path := libraries(t) + "/*"
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

// libraries answers a folder with the jar files, kept under a hash of pom.xml.
func libraries(t *testing.T) string {
	t.Helper()
	pom, err := os.ReadFile("programs/pom.xml")
	if err != nil {
		t.Fatal(err)
	}
	return programs.Install(t, fmt.Sprintf("java-%x", sha256.Sum256(pom)), func(dir string) error {
		if err := os.WriteFile(filepath.Join(dir, "pom.xml"), pom, 0o644); err != nil {
			return err
		}
		return programs.Run(dir, "mvn", "--batch-mode", "--quiet", "dependency:copy-dependencies", "-DoutputDirectory="+dir)
	})
}

func TestTutorialsWithTheJavaClient(t *testing.T) { client(t).Tutorials(t, programs.Broker(t)) }

func TestEveryPartOfTheProtocolWithTheJavaClient(t *testing.T) {
	client(t).Basics(t, programs.Broker(t))
}

func TestNodeKilledUnderTheJavaClientsAutomaticRecovery(t *testing.T) { client(t).Failover(t) }

func TestNodeKilledUnderSpringsListenerContainer(t *testing.T) {
	plain := client(t)
	spring := programs.Client(func(program string, args ...string) *exec.Cmd { return plain("spring-"+program, args...) })
	spring.Failover(t)
}

func TestSessionOutlivesTwoNodesUnderTheJavaClientsAutomaticRecovery(t *testing.T) {
	client(t).Session(t)
}

func TestSessionOutlivesTheSourceUnderTheJavaClientsAutomaticRecovery(t *testing.T) {
	client(t).TakeOver(t)
}
