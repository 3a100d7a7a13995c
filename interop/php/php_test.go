//go:build interop

package php

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/understudy-mq/understudy/interop/harness"
	"github.com/understudy-mq/understudy/interop/programs"
)

func TestMain(m *testing.M) { os.Exit(harness.Main(m)) }

func client(program string, args ...string) *exec.Cmd {
	return exec.Command("php", append([]string{filepath.Join("programs", program+".php")}, args...)...)
}

func TestEveryPartOfTheProtocolWithPhpAmqplib(t *testing.T) {
	programs.Client(client).Basics(t, programs.Broker(t))
}

func TestNodeKilledUnderPhpAmqplib(t *testing.T) { programs.Client(client).Failover(t) }

func TestSessionOutlivesTwoNodesUnderPhpAmqplib(t *testing.T) { programs.Client(client).Session(t) }

func TestSessionOutlivesTheSourceUnderPhpAmqplib(t *testing.T) { programs.Client(client).TakeOver(t) }
