package audit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/understudy-mq/understudy/replication/durable"
)

// Name is the file's; older lines are in Name.1 and so on.
const Name = "audit.jsonl"

// Event is one line. What does not concern it is left out.
type Event struct {
	Time  time.Time `json:"time"`
	Event string    `json:"event"` // login, login_refused, denied, user_put, ...
	User  string    `json:"user,omitempty"`
	By    string    `json:"by,omitempty"` // who changed something
	Peer  string    `json:"peer,omitempty"`
	Vhost string    `json:"vhost,omitempty"`
	Text  string    `json:"text,omitempty"`
}

const (
	textBytesMax    = 1024    // of what comes from outside, in one line
	waitingBytesMax = 1 << 20 // of lines that wait for the disk
	// pause is how long after a sync the next one begins at the earliest, unless somebody waits for it: clients that are
	// denied one thing after another must not keep the disk from the log.
	pause = 100 * time.Millisecond
)

// Options bound a Log.
type Options struct {
	FS           vfs.FS // has the folder; nil is the system's
	FileBytesMax int64  // 8 MiB
	Files        int    // kept, the current one included; 4
	Now          func() time.Time
	Logger       *slog.Logger
}

// Log is an open record.
type Log struct {
	o     Options
	dir   string
	wake  chan struct{} // lines wait; closed by Close
	hurry chan struct{} // somebody waits for them
	done  chan struct{} // closed when run has ended

	mu     sync.Mutex
	next   *batch
	closed bool

	// These are run's.
	file vfs.File
	size int64
}

// batch are lines that are written and synced together.
type batch struct {
	lines []byte
	lost  int           // lines for which there was no room
	over  chan struct{} // closed once the lines are on disk, or lost
}

func newBatch() *batch { return &batch{over: make(chan struct{})} }

// Open opens the record in a folder, to append to it.
func Open(dir string, o Options) (*Log, error) {
	if o.FS == nil {
		o.FS = vfs.Default
	}
	if o.FileBytesMax == 0 {
		o.FileBytesMax = 8 << 20
	}
	if o.Files == 0 {
		o.Files = 4
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	l := &Log{
		o: o, dir: dir, next: newBatch(),
		wake: make(chan struct{}, 1), hurry: make(chan struct{}, 1), done: make(chan struct{}),
	}
	if err := errors.Join(l.mend(), l.open()); err != nil {
		return nil, fmt.Errorf("audit log: %w", err)
	}
	go l.run()
	return l, nil
}

// mend removes the lines that a power cut tore.
func (l *Log) mend() error {
	b, err := durable.Read(l.o.FS, l.numbered(0), 2*l.o.FileBytesMax)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%w; move the file away", err)
	}
	var whole []byte
	torn := 0
	for line := range bytes.Lines(b) {
		if bytes.HasSuffix(line, []byte("\n")) && json.Valid(line) {
			whole = append(whole, line...)
		} else {
			torn++
		}
	}
	if torn == 0 {
		return nil
	}
	l.o.Logger.Warn("audit log: lines were torn by a power cut and are gone", "lines", torn)
	return durable.Replace(l.o.FS, l.numbered(0), whole)
}

// open opens the current file, whose name is on disk then.
func (l *Log) open() error {
	file, err := l.o.FS.OpenReadWrite(l.numbered(0), vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if err = errors.Join(err, durable.SyncDir(l.o.FS, l.dir)); err != nil {
		return errors.Join(err, file.Close())
	}
	l.file, l.size = file, info.Size()
	return nil
}

// Note appends a line, soon. Its time is now.
func (l *Log) Note(e Event) { l.add(e) }

// Keep appends a line, and returns once it is on disk, with all before it.
func (l *Log) Keep(e Event) {
	over := l.add(e)
	nudge(l.hurry)
	<-over
}

func nudge(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// add puts a line into the next batch, and answers what is closed when that is over.
func (l *Log) add(e Event) (over <-chan struct{}) {
	e.Time = l.o.Now().UTC()
	for _, text := range []*string{&e.User, &e.By, &e.Vhost, &e.Text} {
		if len(*text) > textBytesMax {
			*text = (*text)[:textBytesMax]
		}
	}
	line, err := json.Marshal(e)
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.next
	if err != nil || len(b.lines)+len(line) >= waitingBytesMax {
		b.lost++
	} else {
		b.lines = append(append(b.lines, line...), '\n')
	}
	if l.closed {
		l.settle(b, errors.New("it is closed"))
		l.next = newBatch()
	} else {
		nudge(l.wake)
	}
	return b.over
}

// run writes batches until Close.
func (l *Log) run() {
	defer close(l.done)
	for range l.wake {
		l.flush()
		select {
		case <-l.hurry:
		case <-time.After(pause):
		}
	}
}

// flush writes what waits.
func (l *Log) flush() {
	l.mu.Lock()
	b := l.next
	l.next = newBatch()
	l.mu.Unlock()
	l.settle(b, l.write(b.lines))
}

// settle ends a batch: it was written, or there is a reason why not.
func (l *Log) settle(b *batch, err error) {
	defer close(b.over)
	if err != nil {
		b.lost += bytes.Count(b.lines, []byte("\n"))
	}
	if b.lost > 0 {
		l.o.Logger.Error("audit log lost lines", "lines", b.lost, "error", err)
	}
}

// write appends lines and syncs them.
func (l *Log) write(lines []byte) error {
	if len(lines) == 0 {
		return nil
	}
	if l.file == nil { // making room has failed
		if err := l.open(); err != nil {
			return err
		}
	}
	for len(lines) > 0 {
		n := l.fitting(lines)
		if n == 0 {
			if err := l.rotate(); err != nil {
				return err
			}
			continue
		}
		if _, err := l.file.WriteAt(lines[:n], l.size); err != nil {
			return err
		}
		l.size += int64(n)
		lines = lines[n:]
	}
	return l.file.Sync()
}

// fitting is how many bytes of whole lines the current file has room for; an empty one takes a line of any length.
func (l *Log) fitting(lines []byte) int {
	room := min(max(l.o.FileBytesMax-l.size, 0), int64(len(lines)))
	n := bytes.LastIndexByte(lines[:room], '\n') + 1
	if n == 0 && l.size == 0 {
		n = bytes.IndexByte(lines, '\n') + 1
	}
	return n
}

// rotate makes room: each file takes the place of the one before it, and the oldest goes.
func (l *Log) rotate() error {
	err := errors.Join(l.file.Sync(), l.file.Close())
	l.file = nil
	if err != nil {
		return err
	}
	for n := l.o.Files - 1; n > 0; n-- {
		if err := l.o.FS.Rename(l.numbered(n-1), l.numbered(n)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if l.o.Files == 1 {
		if err := l.o.FS.Remove(l.numbered(0)); err != nil {
			return err
		}
	}
	return l.open()
}

func (l *Log) numbered(n int) string {
	name := l.o.FS.PathJoin(l.dir, Name)
	if n == 0 {
		return name
	}
	return fmt.Sprintf("%s.%d", name, n)
}

// Close writes what waits and closes the file; a second one does nothing. Lines that come later are lost.
func (l *Log) Close() error {
	l.mu.Lock()
	was := l.closed
	l.closed = true
	l.mu.Unlock()
	if was {
		return nil
	}
	close(l.wake) // add is done with it
	nudge(l.hurry)
	<-l.done
	if l.file == nil {
		return nil
	}
	return l.file.Close()
}
