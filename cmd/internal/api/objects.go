package api

import "encoding/json"

// NewQueue is the body of PUT /api/queues/VHOST/NAME; without "durable" the queue is durable. What tools repeat from the path,
// and RabbitMQ's node and type, is not looked at: the type is the argument x-queue-type.
type NewQueue struct {
	Durable    *bool                      `json:"durable"`
	AutoDelete bool                       `json:"auto_delete"`
	Arguments  map[string]json.RawMessage `json:"arguments"`
	Node       json.RawMessage            `json:"node"`
	Type       json.RawMessage            `json:"type"`
	Vhost      json.RawMessage            `json:"vhost"`
	Name       json.RawMessage            `json:"name"`
}

// NewExchange is the body of PUT /api/exchanges/VHOST/NAME; without "durable" the exchange is durable.
type NewExchange struct {
	Type       string                     `json:"type"`
	Durable    *bool                      `json:"durable"`
	AutoDelete bool                       `json:"auto_delete"`
	Internal   bool                       `json:"internal"`
	Arguments  map[string]json.RawMessage `json:"arguments"`
	Vhost      json.RawMessage            `json:"vhost"`
	Name       json.RawMessage            `json:"name"`
}

// NewBinding is the body of POST /api/bindings/VHOST/e/SOURCE/q/QUEUE and .../e/EXCHANGE.
type NewBinding struct {
	RoutingKey      string                     `json:"routing_key"`
	Arguments       map[string]json.RawMessage `json:"arguments"`
	Vhost           json.RawMessage            `json:"vhost"`
	Source          json.RawMessage            `json:"source"`
	Destination     json.RawMessage            `json:"destination"`
	DestinationType json.RawMessage            `json:"destination_type"`
	PropertiesKey   json.RawMessage            `json:"properties_key"`
}

// BindingRef names the two ends of bindings.
type BindingRef struct {
	Vhost, Source, Destination string
	ToQueue                    bool // the destination is a queue, not an exchange
}
