package node

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/understudy-mq/understudy/cmd/internal/definitions"
)

// definitionsFile writes a file of definitions.
func definitionsFile(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "definitions.json")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestAFirstStartLoadsDefinitionsBeforeItServes(t *testing.T) {
	c := settings(t, 1)
	// The hash is of test12, as RabbitMQ's documentation has it.
	c.LoadDefinitions = definitionsFile(t, strings.Replace(good, `"users":[`,
		`"users":[{"name":"boss","password_hash":"kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR","hashing_algorithm":"rabbit_password_hashing_sha256","tags":["administrator"]},`, 1))
	n := start(t, c)
	ready(t, n)
	talkAs(t, n, "boss:test12", []exchange{
		{"GET", "/api/queues/v1/q1", "", 200, `"name":"q1"`},
		{"GET", "/api/users/guest", "", 404, ""}, // the file's users are all that there are
		{"DELETE", "/api/queues/v1/q1", "", 403, "access"},
	})
	if status, _ := ask(t, n, "/api/overview"); status != 401 {
		t.Errorf("guest is answered %d, want 401", status)
	}
	stop(t, n)
	if err := os.Remove(c.LoadDefinitions); err != nil {
		t.Fatal(err)
	}
	n = start(t, c) // at a later start the file is not looked at
	ready(t, n)
}

func TestAStartThatWasCutShortLoadsTheRestOfItsDefinitions(t *testing.T) {
	c := settings(t, 1)
	n := start(t, c)
	ready(t, n)
	stop(t, n)
	if err := os.WriteFile(filepath.Join(c.Data, pendingFile), []byte(good), 0o600); err != nil {
		t.Fatal(err)
	}
	n = start(t, c)
	ready(t, n)
	talk(t, n, []exchange{
		{"GET", "/api/queues/v1/q1", "", 200, `"name":"q1"`}, // guest stays: the file has no administrator
	})
	if _, err := os.Stat(filepath.Join(c.Data, pendingFile)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what was left to do is still there: %v", err)
	}
}

func TestABadFileStopsAFirstStartWithEveryFault(t *testing.T) {
	c := settings(t, 1)
	c.LoadDefinitions = definitionsFile(t, `{"queues":[{"name":"q","vhost":"none"},{"name":"r","vhost":"/","arguments":{"x-max-length":-1}}],"vhosts":[{"name":""}]}`)
	_, err := Start(context.Background(), options(t, c))
	var faults definitions.Faults
	if !errors.As(err, &faults) || len(faults) != 3 {
		t.Errorf("%v, want three faults", err)
	}
	c.LoadDefinitions = ""
	ready(t, start(t, c)) // the folder is nobody's yet
}
