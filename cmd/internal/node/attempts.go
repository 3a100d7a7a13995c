package node

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/understudy-mq/understudy/cmd/internal/admin"
	"github.com/understudy-mq/understudy/cmd/internal/api"
)

// attempts counts logins since the node's start, by protocol. What could not be judged is none.
type attempts struct{ amqp091, http tally }

type tally struct{ succeeded, failed atomic.Uint64 }

func (t *tally) note(refusal error) {
	if refusal != nil {
		t.failed.Add(1)
	} else {
		t.succeeded.Add(1)
	}
}

func (t *tally) row(protocol string) api.LoginAttempts {
	failed, succeeded := t.failed.Load(), t.succeeded.Load()
	return api.LoginAttempts{Protocol: protocol, All: failed + succeeded, Failed: failed, Succeeded: succeeded}
}

func (n *Node) ownAttempts() []api.LoginAttempts {
	return []api.LoginAttempts{n.attempts.amqp091.row("amqp091"), n.attempts.http.row("http")}
}

// LoginAttempts are those at a node, by its name. Errors: admin.NotFound, admin.Unavailable.
func (n *Node) LoginAttempts(ctx context.Context, name string) ([]api.LoginAttempts, error) {
	for _, m := range n.Cluster().Members {
		if admin.NodeName(m.ID) != name {
			continue
		}
		ctx, cancel := context.WithTimeout(ctx, askTimeout)
		defer cancel()
		rows, err := askNode[[]api.LoginAttempts](ctx, n, m.ID, question{Want: "attempts"})
		if err != nil {
			return nil, admin.Unavailable{Err: fmt.Errorf("node %s does not answer: %w", name, err)}
		}
		return rows, nil
	}
	return nil, admin.NotFound{Err: errors.New("no such node")}
}
