package core

import "fmt"

// bounds are how much of each thing a vhost or channel may have, so that one client's loop does not become everybody's
// memory. They are the machine's, the same in every version that reads an entry: replicas must agree on a refusal.
type bounds struct {
	queues     int // per vhost
	exchanges  int // per vhost
	bindings   int // per vhost
	consumers  int // per channel
	copies     int // keys in the CC and BCC headers of a message
	windowIDs  int // that a session remembers at least, if the group has room
	groupIDs   int // that the group remembers: some 60 bytes each
	numbering  int // publishers that the group remembers: some 700 bytes each
	tombstones int // of deleted vhosts, in the system group
	clears     int // messages, and queues of deleted vhosts, that an entry lets go of
	dues       int // things that an entry carries out because their time has come, messages expired and the like; what is left stays due
	trims      int // messages that were there before a command and that it drops from one queue where a limit is new; likewise
	// Dead letters that a command makes of messages that are dead letters of this very command: queues that overflow into each other
	// in every order would otherwise never come to an end. Further ones are dropped.
	cascades int
}

var ourBounds = bounds{queues: 500_000, exchanges: 500_000, bindings: 500_000, consumers: 10_000, copies: 1_000, windowIDs: 20_000, groupIDs: 2_000_000,
	numbering: 100_000, tombstones: tombstonesMost, clears: 2_000, dues: 5_000, trims: 1_000, cascades: 1 << 14}

// The texts are RabbitMQ's where it has such a limit.

func (m *Machine) checkQueues(v *vhost, name string) (Code, string) {
	if len(v.queues) < m.bounds.queues {
		return CodeOK, ""
	}
	return CodePreconditionFailed, fmt.Sprintf("cannot declare queue '%s': queue limit in vhost '%s' (%d) is reached", name, v.Name, m.bounds.queues)
}

func (m *Machine) checkExchanges(v *vhost, name string) (Code, string) {
	if len(v.exchanges) < m.bounds.exchanges {
		return CodeOK, ""
	}
	return CodePreconditionFailed, fmt.Sprintf("cannot declare %s: exchange limit of %d is reached", v.named("exchange", name), m.bounds.exchanges)
}

func (m *Machine) checkBindings(v *vhost) (Code, string) {
	if len(v.bindings) < m.bounds.bindings {
		return CodeOK, ""
	}
	return CodePreconditionFailed, fmt.Sprintf("cannot bind: binding limit in vhost '%s' (%d) is reached", v.Name, m.bounds.bindings)
}

func (m *Machine) checkConsumers(h *channel) (Code, string) {
	if len(h.consumers) < m.bounds.consumers {
		return CodeOK, ""
	}
	return CodeNotAllowed, fmt.Sprintf("reached maximum (%d) of consumers per channel", m.bounds.consumers)
}

func (m *Machine) checkCopies(n int) (Code, string) {
	if n <= m.bounds.copies {
		return CodeOK, ""
	}
	return CodePreconditionFailed, fmt.Sprintf("invalid message: %d routing keys in headers 'CC' and 'BCC', at most %d are taken", n, m.bounds.copies)
}
