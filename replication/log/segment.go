package log

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
	"golang.org/x/sys/unix"
)

const (
	segmentSuffix = ".seg"
	spareSuffix   = ".spare"
	lockName      = "LOCK"
	sparesMax     = 2 // files kept to be overwritten; the last one is what a full disk is survived with
	category      = vfs.DiskWriteCategory("understudy-log")
)

// segment is one file of the log.
type segment struct {
	id     uint64
	header *header
	ranges map[uint64]GroupRange // guarded by Log.segmentsMu
	end    int64                 // after the last record; guarded by Log.segmentsMu
	chain  uint32                // at end, once sealed
	sealed bool                  // guarded by Log.segmentsMu
	size   int64                 // of the file when it was begun or found

	readers sync.RWMutex // held for reading during reads, for writing to close
	file    vfs.File     // nil once dropped
}

// note widens the range of entries that the segment holds.
func (s *segment) note(group, index uint64) {
	r, ok := s.ranges[group]
	if !ok {
		r = GroupRange{Group: group, First: index, Last: index}
	}
	r.First, r.Last = min(r.First, index), max(r.Last, index)
	s.ranges[group] = r
}

func (s *segment) info() SegmentInfo {
	out := SegmentInfo{ID: s.id, Bytes: s.end, Sealed: s.sealed}
	for _, r := range s.ranges {
		out.Groups = append(out.Groups, r)
	}
	slices.SortFunc(out.Groups, func(a, b GroupRange) int { return int(int64(a.Group) - int64(b.Group)) })
	return out
}

func segmentName(id uint64) string { return fmt.Sprintf("%016d%s", id, segmentSuffix) }

// parseName answers the number in a name that ends in suffix.
func parseName(name, suffix string) (uint64, bool) {
	digits, ok := strings.CutSuffix(name, suffix)
	if !ok {
		return 0, false
	}
	id, err := strconv.ParseUint(digits, 10, 64)
	return id, err == nil
}

func (l *Log) path(name string) string      { return l.o.FS.PathJoin(l.o.Dir, name) }
func (l *Log) segmentPath(id uint64) string { return l.path(segmentName(id)) }
func (l *Log) sparePath(number uint64) string {
	return l.path(fmt.Sprintf("%016d%s", number, spareSuffix))
}

// segment answers a segment by its number, nil if it is gone.
func (l *Log) segment(id uint64) *segment {
	l.segmentsMu.RLock()
	defer l.segmentsMu.RUnlock()
	i, ok := slices.BinarySearchFunc(l.segments, id, func(s *segment, id uint64) int { return int(int64(s.id) - int64(id)) })
	if !ok {
		return nil
	}
	return l.segments[i]
}

// Segments lists the segments, oldest first.
func (l *Log) Segments() []SegmentInfo {
	l.segmentsMu.RLock()
	defer l.segmentsMu.RUnlock()
	out := make([]SegmentInfo, len(l.segments))
	for i, s := range l.segments {
		out[i] = s.info()
	}
	return out
}

// begin makes the next segment of a spare file, given by its number: its header is on disk, then its name, before it is used.
func (l *Log) begin(h *header, spare uint64) (*segment, error) {
	var nonce [8]byte
	rand.Read(nonce[:]) //nolint:errcheck // it never fails
	h.nonce = binary.LittleEndian.Uint64(nonce[:])
	f, err := l.o.FS.OpenReadWrite(l.sparePath(spare), category)
	if err != nil {
		return nil, fmt.Errorf("log: opening a spare file: %w", err)
	}
	size, err := l.install(f, h, l.sparePath(spare))
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	s := &segment{id: h.id, header: h, ranges: map[uint64]GroupRange{}, end: h.bytes, size: size, file: f}
	l.segmentsMu.Lock()
	defer l.segmentsMu.Unlock()
	l.segments = append(l.segments, s)
	return s, nil
}

// install writes h into f, and gives it its name once that is on disk.
func (l *Log) install(f vfs.File, h *header, old string) (size int64, err error) {
	info, err := f.Stat()
	if err != nil {
		return 0, fmt.Errorf("log: %s: %w", old, err)
	}
	b := h.encode()
	if _, err := f.WriteAt(b, 0); err != nil {
		return 0, fmt.Errorf("log: writing the header of segment %d: %w", h.id, err)
	}
	if err := f.Sync(); err != nil {
		return 0, fmt.Errorf("log: fsync of the header of segment %d: %w", h.id, err)
	}
	if err := l.o.FS.Rename(old, l.segmentPath(h.id)); err != nil {
		return 0, fmt.Errorf("log: naming segment %d: %w", h.id, err)
	}
	return info.Size(), l.syncDir()
}

func (l *Log) syncDir() error {
	if err := l.dir.Sync(); err != nil {
		return fmt.Errorf("log: fsync of the folder %s: %w", l.o.Dir, err)
	}
	return nil
}

// takeSpare answers the number of a spare file, made now if there is none.
func (l *Log) takeSpare() (uint64, error) {
	l.sparesMu.Lock()
	defer l.sparesMu.Unlock()
	if len(l.spares) == 0 {
		if err := l.makeSpare(); err != nil {
			return 0, err
		}
	}
	n := len(l.spares) - 1
	number := l.spares[n]
	l.spares = l.spares[:n]
	return number, nil
}

// makeSpare makes a spare file whose space is allocated. l.sparesMu is held.
func (l *Log) makeSpare() (err error) {
	l.spareNext++
	name := l.sparePath(l.spareNext)
	defer func() {
		if err == nil {
			l.spares = append(l.spares, l.spareNext)
			return
		}
		if vfs.IsNoSpaceError(err) {
			err = fmt.Errorf("%w: %w", ErrFull, err)
		}
		err = fmt.Errorf("log: making %s: %w", name, err)
		l.o.FS.Remove(name) //nolint:errcheck // it holds nothing; the error above is the one to tell
	}()
	f, err := l.o.FS.Create(name, category)
	if err != nil {
		return err
	}
	err = reserve(f, l.o.SegmentBytes)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// reserve allocates a file's space, so that writes into it cannot fail for want of room and an fdatasync has no new size to record.
func reserve(f vfs.File, size int64) error {
	err := f.Preallocate(0, size)
	if err == nil {
		_, err = f.WriteAt([]byte{0}, size-1)
		return err
	}
	if !errors.Is(err, unix.EOPNOTSUPP) && !errors.Is(err, unix.ENOSYS) {
		return err
	}
	zero := make([]byte, 256<<10)
	for at := int64(0); at < size; at += int64(len(zero)) {
		if _, err := f.WriteAt(zero[:min(int64(len(zero)), size-at)], at); err != nil {
			return err
		}
	}
	return nil
}

// Drop removes a sealed segment that no group and no pin needs (ErrNeeded otherwise), first making sure that the
// truncation points that allow it are on disk. It blocks for as long as an fsync takes.
func (l *Log) Drop(id uint64) error {
	l.dropMu.Lock()
	defer l.dropMu.Unlock()
	s := l.segment(id)
	if s == nil {
		return fmt.Errorf("log: there is no segment %d", id)
	}
	l.segmentsMu.RLock()
	info := s.info()
	l.segmentsMu.RUnlock()
	if !info.Sealed {
		return fmt.Errorf("log: segment %d is being written: %w", s.id, ErrNeeded)
	}
	if err := l.settle(info); err != nil {
		return err
	}
	err := l.remove(s)
	if err != nil {
		l.fail(err)
	}
	return err
}

// settle is nil once no group needs an entry of a segment, and the truncations and overrides that say so are on disk.
func (l *Log) settle(s SegmentInfo) error {
	points, durable := make([]uint64, len(s.Groups)), true
	for i, r := range s.Groups {
		g := l.Group(r.Group)
		var needed bool
		if points[i], needed = g.needs(r, s.ID); needed {
			return fmt.Errorf("log: segment %d holds entries that group %d keeps: %w", s.ID, r.Group, ErrNeeded)
		}
		durable = durable && g.durable.Load() >= r.Last
	}
	if durable {
		return nil
	}
	if err := l.flush(); err != nil {
		return err
	}
	for i, r := range s.Groups {
		if !l.Group(r.Group).settled(r, points[i]) { // a full disk: not everything queued was written
			return fmt.Errorf("log: segment %d holds entries of group %d whose end is not on disk yet: %w", s.ID, r.Group, ErrNeeded)
		}
	}
	return nil
}

// remove takes s out of the log; its file becomes a spare one or goes.
func (l *Log) remove(s *segment) error {
	l.segmentsMu.Lock()
	l.segments = slices.DeleteFunc(l.segments, func(o *segment) bool { return o == s })
	l.segmentsMu.Unlock()
	s.readers.Lock()
	err := s.file.Close()
	s.file = nil
	s.readers.Unlock()
	if err != nil {
		return fmt.Errorf("log: closing segment %d: %w", s.id, err)
	}
	l.sparesMu.Lock()
	defer l.sparesMu.Unlock()
	defer l.wakeKeeper()
	if len(l.spares) >= sparesMax || s.size != l.o.SegmentBytes {
		if err := l.o.FS.Remove(l.segmentPath(s.id)); err != nil {
			return fmt.Errorf("log: removing segment %d: %w", s.id, err)
		}
		return l.syncDir()
	}
	l.spareNext++
	if err := l.o.FS.Rename(l.segmentPath(s.id), l.sparePath(l.spareNext)); err != nil {
		return fmt.Errorf("log: making segment %d a spare: %w", s.id, err)
	}
	// The name must be gone for good before the file is overwritten, or a crash brings back a segment with another's header.
	if err := l.syncDir(); err != nil {
		return err
	}
	l.spares = append(l.spares, l.spareNext)
	return nil
}
