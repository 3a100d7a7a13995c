package powercut

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
)

// homeName is the folder, below the root, of what is written down.
const homeName = ".power"

// home is that folder: names/N has the changes of the names in the folder with inode N, data/N what was overwritten in the file with
// inode N, trash/N what had a name and has it no more.
type home struct{ path string }

func homeOf(root string) home { return home{filepath.Join(root, homeName)} }

func (h home) namesOf(ino uint64) string { return filepath.Join(h.path, "names", numeral(ino)) }
func (h home) dataOf(ino uint64) string  { return filepath.Join(h.path, "data", numeral(ino)) }
func (h home) trash(as string) string    { return filepath.Join(h.path, "trash", as) }

func numeral(n uint64) string { return strconv.FormatUint(n, 10) }

func (h home) make() error {
	var errs []error
	for _, d := range []string{"names", "data", "trash"} {
		errs = append(errs, os.MkdirAll(filepath.Join(h.path, d), 0o755))
	}
	return errors.Join(errs...)
}

// change is what happened to a name of a folder: it came to be, or is Gone.
type change struct {
	Name  string
	Gone  bool   `json:",omitempty"`
	From  string `json:",omitempty"` // the name that it had before, of what came to be
	Trash string `json:",omitempty"` // what had the name before; "" for nothing
}

// append writes a change of a folder down; undo takes that back.
func (h home) append(folder uint64, c change) (undo func() error, err error) {
	name := h.namesOf(folder)
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	line, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	_, err = f.Write(append(line, '\n'))
	return func() error { return os.Truncate(name, info.Size()) }, err
}

// changes are those of a folder that are not synced, oldest first; they take the first whole bytes of the list. One that was being
// written down when the process ended has not happened.
func (h home) changes(folder uint64) (list []change, whole int64, err error) {
	b, err := os.ReadFile(h.namesOf(folder))
	if errors.Is(err, os.ErrNotExist) {
		return nil, 0, nil
	}
	for line := range bytes.Lines(b) {
		var c change
		if json.Unmarshal(line, &c) != nil {
			break
		}
		list, whole = append(list, c), whole+int64(len(line))
	}
	return list, whole, err
}

// purge removes something for good, and has every inode that ends with it forgotten.
func (h home) purge(as string, forget func(ino uint64) error) error {
	err := filepath.WalkDir(h.trash(as), func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil || !d.IsDir() && links(info) > 1 {
			return err
		}
		return forget(number(info))
	})
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return os.RemoveAll(h.trash(as))
}

// sweep makes good what the end of an earlier process left half done, and answers the greatest number in the trash.
func (h home) sweep() (last uint64, err error) {
	needed := map[string]bool{}
	lists, err := os.ReadDir(filepath.Join(h.path, "names"))
	if err != nil {
		return 0, err
	}
	for _, l := range lists {
		ino, err := strconv.ParseUint(l.Name(), 10, 64)
		if err != nil {
			return 0, err
		}
		changes, whole, err := h.changes(ino)
		if err != nil {
			return 0, err
		}
		for _, c := range changes {
			needed[c.Trash] = true
			if n, err := strconv.ParseUint(c.Trash, 10, 64); err == nil {
				last = max(last, n)
			}
		}
		if err := os.Truncate(h.namesOf(ino), whole); err != nil {
			return 0, err
		}
	}
	kept, err := os.ReadDir(filepath.Join(h.path, "trash"))
	if err != nil {
		return 0, err
	}
	for _, k := range kept {
		n, err := strconv.ParseUint(k.Name(), 10, 64)
		if err != nil {
			return 0, err
		}
		last = max(last, n)
		if !needed[k.Name()] {
			if err := h.purge(k.Name(), h.forget); err != nil {
				return 0, err
			}
		}
	}
	return last, nil
}

// forget drops what is written down of an inode.
func (h home) forget(ino uint64) error {
	return errors.Join(removeAny(h.namesOf(ino)), removeAny(h.dataOf(ino)))
}
