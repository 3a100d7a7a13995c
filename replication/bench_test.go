package replication_test

import (
	"testing"

	"github.com/understudy-mq/understudy/replication/simtest"
)

// BenchmarkSubmit is the path from Submit through the real log to Apply on a cluster of one, 256 bytes a command.
func BenchmarkSubmit(b *testing.B) {
	m := options(b, 1)
	m.opts.TickInterval = 0
	m.machine.Keep = false
	m.start()
	defer m.stop()
	<-m.reg
	g, command := m.group(), simtest.Bytes(254)
	before := m.node.Stats()
	b.SetBytes(int64(len(command)))
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		if err := g.Submit(command, 1); err != nil {
			b.Fatal(err)
		}
	}
	for m.machine.Count() < uint64(b.N) {
		<-m.machine.Rounds()
	}
	b.StopTimer()
	after := m.node.Stats()
	b.ReportMetric(float64(after.Syncs-before.Syncs)*1000/float64(b.N), "syncs/1000")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "commands/s")
}

// BenchmarkSubmitOnThree is the same on three nodes over loopback, submitted at the leader.
func BenchmarkSubmitOnThree(b *testing.B) {
	ms := cluster(b, 3, func(m *member) { m.opts.TickInterval, m.machine.Keep = 0, false })
	for _, m := range ms {
		<-m.reg
	}
	leader := ms[leaderOf(ms)]
	g, command := leader.group(), simtest.Bytes(254)
	b.SetBytes(int64(len(command)))
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		if err := g.Submit(command, 1); err != nil {
			b.Fatal(err)
		}
	}
	for leader.machine.Count() < uint64(b.N) {
		<-leader.machine.Rounds()
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "commands/s")
}
