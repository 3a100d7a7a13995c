package node

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/understudy-mq/understudy/cmd/internal/admin"
	"github.com/understudy-mq/understudy/cmd/internal/api"
	"github.com/understudy-mq/understudy/cmd/internal/audit"
	"github.com/understudy-mq/understudy/cmd/internal/definitions"
	"github.com/understudy-mq/understudy/cmd/internal/jsontable"
	"github.com/understudy-mq/understudy/core"
	"github.com/understudy-mq/understudy/core/entry"
	"github.com/understudy-mq/understudy/core/message"
)

// Policies lists policies, or with operator operator policies.
func (n *Node) Policies(vhost string, operator bool) []api.Policy {
	list := func(m *core.Machine, vhost string) []core.PolicyInfo {
		return slices.DeleteFunc(m.Policies(vhost), func(p core.PolicyInfo) bool { return p.Operator != operator })
	}
	return gather(n, vhost, list, func(_ uint64, p core.PolicyInfo) api.Policy {
		return api.Policy{
			Vhost: p.Vhost, Name: p.Name, Pattern: p.Pattern, ApplyTo: p.ApplyTo, Priority: p.Priority, Definition: jsontable.Decode(p.Definition),
		}
	})
}

// effectivePolicies answers what tells a queue's policies as one definition. The policies are read when the first queue with
// one asks.
func (n *Node) effectivePolicies() func(*core.QueueInfo) map[string]any {
	type key struct {
		vhost, name string
		operator    bool
	}
	read := sync.OnceValue(func() map[key]message.Table {
		tables := map[key]message.Table{}
		gather(n, "", (*core.Machine).Policies, func(_ uint64, p core.PolicyInfo) struct{} {
			t, _ := message.ParseTable(p.Definition) // it parsed when the policy was set
			tables[key{p.Vhost, p.Name, p.Operator}] = t
			return struct{}{}
		})
		return tables
	})
	return func(q *core.QueueInfo) map[string]any {
		if q.Policy == "" && q.OperatorPolicy == "" {
			return map[string]any{}
		}
		own, operator := read()[key{q.Vhost, q.Policy, false}], read()[key{q.Vhost, q.OperatorPolicy, true}]
		return jsontable.Decode(message.AppendTable(nil, core.MergeDefinitions(own, operator)))
	}
}

// SetPolicy makes or replaces a policy.
func (n *Node) SetPolicy(ctx context.Context, by string, operator bool, vhost, name string, p api.NewPolicy) error {
	cmd, err := definitions.PolicyCommand(vhost, name, p, operator)
	if err != nil {
		return err
	}
	return n.setPolicy(ctx, by, cmd)
}

func (n *Node) setPolicy(ctx context.Context, by string, cmd *entry.PolicySet) error {
	what := audit.Event{Event: policyEvent("policy_set", cmd.Operator), By: by, Vhost: cmd.Vhost, Text: cmd.Name}
	return n.recorded(ctx, what, cmd, func(m *core.Machine) bool {
		p, ok := policyOf(m, cmd.Operator, cmd.Vhost, cmd.Name)
		return ok && p.Pattern == cmd.Pattern && p.ApplyTo == cmd.ApplyTo && p.Priority == cmd.Priority &&
			bytes.Equal(p.Definition, cmd.Definition)
	})
}

// DeletePolicy removes one; one that is not there is no error.
func (n *Node) DeletePolicy(ctx context.Context, by string, operator bool, vhost, name string) error {
	cmd := &entry.PolicyDelete{Vhost: vhost, Name: name, Operator: operator}
	what := audit.Event{Event: policyEvent("policy_deleted", operator), By: by, Vhost: vhost, Text: name}
	return n.recorded(ctx, what, cmd, func(m *core.Machine) bool {
		_, there := policyOf(m, operator, vhost, name)
		return !there
	})
}

func policyEvent(event string, operator bool) string {
	if operator {
		return "operator_" + event
	}
	return event
}

// recorded is control with a line in the audit record once the change has come.
func (n *Node) recorded(ctx context.Context, what audit.Event, cmd entry.Command, shows func(m *core.Machine) bool) error {
	if err := n.control(ctx, what.Vhost, cmd, shows); err != nil {
		return err
	}
	n.audit.Keep(what)
	return nil
}

func policyOf(m *core.Machine, operator bool, vhost, name string) (core.PolicyInfo, bool) {
	list := m.Policies(vhost)
	i := slices.IndexFunc(list, func(p core.PolicyInfo) bool { return p.Name == name && p.Operator == operator })
	if i < 0 {
		return core.PolicyInfo{}, false
	}
	return list[i], true
}

// The limits of a vhost, by RabbitMQ's names.
const (
	limitQueues      = "max-queues"
	limitConnections = "max-connections"
)

// VhostLimits lists the limits of vhosts that have any.
func (n *Node) VhostLimits(vhost string) []api.VhostLimits {
	list := func(m *core.Machine, vhost string) []core.VhostInfo {
		if v, ok := m.Vhost(vhost); ok && (v.MaxQueues >= 0 || v.MaxConnections >= 0) {
			return []core.VhostInfo{v}
		}
		return nil
	}
	return gather(n, vhost, list, func(_ uint64, v core.VhostInfo) api.VhostLimits {
		row := api.VhostLimits{Vhost: v.Name, Value: map[string]int64{}}
		if v.MaxQueues >= 0 {
			row.Value[limitQueues] = v.MaxQueues
		}
		if v.MaxConnections >= 0 {
			row.Value[limitConnections] = v.MaxConnections
		}
		return row
	})
}

// SetVhostLimit sets one limit of a vhost and leaves the other. Two changes at the same moment, through different nodes, may
// lose one of them: the caller of that one is told that it did not come.
func (n *Node) SetVhostLimit(ctx context.Context, by, vhost, limit string, value int64) error {
	cmd, there := n.limitsOf(vhost)
	value = max(value, -1)
	switch {
	case !there:
		return noVhost(vhost)
	case limit == limitQueues:
		cmd.MaxQueues = value
	case limit == limitConnections:
		cmd.Connections = value
	default:
		return fmt.Errorf("unknown limit '%s': there are %s and %s", limit, limitQueues, limitConnections)
	}
	what := audit.Event{Event: "vhost_limit", By: by, Vhost: vhost, Text: fmt.Sprintf("%s: %d", limit, value)}
	return n.recorded(ctx, what, cmd, func(m *core.Machine) bool {
		now, ok := vhostLimit(m, vhost)
		return ok && *now == *cmd
	})
}

// limitsOf are a vhost's limits as the command that would set them.
func (n *Node) limitsOf(vhost string) (cmd *entry.VhostLimit, ok bool) {
	home, ok := n.vhostHome(vhost)
	if !ok {
		return nil, false
	}
	n.states[home.Group].View(func(m *core.Machine) { cmd, ok = vhostLimit(m, vhost) })
	return cmd, ok
}

func vhostLimit(m *core.Machine, vhost string) (*entry.VhostLimit, bool) {
	v, ok := m.Vhost(vhost)
	return &entry.VhostLimit{Vhost: vhost, MaxQueues: v.MaxQueues, Connections: v.MaxConnections}, ok
}

var _ admin.Policies = (*Node)(nil)
