package api

import "encoding/json"

// Policy is one row of /api/policies and /api/operator-policies.
type Policy struct {
	Vhost      string         `json:"vhost"`
	Name       string         `json:"name"`
	Pattern    string         `json:"pattern"`
	ApplyTo    string         `json:"apply-to"`
	Definition map[string]any `json:"definition"`
	Priority   int64          `json:"priority"`
}

// NewPolicy is the body of PUT /api/policies/VHOST/NAME. Numbers of the definition are kept as they are written, so that big integers stay exact.
type NewPolicy struct {
	Pattern    *string                    `json:"pattern"`
	Definition map[string]json.RawMessage `json:"definition"`
	ApplyTo    string                     `json:"apply-to,omitempty"` // "" is all
	Priority   int64                      `json:"priority"`           // in definitions RabbitMQ insists on it
}

// VhostLimits is one row of /api/vhost-limits. Value has max-queues and max-connections, those that are set.
type VhostLimits struct {
	Vhost string           `json:"vhost"`
	Value map[string]int64 `json:"value"`
}

// NewLimit is the body of PUT /api/vhost-limits/VHOST/NAME; a negative value is no limit.
type NewLimit struct {
	Value *int64 `json:"value"`
}
