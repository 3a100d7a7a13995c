package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/understudy-mq/understudy/cmd/internal/admin"
	"github.com/understudy-mq/understudy/cmd/internal/api"
	"github.com/understudy-mq/understudy/cmd/internal/audit"
	"github.com/understudy-mq/understudy/cmd/internal/definitions"
	"github.com/understudy-mq/understudy/cmd/internal/jsontable"
	"github.com/understudy-mq/understudy/core"
	"github.com/understudy-mq/understudy/core/entry"
)

const (
	importTimeout = 5 * time.Minute
	importChunk   = 500 // commands that are under way at once
)

// Definitions are all that the cluster has, or of one vhost; no messages, and nothing that ends with a client's connection.
func (n *Node) Definitions(vhost string) api.Definitions {
	d := api.Definitions{
		RabbitVersion: admin.CompatibleVersion, RabbitMQVersion: admin.CompatibleVersion, ProductName: "Understudy", ProductVersion: n.o.Version,
		Parameters: n.parameters(vhost), Policies: []api.DefinedPolicy{}, Queues: []api.DefinedQueue{}, Exchanges: []api.DefinedExchange{},
		Bindings: []api.DefinedBinding{},
	}
	for _, p := range n.policies(vhost, false) {
		d.Policies = append(d.Policies, api.DefinedPolicy{Vhost: p.Vhost, Name: p.Name, NewPolicy: newPolicy(p)})
	}
	n.defineObjects(&d, vhost)
	if vhost == "" {
		n.defineCluster(&d)
	}
	return d
}

// defineObjects fills in queues, exchanges and bindings. Exclusive queues end with their connections: they are not defined.
func (n *Node) defineObjects(d *api.Definitions, vhost string) {
	exclusive := map[[2]string]bool{}
	for _, q := range gather(n, vhost, (*core.Machine).Queues, func(_ uint64, q core.QueueInfo) core.QueueInfo { return q }) {
		if q.Exclusive {
			exclusive[[2]string{q.Vhost, q.Name}] = true
			continue
		}
		d.Queues = append(d.Queues, api.DefinedQueue{
			Name: q.Name, Vhost: q.Vhost, Durable: api.Bool(q.Durable), AutoDelete: api.Bool(q.AutoDelete), Arguments: jsontable.DecodeRaw(q.Arguments),
		})
	}
	for _, x := range gather(n, vhost, (*core.Machine).Exchanges, func(_ uint64, x core.ExchangeInfo) core.ExchangeInfo { return x }) {
		if x.Name == "" || strings.HasPrefix(x.Name, "amq.") {
			continue // every vhost has them
		}
		d.Exchanges = append(d.Exchanges, api.DefinedExchange{
			Name: x.Name, Vhost: x.Vhost, Type: x.Type, Durable: api.Bool(x.Durable), AutoDelete: api.Bool(x.AutoDelete),
			Internal: api.Bool(x.Internal), Arguments: jsontable.DecodeRaw(x.Arguments),
		})
	}
	for _, b := range gather(n, vhost, (*core.Machine).Bindings, func(_ uint64, b core.BindingInfo) core.BindingInfo { return b }) {
		kind := "exchange"
		if b.ToQueue {
			kind = "queue"
		}
		if b.ToQueue && exclusive[[2]string{b.Vhost, b.Destination}] {
			continue
		}
		d.Bindings = append(d.Bindings, api.DefinedBinding{
			Source: b.Source, Vhost: b.Vhost, Destination: b.Destination, DestinationType: kind, RoutingKey: b.Key,
			Arguments: jsontable.DecodeRaw(b.Arguments),
		})
	}
}

// defineCluster fills in what is no vhost's.
func (n *Node) defineCluster(d *api.Definitions) {
	for _, u := range n.accounts.Users() {
		tags := u.Tags
		if tags == nil {
			tags = api.Tags{}
		}
		d.Users = append(d.Users, api.DefinedUser{
			NewUser: api.NewUser{Name: u.Name, PasswordHash: &u.PasswordHash, HashingAlgorithm: u.HashingAlgorithm, Tags: &tags}, Limits: u.Limits,
		})
	}
	for _, v := range n.Vhosts() {
		tags := api.Tags(v.Tags)
		row := api.DefinedVhost{Name: v.Name, Description: &v.Description, Tags: &tags, DefaultQueueType: &v.DefaultQueueType}
		d.Vhosts = append(d.Vhosts, row)
	}
	d.Permissions, d.TopicPermissions = n.accounts.Permissions(), n.accounts.TopicPermissions()
	d.GlobalParameters = []api.GlobalParameter{} // the name and the id are this cluster's, and a RabbitMQ would take them for its own
}

// policies are as their commands, definitions exact.
func (n *Node) policies(vhost string, operator bool) (list []core.PolicyInfo) {
	for _, p := range gather(n, vhost, (*core.Machine).Policies, func(_ uint64, p core.PolicyInfo) core.PolicyInfo { return p }) {
		if p.Operator == operator {
			list = append(list, p)
		}
	}
	return list
}

func newPolicy(p core.PolicyInfo) api.NewPolicy {
	return api.NewPolicy{Pattern: &p.Pattern, Definition: jsontable.DecodeRaw(p.Definition), ApplyTo: p.ApplyTo, Priority: p.Priority}
}

// parameters are what RabbitMQ keeps as such: limits and operator policies.
func (n *Node) parameters(vhost string) []api.Parameter {
	rows := []api.Parameter{}
	add := func(component, vhost, name string, value any) {
		text, err := json.Marshal(value)
		if err != nil {
			n.log.Error("parameter", "component", component, "name", name, "error", err)
			return
		}
		rows = append(rows, api.Parameter{Component: component, Vhost: vhost, Name: name, Value: text})
	}
	for _, l := range n.VhostLimits(vhost) {
		add(api.ComponentLimits, l.Vhost, api.ParameterLimits, l.Value)
	}
	for _, p := range n.policies(vhost, true) {
		add(api.ComponentOperatorPolicy, p.Vhost, p.Name, newPolicy(p))
	}
	return rows
}

// Parameters lists runtime parameters.
func (n *Node) Parameters(vhost string) []api.Parameter { return n.parameters(vhost) }

// ImportDefinitions has the cluster become what a file says, on top of what it has. A file with any fault changes nothing.
func (n *Node) ImportDefinitions(ctx context.Context, by, vhost string, text []byte) error {
	d, err := definitions.Read(text, vhost)
	if err != nil {
		return err
	}
	n.importing.Lock()
	defer n.importing.Unlock()
	plan, err := definitions.Check(d, n.definitionState())
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, importTimeout)
	defer cancel()
	if err := n.carryOut(ctx, by, &plan); err != nil {
		return fmt.Errorf("the definitions are good, but not all of them have come: import them again: %w", err)
	}
	n.audit.Keep(audit.Event{Event: "definitions_imported", By: by, Vhost: vhost, Text: fmt.Sprintf("%d users, %d vhosts", len(plan.Users), len(plan.Vhosts))})
	return nil
}

// definitionState is what definitions are judged by.
func (n *Node) definitionState() definitions.State {
	state := definitionRules()
	state.Vhost = n.definedVhost
	for _, u := range n.accounts.Users() {
		state.Users = append(state.Users, u.Name)
	}
	return state
}

func checkDefinedUser(name string, u api.NewUser) error {
	cmd, err := userPut(name, u)
	if err == nil && cmd.KeepHash {
		err = errors.New("a user needs a password_hash or a password")
	}
	return err
}

func checkDefinedVhost(name string, v api.NewVhost) error {
	var cmd entry.VhostPut
	return errors.Join(checkName("vhost name", name), describe(&cmd, core.RegisteredVhost{}, v))
}

func (n *Node) definedVhost(name string) (v definitions.Vhost, ok bool) {
	home, ok := n.vhostHome(name)
	if !ok {
		return v, false
	}
	n.states[home.Group].View(func(m *core.Machine) {
		v = definitions.Vhost{Exchanges: m.Exchanges(name), Queues: m.Queues(name)}
		if limits, ok := vhostLimit(m, name); ok {
			v.Limits = *limits
		}
	})
	return v, true
}

// carryOut does what a plan asks for; done again, it does nothing. Limits come last: what is defined may be more than they let
// clients make.
func (n *Node) carryOut(ctx context.Context, by string, p *definitions.Plan) error {
	if err := n.carryOutCluster(ctx, by, p); err != nil {
		return err
	}
	for _, w := range p.Within {
		if err := n.carryOutWithin(ctx, by, &w); err != nil {
			return fmt.Errorf("vhost '%s': %w", w.Vhost, err)
		}
	}
	return nil
}

func (n *Node) carryOutCluster(ctx context.Context, by string, p *definitions.Plan) error {
	for _, u := range p.Users {
		if err := n.accounts.PutUser(ctx, by, u.Name, u.NewUser); err != nil {
			return fmt.Errorf("user '%s': %w", u.Name, err)
		}
		for limit, value := range u.Limits {
			if err := n.accounts.SetUserLimit(ctx, by, u.Name, limit, value); err != nil {
				return fmt.Errorf("user '%s': %w", u.Name, err)
			}
		}
	}
	for _, v := range p.Vhosts {
		if _, err := n.putVhost(ctx, by, "", v.Name, v.New()); err != nil {
			return fmt.Errorf("vhost '%s': %w", v.Name, err)
		}
	}
	for _, x := range p.Permissions {
		if err := n.accounts.SetPermission(ctx, by, x); err != nil {
			return fmt.Errorf("permission of '%s' in '%s': %w", x.User, x.Vhost, err)
		}
	}
	for _, x := range p.TopicPermissions {
		if err := n.accounts.SetTopicPermission(ctx, by, x); err != nil {
			return fmt.Errorf("topic permission of '%s' in '%s': %w", x.User, x.Vhost, err)
		}
	}
	return nil
}

func (n *Node) carryOutWithin(ctx context.Context, by string, w *definitions.Within) error {
	for _, cmd := range w.Policies {
		if err := n.setPolicy(ctx, by, cmd); err != nil {
			return err
		}
	}
	if err := n.declareAll(ctx, by, w.Vhost, w.Objects); err != nil {
		return err
	}
	for limit, value := range w.Limits {
		if err := n.SetVhostLimit(ctx, by, w.Vhost, limit, value); err != nil {
			return err
		}
	}
	return nil
}

// declareAll has a vhost's group carry out commands, many at once.
func (n *Node) declareAll(ctx context.Context, by, vhost string, commands []entry.Addressed) error {
	if len(commands) == 0 {
		return nil
	}
	t, err := n.trusted(ctx, by, vhost)
	if err != nil {
		return err
	}
	defer t.End()
	for len(commands) > 0 {
		chunk := commands[:min(len(commands), importChunk)]
		commands = commands[len(chunk):]
		for _, cmd := range chunk {
			t.Do(cmd)
		}
		for range chunk {
			if _, err := t.answer(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

var _ admin.Definitions = (*Node)(nil)
