//go:build powerloss

package main

import (
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/understudy-mq/understudy/cmd/powercut"
)

// disk has a node's data folder, in such a way that a test can take away what was not synced.
func disk(data string) (vfs.FS, error) { return powercut.Open(data) }
