package log

import (
	"errors"
	"fmt"
	"os"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// makeDir makes dir and those above it that are missing, so that power loss does not take them, and opens it.
func makeDir(fs vfs.FS, dir string) (vfs.File, error) {
	var parents []string // whose listings change, and the nearest that was there
	for p := fs.PathDir(dir); ; p = fs.PathDir(p) {
		parents = append(parents, p)
		if fs.PathDir(p) == p {
			break
		}
		if _, err := fs.Stat(p); err == nil {
			break
		} else if !errors.Is(err, os.ErrNotExist) {
			return nil, fmt.Errorf("log: %s: %w", p, err)
		}
	}
	if err := fs.MkdirAll(dir, 0o750); err != nil {
		return nil, fmt.Errorf("log: making the folder %s: %w", dir, err)
	}
	for _, p := range parents {
		if err := syncDir(fs, p); err != nil {
			return nil, err
		}
	}
	f, err := fs.OpenDir(dir)
	if err != nil {
		return nil, fmt.Errorf("log: opening the folder %s: %w", dir, err)
	}
	return f, nil
}

func syncDir(fs vfs.FS, dir string) error {
	f, err := fs.OpenDir(dir)
	if err != nil {
		return fmt.Errorf("log: opening the folder %s: %w", dir, err)
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("log: fsync of the folder %s: %w", dir, err)
	}
	return nil
}
