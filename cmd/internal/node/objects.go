package node

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/understudy-mq/understudy/cmd/internal/admin"
	"github.com/understudy-mq/understudy/cmd/internal/api"
	"github.com/understudy-mq/understudy/cmd/internal/jsontable"
	"github.com/understudy-mq/understudy/core"
	"github.com/understudy-mq/understudy/core/entry"
)

// DeclareQueue declares a queue; created says that it was not there before.
func (n *Node) DeclareQueue(ctx context.Context, user, vhost, name string, q api.NewQueue) (created bool, err error) {
	cmd := &entry.QueueDeclare{Ref: onErrand(), Name: name, Durable: q.Durable == nil || bool(*q.Durable), AutoDelete: bool(q.AutoDelete)}
	if err := checkObjectName("queue name", name); err != nil {
		return false, err
	}
	if cmd.Arguments, err = jsontable.Encode(q.Arguments); err != nil {
		return false, fmt.Errorf("arguments: %w", err)
	}
	err = n.run(ctx, user, vhost, func() (entry.Addressed, error) {
		created = !n.hasQueue(vhost, name)
		return cmd, nil
	})
	return created, err
}

// DeleteQueue deletes a queue.
func (n *Node) DeleteQueue(ctx context.Context, user, vhost, name string, ifUnused, ifEmpty bool) error {
	cmd := &entry.QueueDelete{Ref: onErrand(), Name: name, IfUnused: ifUnused, IfEmpty: ifEmpty}
	return n.run(ctx, user, vhost, func() (entry.Addressed, error) { return cmd, n.needQueue(vhost, name) })
}

// PurgeQueue drops a queue's ready messages.
func (n *Node) PurgeQueue(ctx context.Context, user, vhost, name string) error {
	cmd := &entry.QueuePurge{Ref: onErrand(), Name: name}
	return n.run(ctx, user, vhost, func() (entry.Addressed, error) { return cmd, n.needQueue(vhost, name) })
}

// needQueue: to the machine the deletion of a queue that is not there is done; to RabbitMQ's API it is 404.
func (n *Node) needQueue(vhost, name string) error {
	if n.hasQueue(vhost, name) {
		return nil
	}
	return admin.NotFound{Err: fmt.Errorf("no queue '%s' in vhost '%s'", name, vhost)}
}

func (n *Node) hasQueue(vhost, name string) bool {
	home, ok := n.vhostHome(vhost)
	return ok && n.shown(home.Group, func(m *core.Machine) bool { _, ok := m.Queue(vhost, name); return ok })
}

func (n *Node) hasExchange(vhost, name string) bool {
	return has(n, vhost, (*core.Machine).Exchanges, func(x core.ExchangeInfo) bool { return x.Name == name })
}

// has says whether a vhost's listing has a row like this.
func has[T any](n *Node, vhost string, list func(*core.Machine, string) []T, is func(T) bool) bool {
	home, ok := n.vhostHome(vhost)
	return ok && n.shown(home.Group, func(m *core.Machine) bool { return slices.ContainsFunc(list(m, vhost), is) })
}

// DeclareExchange declares an exchange; created says that it was not there before.
func (n *Node) DeclareExchange(ctx context.Context, user, vhost, name string, x api.NewExchange) (created bool, err error) {
	cmd := &entry.ExchangeDeclare{
		Ref: onErrand(), Name: name, Type: x.Type, Durable: x.Durable == nil || bool(*x.Durable), AutoDelete: bool(x.AutoDelete),
		Internal: bool(x.Internal),
	}
	if err := checkObjectName("exchange name", name); err != nil {
		return false, err
	}
	if cmd.Arguments, err = jsontable.Encode(x.Arguments); err != nil {
		return false, fmt.Errorf("arguments: %w", err)
	}
	err = n.run(ctx, user, vhost, func() (entry.Addressed, error) {
		created = !n.hasExchange(vhost, name)
		return cmd, nil
	})
	return created, err
}

// DeleteExchange deletes an exchange.
func (n *Node) DeleteExchange(ctx context.Context, user, vhost, name string, ifUnused bool) error {
	cmd := &entry.ExchangeDelete{Ref: onErrand(), Name: name, IfUnused: ifUnused}
	return n.run(ctx, user, vhost, func() (entry.Addressed, error) {
		if n.hasExchange(vhost, name) {
			return cmd, nil
		}
		return nil, admin.NotFound{Err: fmt.Errorf("no exchange '%s' in vhost '%s'", name, vhost)}
	})
}

// Bind binds a queue or exchange to an exchange; a binding that is there already stays. It answers the properties key that
// listings show it under.
func (n *Node) Bind(ctx context.Context, user string, at api.BindingRef, b api.NewBinding) (propertiesKey string, err error) {
	if err := checkObjectName("routing key", b.RoutingKey); err != nil {
		return "", err
	}
	arguments, err := jsontable.Encode(b.Arguments)
	if err != nil {
		return "", fmt.Errorf("arguments: %w", err)
	}
	body := bindingAt(at, b.RoutingKey, arguments)
	return propertiesKeyOf(b.RoutingKey, arguments), n.run(ctx, user, at.Vhost, func() (entry.Addressed, error) {
		if at.ToQueue {
			return &entry.QueueBind{Binding: body}, nil
		}
		return &entry.ExchangeBind{Binding: body}, nil
	})
}

// Unbind undoes the binding that listings show under a properties key.
func (n *Node) Unbind(ctx context.Context, user string, at api.BindingRef, propertiesKey string) error {
	return n.run(ctx, user, at.Vhost, func() (entry.Addressed, error) {
		b, ok := n.binding(at, propertiesKey)
		if !ok {
			return nil, admin.NotFound{Err: fmt.Errorf("no binding '%s' from '%s' to '%s'", propertiesKey, at.Source, at.Destination)}
		}
		body := bindingAt(at, b.Key, b.Arguments)
		if at.ToQueue {
			return &entry.QueueUnbind{Binding: body}, nil
		}
		return &entry.ExchangeUnbind{Binding: body}, nil
	})
}

func bindingAt(at api.BindingRef, key string, arguments []byte) entry.Binding {
	return entry.Binding{Ref: onErrand(), Source: at.Source, Destination: at.Destination, Key: key, Arguments: arguments}
}

func (n *Node) binding(at api.BindingRef, propertiesKey string) (found core.BindingInfo, ok bool) {
	ok = has(n, at.Vhost, (*core.Machine).Bindings, func(b core.BindingInfo) bool {
		found = b
		return b.Source == at.Source && b.Destination == at.Destination && b.ToQueue == at.ToQueue &&
			propertiesKeyOf(b.Key, b.Arguments) == propertiesKey
	})
	return found, ok
}

// propertiesKeyOf tells the bindings between the same two ends apart: the routing key, and a hash of the arguments where there
// are any. (As in RabbitMQ's API, where the hash is another one; tools take the key from a listing.)
func propertiesKeyOf(key string, arguments []byte) string {
	switch {
	case len(arguments) > 0:
		sum := sha256.Sum256(arguments)
		return escapeKey(key) + "~" + base64.RawURLEncoding.EncodeToString(sum[:16])
	case key == "":
		return "~"
	}
	return escapeKey(key)
}

// escapeKey writes a routing key as RabbitMQ does there, and keeps the tilde for what propertiesKeyOf says with it.
func escapeKey(key string) string { return strings.ReplaceAll(url.QueryEscape(key), "~", "%7E") }

// checkObjectName refuses names that AMQP cannot say, or that people could not read: as AMQP clients are refused.
func checkObjectName(what, name string) error {
	hidden := func(r rune) bool { return unicode.IsControl(r) && r != '\r' && r != '\n' }
	switch {
	case len(name) > math.MaxUint8:
		return fmt.Errorf("%s has %d bytes, at most %d are allowed", what, len(name), math.MaxUint8)
	case !utf8.ValidString(name) || strings.ContainsFunc(name, hidden):
		return fmt.Errorf("invalid %s %q: control characters and invalid UTF-8 are not allowed", what, name)
	}
	return nil
}

var _ admin.Objects = (*Node)(nil)
