package core_test

import (
	"testing"

	"github.com/understudy-mq/understudy/core/entry"
)

// A node that was silent for a while learns from its nonce's being gone that it has to close its clients and register
// anew, and a leader that it need not declare the node down again.
func TestNonceOfANodeThatIsDownIsNotAnswered(t *testing.T) {
	d := started(t)
	if incarnation, nonce, seq := d.Machine.Incarnation(1); incarnation != 1 || nonce != 7 || seq != 2 {
		t.Fatalf("up: incarnation %d, nonce %d, seq %d; want 1, 7, 2", incarnation, nonce, seq)
	}
	d.Control(&entry.NodeDown{Node: 1, Incarnation: 1})
	if incarnation, nonce, seq := d.Machine.Incarnation(1); incarnation != 1 || nonce != 0 || seq != 2 {
		t.Errorf("down: incarnation %d, nonce %d, seq %d; want 1, 0, 2", incarnation, nonce, seq)
	}
	d.Control(&entry.NodeUp{Node: 1, Nonce: 7}) // the node's own word, said again before it was registered
	if incarnation, nonce, seq := d.Machine.Incarnation(1); incarnation != 1 || nonce != 0 || seq != 2 {
		t.Errorf("down, and a word of before comes late: incarnation %d, nonce %d, seq %d; want 1, 0, 2", incarnation, nonce, seq)
	}
	d.Control(&entry.NodeUp{Node: 1, Nonce: 8})
	if incarnation, nonce, seq := d.Machine.Incarnation(1); incarnation != 2 || nonce != 8 || seq != 0 {
		t.Errorf("up again: incarnation %d, nonce %d, seq %d; want 2, 8, 0", incarnation, nonce, seq)
	}
}
