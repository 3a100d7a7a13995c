package api

import "encoding/json"

// NewQueue is the body of PUT /api/queues/VHOST/NAME; without "durable" the queue is durable. The type is the argument
// x-queue-type.
type NewQueue struct {
	Durable    *Bool                      `json:"durable"`
	AutoDelete Bool                       `json:"auto_delete"`
	Arguments  map[string]json.RawMessage `json:"arguments"`
}

// NewExchange is the body of PUT /api/exchanges/VHOST/NAME; without "durable" the exchange is durable.
type NewExchange struct {
	Type       string                     `json:"type"`
	Durable    *Bool                      `json:"durable"`
	AutoDelete Bool                       `json:"auto_delete"`
	Internal   Bool                       `json:"internal"`
	Arguments  map[string]json.RawMessage `json:"arguments"`
}

// NewBinding is the body of POST /api/bindings/VHOST/e/SOURCE/q/QUEUE and .../e/EXCHANGE.
type NewBinding struct {
	RoutingKey string                     `json:"routing_key"`
	Arguments  map[string]json.RawMessage `json:"arguments"`
}

// BindingRef names the two ends of bindings.
type BindingRef struct {
	Vhost, Source, Destination string
	ToQueue                    bool // the destination is a queue, not an exchange
}
