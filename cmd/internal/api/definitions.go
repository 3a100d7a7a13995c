package api

import "encoding/json"

// Definitions are RabbitMQ's: what a cluster has but for its messages. Those of one vhost have neither users nor vhosts nor
// permissions.
type Definitions struct {
	RabbitVersion    string            `json:"rabbit_version,omitempty"`
	RabbitMQVersion  string            `json:"rabbitmq_version,omitempty"`
	ProductName      string            `json:"product_name,omitempty"`
	ProductVersion   string            `json:"product_version,omitempty"`
	Users            []DefinedUser     `json:"users,omitzero"`
	Vhosts           []DefinedVhost    `json:"vhosts,omitzero"`
	Permissions      []Permission      `json:"permissions,omitzero"`
	TopicPermissions []TopicPermission `json:"topic_permissions,omitzero"`
	Parameters       []Parameter       `json:"parameters"`
	GlobalParameters []GlobalParameter `json:"global_parameters,omitzero"`
	Policies         []DefinedPolicy   `json:"policies"`
	Queues           []DefinedQueue    `json:"queues"`
	Exchanges        []DefinedExchange `json:"exchanges"`
	Bindings         []DefinedBinding  `json:"bindings"`
}

// DefinedUser is a user.
type DefinedUser struct {
	NewUser
	Limits map[string]int `json:"limits"` // max-connections, max-channels
}

// DefinedVhost is a vhost.
type DefinedVhost struct {
	Name             string    `json:"name"`
	Description      *string   `json:"description,omitempty"`
	Tags             *Tags     `json:"tags,omitempty"`
	DefaultQueueType *string   `json:"default_queue_type,omitempty"`
	Metadata         *NewVhost `json:"metadata,omitempty"` // says the same again
}

// New is the vhost as a call of the API would put it.
func (v *DefinedVhost) New() NewVhost {
	n := NewVhost{Description: v.Description, Tags: v.Tags, DefaultQueueType: v.DefaultQueueType}
	if m := v.Metadata; m != nil {
		if n.Description == nil {
			n.Description = m.Description
		}
		if n.Tags == nil {
			n.Tags = m.Tags
		}
		if n.DefaultQueueType == nil {
			n.DefaultQueueType = m.DefaultQueueType
		}
	}
	return n
}

// Parameter is a runtime parameter of a vhost. There are vhost-limits (name limits) and operator_policy.
type Parameter struct {
	Component string          `json:"component"`
	Vhost     string          `json:"vhost"`
	Name      string          `json:"name"`
	Value     json.RawMessage `json:"value"`
}

// The components of parameters that there are.
const (
	ComponentLimits         = "vhost-limits"
	ComponentOperatorPolicy = "operator_policy"
	ParameterLimits         = "limits" // the name of the one of ComponentLimits
)

// DefinedPolicy is a policy.
type DefinedPolicy struct {
	Vhost string `json:"vhost"`
	Name  string `json:"name"`
	NewPolicy
}

// DefinedQueue is a queue.
type DefinedQueue struct {
	Name       string                     `json:"name"`
	Vhost      string                     `json:"vhost"`
	Durable    Bool                       `json:"durable"`
	AutoDelete Bool                       `json:"auto_delete"`
	Arguments  map[string]json.RawMessage `json:"arguments"`
	Type       string                     `json:"type,omitempty"` // as the argument x-queue-type
}

// DefinedExchange is an exchange.
type DefinedExchange struct {
	Name       string                     `json:"name"`
	Vhost      string                     `json:"vhost"`
	Type       string                     `json:"type"`
	Durable    Bool                       `json:"durable"`
	AutoDelete Bool                       `json:"auto_delete"`
	Internal   Bool                       `json:"internal"`
	Arguments  map[string]json.RawMessage `json:"arguments"`
}

// DefinedBinding is a binding.
type DefinedBinding struct {
	Source          string                     `json:"source"`
	Vhost           string                     `json:"vhost"`
	Destination     string                     `json:"destination"`
	DestinationType string                     `json:"destination_type"` // queue or exchange
	RoutingKey      string                     `json:"routing_key"`
	Arguments       map[string]json.RawMessage `json:"arguments"`
}
