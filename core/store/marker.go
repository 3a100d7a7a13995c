package store

import (
	"errors"
	"fmt"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// markerPrefix begins the names of Pebble's markers: empty files whose name says which manifest counts.
const markerPrefix = "marker."

// ordered is a file system on which a marker never outlasts a cut that what it names did not. Pebble syncs the folder once for both, so it
// would be left to the file system to keep their order: a store whose marker names a manifest that is not there cannot be opened.
type ordered struct{ vfs.FS }

// Create implements vfs.FS.
func (o ordered) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if strings.HasPrefix(o.PathBase(name), markerPrefix) {
		if err := o.syncFolder(o.PathDir(name)); err != nil {
			return nil, err
		}
	}
	return o.FS.Create(name, c)
}

func (o ordered) syncFolder(dir string) error {
	d, err := o.OpenDir(dir)
	if err != nil {
		return fmt.Errorf("opening the folder %s: %w", dir, err)
	}
	if err := errors.Join(d.Sync(), d.Close()); err != nil {
		return fmt.Errorf("fsync of the folder %s: %w", dir, err)
	}
	return nil
}
