package config

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/url"
	"strconv"

	"github.com/understudy-mq/understudy/cmd/internal/alarm"
	"github.com/understudy-mq/understudy/cmd/internal/certs"
)

// Faults is everything that is wrong with a configuration.
type Faults []error

func (f Faults) Error() string { return errors.Join(f...).Error() }

// Unwrap lists the faults.
func (f Faults) Unwrap() []error { return f }

func (f *Faults) add(key, format string, args ...any) {
	*f = append(*f, fmt.Errorf("--%s: %s", key, fmt.Sprintf(format, args...)))
}

// Validate answers every fault at once (a Faults), or nil.
func (c Config) Validate() error {
	var f Faults
	c.checkNode(&f)
	c.checkAddresses(&f)
	c.checkMembers(&f)
	c.checkTLS(&f)
	c.checkLink(&f)
	c.checkLimits(&f)
	if len(f) == 0 {
		return nil
	}
	return f
}

func (c Config) checkNode(f *Faults) {
	if c.Data == "" {
		f.add("data", "names no folder")
	}
	if c.NodeID == 0 {
		f.add("node-id", "must be 1 or more")
	}
	if c.Groups < 1 || c.Groups > GroupsMax {
		f.add("groups", "%d is not from 1 to %d", c.Groups, GroupsMax)
	}
	if c.DefaultUser == "" {
		f.add("default-user", "must not be empty")
	}
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.LogLevel)); err != nil {
		f.add("log-level", "%q is none of debug, info, warn, error", c.LogLevel)
	}
	if c.LogFormat != "text" && c.LogFormat != "json" {
		f.add("log-format", "%q is neither text nor json", c.LogFormat)
	}
}

func (c Config) checkAddresses(f *Faults) {
	for _, a := range []struct {
		key, address string
		host         bool // must name a host: others dial it
	}{{"amqp", c.AMQP, false}, {"amqps", c.AMQPS, false}, {"admin", c.Admin, false}, {"peer", c.Peer, false}} {
		if a.key == "amqps" && a.address == "" {
			continue
		}
		if err := checkAddress(a.address, a.host); err != nil {
			f.add(a.key, "%v", err)
		}
	}
	if c.AMQPAdvertise != "" {
		if err := checkAddress(c.AMQPAdvertise, true); err != nil {
			f.add("amqp-advertise", "%v", err)
		}
	}
}

// checkAddress wants HOST:PORT; HOST may be empty unless others are to dial it.
func checkAddress(address string, dialled bool) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("%q is not HOST:PORT", address)
	}
	if dialled && host == "" {
		return fmt.Errorf("%q names no host for others to dial", address)
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return fmt.Errorf("%q has no port number from 0 to 65535", address)
	}
	if dialled && n == 0 {
		return fmt.Errorf("%q has port 0, which nobody can dial", address)
	}
	return nil
}

func (c Config) checkMembers(f *Faults) {
	if c.Cluster != "" && c.Join != "" {
		f.add("join", "goes without --cluster: the running cluster names its members")
	}
	if c.Cluster != "" {
		members, err := c.Members()
		switch {
		case err != nil:
			f.add("cluster", "%v", err)
		case members[c.NodeID] == "":
			f.add("cluster", "does not name this node (--node-id %d)", c.NodeID)
		}
	}
	for _, u := range c.JoinURLs() {
		p, err := url.Parse(u)
		if err != nil || p.Host == "" || p.Scheme != "http" && p.Scheme != "https" {
			f.add("join", "%q is not an http:// or https:// URL of an admin port", u)
		}
	}
	if c.Join != "" && checkAddress(c.Peer, true) != nil {
		f.add("peer", "%q cannot be dialled by the cluster to join", c.Peer)
	}
}

func (c Config) checkTLS(f *Faults) {
	if c.AMQPS != "" && (c.TLSCert == "" || c.TLSKey == "") {
		f.add("amqps", "needs --tls-cert and --tls-key")
	}
	if c.AMQPS == "" && (c.TLSCert != "" || c.TLSKey != "" || c.TLSCA != "") {
		f.add("tls-cert", "and its key and authority are used by --amqps only, which is off")
	}
	if c.TLSLoginFrom != certs.DistinguishedName && c.TLSLoginFrom != certs.CommonName {
		f.add("tls-login-from", "%q is neither %s nor %s", c.TLSLoginFrom, certs.DistinguishedName, certs.CommonName)
	}
	peer := 0
	for _, s := range []string{c.PeerTLSCert, c.PeerTLSKey, c.PeerTLSCA} {
		if s != "" {
			peer++
		}
	}
	if peer != 0 && peer != 3 {
		f.add("peer-tls-cert", "goes with --peer-tls-key and --peer-tls-ca: all three or none")
	}
}

func (c Config) checkLink(f *Faults) {
	for _, a := range c.LinkSources() {
		if err := checkAddress(a, true); err != nil {
			f.add("link-source", "%v", err)
		}
	}
	if c.LinkSource == "" && (c.Standby || c.LinkSeed != 0) {
		f.add("link-source", "must name the cluster to follow: --standby and --link-seed are set")
	}
	if c.Standby && c.Join != "" {
		f.add("standby", "goes without --join: a node that joins is what its cluster is")
	}
	if c.LoadDefinitions != "" && (c.Standby || c.LinkSeed != 0) {
		f.add("load-definitions", "goes without --standby and --link-seed: a standby has what its source has")
	}
	if c.StandbyClients != ClientsRefuse && c.StandbyClients != ClientsPark {
		f.add("standby-clients", "%q is neither %s nor %s", c.StandbyClients, ClientsRefuse, ClientsPark)
	}
	if (c.LinkTLSCert == "") != (c.LinkTLSKey == "") {
		f.add("link-tls-cert", "goes with --link-tls-key")
	}
	if address := c.LinkAddress(); address != "" {
		if err := checkAddress(address, false); err != nil {
			f.add("link", "%v", err)
		} else if c.LinkTLSCert == "" && !loopback(address) {
			f.add("link", "%q is open to other machines: it needs --link-tls-cert and --link-tls-key, or a loopback address", address)
		}
	} else if c.Link != "" {
		f.add("link", "serves nobody without --link-serve-token-file, --link-fence-token-file or --link-tls-ca")
	}
	if c.LinkHoldSeconds < 1 || c.LinkHoldSeconds > 30*24*3600 {
		f.add("link-hold-seconds", "%v is not from 1 to 2592000", c.LinkHoldSeconds)
	}
	if c.LinkHoldDiskPercent < 1 || c.LinkHoldDiskPercent > 100 {
		f.add("link-hold-disk-percent", "%d is not from 1 to 100", c.LinkHoldDiskPercent)
	}
}

// loopback says whether only this machine reaches an address to listen on.
func loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func (c Config) checkLimits(f *Faults) {
	if c.MaxMessageBytes < 1 || c.MaxMessageBytes > MessageBytesMax {
		f.add("max-message-bytes", "%d is not from 1 to %d", c.MaxMessageBytes, int64(MessageBytesMax))
	}
	if !(c.MemoryHigh >= 0 && c.MemoryHigh <= 1) {
		f.add("memory-high", "%v is not from 0 to 1", c.MemoryHigh)
	}
	if _, err := alarm.ParseFloors(c.DiskFreeMin); err != nil {
		f.add("disk-free-min", "%v", err)
	}
	if c.SessionExpiryMax < 1 || c.SessionExpiryMax > math.MaxUint32 {
		f.add("session-expiry-max", "%d is not from 1 to %d", c.SessionExpiryMax, uint32(math.MaxUint32))
	}
	if c.SessionsPerUserMax < 1 || c.SessionsPerUserMax > math.MaxUint32 {
		f.add("sessions-per-user-max", "%d is not from 1 to %d", c.SessionsPerUserMax, uint32(math.MaxUint32))
	}
	if c.DrainSeconds < 0 || c.DrainSeconds > 3600 {
		f.add("drain-seconds", "%v is not from 0 to 3600", c.DrainSeconds)
	}
}
