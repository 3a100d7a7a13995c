package powercut

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// FS is a file system that keeps what is needed to undo what is not synced. See the package's documentation.
type FS struct {
	vfs.FS // the real one
	home   home

	names sync.Mutex // held while a folder changes or is synced
	trash uint64     // the number of what was kept last

	mu    sync.Mutex // guards what follows
	files map[uint64]*inode
}

var _ vfs.FS = (*FS)(nil)

// Open makes a file system for everything below root, which it makes if need be. What an earlier process left unsynced is
// still unsynced.
func Open(root string) (*FS, error) {
	s := &FS{FS: vfs.Default, home: homeOf(root), files: map[uint64]*inode{}}
	if err := s.home.make(); err != nil {
		return nil, fmt.Errorf("powercut: %w", err)
	}
	var err error
	if s.trash, err = s.home.sweep(); err != nil {
		return nil, fmt.Errorf("powercut: %w", err)
	}
	return s, nil
}

// Create implements vfs.FS, as do the following.
func (s *FS) Create(name string, category vfs.DiskWriteCategory) (f vfs.File, err error) {
	s.names.Lock()
	defer s.names.Unlock()
	was, err := s.keep(name)
	if err != nil {
		return nil, err
	}
	err = s.change(name, change{Trash: was}, func() error {
		f, err = s.FS.Create(name, category)
		return err
	})
	if err != nil {
		return nil, err
	}
	return s.wrap(f, true)
}

func (s *FS) OpenReadWrite(name string, category vfs.DiskWriteCategory, o ...vfs.OpenOption) (f vfs.File, err error) {
	s.names.Lock()
	defer s.names.Unlock()
	open := func() error {
		f, err = s.FS.OpenReadWrite(name, category, o...)
		return err
	}
	_, missing := os.Lstat(name)
	if missing != nil {
		err = s.change(name, change{}, open)
	} else {
		err = open()
	}
	if err != nil {
		return nil, err
	}
	return s.wrap(f, missing != nil)
}

func (s *FS) Open(name string, o ...vfs.OpenOption) (vfs.File, error) {
	f, err := s.FS.Open(name, o...)
	if err != nil {
		return nil, err
	}
	return s.wrap(f, false)
}

func (s *FS) OpenDir(name string) (vfs.File, error) {
	f, err := s.FS.OpenDir(name)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &folder{File: f, fs: s, ino: number(info)}, nil
}

func (s *FS) ReuseForWrite(from, to string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if err := s.Rename(from, to); err != nil {
		return nil, err
	}
	return s.OpenReadWrite(to, category)
}

func (s *FS) Link(from, to string) error {
	s.names.Lock()
	defer s.names.Unlock()
	link := func() error { return s.FS.Link(from, to) }
	if _, err := os.Lstat(to); err == nil {
		return link() // which refuses it
	}
	return s.change(to, change{}, link)
}

func (s *FS) Rename(from, to string) error {
	if filepath.Dir(from) != filepath.Dir(to) {
		return fmt.Errorf("powercut: rename %s to %s: %w between folders", from, to, errors.ErrUnsupported)
	}
	s.names.Lock()
	defer s.names.Unlock()
	rename := func() error { return s.FS.Rename(from, to) }
	if _, err := os.Lstat(from); err != nil || from == to {
		return rename()
	}
	was, err := s.keep(to)
	if err != nil {
		return err
	}
	return s.change(to, change{From: filepath.Base(from), Trash: was}, rename)
}

func (s *FS) Remove(name string) error {
	s.names.Lock()
	defer s.names.Unlock()
	if left, err := os.ReadDir(name); err == nil && len(left) > 0 {
		return s.FS.Remove(name) // which refuses it
	}
	return s.drop(name)
}

func (s *FS) RemoveAll(name string) error {
	s.names.Lock()
	defer s.names.Unlock()
	if err := s.drop(name); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// drop takes a file, or a folder with all that is in it, from its folder. s.names is held.
func (s *FS) drop(name string) error {
	if _, err := os.Lstat(name); err != nil {
		return err
	}
	s.trash++
	to := strconv.FormatUint(s.trash, 10)
	return s.change(name, change{Gone: true, Trash: to}, func() error { return os.Rename(name, s.home.trash(to)) })
}

func (s *FS) MkdirAll(dir string, perm os.FileMode) error {
	s.names.Lock()
	defer s.names.Unlock()
	return s.mkdirAll(filepath.Clean(dir), perm)
}

func (s *FS) mkdirAll(dir string, perm os.FileMode) error {
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := s.mkdirAll(filepath.Dir(dir), perm); err != nil {
		return err
	}
	return s.change(dir, change{}, func() error { return os.Mkdir(dir, perm) })
}

// Unwrap implements vfs.FS.
func (s *FS) Unwrap() vfs.FS { return s.FS }

// keep keeps what has a name that is to be replaced, and answers as what; "" if there is nothing. s.names is held.
func (s *FS) keep(name string) (string, error) {
	if _, err := os.Lstat(name); errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	s.trash++
	as := strconv.FormatUint(s.trash, 10)
	return as, os.Link(name, s.home.trash(as))
}

// change writes down what is to happen to a name, and has it happen. s.names is held.
func (s *FS) change(name string, c change, do func() error) error {
	info, err := os.Stat(filepath.Dir(name))
	if err != nil {
		return err
	}
	c.Name = filepath.Base(name)
	undo, err := s.home.append(number(info), c)
	if err != nil {
		return fmt.Errorf("powercut: %w", err)
	}
	if err := do(); err != nil {
		return errors.Join(err, undo())
	}
	return nil
}

// folder is a folder that can be synced.
type folder struct {
	vfs.File
	fs  *FS
	ino uint64
}

// Sync makes the folder's names durable.
func (d *folder) Sync() error {
	d.fs.names.Lock()
	defer d.fs.names.Unlock()
	if err := d.File.Sync(); err != nil {
		return err
	}
	return d.fs.settle(d.ino)
}

// SyncData is Sync.
func (d *folder) SyncData() error { return d.Sync() }

// settle forgets how to undo changes of a folder's names. s.names is held.
func (s *FS) settle(ino uint64) error {
	changes, _, err := s.home.changes(ino)
	if err != nil {
		return err
	}
	if err := removeAny(s.home.namesOf(ino)); err != nil {
		return err
	}
	for _, c := range changes {
		if c.Trash == "" {
			continue
		}
		if err := s.home.purge(c.Trash, s.forget); err != nil {
			return err
		}
	}
	return nil
}

// number is a file's inode number.
func number(info os.FileInfo) uint64 { return info.Sys().(*syscall.Stat_t).Ino }

// links is how many names a file has.
func links(info os.FileInfo) uint64 { return uint64(info.Sys().(*syscall.Stat_t).Nlink) }

// removeAny removes a file if it is there.
func removeAny(name string) error {
	if err := os.Remove(name); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}
