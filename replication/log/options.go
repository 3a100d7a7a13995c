package log

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Options configure a Log.
type Options struct {
	Dir string // its folder, made if it is not there
	FS  vfs.FS // vfs.Default if nil

	// SegmentBytes is the size at which a segment is sealed and the next one begun; 64 MiB if 0. A single bigger record
	// makes a bigger segment.
	SegmentBytes int64
	// TailBytes bounds the newest entries kept in memory, all groups together; 64 MiB if 0. Entries that are not written yet
	// are always in memory.
	TailBytes int64
	// CheckBytes of the log, from its end back, are read and checked when it is opened; 1 GiB if 0. Of sealed segments before
	// that only the records' heads are: the data in them is checked when it is read. What is held for a standby can be much.
	CheckBytes int64

	// Fatal is called once when a write or an fsync failed: nothing further is acknowledged, and the process must end. It
	// may run on the writer's goroutine, so it must not call Close. Required.
	Fatal func(error)
	// Full is told, from a goroutine of the log's, that the disk is full (err wraps ErrFull) and, with nil, that there is
	// room again. While it is full appends wait, unacknowledged; truncations are still written. It must not block. May be nil.
	Full func(err error)
	// Synced is told how long each fdatasync took. May be nil.
	Synced func(seconds float64)
	Logger *slog.Logger // discards if nil
}

// EnsureDefaults fills in what was left zero.
func (o *Options) EnsureDefaults() {
	if o.FS == nil {
		o.FS = vfs.Default
	}
	if o.SegmentBytes == 0 {
		o.SegmentBytes = 64 << 20
	}
	if o.TailBytes == 0 {
		o.TailBytes = 64 << 20
	}
	if o.CheckBytes == 0 {
		o.CheckBytes = 1 << 30
	}
	if o.Full == nil {
		o.Full = func(error) {}
	}
	if o.Synced == nil {
		o.Synced = func(float64) {}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
}

// Validate lists every fault of o.
func (o *Options) Validate() error {
	var faults []error
	if o.Dir == "" {
		faults = append(faults, errors.New("log: no folder given"))
	}
	if o.SegmentBytes < 64<<10 || o.SegmentBytes > 1<<30 {
		faults = append(faults, fmt.Errorf("log: segment size %d is outside 64 KiB to 1 GiB", o.SegmentBytes))
	}
	if o.CheckBytes < 0 {
		faults = append(faults, fmt.Errorf("log: size to be checked %d is negative", o.CheckBytes))
	}
	if o.TailBytes < 0 {
		faults = append(faults, fmt.Errorf("log: tail size %d is negative", o.TailBytes))
	}
	if o.Fatal == nil {
		faults = append(faults, errors.New("log: no Fatal function given"))
	}
	return errors.Join(faults...)
}

// SegmentInfo describes one segment.
type SegmentInfo struct {
	ID     uint64       // ascending in the order of writing
	Bytes  int64        // written so far, header included
	Sealed bool         // no longer written to; only a sealed segment can be dropped
	Groups []GroupRange // what entries it holds, ascending by group
}

// GroupRange is the entries of one group in a segment: the lowest and the highest index ever written there.
type GroupRange struct{ Group, First, Last uint64 }

// Stats are counters since Open, but for SegmentBytes and Segments.
type Stats struct {
	Bytes        uint64 // written, headers and padding included
	Writes       uint64 // positioned writes
	Syncs        uint64 // fdatasyncs of entries' segments
	Segments     int
	SegmentBytes int64 // of all segments' files, allocated space included, spare files excluded
	SpareBytes   int64 // of the spare files
	TailBytes    int64 // held by the tail cache
}

// ErrFull is what the error given to Options.Full wraps: the disk has no room for the next segment.
var ErrFull = errors.New("disk is full")

// ErrClosed is returned by a Log that is closed or has failed.
var ErrClosed = errors.New("log is closed")

// ErrNeeded is returned by Drop for a segment that is being written, that a group still needs, or that is pinned.
var ErrNeeded = errors.New("segment is still needed")

// ErrBounds is returned by Bytes for a piece that lies outside its entry's data.
var ErrBounds = errors.New("piece lies outside the entry")

// DamageError says where synced bytes are not what was written.
type DamageError struct {
	File   string
	Offset int64
	Reason string
}

func (e *DamageError) Error() string {
	return fmt.Sprintf("log: %s is damaged at offset %d: %s; restore this node from its peers, the file is left as it is",
		e.File, e.Offset, e.Reason)
}
