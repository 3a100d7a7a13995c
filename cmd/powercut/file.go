package powercut

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// inode is a file, however many names and handles it has.
type inode struct {
	fs  *FS
	ino uint64

	handles int // guarded by FS.mu

	mu     sync.Mutex // held while the file is written to or synced
	record *os.File   // of what was overwritten; nil until something is
	gone   bool       // it has no name and cannot come back
	buf    []byte
}

// file is a handle of an inode.
type file struct {
	vfs.File
	inode *inode
	at    int64 // where Read and Write go on
}

// wrap makes a handle. Of a fresh file nothing may be written down yet: another may have had its inode number.
func (s *FS) wrap(f vfs.File, fresh bool) (vfs.File, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	ino := number(info)
	if fresh {
		if err := s.home.forget(ino); err != nil {
			return nil, errors.Join(err, f.Close())
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.files[ino]
	if n == nil {
		n = &inode{fs: s, ino: ino}
		s.files[ino] = n
	}
	n.handles++
	return &file{File: f, inode: n}, nil
}

// forget drops what is written down of an inode that has no name any more.
func (s *FS) forget(ino uint64) error {
	s.mu.Lock()
	n := s.files[ino]
	s.mu.Unlock()
	if n != nil {
		n.mu.Lock()
		n.gone = true
		n.mu.Unlock()
	}
	return s.home.forget(ino)
}

// Write implements vfs.File, as do the following.
func (f *file) Write(b []byte) (int, error) {
	f.inode.mu.Lock()
	defer f.inode.mu.Unlock()
	if err := f.note(f.at, len(b)); err != nil {
		return 0, err
	}
	n, err := f.File.Write(b)
	f.at += int64(n)
	return n, err
}

func (f *file) WriteAt(b []byte, at int64) (int, error) {
	f.inode.mu.Lock()
	defer f.inode.mu.Unlock()
	if err := f.note(at, len(b)); err != nil {
		return 0, err
	}
	return f.File.WriteAt(b, at)
}

func (f *file) Read(b []byte) (int, error) {
	n, err := f.File.Read(b)
	f.at += int64(n)
	return n, err
}

func (f *file) Sync() error { return f.sync(f.File.Sync) }

func (f *file) SyncData() error { return f.sync(f.File.SyncData) }

func (f *file) SyncTo(length int64) (full bool, err error) {
	f.inode.mu.Lock()
	defer f.inode.mu.Unlock()
	if full, err = f.File.SyncTo(length); err != nil || !full {
		return full, err
	}
	return full, f.inode.settle()
}

func (f *file) sync(do func() error) error {
	f.inode.mu.Lock()
	defer f.inode.mu.Unlock()
	if err := do(); err != nil {
		return err
	}
	return f.inode.settle()
}

func (f *file) Close() error { return errors.Join(f.File.Close(), f.inode.release()) }

// release gives back a handle; the record stays for as long as there is something in it.
func (n *inode) release() error {
	n.fs.mu.Lock()
	defer n.fs.mu.Unlock()
	if n.handles--; n.handles > 0 {
		return nil
	}
	delete(n.fs.files, n.ino)
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.record == nil {
		return nil
	}
	info, err := n.record.Stat()
	if err == nil && info.Size() == 0 && !n.gone {
		err = removeAny(n.fs.home.dataOf(n.ino))
	}
	return errors.Join(err, n.record.Close())
}

// settle forgets what was overwritten. n.mu is held.
func (n *inode) settle() error {
	if n.record == nil {
		if n.gone {
			return nil
		}
		return removeAny(n.fs.home.dataOf(n.ino)) // an earlier process's
	}
	return n.record.Truncate(0)
}

// A note is what a write is about to overwrite: where, the file's length before, how long the write is, how many bytes were there,
// and those.
const noteBytes = 8 + 8 + 4 + 4

// note writes that down. The inode's mu is held.
func (f *file) note(at int64, length int) error {
	n := f.inode
	if n.gone || length == 0 {
		return nil
	}
	if err := n.open(); err != nil {
		return fmt.Errorf("powercut: %w", err)
	}
	info, err := f.File.Stat()
	if err != nil {
		return fmt.Errorf("powercut: %w", err)
	}
	was := int(max(0, min(int64(length), info.Size()-at)))
	n.buf = slices.Grow(n.buf[:0], noteBytes+was)[:noteBytes+was]
	binary.LittleEndian.PutUint64(n.buf, uint64(at))
	binary.LittleEndian.PutUint64(n.buf[8:], uint64(info.Size()))
	binary.LittleEndian.PutUint32(n.buf[16:], uint32(length))
	binary.LittleEndian.PutUint32(n.buf[20:], uint32(was))
	if _, err := f.File.ReadAt(n.buf[noteBytes:], at); err != nil && was > 0 {
		return fmt.Errorf("powercut: reading what is overwritten: %w", err)
	}
	if _, err := n.record.Write(n.buf); err != nil {
		return fmt.Errorf("powercut: %w", err)
	}
	return nil
}

// open opens the record, without the half of a note that the end of an earlier process may have left.
func (n *inode) open() error {
	if n.record != nil {
		return nil
	}
	f, err := os.OpenFile(n.fs.home.dataOf(n.ino), os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	_, whole, err := readNotes(f)
	if err == nil {
		err = f.Truncate(whole)
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	n.record = f
	return nil
}

// note is one that was written down.
type note struct {
	at, size int64
	length   int64
	was      []byte
}

// before is what was between two places of the write; zero where nothing was.
func (n note) before(from, to int64) []byte {
	b := make([]byte, to-from)
	if skip := from - n.at; skip < int64(len(n.was)) {
		copy(b, n.was[skip:])
	}
	return b
}

// readNotes reads a record, and answers how long it is without the half of a note at its end.
func readNotes(r io.Reader) (notes []note, whole int64, err error) {
	b, err := io.ReadAll(r)
	for err == nil && len(b[whole:]) >= noteBytes {
		h := b[whole:]
		was := int64(binary.LittleEndian.Uint32(h[20:]))
		if int64(len(h)) < noteBytes+was {
			break
		}
		notes = append(notes, note{
			at: int64(binary.LittleEndian.Uint64(h)), size: int64(binary.LittleEndian.Uint64(h[8:])),
			length: int64(binary.LittleEndian.Uint32(h[16:])), was: h[noteBytes : noteBytes+was],
		})
		whole += noteBytes + was
	}
	return notes, whole, err
}
