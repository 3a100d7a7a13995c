package node

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"

	"github.com/understudy-mq/understudy/cmd/internal/config"
)

// lines is a log that can be read while it is written.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

// said are the messages at a level, each once.
func (l *lines) said(t *testing.T, level slog.Level) (messages []string) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for s := bufio.NewScanner(bytes.NewReader(l.text.Bytes())); s.Scan(); {
		var line struct {
			Level slog.Level
			Msg   string
		}
		if err := json.Unmarshal(s.Bytes(), &line); err != nil {
			t.Fatal(err)
		}
		if line.Level == level && !slices.Contains(messages, line.Msg) {
			messages = append(messages, line.Msg)
		}
	}
	slices.Sort(messages)
	return messages
}

// startLogged starts a node that logs to a place.
func startLogged(t *testing.T, c config.Config, to *lines) *Node {
	t.Helper()
	o := options(t, c)
	o.Logger = slog.New(slog.NewJSONHandler(to, nil))
	return startWith(t, o)
}

func TestALogSaysAPlannedChangeOfLeadersOnceAndTheEndOfAnOutage(t *testing.T) {
	t.Parallel() // it waits for the most part
	both := []config.Config{settings(t, 1), settings(t, 2)}
	log, nodes := &lines{}, make([]*Node, 2)
	for i := range both {
		both[i].Cluster = fmt.Sprintf("1=%s,2=%s", both[0].Peer, both[1].Peer)
		nodes[i] = startLogged(t, both[i], log)
	}
	ready(t, nodes...)
	raised(t, nodes...)
	leader := nodes[0].raft.Group(1).Status().Leader
	if err := nodes[0].TransferLeader(t.Context(), 1, 3-leader); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the other one leads", func() bool {
		return nodes[0].raft.Group(1).Status().Leader == 3-leader && nodes[1].raft.Group(1).Status().Leader == 3-leader
	})
	for _, message := range log.said(t, slog.LevelInfo) {
		if message != "leader changed" && message != "balancing leaders" {
			t.Errorf("it logged %q", message)
		}
	}
	stop(t, nodes[1])
	eventually(t, "the outage is told", func() bool { return slices.Contains(log.said(t, slog.LevelWarn), "out of service") })
	ready(t, startLogged(t, both[1], log))
	eventually(t, "its end is told", func() bool { return slices.Contains(log.said(t, slog.LevelInfo), "in service") })
}
