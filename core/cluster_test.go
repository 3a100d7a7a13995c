package core_test

import (
	"testing"

	"github.com/understudy-mq/understudy/core/entry"
)

func TestAClusterMadeAnewReplacesItsFormerID(t *testing.T) {
	d := started(t)
	d.Control(&entry.ClusterInit{ID: "first"})
	d.Control(&entry.ClusterInit{ID: "stray", Former: "another"})
	if got := d.Machine.ClusterID(); got != "first" {
		t.Errorf("an init that names another cluster as the former one made the id %q", got)
	}
	d.Control(&entry.ClusterInit{ID: "second", Former: "first"})
	if got := d.Machine.ClusterID(); got != "second" {
		t.Errorf("cluster id %q, want second", got)
	}
}
