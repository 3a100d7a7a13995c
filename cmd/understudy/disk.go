//go:build !powerloss

package main

import "github.com/cockroachdb/pebble/v2/vfs"

// disk has a node's data folder.
func disk(string) (vfs.FS, error) { return vfs.Default, nil }
