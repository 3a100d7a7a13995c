package api

// Session is one row of /api/sessions: a named session, attached to a connection or not.
type Session struct {
	ID         string `json:"id"` // as the client named it; unique for its user in its vhost
	User       string `json:"user"`
	Vhost      string `json:"vhost"`
	State      string `json:"state"`      // attached or detached
	Node       string `json:"node"`       // where it is, or was last, attached
	Connection string `json:"connection"` // the same
	Epoch      uint64 `json:"epoch"`
	InFlight   int    `json:"in_flight"` // deliveries
	Channels   int    `json:"channels"`
	Expiry     uint32 `json:"expiry"`     // seconds that it outlives its connection
	ExpiresAt  *int64 `json:"expires_at"` // Unix ms, null while attached
}
