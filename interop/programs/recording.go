package programs

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/understudy-mq/understudy/interop/harness"
	"github.com/understudy-mq/understudy/interop/rawclient"
)

// framesFolder is the variable that names a folder in which every frame between clients and nodes is written down: a file
// per address that clients are given, a line per frame with its time, its connection, its direction and what it says.
const framesFolder = "INTEROP_FRAMES"

// recorder writes frames down; a nil one does not.
type recorder struct {
	mu   sync.Mutex
	file *os.File
}

// recording answers the recorder that the environment asks for, which ends with the test.
func recording(t testing.TB) *recorder {
	t.Helper()
	dir := os.Getenv(framesFolder)
	if dir == "" {
		return nil
	}
	file, err := os.CreateTemp(dir, strings.ReplaceAll(t.Name(), "/", "-")+"-*.frames")
	if err != nil {
		t.Fatalf("%s: %v", framesFolder, err)
	}
	t.Logf("frames are in %s", file.Name())
	r := &recorder{file: file}
	t.Cleanup(func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		_ = file.Close()
	})
	return r
}

// watched is the node's URL for clients, by way of a balancer of its own where frames are written down.
func watched(t testing.TB, n *harness.Node) string {
	t.Helper()
	if os.Getenv(framesFolder) == "" {
		return n.URL()
	}
	return strings.Replace(n.URL(), n.AMQP, Forward(t, "127.0.0.1:0", n.AMQP), 1)
}

// copy passes on what comes from src until that ends; way names the direction.
func (r *recorder) copy(way string, dst io.Writer, src io.Reader) {
	if r == nil {
		_, _ = io.Copy(dst, src)
		return
	}
	say := func(line string) { r.say(way, line) }
	say("begin")
	_, err := io.Copy(io.MultiWriter(&rawclient.Tap{Say: say}, dst), src)
	say(fmt.Sprintf("end, %v", err))
}

func (r *recorder) say(way, line string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, _ = fmt.Fprintln(r.file, time.Now().UTC().Format("15:04:05.000000"), way, line)
}
