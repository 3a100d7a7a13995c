package core

import (
	"slices"
	"testing"

	"github.com/understudy-mq/understudy/core/entry"
)

func TestAddressesAreThisClustersAlone(t *testing.T) {
	m := New(0)
	m.apply(&entry.ClusterInit{ID: "mine"})
	for _, x := range []entry.NodeAddress{
		{Cluster: "mine", Node: 2, Address: "b:1"},
		{Cluster: "mine", Node: 1, Address: "a:1"},
		{Cluster: "another", Node: 3, Address: "c:1"}, // replayed from a source
		{Cluster: "mine", Node: 2, Address: "b:2", Level: 3},
		{Cluster: "mine", Node: 6, Level: 2}, // no clients
		{Cluster: "mine", Node: 4, Address: "d:1"},
		{Cluster: "mine", Node: 4},
		{Cluster: "mine", Node: 5, Address: string(make([]byte, addressBytesMax+1))},
	} {
		m.apply(&x)
	}
	if got, want := m.Addresses(), []NodeAddress{{1, "a:1", 0}, {2, "b:2", 3}, {6, "", 2}}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestAStandbyLearnsItsOwnAddresses(t *testing.T) {
	m := New(0)
	m.gate = &m.muted
	if !m.passes(entry.KindNodeAddress) {
		t.Error("a standby's address does not count")
	}
}
