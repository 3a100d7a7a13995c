package store

import (
	"errors"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// A full disk is not the end: whoever writes waits, in the write that did not fit, until there is room. Pebble itself
// would try a flush again and again, and call a manifest that it cannot write fatal.

const (
	roomBytes    = 1 << 20                // free space that makes it worth to try again
	noSpacePause = 100 * time.Millisecond // between two looks
)

var errFullAtClose = errors.New("closed on a full disk: the newest checkpoint is not written")

// waitForRoom is called by the write that did not fit, with all others waiting behind it. The write is then made once
// more. An opening does not wait: it fails.
func (d *DB) waitForRoom() {
	if !d.opened.Load() {
		return
	}
	if d.o.Logger != nil {
		d.o.Logger.Warn("the disk is full: the store waits for room", "folder", d.dir)
	}
	for !d.closingNow() {
		if d.o.NoSpace != nil {
			d.o.NoSpace(syscall.ENOSPC)
		}
		d.pause()
		if u, err := d.fs.GetDiskUsage(d.dir); err != nil || u.AvailBytes >= roomBytes {
			return
		}
	}
}

// backgroundError takes what Pebble's own goroutines failed with. A write for which there was no room the second time
// either is tried again by Pebble.
func (d *DB) backgroundError(err error) {
	switch {
	case !vfs.IsNoSpaceError(err):
		d.fail(err)
	case d.closingNow():
		d.end(errFullAtClose)
	default:
		if d.o.NoSpace != nil {
			d.o.NoSpace(err)
		}
		d.pause()
	}
}

func (d *DB) pause() {
	select {
	case <-time.After(noSpacePause):
	case <-d.closing:
	}
}

func (d *DB) closingNow() bool {
	select {
	case <-d.closing:
		return true
	default:
		return false
	}
}
