package replication

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/understudy-mq/understudy/replication/transport"
)

const (
	asksMost        = 16       // questions of peers that are answered at once; more are not answered
	answerBytesMost = 32 << 20 // of one answer; a longer one is not sent
)

// Ask puts a question to a peer's Options.Answer and waits for what it says. Questions and answers mean nothing to
// replication, change nothing in any group and are lost with a connection. Errors: the peer is not connected, or ctx ended.
func (n *Node) Ask(ctx context.Context, peer uint64, question []byte) ([]byte, error) {
	answers := make(chan []byte, 1)
	n.mu.Lock()
	n.number++
	number := n.number
	n.asked[number] = asking{peer, answers}
	n.mu.Unlock()
	defer func() {
		n.mu.Lock()
		delete(n.asked, number)
		n.mu.Unlock()
	}()
	payload := appendBytes(binary.AppendUvarint(nil, number), question)
	if !n.net.Send(peer, transport.Frame{Kind: transport.Ask, Payload: payload}) {
		return nil, fmt.Errorf("node %d is not connected", peer)
	}
	select {
	case a := <-answers:
		return a, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("node %d does not answer: %w", peer, ctx.Err())
	case <-n.ctx.Done():
		return nil, errStopped
	}
}

// asking is a question under way.
type asking struct {
	peer    uint64
	answers chan []byte // holds one
}

var errTooManyAsks = errors.New("a peer asks too much at once")

// takeAsk answers a peer's question, in a goroutine of its own: an answer may take its time.
func (n *Node) takeAsk(from uint64, payload []byte) error {
	r := reader{b: payload}
	number, question := r.uvarint(), append([]byte(nil), r.bytes()...)
	if err := r.end(); err != nil {
		return err
	}
	if n.opts.Answer == nil {
		return nil
	}
	select {
	case n.answering <- struct{}{}:
	default:
		n.logger.Warn("a question is not answered", "peer", from, "error", errTooManyAsks)
		return nil
	}
	n.wait.Go(func() {
		defer func() { <-n.answering }()
		answer := n.opts.Answer(from, question)
		if len(answer) > answerBytesMost {
			n.logger.Warn("an answer is too long to be sent", "peer", from, "bytes", len(answer))
			return
		}
		n.net.Send(from, transport.Frame{Kind: transport.Tell, Payload: appendBytes(binary.AppendUvarint(nil, number), answer)})
	})
	return nil
}

// takeTell takes the answer to a question of ours.
func (n *Node) takeTell(from uint64, payload []byte) error {
	r := reader{b: payload}
	number, answer := r.uvarint(), append([]byte(nil), r.bytes()...)
	if err := r.end(); err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if a, ok := n.asked[number]; ok && a.peer == from {
		delete(n.asked, number)
		a.answers <- answer
	}
	return nil
}
