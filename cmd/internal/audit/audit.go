package audit

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"
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

// textBytesMax bounds what comes from outside in one line.
const textBytesMax = 1024

// Options bound a Log.
type Options struct {
	FileBytesMax int64 // 8 MiB
	Files        int   // kept, the current one included; 4
	Now          func() time.Time
	Logger       *slog.Logger
}

// Log is an open record.
type Log struct {
	o    Options
	path string

	mu   sync.Mutex
	file *os.File
	size int64
}

// Open opens the record in a folder, to append to it.
func Open(dir string, o Options) (*Log, error) {
	if o.FileBytesMax == 0 {
		o.FileBytesMax = 8 << 20
	}
	if o.Files == 0 {
		o.Files = 4
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	l := &Log{o: o, path: filepath.Join(dir, Name)}
	return l, l.open()
}

func (l *Log) open() error {
	file, err := os.OpenFile(l.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("audit log: %w", err)
	}
	info, err := file.Stat()
	if err != nil {
		return errors.Join(fmt.Errorf("audit log: %w", err), file.Close())
	}
	l.file, l.size = file, info.Size()
	return nil
}

// Write appends a line. Its time is now.
func (l *Log) Write(e Event) {
	e.Time = l.o.Now().UTC()
	for _, text := range []*string{&e.User, &e.By, &e.Vhost, &e.Text} {
		if len(*text) > textBytesMax {
			*text = (*text)[:textBytesMax]
		}
	}
	line, err := json.Marshal(e)
	if err == nil {
		err = l.append(append(line, '\n'))
	}
	if err != nil {
		l.o.Logger.Error("audit log lost a line", "event", e.Event, "user", e.User, "error", err)
	}
}

func (l *Log) append(line []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.size+int64(len(line)) > l.o.FileBytesMax && l.size > 0 {
		if err := l.rotate(); err != nil {
			return err
		}
	}
	if l.file == nil {
		return fs.ErrClosed
	}
	n, err := l.file.Write(line)
	l.size += int64(n)
	return err
}

// rotate makes room: each file takes the place of the one before it, and the oldest goes.
func (l *Log) rotate() error {
	if l.file != nil {
		_ = l.file.Close()
		l.file = nil
	}
	for n := l.o.Files - 1; n > 0; n-- {
		if err := os.Rename(l.numbered(n-1), l.numbered(n)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if l.o.Files == 1 {
		if err := os.Remove(l.path); err != nil {
			return err
		}
	}
	return l.open()
}

func (l *Log) numbered(n int) string {
	if n == 0 {
		return l.path
	}
	return fmt.Sprintf("%s.%d", l.path, n)
}

// Close closes the file.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return nil
	}
	err := l.file.Close()
	l.file = nil
	return err
}
