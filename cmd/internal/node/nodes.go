package node

import (
	"context"
	"os"
	"runtime"
	"slices"
	"strconv"
	"time"

	"github.com/understudy-mq/understudy/cmd/internal/admin"
	"github.com/understudy-mq/understudy/cmd/internal/api"
	"github.com/understudy-mq/understudy/cmd/internal/certs"
	"github.com/understudy-mq/understudy/cmd/internal/telemetry"
)

// Nodes lists the members of the cluster, each with what it says of itself.
func (n *Node) Nodes(ctx context.Context) []api.Node {
	answers := askAll[api.Node](ctx, n, question{Want: "node"})
	rows := []api.Node{}
	for _, m := range n.Cluster().Members {
		row, ok := answers[m.ID]
		if !ok {
			row = api.Node{Name: admin.NodeName(m.ID), Type: "disc", Partitions: []string{}}
			row.MemAlarm, row.DiskFreeAlarm = slices.Contains(m.Alarms, "memory"), slices.Contains(m.Alarms, "disk")
		}
		rows = append(rows, row)
	}
	return rows
}

// ownRow is what this node says of itself.
func (n *Node) ownRow() api.Node {
	p := telemetry.ReadProcess(n.cfg.Data)
	alarms := n.alarmMetrics()
	mechanisms := []api.Named{
		{Name: "PLAIN", Description: "SASL PLAIN", Enabled: true}, {Name: "AMQPLAIN", Description: "PLAIN in an AMQP table", Enabled: true},
		{Name: "EXTERNAL", Description: "the user of a client's certificate", Enabled: n.cfg.AMQPS != "" && n.cfg.TLSCA != ""},
	}
	return api.Node{
		Name: n.Name(), Type: "disc", Running: true, OSPid: strconv.Itoa(os.Getpid()), Uptime: time.Since(n.started).Milliseconds(),
		FDUsed: p.OpenFiles, FDTotal: p.MaxFiles, SocketsUsed: n.clients.Open(), MemUsed: p.ResidentBytes,
		DiskFree: p.DiskFreeBytes, DiskFreeAlarm: alarms.Disk, MemAlarm: alarms.Memory, ProcUsed: runtime.NumGoroutine(), Processors: runtime.NumCPU(), RatesMode: "basic",
		Partitions: []string{}, ExchangeTypes: slices.Clone(admin.ExchangeTypes), DBDir: n.cfg.Data,
		MemLimit: int64(alarms.MemoryLimitBytes), DiskFreeLimit: int64(alarms.DiskLimitBytes), AuthMechanisms: mechanisms,
		Applications: []api.Application{{Name: "understudy", Description: "Understudy", Version: n.o.Version}},
	}
}

// Certificates are those that the node shows to clients and to other nodes. One that cannot be read counts as expired.
func (n *Node) Certificates() []api.Expiring {
	rows := []api.Expiring{}
	for _, c := range []struct{ listener, file string }{{protocolAMQPS, n.cfg.TLSCert}, {"clustering", n.cfg.PeerTLSCert}} {
		if c.file == "" {
			continue
		}
		row := api.Expiring{Node: n.Name(), Listener: c.listener, File: c.file}
		if leaf, err := certs.Leaf(c.file); err != nil {
			n.log.Warn("certificate", "file", c.file, "error", err)
		} else {
			row.Subject, row.NotAfter = leaf.Subject.String(), leaf.NotAfter
		}
		rows = append(rows, row)
	}
	return rows
}
