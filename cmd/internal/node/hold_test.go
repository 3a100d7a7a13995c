package node

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/understudy-mq/understudy/cmd/internal/api"
	"github.com/understudy-mq/understudy/link/wire"
)

// beat tells a source, once, what a standby would that goes on asking and does not get further.
func beat(t *testing.T, link string, b wire.Beat) (a wire.BeatAnswer) {
	t.Helper()
	body, err := json.Marshal(b)
	if err != nil {
		t.Error(err)
		return a
	}
	q, err := http.NewRequest(http.MethodPost, "http://"+link+wire.PathBeat, bytes.NewReader(body))
	if err != nil {
		t.Error(err)
		return a
	}
	q.Header.Set("Authorization", "Bearer secret")
	answer, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Error(err)
		return a
	}
	defer answer.Body.Close()
	if err := wire.ReadJSON(answer.Body, &a); err != nil || answer.StatusCode != http.StatusOK {
		t.Errorf("status %d, %v", answer.StatusCode, err)
	}
	return a
}

// startBeating beats until the answer is called.
func startBeating(t *testing.T, link string, b wire.Beat) (end func()) {
	t.Helper()
	done := make(chan struct{})
	var beating sync.WaitGroup
	beating.Go(func() {
		for {
			beat(t, link, b)
			select {
			case <-done:
				return
			case <-time.After(100 * time.Millisecond):
			}
		}
	})
	end = sync.OnceFunc(func() { close(done); beating.Wait() })
	t.Cleanup(end)
	return end
}

// fill makes the log longer than two of its segments. Nobody gets the messages, so that nothing but a hold keeps them.
func fill(t *testing.T, n *Node) {
	t.Helper()
	ch, err := dial(t, n).Channel()
	if err != nil {
		t.Fatal(err)
	}
	defer ch.Close()
	if err := ch.Confirm(false); err != nil {
		t.Fatal(err)
	}
	const megabytes = 150
	body := make([]byte, 1<<20)
	var last *amqp.DeferredConfirmation
	for range megabytes {
		if last, err = ch.PublishWithDeferredConfirm("", "nobody", false, false, amqp.Publishing{Body: body}); err != nil {
			t.Fatal(err)
		}
	}
	if !last.Wait() {
		t.Fatal("not confirmed")
	}
}

// only is the one hold of a source, as its API tells it.
func only(t *testing.T, n *Node) api.LinkHold {
	t.Helper()
	holds := n.Link().Holds
	if len(holds) != 1 {
		t.Fatalf("holds %+v", holds)
	}
	return holds[0]
}

// A standby stays away and its source's log goes on: what is kept for it can be seen on both sides before it is lost, and
// what has to be done after.
func TestAHoldThatIsLostShowsBeforeAndAfterAndANewSeedCuresIt(t *testing.T) {
	t.Parallel() // it waits for the most part
	from, to := pair(t)
	from.LinkHoldSeconds = 12
	source, standby := start(t, from), start(t, to)
	ready(t, source, standby)
	send(t, dial(t, source), "work", "kept")
	follows(t, source, standby)
	if h := only(t, source); h.State != "reserved" || !h.Holding || h.Left == 0 {
		t.Errorf("while it follows: %+v", h)
	}
	eventually(t, "the standby knows what is held for it", func() bool {
		h := standby.Link().Sources[0].Hold
		return h != nil && h.State == "reserved" && h.Holding
	})

	slow := wire.Beat{Reader: readerName(standby.ClusterID()), Standby: standby.ClusterID(), Cluster: source.ClusterID()}
	for _, g := range standby.groups {
		slow.Positions = append(slow.Positions, wire.Position{Group: g, Position: standby.linkState(g).Position})
	}
	stop(t, standby)
	asking := startBeating(t, from.Link, slow)
	fill(t, source)
	eventually(t, "the log is longer for the standby's sake, and both sides can see it", func() bool {
		told, h := beat(t, from.Link, slow).Hold, only(t, source)
		return told != nil && told.State == "extended" && h.State == "extended" && h.Holding && h.Held > 64<<20
	})
	asking()
	eventually(t, "the hold is lost once nobody asks any more", func() bool { return only(t, source).State == "lost" })
	if h := only(t, source); h.Holding || !strings.Contains(h.Reason, "silent for more than 12s") || !strings.Contains(h.Reason, "new seed") {
		t.Errorf("lost: %+v", h)
	}

	standby = start(t, to)
	eventually(t, "the standby halts and says what is needed", func() bool {
		l := standby.Link()
		h := l.Sources[0].Hold
		for _, g := range l.Groups {
			if g.State == "halted" && strings.Contains(*g.Error, "a new seed is needed") {
				return h != nil && h.State == "lost"
			}
		}
		return false
	})
	stop(t, standby)
	if err := os.RemoveAll(to.Data); err != nil {
		t.Fatal(err)
	}
	to.Data = filepath.Join(t.TempDir(), "anew")
	to.Standby, to.LinkSeed = false, 1
	standby = start(t, to)
	follows(t, source, standby)
	for _, h := range source.Link().Holds {
		if is := h.Name == readerName(standby.ClusterID()); is != h.Holding {
			t.Errorf("with a new standby: %+v", h)
		}
	}
	for _, g := range standby.Link().Groups {
		if g.Error != nil {
			t.Errorf("group %d: %s", g.Group, *g.Error)
		}
	}
}
