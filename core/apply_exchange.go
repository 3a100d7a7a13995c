package core

import (
	"fmt"
	"slices"
	"strings"

	"github.com/understudy-mq/understudy/core/entry"
	"github.com/understudy-mq/understudy/core/internal/route"
	"github.com/understudy-mq/understudy/core/message"
)

// Texts are RabbitMQ's: applications match on them.

const textDefaultExchange = "operation not permitted on the default exchange"

func (v *vhost) named(kind, name string) string {
	return fmt.Sprintf("%s '%s' in vhost '%s'", kind, name, v.Name)
}

// cleanName takes line ends out of a declared name, as RabbitMQ does.
func cleanName(name string) string {
	if !strings.ContainsAny(name, "\r\n") {
		return name
	}
	return strings.NewReplacer("\r", "", "\n", "").Replace(name)
}

func reserved(name string) bool { return strings.HasPrefix(name, "amq.") }

func (v *vhost) addExchange(row exchangeRow) *exchange {
	x := &exchange{exchangeRow: row}
	at, _ := v.searchExchange(x.Name)
	v.exchanges = slices.Insert(v.exchanges, at, x)
	v.exchange[x.Name] = x
	v.router.Declare(x.Name, x.Type)
	if x.Delayed {
		v.delaying++
	}
	v.configureExchange(x)
	return x
}

func (v *vhost) searchExchange(name string) (at int, ok bool) {
	return slices.BinarySearchFunc(v.exchanges, name, func(x *exchange, name string) int { return strings.Compare(x.Name, name) })
}

const typeDelayed = "x-delayed-message"

// exchangeType reads the type of a declare: x-delayed-message has another in its arguments.
func exchangeType(x *entry.ExchangeDeclare) (kind route.Kind, delayed, ok bool) {
	if x.Type != typeDelayed {
		kind, ok = route.ParseKind(x.Type)
		return kind, false, ok
	}
	kind, ok = route.ParseKind(text(tableOf(x.Arguments), "x-delayed-type"))
	return kind, true, ok
}

func (x *exchange) typeName() string {
	if x.Delayed {
		return typeDelayed
	}
	return x.Type.String()
}

const (
	argumentAlternate    = "alternate-exchange"
	argumentHashHeader   = "hash-header"
	argumentHashProperty = "hash-property"
)

// checkExchangeArguments refuses arguments of a new exchange.
func (v *vhost) checkExchangeArguments(x *entry.ExchangeDeclare) (Code, string) {
	t, err := message.ParseTable(x.Arguments)
	if err != nil {
		return CodeSyntaxError, "malformed arguments: " + err.Error()
	}
	for _, key := range [...]string{argumentAlternate, argumentHashHeader} {
		if value, ok := t.Get(key); ok {
			if _, isText := value.(string); !isText {
				return CodePreconditionFailed, fmt.Sprintf("invalid type '%s' for arg '%s' in %s", typeName(value), key, v.named("exchange", x.Name))
			}
		}
	}
	if _, ok := t.Get(argumentHashProperty); ok && x.Type == route.ConsistentHash.String() {
		return CodePreconditionFailed, fmt.Sprintf("arg '%s' for %s is not supported: hash by the routing key or a header", argumentHashProperty, v.named("exchange", x.Name))
	}
	return CodeOK, ""
}

func (m *Machine) applyExchangeDeclare(x *entry.ExchangeDeclare) {
	h := m.channelOf(&x.Ref)
	if h == nil {
		return
	}
	x.Name = cleanName(x.Name)
	v := h.session.vhost
	var code Code
	var text string
	switch old := v.exchange[x.Name]; {
	case x.Name == "":
		code, text = CodeAccessRefused, textDefaultExchange
	case !x.Passive:
		if code, text = v.checkExchangeDeclare(x, old); code == CodeOK && old == nil {
			code, text = m.checkExchanges(v, x.Name)
		}
	case old == nil:
		code, text = CodeNotFound, "no "+v.named("exchange", x.Name)
	}
	if code != CodeOK {
		m.refuse(h, entry.KindExchangeDeclare, code, text)
		return
	}
	if v.exchange[x.Name] == nil {
		kind, delayed, _ := exchangeType(x)
		m.touch(v.addExchange(exchangeRow{Vhost: v.Vhost, Name: x.Name, Type: kind, Delayed: delayed, Durable: x.Durable,
			AutoDelete: x.AutoDelete, Internal: x.Internal, Arguments: clone(x.Arguments)}))
	}
	m.reply(h, entry.KindExchangeDeclare, x.NoWait)
}

// checkExchangeDeclare judges an active declare; old is the exchange that has the name already, or nil.
func (v *vhost) checkExchangeDeclare(x *entry.ExchangeDeclare, old *exchange) (Code, string) {
	kind, delayed, ok := exchangeType(x)
	switch {
	case !ok && delayed:
		return CodePreconditionFailed, "Invalid argument, 'x-delayed-type' must be an existing exchange type"
	case !ok:
		return CodePreconditionFailed, fmt.Sprintf("unknown exchange type '%s'", x.Type)
	}
	if old == nil {
		if reserved(x.Name) {
			return CodeAccessRefused, fmt.Sprintf("exchange name '%s' contains reserved prefix 'amq.*'", x.Name)
		}
		return v.checkExchangeArguments(x)
	}
	what := v.named("exchange", x.Name)
	if delayed != old.Delayed || !delayed && kind != old.Type {
		return inequivalent("type", what, x.Type, old.typeName())
	}
	for _, f := range []struct {
		name       string
		got, wants bool
	}{{"durable", x.Durable, old.Durable}, {"auto_delete", x.AutoDelete, old.AutoDelete}, {"internal", x.Internal, old.Internal}} {
		if f.got != f.wants {
			return inequivalent(f.name, what, fmt.Sprint(f.got), fmt.Sprint(f.wants))
		}
	}
	return compareArguments(what, old.Arguments, x.Arguments, exchangeArguments)
}

func inequivalent(field, what, got, current string) (Code, string) {
	return CodePreconditionFailed,
		fmt.Sprintf("inequivalent arg '%s' for %s: received '%s' but current is '%s'", field, what, got, current)
}

func (m *Machine) applyExchangeDelete(x *entry.ExchangeDelete) {
	h := m.channelOf(&x.Ref)
	if h == nil {
		return
	}
	x.Name = cleanName(x.Name)
	v := h.session.vhost
	old := v.exchange[x.Name]
	switch {
	case x.Name == "":
		m.refuse(h, entry.KindExchangeDelete, CodeAccessRefused, textDefaultExchange)
		return
	case reserved(x.Name):
		m.refuse(h, entry.KindExchangeDelete, CodeAccessRefused,
			"deletion of system "+v.named("exchange", x.Name)+" not allowed")
		return
	case old != nil && x.IfUnused && len(old.from) > 0:
		m.refuse(h, entry.KindExchangeDelete, CodePreconditionFailed, v.named("exchange", x.Name)+" in use")
		return
	case old != nil:
		m.deleteExchange(v, old)
	}
	m.reply(h, entry.KindExchangeDelete, x.NoWait)
}

// deleteExchange removes an exchange with its bindings, and then the auto-delete exchanges that have lost their last one.
func (m *Machine) deleteExchange(v *vhost, x *exchange) {
	m.doomed = append(m.doomed[:0], x)
	m.deleteDoomed(v)
}

// deleteDoomed works on a list, since a chain of auto-delete exchanges may be long.
func (m *Machine) deleteDoomed(v *vhost) {
	for i := 0; i < len(m.doomed); i++ {
		x := m.doomed[i]
		if x.gone {
			continue
		}
		x.gone = true
		for len(x.from) > 0 {
			m.removeBinding(v, x.from[len(x.from)-1])
		}
		for len(x.to) > 0 {
			m.removeBinding(v, x.to[len(x.to)-1])
		}
		at, _ := v.searchExchange(x.Name)
		v.exchanges = slices.Delete(v.exchanges, at, at+1)
		delete(v.exchange, x.Name)
		v.router.Delete(x.Name)
		if x.Delayed {
			v.delaying--
		}
		v.lastExchange = nil
		m.touch(x)
	}
	clear(m.doomed)
	m.doomed = m.doomed[:0]
}
