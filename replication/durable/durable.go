package durable

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// SyncDir makes the names in a folder, as they are now, outlast a power cut.
func SyncDir(fs vfs.FS, dir string) error {
	f, err := fs.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// MakeDir makes a folder, and those above it that are missing, with these permissions. One that is there stays as it is.
func MakeDir(fs vfs.FS, dir string, perm os.FileMode) error {
	missing, there, err := lacking(fs, dir)
	if err != nil {
		return err
	}
	// It may be of a call that died before it had synced the name. Where the folder above may not be read, an operator made it.
	if err := SyncDir(fs, fs.PathDir(there)); err != nil && !errors.Is(err, os.ErrPermission) {
		return err
	}
	// Each name is on disk before there is one below it: a call that dies leaves at most the lowest for the next to sync.
	for i := len(missing) - 1; i >= 0; i-- {
		if err := fs.MkdirAll(missing[i], perm); err != nil {
			return err
		}
		if err := SyncDir(fs, fs.PathDir(missing[i])); err != nil {
			return err
		}
	}
	return nil
}

// lacking finds the folders from dir upwards that are not there, the lowest first, and the lowest that is.
func lacking(fs vfs.FS, dir string) (missing []string, there string, err error) {
	for {
		_, err := fs.Stat(dir)
		up := fs.PathDir(dir)
		if err == nil || up == dir {
			return missing, dir, nil
		}
		if !errors.Is(err, os.ErrNotExist) {
			return nil, "", err
		}
		missing, dir = append(missing, dir), up
	}
}

// Replace makes b what is in a file, whether there was one or not.
func Replace(fs vfs.FS, name string, b []byte) error {
	next := name + ".next"
	f, err := fs.Create(next, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return Rename(fs, next, name)
}

// Rename gives a file or a folder another name in the folder that it is in. A file of that name goes.
func Rename(fs vfs.FS, from, to string) error {
	if err := fs.Rename(from, to); err != nil {
		return err
	}
	return SyncDir(fs, fs.PathDir(to))
}

// Remove removes a file; one that is not there is an os.ErrNotExist.
func Remove(fs vfs.FS, name string) error {
	if err := fs.Remove(name); err != nil {
		return err
	}
	return SyncDir(fs, fs.PathDir(name))
}

// Read answers what Replace has put into a file of at most so many bytes. A longer one is an error: it is not what was put there.
func Read(fs vfs.FS, name string, bytesMax int64) ([]byte, error) {
	f, err := fs.Open(name)
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(io.LimitReader(f, bytesMax+1))
	if err == nil && int64(len(b)) > bytesMax {
		err = fmt.Errorf("%s has more than %d bytes", name, bytesMax)
	}
	return b, errors.Join(err, f.Close())
}
