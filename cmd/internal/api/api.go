package api

// Error is the body of every answer that is no success.
type Error struct {
	Error  string `json:"error"`
	Reason string `json:"reason"`
	// Faults are all that is wrong with a file of definitions.
	Faults []string `json:"faults,omitempty"`
}

// Page is the answer to a listing with ?page=N.
type Page struct {
	FilteredCount int `json:"filtered_count"` // rows that match name
	ItemCount     int `json:"item_count"`     // rows on this page
	Items         any `json:"items"`
	Page          int `json:"page"`
	PageCount     int `json:"page_count"`
	PageSize      int `json:"page_size"`
	TotalCount    int `json:"total_count"`
}

// Health is the answer of /health/* and /api/health/checks/*.
type Health struct {
	Status    string     `json:"status"` // ok or failed
	Reason    string     `json:"reason,omitempty"`
	Alarms    []Alarm    `json:"alarms,omitempty"`
	Port      int        `json:"port,omitempty"`
	Protocol  string     `json:"protocol,omitempty"`
	Missing   any        `json:"missing,omitempty"` // the port or protocol that was asked for
	Ports     []int      `json:"ports,omitempty"`
	Protocols []string   `json:"protocols,omitempty"`
	Expired   []Expiring `json:"expired,omitempty"`
}

// Overview is /api/overview.
type Overview struct {
	ManagementVersion string         `json:"management_version"`
	RatesMode         string         `json:"rates_mode"`
	ExchangeTypes     []Named        `json:"exchange_types"`
	ProductName       string         `json:"product_name"`
	ProductVersion    string         `json:"product_version"`
	RabbitMQVersion   string         `json:"rabbitmq_version"` // what clients may take it for
	ClusterName       string         `json:"cluster_name"`
	DisableStats      bool           `json:"disable_stats"`
	EnableQueueTotals bool           `json:"enable_queue_totals"`
	Node              string         `json:"node"`
	ObjectTotals      ObjectTotals   `json:"object_totals"`
	QueueTotals       map[string]any `json:"queue_totals"`
	Traffic
	Listeners []Listener `json:"listeners"`
	Contexts  []Context  `json:"contexts"`
}

// Traffic is what has passed, since the answering node's start.
type Traffic struct {
	MessageStats map[string]any `json:"message_stats"`
	ChurnRates   map[string]any `json:"churn_rates"`
}

// Rate is how fast a counter counts.
type Rate struct {
	Rate float64 `json:"rate"` // a second
}

// Context is a place where HTTP is served.
type Context struct {
	Node        string `json:"node"`
	Description string `json:"description"`
	Path        string `json:"path"`
	IP          string `json:"ip"`
	Port        string `json:"port"`
}

// ObjectTotals counts what a cluster has.
type ObjectTotals struct {
	Channels    int `json:"channels"`
	Connections int `json:"connections"`
	Consumers   int `json:"consumers"`
	Exchanges   int `json:"exchanges"`
	Queues      int `json:"queues"`
}

// QueueTotals counts messages.
type QueueTotals struct {
	Messages               uint64 `json:"messages"`
	MessagesReady          uint64 `json:"messages_ready"`
	MessagesUnacknowledged uint64 `json:"messages_unacknowledged"`
}

// Listener is one listening address.
type Listener struct {
	Node      string `json:"node"`
	Protocol  string `json:"protocol"` // amqp, amqp/ssl, http, clustering
	IPAddress string `json:"ip_address"`
	Port      int    `json:"port"`
}

// Node is one row of /api/nodes. Of one that does not answer there is its name, and that it is not running.
type Node struct {
	Name           string        `json:"name"`
	Type           string        `json:"type"`
	Running        bool          `json:"running"`
	OSPid          string        `json:"os_pid,omitempty"`
	Uptime         int64         `json:"uptime,omitempty"`       // ms
	FDUsed         int           `json:"fd_used,omitempty"`      // open file descriptors
	FDTotal        int           `json:"fd_total,omitempty"`     // that may be open
	SocketsUsed    int           `json:"sockets_used,omitempty"` // client connections
	MemUsed        int64         `json:"mem_used,omitempty"`     // resident bytes
	MemLimit       int64         `json:"mem_limit,omitempty"`    // bytes from which there is an alarm
	MemAlarm       bool          `json:"mem_alarm"`
	DiskFree       int64         `json:"disk_free,omitempty"` // bytes
	DiskFreeLimit  int64         `json:"disk_free_limit,omitempty"`
	DiskFreeAlarm  bool          `json:"disk_free_alarm"`
	ProcUsed       int           `json:"proc_used,omitempty"` // goroutines
	Processors     int           `json:"processors,omitempty"`
	RatesMode      string        `json:"rates_mode,omitempty"`
	Partitions     []string      `json:"partitions"` // none: a cut-off minority serves nobody
	ExchangeTypes  []Named       `json:"exchange_types,omitempty"`
	AuthMechanisms []Named       `json:"auth_mechanisms,omitempty"`
	Applications   []Application `json:"applications,omitempty"`
	DBDir          string        `json:"db_dir,omitempty"` // the data folder
}

// Named is a thing that a node knows how to do.
type Named struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Enabled     bool   `json:"enabled"`
}

// Application is a part of a node.
type Application struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Version     string `json:"version"`
}

// QueueBasics is one row of /api/queues with disable_stats=true.
type QueueBasics struct {
	Name       string         `json:"name"`
	Vhost      string         `json:"vhost"`
	Type       string         `json:"type"`
	Durable    bool           `json:"durable"`
	AutoDelete bool           `json:"auto_delete"`
	Exclusive  bool           `json:"exclusive"`
	Arguments  map[string]any `json:"arguments"`
	State      string         `json:"state"`
	Node       string         `json:"node"` // where its group's leader is
}

// QueueWithTotals is one with enable_queue_totals=true too.
type QueueWithTotals struct {
	QueueBasics
	QueueTotals
}

// Queue is one row of /api/queues.
type Queue struct {
	QueueBasics
	QueueTotals
	MessagesDetails               Rate `json:"messages_details"`
	MessagesReadyDetails          Rate `json:"messages_ready_details"`
	MessagesUnacknowledgedDetails Rate `json:"messages_unacknowledged_details"`
	Consumers                     int  `json:"consumers"`
	QueueBytes
	// Policy and OperatorPolicy are the names of those that count for it, null for none.
	Policy         *string `json:"policy"`
	OperatorPolicy *string `json:"operator_policy"`
	// EffectivePolicyDefinition is what these two say together.
	EffectivePolicyDefinition map[string]any `json:"effective_policy_definition"`
	// SingleActiveConsumerTag is of a queue that serves one consumer alone, null for none.
	SingleActiveConsumerTag *string        `json:"single_active_consumer_tag"`
	Leader                  string         `json:"leader,omitempty"`  // of a quorum queue: the node
	Members                 []string       `json:"members,omitempty"` // of a quorum queue: nodes
	Online                  []string       `json:"online,omitempty"`  // of them those that are up
	MessageStats            map[string]any `json:"message_stats"`
}

// QueueBytes are what a queue's messages are kept in: bodies and what comes with them. (RabbitMQ counts bodies alone.)
type QueueBytes struct {
	MessageBytes               uint64 `json:"message_bytes"`
	MessageBytesReady          uint64 `json:"message_bytes_ready"`
	MessageBytesUnacknowledged uint64 `json:"message_bytes_unacknowledged"`
	// MessageBytesPersistent are all of them: whatever its delivery mode, a message is on disk.
	MessageBytesPersistent uint64 `json:"message_bytes_persistent"`
}

// QueueDetails is /api/queues/VHOST/NAME.
type QueueDetails struct {
	Queue
	ConsumerDetails []Consumer `json:"consumer_details"`
}

// Exchange is one row of /api/exchanges.
type Exchange struct {
	Name       string         `json:"name"`
	Vhost      string         `json:"vhost"`
	Type       string         `json:"type"`
	Durable    bool           `json:"durable"`
	AutoDelete bool           `json:"auto_delete"`
	Internal   bool           `json:"internal"`
	Arguments  map[string]any `json:"arguments"`
	// Policy and OperatorPolicy are the names of those that count for it, null for none.
	Policy         *string        `json:"policy"`
	OperatorPolicy *string        `json:"operator_policy"`
	MessageStats   map[string]any `json:"message_stats"`
}

// Binding is one row of /api/bindings.
type Binding struct {
	Source          string         `json:"source"`
	Vhost           string         `json:"vhost"`
	Destination     string         `json:"destination"`
	DestinationType string         `json:"destination_type"` // queue or exchange
	RoutingKey      string         `json:"routing_key"`
	Arguments       map[string]any `json:"arguments"`
	PropertiesKey   string         `json:"properties_key"`
}

// QueueRef names a queue inside another row.
type QueueRef struct {
	Name  string `json:"name"`
	Vhost string `json:"vhost"`
}

// Consumer is one row of /api/consumers.
type Consumer struct {
	ConsumerTag    string         `json:"consumer_tag"`
	Queue          QueueRef       `json:"queue"`
	AckRequired    bool           `json:"ack_required"`
	Exclusive      bool           `json:"exclusive"`
	PrefetchCount  uint32         `json:"prefetch_count"`
	Active         bool           `json:"active"`
	ActivityStatus string         `json:"activity_status"`
	Arguments      map[string]any `json:"arguments"`
	ChannelDetails ChannelRef     `json:"channel_details"`
}

// ChannelRef names a consumer's channel.
type ChannelRef struct {
	Name           string `json:"name"`
	ConnectionName string `json:"connection_name"`
	Node           string `json:"node"`
	Number         uint16 `json:"number"`
	User           string `json:"user"`
	PeerHost       string `json:"peer_host"`
	PeerPort       int    `json:"peer_port"`
}

// Connection is one row of /api/connections.
type Connection struct {
	Type             string         `json:"type"` // network
	Name             string         `json:"name"`
	UserProvidedName string         `json:"user_provided_name,omitempty"`
	Node             string         `json:"node"`
	User             string         `json:"user"`
	Vhost            string         `json:"vhost"`
	Protocol         string         `json:"protocol"`
	State            string         `json:"state"`
	SSL              bool           `json:"ssl"`
	PeerHost         string         `json:"peer_host"`
	PeerPort         int            `json:"peer_port"`
	Host             string         `json:"host"`
	Port             int            `json:"port"`
	Channels         int            `json:"channels"`
	ChannelMax       uint16         `json:"channel_max"`
	FrameMax         uint32         `json:"frame_max"`
	TimeoutSeconds   int64          `json:"timeout"` // heartbeat, 0 for none
	ReceivedBytes    uint64         `json:"recv_oct"`
	SentBytes        uint64         `json:"send_oct"`
	ConnectedAt      int64          `json:"connected_at"` // Unix ms
	ClientProperties map[string]any `json:"client_properties"`
	AuthMechanism    string         `json:"auth_mechanism,omitempty"`
	// UserWhoPerformedAction is the user again, as RabbitMQ has it.
	UserWhoPerformedAction string `json:"user_who_performed_action"`
}

// Whoami is /api/whoami.
type Whoami struct {
	Name string   `json:"name"`
	Tags []string `json:"tags"`
}

// Cluster is /api/cluster.
type Cluster struct {
	ID     string `json:"id"`
	Node   uint64 `json:"node"` // the answering one
	Groups int    `json:"groups"`
	Ready  bool   `json:"ready"`
	Reason string `json:"reason,omitempty"` // why it is not
	// ReadOnly says why the node writes nothing at present (a full disk).
	ReadOnly string   `json:"read_only,omitempty"`
	Version  string   `json:"version"`
	Members  []Member `json:"members"`
}

// Member is one node of the cluster.
type Member struct {
	ID      uint64   `json:"id"`
	Address string   `json:"address"`
	Role    string   `json:"role"`  // voter or learner
	Leads   []uint64 `json:"leads"` // groups
	// Running: registered and not given up by the system group's leader.
	Running bool `json:"running"`
	// Alarms: what it is short of, memory or disk.
	Alarms []string `json:"alarms"`
}

// NewMember is the body of POST /api/cluster/members.
type NewMember struct {
	ID      uint64 `json:"id"`
	Address string `json:"address"`
}

// Transfer is the body of POST /api/cluster/transfer-leader.
type Transfer struct {
	Group uint64 `json:"group"`
	ID    uint64 `json:"id"`
}

// Group is one row of /api/groups: a group as the answering node sees it.
type Group struct {
	Group       uint64   `json:"group"`
	Leader      uint64   `json:"leader"` // 0 for none
	Term        uint64   `json:"term"`
	Applied     uint64   `json:"applied"`
	Fingerprint string   `json:"fingerprint"` // hex, of the state at Applied
	Role        string   `json:"role"`        // leader, follower, candidate, learner
	Commit      uint64   `json:"commit"`
	Voters      []uint64 `json:"voters"`
	Learners    []uint64 `json:"learners"`
	FirstIndex  uint64   `json:"first_index"`
	LastIndex   uint64   `json:"last_index"`
	Error       string   `json:"error,omitempty"` // why it has stopped
}

// Fingerprint is one row of the fingerprint verb.
type Fingerprint struct {
	Group       uint64 `json:"group"`
	Applied     uint64 `json:"applied"`
	Term        uint64 `json:"term"`
	Fingerprint string `json:"fingerprint"`
}
