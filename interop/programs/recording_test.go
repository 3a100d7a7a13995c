package programs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/understudy-mq/understudy/interop/harness"
	"github.com/understudy-mq/understudy/interop/rawclient"
)

func TestFramesOfBothDirectionsAreWrittenDownWhereAFolderIsNamed(t *testing.T) {
	dir := t.TempDir()
	t.Setenv(framesFolder, dir)
	node := answering(t, rawclient.AppendCall(nil, 1, "queue.declare-ok", "q", 0, 0))
	client, err := net.Dial("tcp", Forward(t, "127.0.0.1:0", node))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Write(rawclient.AppendCall(nil, 1, "queue.declare", "q", true)); err != nil {
		t.Fatal(err)
	}
	if answer, err := io.ReadAll(client); err != nil || len(answer) == 0 {
		t.Fatalf("%d octets come back: %v", len(answer), err)
	}
	own := client.LocalAddr().String()
	_ = client.Close()
	for _, want := range []string{
		fmt.Sprintf(" %s > %s begin\n", own, node),
		fmt.Sprintf(" %s > %s 1 queue.declare q true false", own, node),
		fmt.Sprintf(" %s < %s 1 queue.declare-ok q 0 0\n", own, node),
		fmt.Sprintf(" %s < %s end, <nil>\n", own, node),
	} {
		awaitWritten(t, dir, want)
	}
}

// answering listens as a node that reads something of its one client, answers and closes; it tells where.
func answering(t *testing.T, answer []byte) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		_, _ = c.Read(make([]byte, 1<<10))
		_, _ = c.Write(answer)
		_ = c.Close()
	}()
	return l.Addr().String()
}

// awaitWritten waits until a file in the folder holds the text.
func awaitWritten(t *testing.T, dir, text string) {
	t.Helper()
	var all []byte
	if err := harness.Await(patience, func(context.Context) error {
		files, err := filepath.Glob(filepath.Join(dir, "*.frames"))
		if err != nil || len(files) != 1 {
			return fmt.Errorf("%d files: %w", len(files), err)
		}
		if all, err = os.ReadFile(files[0]); err == nil && !strings.Contains(string(all), text) {
			err = errors.New("not written yet")
		}
		return err
	}); err != nil {
		t.Fatalf("no line %q: %v\n%s", text, err, all)
	}
}
