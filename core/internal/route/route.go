package route

import (
	"errors"

	"github.com/understudy-mq/understudy/core/message"
)

// ErrMatch says that a headers binding's x-match is none of all, any, all-with-x and any-with-x; wrapped with what it is.
var ErrMatch = errors.New("invalid x-match")

// ErrExchange says that Bind names an exchange that was not declared.
var ErrExchange = errors.New("no such exchange")

// Kind is an exchange type.
type Kind uint8

// The exchange types.
const (
	Direct Kind = iota + 1
	Fanout
	Topic
	Headers
)

// ParseKind answers the kind that a client calls s ("direct", "fanout", "topic", "headers").
func ParseKind(s string) (Kind, bool) { return 0, false }

// Dest is where a binding leads: another exchange, or where Exchange is empty the queue with id Queue.
type Dest struct {
	Exchange string
	Queue    uint32
}

// Router is a vhost's routing table.
type Router struct{}

// New makes an empty table; only the default exchange "" is there.
func New() *Router { return &Router{} }

// Declare adds an exchange. One that exists is left as it is.
func (r *Router) Declare(name string, kind Kind) {}

// Delete removes an exchange, the bindings from it and those to it.
func (r *Router) Delete(name string) {}

// Name maps a routing key of the default exchange to a queue.
func (r *Router) Name(queue string, id uint32) {}

// Unname undoes Name.
func (r *Router) Unname(queue string) {}

// Bind binds d to source. A binding is told from others by destination, key and Identity(args); repeating one does nothing.
// Errors: ErrMatch, ErrExchange (source or destination exchange unknown).
func (r *Router) Bind(source string, d Dest, key string, args message.Table) error { return nil }

// Unbind undoes Bind with the same arguments; a binding that is not there is no error.
func (r *Router) Unbind(source string, d Dest, key string, args message.Table) {}

// Identity is the part of args that tells bindings apart: equal for the same fields in any order.
func Identity(args message.Table) string { return "" }

// Route appends to out the ids of the queues that a message to exchange with key goes to: each once, ascending. headers
// is called at most once, and only if a headers exchange is on the way; nil means no headers.
func (r *Router) Route(exchange, key []byte, headers func() message.Table, out []uint32) []uint32 {
	return out
}
