package store

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// Image makes a store of its own in dir, which must not be there: the same files, by hard links. It has of each group the
// checkpoint that is the newest on disk, or a newer one. Safe from any goroutine.
func (d *DB) Image(dir string) error {
	if err := d.p.Checkpoint(dir); err != nil {
		return fmt.Errorf("make an image of the store in %s: %w", dir, err)
	}
	return nil
}

// CopyImage makes the store in dir to from the one in dir from, which no process has open: tables, which never change, are
// linked.
func CopyImage(fs vfs.FS, from, to string) error {
	names, err := fs.List(from)
	if err == nil {
		err = fs.MkdirAll(to, 0o755)
	}
	for _, name := range names {
		if err != nil {
			break
		}
		a, b := fs.PathJoin(from, name), fs.PathJoin(to, name)
		switch filepath.Ext(name) {
		case ".sst", ".blob":
			err = vfs.LinkOrCopy(fs, a, b)
		default:
			if name != "LOCK" {
				err = vfs.Copy(fs, a, b)
			}
		}
	}
	if err != nil {
		return fmt.Errorf("copy the store in %s: %w", from, err)
	}
	return nil
}

// Checkpointed answers up to which entry of each of the groups the store in dir has the state, and changes nothing there. It is
// for a store that no process has open. Errors: no store there, or one that Open would refuse.
func Checkpointed(fs vfs.FS, dir string, groups []uint64) (at map[uint64]uint64, err error) {
	p, err := pebble.Open(dir, &pebble.Options{FS: fs, ReadOnly: true, ErrorIfNotExists: true, Logger: quiet{}})
	if err != nil {
		return nil, fmt.Errorf("opening the store in %s to read it: %w", dir, err)
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	at = make(map[uint64]uint64, len(groups))
	for _, g := range groups {
		state, _, err := readState(p, g, metaState)
		if err != nil {
			return nil, err
		}
		at[g] = state.index
	}
	return at, nil
}
