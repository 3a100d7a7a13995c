package api

import "time"

// ConnectionRef names the connection of another row.
type ConnectionRef struct {
	Name     string `json:"name"`
	PeerHost string `json:"peer_host"`
	PeerPort int    `json:"peer_port"`
}

// Channel is one row of /api/channels.
type Channel struct {
	Name                   string        `json:"name"`
	Number                 uint16        `json:"number"`
	Node                   string        `json:"node"`
	User                   string        `json:"user"`
	UserWhoPerformedAction string        `json:"user_who_performed_action"`
	Vhost                  string        `json:"vhost"`
	State                  string        `json:"state"`
	Confirm                bool          `json:"confirm"`
	Transactional          bool          `json:"transactional"`
	PrefetchCount          uint32        `json:"prefetch_count"`
	GlobalPrefetchCount    uint32        `json:"global_prefetch_count"`
	ConsumerCount          int           `json:"consumer_count"`
	MessagesUnacknowledged int           `json:"messages_unacknowledged"`
	MessagesUncommitted    int           `json:"messages_uncommitted"`
	AcksUncommitted        int           `json:"acks_uncommitted"`
	ConnectionDetails      ConnectionRef `json:"connection_details"`
}

// ChannelDetails is /api/channels/NAME.
type ChannelDetails struct {
	Channel
	ConsumerDetails []Consumer `json:"consumer_details"`
}

// Alarm is a resource that a node runs short of.
type Alarm struct {
	Node     string `json:"node"`
	Resource string `json:"resource"` // memory or disk
}

// Expiring is a certificate of the node's and when it ends.
type Expiring struct {
	Node     string    `json:"node"`
	Listener string    `json:"listener"` // the protocol that it is for
	File     string    `json:"cert_file"`
	Subject  string    `json:"subject"`
	NotAfter time.Time `json:"not_after"`
}

// LoginAttempts is one row of /api/auth/attempts/NODE: logins since the node's start.
type LoginAttempts struct {
	Protocol  string `json:"protocol"` // amqp091 or http
	All       uint64 `json:"auth_attempts"`
	Failed    uint64 `json:"auth_attempts_failed"`
	Succeeded uint64 `json:"auth_attempts_succeeded"`
}

// FeatureFlag is one row of /api/feature-flags.
type FeatureFlag struct {
	Name       string `json:"name"`
	State      string `json:"state"` // enabled
	Stability  string `json:"stability"`
	ProvidedBy string `json:"provided_by"`
	Desc       string `json:"desc"`
	DocURL     string `json:"doc_url"`
}

// GlobalParameter is one row of /api/global-parameters.
type GlobalParameter struct {
	Name  string `json:"name"`
	Value any    `json:"value"`
}
