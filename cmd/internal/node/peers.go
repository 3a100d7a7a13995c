package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/understudy-mq/understudy/core"
)

// What a vhost holds every node knows from its own replica. What only one node knows, the others ask it for.

const askTimeout = 2 * time.Second // for the other nodes' answers to a listing

// question is what nodes ask each other, as JSON. Nodes trust each other: who may see the answer, or have the thing done, is
// for the asking one to say.
type question struct {
	Want   string `json:"want"`             // one of the wants
	Name   string `json:"name,omitempty"`   // of a connection or a user
	Reason string `json:"reason,omitempty"` // why it is closed

	Sessions []sessionRef `json:"sessions,omitempty"` // that may be attached to the node
}

// wants are the questions that a node answers, each with what askNode is asked for.
var wants = map[string]func(*Node, question) any{
	"node":        func(n *Node, _ question) any { return n.ownRow() },
	"connections": func(n *Node, _ question) any { return n.ownConnections() },
	"attached":    func(n *Node, q question) any { return n.attachedHere(q.Sessions) },
	"attempts":    func(n *Node, _ question) any { return n.ownAttempts() },
	"users":       func(n *Node, _ question) any { return n.clients.Users() },
	"close":       func(n *Node, q question) any { return n.clients.CloseConnection(q.Name, q.Reason) },
	"close-user": func(n *Node, q question) any {
		n.clients.CloseConnectionsOf(q.Name, q.Reason)
		return true
	},
}

// answerPeer answers another node. What it does not know, as a newer one might ask, gets no answer but null.
func (n *Node) answerPeer(_ uint64, text []byte) []byte {
	var q question
	var answer any
	if err := json.Unmarshal(text, &q); err == nil {
		if want := wants[q.Want]; want != nil {
			answer = want(n, q)
		}
	}
	b, err := json.Marshal(answer)
	if err != nil {
		n.log.Error("answer to another node", "want", q.Want, "error", err)
		return []byte("null")
	}
	return b
}

var errNoSuchQuestion = errors.New("it does not know the question: it runs another version")

// askNode puts a question to a node, this one included.
func askNode[T any](ctx context.Context, n *Node, id uint64, q question) (answer T, err error) {
	if id == n.cfg.NodeID {
		return wants[q.Want](n, q).(T), nil
	}
	text, err := json.Marshal(q)
	if err != nil {
		return answer, err
	}
	b, err := n.raft.Ask(ctx, id, text)
	if err != nil {
		return answer, err
	}
	if string(b) == "null" {
		return answer, fmt.Errorf("node %d: %w", id, errNoSuchQuestion)
	}
	return answer, json.Unmarshal(b, &answer)
}

// askAll puts a question to all nodes that run, this one included, and answers what they say, by node. One that does not
// answer in time is missing.
func askAll[T any](ctx context.Context, n *Node, q question) map[uint64]T {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	var mu sync.Mutex
	var wait sync.WaitGroup
	answers := map[uint64]T{}
	for _, id := range n.running() {
		wait.Go(func() {
			answer, err := askNode[T](ctx, n, id, q)
			if err != nil {
				n.log.Warn("a node is left out of a listing", "node", id, "want", q.Want, "error", err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			answers[id] = answer
		})
	}
	wait.Wait()
	return answers
}

// running are the nodes that the system group takes for up, and this one.
func (n *Node) running() []uint64 {
	ids := []uint64{n.cfg.NodeID}
	n.states[systemGroup].View(func(m *core.Machine) {
		for _, x := range m.Nodes() {
			if x.Up && x.Node != n.cfg.NodeID {
				ids = append(ids, x.Node)
			}
		}
	})
	return ids
}
