package api

// Vhost is one row of /api/vhosts.
type Vhost struct {
	Name  string `json:"name"`
	ID    string `json:"id"`    // another one for a vhost that was deleted and made anew
	Group uint64 `json:"group"` // that holds it
	VhostMetadata
	Metadata               VhostMetadata     `json:"metadata"`
	ClusterState           map[string]string `json:"cluster_state"` // by node: running or stopped
	Tracing                bool              `json:"tracing"`       // always false
	Messages               uint64            `json:"messages"`
	MessagesReady          uint64            `json:"messages_ready"`
	MessagesUnacknowledged uint64            `json:"messages_unacknowledged"`
}

// VhostMetadata is what people say of a vhost.
type VhostMetadata struct {
	Description      string   `json:"description"`
	Tags             []string `json:"tags"`
	DefaultQueueType string   `json:"default_queue_type"` // of queues that are declared without x-queue-type
}

// NewVhost is the body of PUT /api/vhosts/NAME, which may be empty. What is left out stays as it is.
type NewVhost struct {
	Name             string  `json:"name,omitempty"` // as in the path
	Description      *string `json:"description,omitempty"`
	Tags             *Tags   `json:"tags,omitempty"`
	DefaultQueueType *string `json:"default_queue_type,omitempty"`
	Tracing          bool    `json:"tracing,omitempty"` // there is none to turn on
}
