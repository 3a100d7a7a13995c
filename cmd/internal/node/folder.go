package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/understudy-mq/understudy/replication/durable"
)

// folderFormat is the layout of the data folder that this code writes and the newest that it reads.
const folderFormat = 1

// fileBytesMax bounds a file of the folder itself that is read: none that was written is longer.
const fileBytesMax = pendingBytes

// Files and folders of a data folder.
const (
	lockFile     = "lock"
	identityFile = "node.json"
	LogDir       = "log"
	StoreDir     = "store"
)

// Identity is whose data folder it is. It never changes, but for the cluster id's becoming known.
type Identity struct {
	Format    int    `json:"format"`
	NodeID    uint64 `json:"node_id"`
	Groups    int    `json:"groups"`     // data groups
	ClusterID string `json:"cluster_id"` // "" while the cluster forms
	Joined    bool   `json:"joined"`     // came to a running cluster: it waits to be told its members
}

// Folder is a locked data folder.
type Folder struct {
	fs       vfs.FS
	path     string
	lock     *os.File
	identity Identity
	fresh    bool // there was no identity
}

// ErrNoData refuses a folder that no node has used.
var ErrNoData = errors.New("no node's data folder")

// OpenUsedFolder is OpenFolder for what works on a stopped node: it makes nothing where a path is misspelled. Errors besides:
// ErrNoData.
func OpenUsedFolder(fs vfs.FS, path string) (*Folder, error) {
	if fs == nil {
		fs = vfs.Default
	}
	for _, name := range []string{identityFile, LogDir, StoreDir} {
		if _, err := fs.Stat(filepath.Join(path, name)); err == nil {
			return OpenFolder(fs, path)
		}
	}
	return nil, fmt.Errorf("%s is %w", path, ErrNoData)
}

// OpenFolder makes the folder if need be, locks it against other processes and reads whose it is. A fresh folder has an
// identity only after claim. The file system nil is the system's. Errors: in use by another process; written by a newer version; damaged.
func OpenFolder(fs vfs.FS, path string) (*Folder, error) {
	if fs == nil {
		fs = vfs.Default
	}
	if err := durable.MakeDir(fs, path, 0o755); err != nil {
		return nil, fmt.Errorf("data folder: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(path, lockFile), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("data folder: %w", err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = lock.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("data folder %s is in use by another process: stop it, or give this one its own --data", path)
		}
		return nil, fmt.Errorf("lock data folder %s: %w", path, err)
	}
	f := &Folder{fs: fs, path: path, lock: lock}
	if err := f.read(); err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

func (f *Folder) read() error {
	name := filepath.Join(f.path, identityFile)
	b, err := f.readFile(identityFile)
	if errors.Is(err, os.ErrNotExist) {
		f.fresh = true
		return f.refuseForeign()
	}
	if err != nil {
		return fmt.Errorf("data folder: %w", err)
	}
	if err := json.Unmarshal(b, &f.identity); err != nil {
		return fmt.Errorf("%s is damaged: %w; restore it, or replace this member with an empty --data", name, err)
	}
	if f.identity.Format != folderFormat {
		return fmt.Errorf("data folder %s has format %d, this program reads %d: start the version that wrote it",
			f.path, f.identity.Format, folderFormat)
	}
	return nil
}

// refuseForeign guards a log or a store whose identity was lost: taking them for nobody's would let a second node vote
// with them.
func (f *Folder) refuseForeign() error {
	for _, name := range []string{LogDir, StoreDir} {
		if _, err := f.fs.Stat(filepath.Join(f.path, name)); err == nil {
			return fmt.Errorf("data folder %s has a %s but no %s: restore that file, or use an empty --data", f.path, name, identityFile)
		}
	}
	return nil
}

// Identity is whose folder it is.
func (f *Folder) Identity() Identity { return f.identity }

// Fresh says that the folder belongs to nobody yet.
func (f *Folder) Fresh() bool { return f.fresh }

// Claim makes a fresh folder want's; of another it checks that node id and groups agree.
func (f *Folder) Claim(want Identity) error {
	if f.fresh {
		want.Format = folderFormat
		return f.write(want)
	}
	if f.identity.NodeID != want.NodeID {
		return fmt.Errorf("data folder %s belongs to node %d, not to node %d: start with --node-id %d or with another --data",
			f.path, f.identity.NodeID, want.NodeID, f.identity.NodeID)
	}
	if f.identity.Groups != want.Groups {
		return fmt.Errorf("data folder %s was made with --groups %d, which is fixed at the first start: start with it, not with %d",
			f.path, f.identity.Groups, want.Groups)
	}
	return nil
}

// SetClusterID records the cluster's id once it is known. Another id than the recorded one is refused.
func (f *Folder) SetClusterID(id string) error {
	if f.identity.ClusterID == id {
		return nil
	}
	if f.identity.ClusterID != "" {
		return fmt.Errorf("data folder %s belongs to cluster %s, not to cluster %s", f.path, f.identity.ClusterID, id)
	}
	next := f.identity
	next.ClusterID = id
	return f.write(next)
}

// replaceClusterID records that the folder's node is a cluster of its own from now on.
func (f *Folder) replaceClusterID(id string) error {
	next := f.identity
	next.ClusterID, next.Joined = id, false
	return f.write(next)
}

// write replaces the identity on disk, whole or not at all.
func (f *Folder) write(next Identity) error {
	b, err := json.MarshalIndent(next, "", "  ")
	if err != nil {
		return fmt.Errorf("data folder: %w", err)
	}
	if err := f.replace(identityFile, append(b, '\n')); err != nil {
		return fmt.Errorf("data folder: %w", err)
	}
	f.identity, f.fresh = next, false
	return nil
}

// readFile reads one of the folder's files.
func (f *Folder) readFile(name string) ([]byte, error) {
	return durable.Read(f.fs, filepath.Join(f.path, name), fileBytesMax)
}

// replace makes b what is in one of the folder's files.
func (f *Folder) replace(name string, b []byte) error {
	return durable.Replace(f.fs, filepath.Join(f.path, name), b)
}

// remove removes one of the folder's files for good.
func (f *Folder) remove(name string) error {
	return durable.Remove(f.fs, filepath.Join(f.path, name))
}

// Close gives up the lock.
func (f *Folder) Close() error { return f.lock.Close() }
