package core

import (
	"errors"

	"github.com/understudy-mq/understudy/core/entry"
	"github.com/understudy-mq/understudy/core/internal/route"
	"github.com/understudy-mq/understudy/core/message"
)

// bindingIdentity is the row key of a binding: what tells it from others. Arguments count as RabbitMQ compares them, in
// any order.
func bindingIdentity(b *bindingRow, args message.Table) string {
	key := keyOf(nil, tableBinding, uint64(b.Vhost))
	c := rowCoder{buf: key, encoding: true}
	c.str(&b.Source)
	c.str(&b.Destination)
	c.boolean(&b.ToQueue)
	c.str(&b.Key)
	return string(c.buf) + route.Identity(args)
}

// dest is where the binding leads, for the router.
func (b *binding) dest() route.Dest {
	if b.queue != nil {
		return route.Dest{Queue: b.queue.ID}
	}
	return route.Dest{Exchange: b.Destination}
}

// prepareBinding looks up what a binding command names. A code other than CodeOK is its refusal; found is false if
// something does not exist.
func (m *Machine) prepareBinding(h *channel, x *entry.Binding, toQueue bool) (b *binding, args message.Table, code Code, text string) {
	v := h.session.vhost
	x.Source, x.Destination = cleanName(x.Source), cleanName(x.Destination)
	b = &binding{bindingRow: bindingRow{Vhost: v.Vhost, Source: x.Source, Destination: x.Destination, ToQueue: toQueue,
		Key: x.Key, Arguments: clone(x.Arguments)}}
	if x.Source == "" || !toQueue && x.Destination == "" {
		return b, nil, CodeAccessRefused, textDefaultExchange
	}
	args, err := message.ParseTable(x.Arguments)
	if err != nil {
		return b, nil, CodeSyntaxError, "malformed arguments: " + err.Error()
	}
	if b.source = v.exchange[x.Source]; b.source == nil {
		return b, nil, CodeNotFound, "no " + v.named("exchange", x.Source)
	}
	if toQueue {
		if b.queue = v.queueByName[x.Destination]; b.queue == nil {
			return b, nil, CodeNotFound, "no " + v.named("queue", x.Destination)
		}
		if code, text = b.queue.check(h.session); code != CodeOK {
			return b, nil, code, text
		}
	} else if b.exchange = v.exchange[x.Destination]; b.exchange == nil {
		return b, nil, CodeNotFound, "no " + v.named("exchange", x.Destination)
	}
	b.identity = bindingIdentity(&b.bindingRow, args)
	return b, args, CodeOK, ""
}

func (m *Machine) applyBind(x *entry.Binding, kind entry.Kind) {
	h := m.channelOf(&x.Ref)
	if h == nil {
		return
	}
	b, args, code, text := m.prepareBinding(h, x, kind == entry.KindQueueBind)
	if code == CodeOK {
		code, text = m.bind(h.session.vhost, b, args)
	}
	if code != CodeOK {
		m.refuse(h, kind, code, text)
		return
	}
	m.reply(h, kind, x.NoWait)
}

func (m *Machine) bind(v *vhost, b *binding, args message.Table) (Code, string) {
	if v.binding[b.identity] != nil {
		return CodeOK, ""
	}
	if code, text := m.checkBindings(v); code != CodeOK {
		return code, text
	}
	if err := v.router.Bind(b.Source, b.dest(), b.Key, args); errors.Is(err, route.ErrMatch) || errors.Is(err, route.ErrWeight) {
		return CodePreconditionFailed, err.Error()
	} else if err != nil {
		return CodeInternalError, err.Error()
	}
	v.addBinding(b)
	m.touch(b)
	return CodeOK, ""
}

func (v *vhost) addBinding(b *binding) {
	if b.source.Type == route.Headers {
		v.byHeaders++
	}
	b.at, b.atFrom = len(v.bindings), len(b.source.from)
	v.bindings = append(v.bindings, b)
	v.binding[b.identity] = b
	b.source.from = append(b.source.from, b)
	to := b.toList()
	b.atTo = len(*to)
	*to = append(*to, b)
}

// toList is the destination's list of bindings that lead to it.
func (b *binding) toList() *[]*binding {
	if b.queue != nil {
		return &b.queue.bindings
	}
	return &b.exchange.to
}

// applyUnbind undoes a binding. One that does not exist, or whose ends do not, is no error.
func (m *Machine) applyUnbind(x *entry.Binding, kind entry.Kind) {
	h := m.channelOf(&x.Ref)
	if h == nil {
		return
	}
	v := h.session.vhost
	b, _, code, text := m.prepareBinding(h, x, kind == entry.KindQueueUnbind)
	if code != CodeOK && code != CodeNotFound {
		m.refuse(h, kind, code, text)
		return
	}
	if old := v.binding[b.identity]; code == CodeOK && old != nil {
		m.removeBinding(v, old)
		m.deleteDoomed(v)
	}
	m.reply(h, kind, x.NoWait)
}

// removeBinding removes a binding and puts its source on the doomed list if that was its last and it is
// auto-delete: so one that never had a binding stays.
func (m *Machine) removeBinding(v *vhost, b *binding) {
	args, err := message.ParseTable(b.Arguments)
	if err == nil { // it parsed when it was bound
		v.router.Unbind(b.Source, b.dest(), b.Key, args)
	}
	if b.source.Type == route.Headers {
		v.byHeaders--
	}
	delete(v.binding, b.identity)
	if x := take(&v.bindings, b.at); x != nil {
		x.at = b.at
	}
	if x := take(&b.source.from, b.atFrom); x != nil {
		x.atFrom = b.atFrom
	}
	if x := take(b.toList(), b.atTo); x != nil {
		x.atTo = b.atTo
	}
	b.gone = true
	m.touch(b)
	if b.source.AutoDelete && len(b.source.from) == 0 {
		m.doomed = append(m.doomed, b.source)
	}
}

// take removes the element at a position of an unordered list, and answers the one that has its place now, if any.
func take[T any](list *[]*T, at int) *T {
	l := *list
	last := len(l) - 1
	moved := l[last]
	l[at], l[last] = moved, nil
	*list = l[:last]
	if at == last {
		return nil
	}
	return moved
}
