package definitions

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/understudy-mq/understudy/cmd/internal/api"
	"github.com/understudy-mq/understudy/cmd/internal/jsontable"
	"github.com/understudy-mq/understudy/core"
	"github.com/understudy-mq/understudy/core/entry"
	"github.com/understudy-mq/understudy/session/auth"
)

// State is what a cluster has, and its rules for what is not rehearsed by a machine.
type State struct {
	Users []string
	// Vhost answers what a vhost has; false for one that there is not.
	Vhost func(name string) (Vhost, bool)
	// CheckUser, CheckVhost and CheckName judge by the rules for calls of the API. what is said of a name in its error.
	CheckUser  func(name string, u api.NewUser) error
	CheckVhost func(name string, v api.NewVhost) error
	CheckName  func(what, name string) error
}

// Vhost is what one vhost has.
type Vhost struct {
	Exchanges []core.ExchangeInfo
	Queues    []core.QueueInfo
	Limits    entry.VhostLimit
}

// Plan is what a good file asks for, in the order in which it is carried out.
type Plan struct {
	Users            []api.DefinedUser
	Vhosts           []api.DefinedVhost
	Permissions      []api.Permission
	TopicPermissions []api.TopicPermission
	Within           []Within // by vhost
}

// Within is what a file asks for in one vhost.
type Within struct {
	Vhost    string
	Policies []*entry.PolicySet
	Objects  []entry.Addressed // declarations and bindings, on channel Channel
	Limits   map[string]int64  // max-queues, max-connections
}

// Channel is the channel of a Plan's commands.
const Channel = 1

// check is a file under examination.
type check struct {
	faults Faults
	partly map[string]bool // a thing that is not found may stand where the file could not be read: of those nothing is said
	faulty map[string]bool // what is refused itself, as vhost and called: nor is of what is bound to it
	have   State
	users  map[string]bool
	vhosts map[string]*Within
	seen   map[string]bool
	plan   Plan
}

// Check judges a file by what a cluster has. An error is Faults, all of them, but for what follows from another. What is there
// already stays as it is where it is a queue, an exchange or a binding; all else is to become as the file says.
func Check(d *File, have State) (Plan, error) {
	c := &check{
		faults: slices.Clone(d.faults), partly: d.partly, faulty: map[string]bool{}, have: have,
		users: map[string]bool{}, vhosts: map[string]*Within{}, seen: map[string]bool{},
	}
	for _, name := range have.Users {
		c.users[name] = true
	}
	c.checkUsers(d.Users)
	c.checkVhosts(d.Vhosts)
	c.checkPermissions(d.Permissions, d.TopicPermissions)
	c.checkParameters(d.Parameters)
	c.checkGlobals(d.GlobalParameters)
	for i := range d.Policies {
		p := &d.Policies[i]
		c.policy("policies", p.Vhost, p.Name, p.NewPolicy, false)
	}
	c.checkObjects(&d.Definitions)
	for _, vhost := range slices.Sorted(maps.Keys(c.vhosts)) {
		c.rehearse(c.vhosts[vhost])
		c.plan.Within = append(c.plan.Within, *c.vhosts[vhost])
	}
	return c.plan, c.faults.or()
}

// once notes a thing of a file; false, and a fault, if the file has it already.
func (c *check) once(section, name string) bool {
	key := section + "\x00" + name
	if c.seen[key] {
		c.faults.add("%s: '%s' is there twice", section, strings.ReplaceAll(name, "\x00", "' '"))
		return false
	}
	c.seen[key] = true
	return true
}

func (c *check) checkUsers(users []api.DefinedUser) {
	for i := range users {
		u := &users[i]
		if !c.once("users", u.Name) {
			continue
		}
		if err := c.have.CheckUser(u.Name, u.NewUser); err != nil {
			c.faults.add("users: '%s': %s", u.Name, oneLine(err))
		}
		for limit, value := range u.Limits {
			if limit != "max-connections" && limit != "max-channels" || value > 1<<31-1 {
				c.faults.add("users: '%s': limit %s: %d: there are max-connections and max-channels", u.Name, limit, value)
			}
		}
		c.users[u.Name] = true
		c.plan.Users = append(c.plan.Users, *u)
	}
}

func (c *check) checkVhosts(vhosts []api.DefinedVhost) {
	for i := range vhosts {
		v := vhosts[i]
		if !c.once("vhosts", v.Name) {
			continue
		}
		if err := c.have.CheckVhost(v.Name, v.New()); err != nil {
			c.faults.add("vhosts: '%s': %s", v.Name, oneLine(err))
		}
		c.vhosts[v.Name] = &Within{Vhost: v.Name, Limits: map[string]int64{}}
		c.plan.Vhosts = append(c.plan.Vhosts, v)
	}
}

// within is what the file asks for in a vhost; nil, and a fault, if there is no such vhost (or nil alone, if nobody knows).
func (c *check) within(section, name, vhost string) *Within {
	if w := c.vhosts[vhost]; w != nil {
		return w
	}
	if _, ok := c.have.Vhost(vhost); !ok {
		if !c.partly["vhosts"] {
			c.faults.add("%s: '%s': vhost '%s' not found", section, name, vhost)
		}
		return nil
	}
	w := &Within{Vhost: vhost, Limits: map[string]int64{}}
	c.vhosts[vhost] = w
	return w
}

func (c *check) checkPermissions(all []api.Permission, topics []api.TopicPermission) {
	known := func(section, user, vhost string) {
		if !c.users[user] && !c.partly["users"] {
			c.faults.add("%s: user '%s' not found", section, user)
		}
		c.within(section, user, vhost)
	}
	patterns := func(section, user string, patterns ...string) {
		for _, p := range patterns {
			if err := auth.CheckPattern(p); err != nil {
				c.faults.add("%s: '%s': %s", section, user, oneLine(err))
			}
		}
	}
	for _, p := range all {
		c.once("permissions", p.User+"\x00"+p.Vhost)
		known("permissions", p.User, p.Vhost)
		patterns("permissions", p.User, p.Configure, p.Write, p.Read)
	}
	for _, p := range topics {
		c.once("topic_permissions", p.User+"\x00"+p.Vhost+"\x00"+p.Exchange)
		known("topic_permissions", p.User, p.Vhost)
		patterns("topic_permissions", p.User, p.Write, p.Read)
	}
	c.plan.Permissions, c.plan.TopicPermissions = all, topics
}

func (c *check) checkParameters(all []api.Parameter) {
	for _, p := range all {
		switch p.Component {
		case api.ComponentOperatorPolicy:
			var policy api.NewPolicy
			if err := json.Unmarshal(p.Value, &policy); err != nil {
				c.faults.add("parameters: operator policy '%s': %v", p.Name, err)
				continue
			}
			c.policy("operator policies", p.Vhost, p.Name, policy, true)
		case api.ComponentLimits:
			c.limits(p)
		default:
			c.faults.add("parameters: '%s': component %s not found", p.Name, p.Component)
		}
	}
}

func (c *check) limits(p api.Parameter) {
	var values map[string]int64
	if err := json.Unmarshal(p.Value, &values); err != nil {
		c.faults.add("parameters: limits of vhost '%s': %v", p.Vhost, err)
		return
	}
	w := c.within("parameters", "limits", p.Vhost)
	for limit, value := range values {
		if limit != "max-queues" && limit != "max-connections" {
			c.faults.add("parameters: limits of vhost '%s': unknown limit '%s'", p.Vhost, limit)
		} else if w != nil {
			w.Limits[limit] = value
		}
	}
}

// checkGlobals: a cluster has a name and an id of its own; other global parameters are for parts of RabbitMQ that there are not
// here.
func (c *check) checkGlobals(all []api.GlobalParameter) {
	for _, p := range all {
		if p.Name != "cluster_name" && p.Name != "internal_cluster_id" && p.Name != "cluster_tags" {
			c.faults.add("global_parameters: '%s' is not known", p.Name)
		}
	}
}

func (c *check) policy(section, vhost, name string, p api.NewPolicy, operator bool) {
	w := c.within(section, name, vhost)
	if w == nil || !c.once(section, name+"\x00"+vhost) {
		return
	}
	cmd, err := PolicyCommand(vhost, name, p, operator)
	if err != nil {
		c.faults.add("%s: '%s' in vhost '%s': %s", section, name, vhost, oneLine(err))
		return
	}
	w.Policies = append(w.Policies, cmd)
}

// PolicyCommand makes the command that sets a policy. Errors say what is wrong with it.
func PolicyCommand(vhost, name string, p api.NewPolicy, operator bool) (*entry.PolicySet, error) {
	if p.Pattern == nil || len(p.Definition) == 0 {
		return nil, fmt.Errorf("a policy needs a pattern and a definition with at least one key")
	}
	definition, err := jsontable.Encode(p.Definition)
	if err != nil {
		return nil, fmt.Errorf("definition of policy '%s': %w", name, err)
	}
	cmd := &entry.PolicySet{
		Vhost: vhost, Name: name, Pattern: *p.Pattern, ApplyTo: p.ApplyTo, Priority: p.Priority, Operator: operator, Definition: definition,
	}
	if cmd.ApplyTo == "" {
		cmd.ApplyTo = "all"
	}
	return cmd, core.CheckPolicy(cmd)
}

// oneLine keeps joined errors on one line.
func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }
