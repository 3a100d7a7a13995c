package definitions

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/understudy-mq/understudy/cmd/internal/api"
	"github.com/understudy-mq/understudy/cmd/internal/jsontable"
	"github.com/understudy-mq/understudy/core"
	"github.com/understudy-mq/understudy/core/entry"
)

// at is the address of a Plan's commands, but for the session.
func at() entry.Ref { return entry.Ref{Channel: Channel} }

// checkObjects makes commands of what the file declares: exchanges, queues, and then bindings. Whether the machines take them is
// for the rehearsal to find out.
func (c *check) checkObjects(d *api.Definitions) {
	for _, x := range d.Exchanges {
		c.object("exchanges", x.Vhost, x.Name, true, x.Arguments, func(arguments []byte) entry.Addressed {
			return &entry.ExchangeDeclare{
				Ref: at(), Name: x.Name, Type: x.Type, Durable: bool(x.Durable), AutoDelete: bool(x.AutoDelete), Internal: bool(x.Internal),
				Arguments: arguments,
			}
		})
	}
	for _, q := range d.Queues {
		c.object("queues", q.Vhost, q.Name, true, typed(q), func(arguments []byte) entry.Addressed {
			return &entry.QueueDeclare{
				Ref: at(), Name: q.Name, Durable: bool(q.Durable), AutoDelete: bool(q.AutoDelete), Generated: generated(q.Name), Arguments: arguments,
			}
		})
	}
	for _, b := range d.Bindings {
		if b.DestinationType != "queue" && b.DestinationType != "exchange" {
			c.faults.add("bindings: destination_type '%s' of '%s' is neither queue nor exchange", b.DestinationType, b.Destination)
			continue
		}
		if b.Source == "" && b.DestinationType == "queue" && b.RoutingKey == b.Destination {
			continue // that each queue has from the default exchange by itself
		}
		name := fmt.Sprintf("%s -> %s %s by '%s'", b.Source, b.DestinationType, b.Destination, b.RoutingKey)
		c.object("bindings", b.Vhost, name, false, b.Arguments, func(arguments []byte) entry.Addressed {
			body := entry.Binding{Ref: at(), Source: b.Source, Destination: b.Destination, Key: b.RoutingKey, Arguments: arguments}
			if b.DestinationType == "queue" {
				return &entry.QueueBind{Binding: body}
			}
			return &entry.ExchangeBind{Binding: body}
		})
		c.names("bindings", map[string]string{"source": b.Source, "destination": b.Destination, "routing key": b.RoutingKey})
	}
}

// object takes one declaration or binding into the plan.
func (c *check) object(section, vhost, name string, named bool, arguments map[string]json.RawMessage, make func([]byte) entry.Addressed) {
	w := c.within(section, name, vhost)
	if w == nil || named && !c.once(section, name+"\x00"+vhost) {
		return
	}
	if named {
		c.names(section, map[string]string{"name": name})
	}
	b, err := jsontable.Encode(arguments)
	if err != nil {
		c.faulty[vhost+called(make(nil))] = true
		c.faults.add("%s: '%s' in vhost '%s': arguments: %s", section, name, vhost, oneLine(err))
		return
	}
	w.Objects = append(w.Objects, make(b))
}

func (c *check) names(section string, names map[string]string) {
	for what, name := range names {
		if err := c.have.CheckName(what, name); err != nil {
			c.faults.add("%s: %s", section, oneLine(err))
		}
	}
}

// generated says that the broker made a queue's name: no client could declare it.
func generated(name string) bool { return strings.HasPrefix(name, "amq.") }

// typed are a queue's arguments with its type among them, where the file says it beside them alone.
func typed(q api.DefinedQueue) map[string]json.RawMessage {
	if _, ok := q.Arguments["x-queue-type"]; ok || q.Type == "" || q.Type == "classic" {
		return q.Arguments
	}
	arguments := map[string]json.RawMessage{}
	for key, v := range q.Arguments {
		arguments[key] = v
	}
	arguments["x-queue-type"], _ = json.Marshal(q.Type) // a string
	return arguments
}

// rehearse has a machine carry out what the file asks for in a vhost, after what the vhost has. What is there already is taken out
// of the plan.
func (c *check) rehearse(w *Within) {
	have, _ := c.have.Vhost(w.Vhost)
	there := have.names()
	w.Objects = slices.DeleteFunc(w.Objects, func(cmd entry.Addressed) bool { return there[called(cmd)] })
	if len(w.Objects) == 0 {
		return
	}
	r := newRehearsal(w.Vhost)
	for _, cmd := range present(have) {
		r.do(cmd)
	}
	if have.Limits.Vhost != "" {
		r.apply(0, &have.Limits)
	}
	for _, cmd := range w.Objects {
		if c.follows(w.Vhost, cmd) {
			continue
		}
		if text := r.do(cmd); text != "" {
			c.faulty[w.Vhost+called(cmd)] = true
			c.faults.add("%s: %s", called(cmd), text)
		}
	}
}

// follows says that a fault of a binding would follow from another: what it binds may be what could not be read, or is refused.
func (c *check) follows(vhost string, cmd entry.Addressed) bool {
	var source, destination string
	switch x := cmd.(type) {
	case *entry.QueueBind:
		source, destination = x.Source, called(&entry.QueueDeclare{Name: x.Destination})
	case *entry.ExchangeBind:
		source, destination = x.Source, called(&entry.ExchangeDeclare{Name: x.Destination})
	default:
		return false
	}
	return c.partly["exchanges"] || c.partly["queues"] ||
		c.faulty[vhost+called(&entry.ExchangeDeclare{Name: source})] || c.faulty[vhost+destination]
}

// called is what a command is called in a fault.
func called(cmd entry.Addressed) string {
	switch x := cmd.(type) {
	case *entry.ExchangeDeclare:
		return fmt.Sprintf("exchanges: '%s'", x.Name)
	case *entry.QueueDeclare:
		return fmt.Sprintf("queues: '%s'", x.Name)
	case *entry.QueueBind:
		return fmt.Sprintf("bindings: '%s' to queue '%s'", x.Source, x.Destination)
	case *entry.ExchangeBind:
		return fmt.Sprintf("bindings: '%s' to exchange '%s'", x.Source, x.Destination)
	}
	return fmt.Sprintf("%T", cmd)
}

// names are what a vhost has already of exchanges and queues: of those a file changes nothing, whatever it says. (Bindings are
// made again, which does nothing.)
func (v Vhost) names() map[string]bool {
	has := map[string]bool{}
	for _, x := range v.Exchanges {
		has[called(&entry.ExchangeDeclare{Name: x.Name})] = true
	}
	for _, q := range v.Queues {
		has[called(&entry.QueueDeclare{Name: q.Name})] = true
	}
	return has
}

// present is what a vhost has, as commands.
func present(have Vhost) (cmds []entry.Addressed) {
	for _, x := range have.Exchanges {
		cmds = append(cmds, &entry.ExchangeDeclare{
			Ref: at(), Name: x.Name, Type: x.Type, Durable: x.Durable, AutoDelete: x.AutoDelete, Internal: x.Internal, Arguments: x.Arguments,
		})
	}
	for _, q := range have.Queues {
		cmds = append(cmds, &entry.QueueDeclare{
			Ref: at(), Name: q.Name, Durable: q.Durable, AutoDelete: q.AutoDelete, Generated: generated(q.Name), Arguments: q.Arguments,
		})
	}
	return cmds
}

// rehearsal is a machine with one vhost, one session and one channel.
type rehearsal struct {
	machine *core.Machine
	index   uint64
	session uint64
	epoch   uint64
}

// The rehearsal's node and vhost.
const (
	rehearsalNode  = 1
	rehearsalVhost = "rehearsal"
)

func newRehearsal(vhost string) *rehearsal {
	r := &rehearsal{machine: core.New(1)}
	r.apply(0, &entry.NodeUp{Node: rehearsalNode, Nonce: 1})
	r.apply(0, &entry.VhostCreate{ID: rehearsalVhost, Name: vhost})
	for _, e := range r.apply(rehearsalNode, &entry.Attach{Vhost: vhost, Connection: rehearsalVhost}) {
		if e.Kind == core.EffectAttached {
			r.session, r.epoch = e.Session, e.Epoch
		}
	}
	r.open()
	return r
}

func (r *rehearsal) open() { r.do(&entry.ChannelOpen{Ref: at()}) }

// do answers why the machine refuses a command; "" if it takes it.
func (r *rehearsal) do(cmd entry.Addressed) string {
	cmd.Address(r.session, r.epoch)
	for _, e := range r.apply(rehearsalNode, cmd) {
		if e.Kind == core.EffectRefused {
			r.apply(rehearsalNode, &entry.ChannelClose{Ref: entry.Ref{Session: r.session, Epoch: r.epoch, Channel: Channel}})
			r.open()
			return e.Text
		}
	}
	return ""
}

// apply applies one command of a node, or with node 0 a control command.
func (r *rehearsal) apply(node uint64, cmd entry.Command) []core.Effect {
	r.index++
	var incarnation, seq uint64
	if node != 0 {
		incarnation, _, seq = r.machine.Incarnation(node)
		seq++
	}
	data := entry.AppendBatch(entry.AppendHeader(nil, 1), node, incarnation, seq, entry.Append(nil, cmd))
	fx := &core.Effects{}
	if err := r.machine.Apply(r.index, data, fx); err != nil {
		return []core.Effect{{Kind: core.EffectRefused, Text: err.Error()}} // an entry of our own making: cannot be
	}
	return fx.List
}
