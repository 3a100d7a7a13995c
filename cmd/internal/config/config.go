package config

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"github.com/understudy-mq/understudy/cmd/internal/alarm"
	"github.com/understudy-mq/understudy/cmd/internal/certs"
)

// GroupsMax bounds the data groups of a cluster.
const GroupsMax = 64

// MessageBytesMax bounds what --max-message-bytes may be set to.
const MessageBytesMax = 128 << 20

// What a standby does with AMQP clients until it is promoted.
const (
	ClientsRefuse = "refuse" // closes them with 320 once they have opened a vhost
	ClientsPark   = "park"   // lets them wait
)

// linkDefault is where the link is served when --link is not given.
const linkDefault = ":7500"

// Config is what `serve` runs with. Every key is a flag, an UNDERSTUDY_ variable and a key of the YAML file by the same
// name.
type Config struct {
	Data   string `koanf:"data" yaml:"data"`
	NodeID uint64 `koanf:"node-id" yaml:"node-id"`

	AMQP  string `koanf:"amqp" yaml:"amqp"`
	AMQPS string `koanf:"amqps" yaml:"amqps"` // "" is off
	Admin string `koanf:"admin" yaml:"admin"`
	Peer  string `koanf:"peer" yaml:"peer"`

	Cluster string `koanf:"cluster" yaml:"cluster"` // 1=HOST:PORT,2=...; "" is this node alone
	Join    string `koanf:"join" yaml:"join"`       // URL,...; "" is none
	Groups  int    `koanf:"groups" yaml:"groups"`   // data groups, beside the system group

	TLSCert      string `koanf:"tls-cert" yaml:"tls-cert"`
	TLSKey       string `koanf:"tls-key" yaml:"tls-key"`
	TLSCA        string `koanf:"tls-ca" yaml:"tls-ca"`
	TLSLoginFrom string `koanf:"tls-login-from" yaml:"tls-login-from"` // certs.CommonName or certs.DistinguishedName
	PeerTLSCert  string `koanf:"peer-tls-cert" yaml:"peer-tls-cert"`
	PeerTLSKey   string `koanf:"peer-tls-key" yaml:"peer-tls-key"`
	PeerTLSCA    string `koanf:"peer-tls-ca" yaml:"peer-tls-ca"`

	Link           string `koanf:"link" yaml:"link"`               // the source's side; "" is :7500 once there is a token or an authority
	LinkSource     string `koanf:"link-source" yaml:"link-source"` // HOST:LINKPORT,... of the source; "" for no standby
	LinkTokenFile  string `koanf:"link-token-file" yaml:"link-token-file"`
	Standby        bool   `koanf:"standby" yaml:"standby"`
	LinkSeed       uint64 `koanf:"link-seed" yaml:"link-seed"` // node id, 0 for none
	StandbyClients string `koanf:"standby-clients" yaml:"standby-clients"`

	LinkServeTokenFile  string  `koanf:"link-serve-token-file" yaml:"link-serve-token-file"`
	LinkFenceTokenFile  string  `koanf:"link-fence-token-file" yaml:"link-fence-token-file"`
	LinkHoldSeconds     float64 `koanf:"link-hold-seconds" yaml:"link-hold-seconds"`
	LinkHoldDiskPercent int     `koanf:"link-hold-disk-percent" yaml:"link-hold-disk-percent"`
	LinkTLSCert         string  `koanf:"link-tls-cert" yaml:"link-tls-cert"`
	LinkTLSKey          string  `koanf:"link-tls-key" yaml:"link-tls-key"`
	LinkTLSCA           string  `koanf:"link-tls-ca" yaml:"link-tls-ca"`

	DefaultUser string `koanf:"default-user" yaml:"default-user"`
	DefaultPass string `koanf:"default-pass" yaml:"default-pass"`

	LoadDefinitions string `koanf:"load-definitions" yaml:"load-definitions"` // a file; "" is none

	MaxMessageBytes int64   `koanf:"max-message-bytes" yaml:"max-message-bytes"`
	MemoryHigh      float64 `koanf:"memory-high" yaml:"memory-high"`     // share; 0 is off
	DiskFreeMin     string  `koanf:"disk-free-min" yaml:"disk-free-min"` // alarm.ParseFloors
	DrainSeconds    float64 `koanf:"drain-seconds" yaml:"drain-seconds"`

	AMQPAdvertise      string `koanf:"amqp-advertise" yaml:"amqp-advertise"` // HOST:PORT; "" is the peer address's host and the AMQP port
	SessionExpiryMax   int64  `koanf:"session-expiry-max" yaml:"session-expiry-max"`
	SessionsPerUserMax int64  `koanf:"sessions-per-user-max" yaml:"sessions-per-user-max"`

	LogLevel  string `koanf:"log-level" yaml:"log-level"`
	LogFormat string `koanf:"log-format" yaml:"log-format"`
}

// Default is a node alone, with no set-up.
func Default() Config {
	return Config{
		Data:           "./understudy-data",
		NodeID:         1,
		AMQP:           ":5672",
		Admin:          ":15672",
		Peer:           "127.0.0.1:7400",
		Groups:         4,
		TLSLoginFrom:   certs.DistinguishedName,
		StandbyClients: ClientsRefuse,

		LinkHoldSeconds:     3600,
		LinkHoldDiskPercent: 80,

		DefaultUser:     "guest",
		DefaultPass:     "guest",
		MaxMessageBytes: 16 << 20,
		MemoryHigh:      0.6,
		DiskFreeMin:     "1GiB,5%",
		DrainSeconds:    10,

		SessionExpiryMax:   86400,
		SessionsPerUserMax: 1_000_000,

		LogLevel:  "info",
		LogFormat: "text",
	}
}

// Flags declares the flags of `serve` with their defaults.
func Flags(f *pflag.FlagSet) {
	d := Default()
	f.String("data", d.Data, "folder for everything that the node keeps")
	f.Uint64("node-id", d.NodeID, "this node's number, unique in the cluster")
	f.String("amqp", d.AMQP, "address for AMQP 0-9-1 clients")
	f.String("amqps", d.AMQPS, "address for AMQP 0-9-1 clients over TLS (off unless set; needs --tls-cert and --tls-key)")
	f.String("admin", d.Admin, "address for HTTP: admin API, /metrics, /health/live, /health/ready")
	f.String("peer", d.Peer, "address for the other nodes")
	f.String("cluster", d.Cluster, "the first members, 1=HOST:PEERPORT,2=...; ignored once the node has data (default this node alone)")
	f.String("join", d.Join, "admin URLs of a cluster, URL,...; the node joins it as a learner, asking as --default-user; it waits two minutes for one that is not up yet")
	f.Int("groups", d.Groups, "data groups, 1 to 64, fixed at the first start")
	f.String("tls-cert", d.TLSCert, "certificate for --amqps (PEM; read again when it changes)")
	f.String("tls-key", d.TLSKey, "key of --tls-cert (PEM)")
	f.String("tls-ca", d.TLSCA, "authorities by which clients' certificates are checked, if they show one (PEM)")
	f.String("tls-login-from", d.TLSLoginFrom, "what of a client's certificate is the user's name with EXTERNAL: distinguished_name (as CN=bob,O=org) or common_name")
	f.String("peer-tls-cert", d.PeerTLSCert, "certificate between nodes (PEM; read again when it changes)")
	f.String("peer-tls-key", d.PeerTLSKey, "key of --peer-tls-cert (PEM)")
	f.String("peer-tls-ca", d.PeerTLSCA, "authority by which nodes check each other (PEM)")
	f.String("link", d.Link, "address for standbys that follow this cluster (default :7500 once a link token or authority is set; without TLS on loopback only)")
	f.String("link-source", d.LinkSource, "link addresses of the cluster to follow, HOST:LINKPORT,...")
	f.String("link-token-file", d.LinkTokenFile, "file with the token that is shown to the source (read again when it changes)")
	f.Bool("standby", d.Standby, "an empty cluster becomes the standby of --link-source; of no effect on any other")
	f.Uint64("link-seed", d.LinkSeed, "id of the node that begins with a snapshot of the source; of no effect once it has data")
	f.String("standby-clients", d.StandbyClients, "what a standby does with AMQP clients: refuse or park")
	f.String("link-serve-token-file", d.LinkServeTokenFile, "file with the tokens that may read this cluster's log, one a line, two at most")
	f.String("link-fence-token-file", d.LinkFenceTokenFile, "file with the tokens that may also drain and fence this cluster")
	f.Float64("link-hold-seconds", d.LinkHoldSeconds, "how long the log is kept for a standby that is silent")
	f.Int("link-hold-disk-percent", d.LinkHoldDiskPercent, "how full the volume may be before nothing is kept for standbys, and little for members that are far behind")
	f.String("link-tls-cert", d.LinkTLSCert, "certificate of the link, on either side (PEM; read again when it changes)")
	f.String("link-tls-key", d.LinkTLSKey, "key of --link-tls-cert (PEM)")
	f.String("link-tls-ca", d.LinkTLSCA, "authority by which the other side of the link is checked (PEM)")
	f.String("default-user", d.DefaultUser, "the user that clients log in as, an administrator; guest may connect from loopback only")
	f.String("default-pass", d.DefaultPass, "password of --default-user")
	f.String("load-definitions", d.LoadDefinitions, "file of RabbitMQ definitions (JSON) for the first start; its users take the place of --default-user")
	f.Int64("max-message-bytes", d.MaxMessageBytes, "largest message body taken, in bytes (at most 134217728)")
	f.Float64("memory-high", d.MemoryHigh, "share of the machine's or control group's memory from which publishers have to wait (0: no limit)")
	f.String("disk-free-min", d.DiskFreeMin, "free disk space below which publishers have to wait: sizes and percentages of the disk, of which the lowest counts (0: no limit)")
	f.Float64("drain-seconds", d.DrainSeconds, "how long a node that was told to stop may take to hand over")
	f.String("amqp-advertise", d.AMQPAdvertise, "HOST:PORT that clients are told to find this node at (default the host of --peer and the port of --amqp)")
	f.Int64("session-expiry-max", d.SessionExpiryMax, "longest that a session outlives its connection, in seconds")
	f.Int64("sessions-per-user-max", d.SessionsPerUserMax, "named sessions that a user may have in a vhost, attached or not")
	f.String("log-level", d.LogLevel, "debug, info, warn or error")
	f.String("log-format", d.LogFormat, "text or json, on standard error")
}

// YAML is c as a file that --config reads back.
func (c Config) YAML() ([]byte, error) {
	b, err := yaml.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("print settings: %w", err)
	}
	return b, nil
}

// Drain is how long a drain may take.
func (c Config) Drain() time.Duration { return time.Duration(c.DrainSeconds * float64(time.Second)) }

// Alarms are the limits of memory and disk.
func (c Config) Alarms() alarm.Limits {
	floors, _ := alarm.ParseFloors(c.DiskFreeMin) // Validate has looked
	return alarm.Limits{MemoryHigh: c.MemoryHigh, DiskFree: floors}
}

// LinkHold is how long the log is kept for a standby that is silent.
func (c Config) LinkHold() time.Duration {
	return time.Duration(c.LinkHoldSeconds * float64(time.Second))
}

// LinkSources is --link-source as a list.
func (c Config) LinkSources() []string { return list(c.LinkSource) }

// LinkAddress is where standbys are served, "" for nowhere: without a token or an authority nobody could come. Without TLS
// an address that names no host is loopback's.
func (c Config) LinkAddress() string {
	if c.LinkServeTokenFile == "" && c.LinkFenceTokenFile == "" && c.LinkTLSCA == "" {
		return ""
	}
	address := cmp.Or(c.Link, linkDefault)
	if c.LinkTLSCert == "" && strings.HasPrefix(address, ":") {
		return "127.0.0.1" + address
	}
	return address
}

// JoinURLs is --join as a list.
func (c Config) JoinURLs() []string { return list(c.Join) }

// Members is --cluster by node id; this node alone, by its peer address, if it is empty.
func (c Config) Members() (map[uint64]string, error) {
	if c.Cluster == "" {
		return map[uint64]string{c.NodeID: c.Peer}, nil
	}
	members := make(map[uint64]string)
	for _, m := range list(c.Cluster) {
		id, address, err := ParseMember(m)
		if err != nil {
			return nil, err
		}
		if _, twice := members[id]; twice {
			return nil, fmt.Errorf("node %d is named twice", id)
		}
		members[id] = address
	}
	return members, nil
}

// ParseAddresses reads HOST:PORT,... of others; an error names the first that is none.
func ParseAddresses(text string) ([]string, error) {
	addresses := list(text)
	for _, a := range addresses {
		if err := checkAddress(a, true); err != nil {
			return nil, err
		}
	}
	return addresses, nil
}

// ParseMember reads ID=HOST:PORT.
func ParseMember(s string) (id uint64, address string, err error) {
	left, address, ok := strings.Cut(s, "=")
	if !ok {
		return 0, "", fmt.Errorf("%q is not ID=HOST:PORT", s)
	}
	id, err = strconv.ParseUint(left, 10, 64)
	if err != nil || id == 0 {
		return 0, "", fmt.Errorf("%q does not begin with a node id (1 or more)", s)
	}
	if err := checkAddress(address, true); err != nil {
		return 0, "", fmt.Errorf("%q: %w", s, err)
	}
	return id, address, nil
}

func list(s string) []string {
	var out []string
	for _, part := range strings.Split(s, ",") {
		if part = strings.TrimSpace(part); part != "" {
			out = append(out, part)
		}
	}
	return out
}
