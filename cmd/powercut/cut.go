package powercut

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
)

// Loss is what a cut took.
type Loss struct {
	Names  int // changes of names that were undone
	Blocks int // pieces of files that were put back, counted once for each write to them
}

// Cut takes from everything below root what was not synced: keepPercent of it stays, more or less, as the seed has it; 0 takes all
// that can be taken. Nothing may run on root. It is an error where no FS ever was: such a power cut would take nothing.
func Cut(root string, seed uint64, keepPercent int) (Loss, error) {
	c := &cutter{home: homeOf(root), keep: keepPercent, rng: rand.New(rand.NewPCG(seed, 5))}
	if _, err := os.Stat(c.home.path); err != nil {
		return c.loss, fmt.Errorf("powercut: %s was not written through it: %w", root, err)
	}
	for _, step := range []func() error{
		func() error { return c.undoNames(root) }, func() error { return c.undoBytes(root) },
		func() error { return os.RemoveAll(c.home.path) }, c.home.make,
	} {
		if err := step(); err != nil {
			return c.loss, fmt.Errorf("powercut: %w", err)
		}
	}
	return c.loss, nil
}

type cutter struct {
	home home
	keep int
	rng  *rand.Rand
	loss Loss
}

// survivors draws how many of n changes, from the first one on, are kept.
func (c *cutter) survivors(n int) int {
	switch {
	case n == 0 || c.keep == 0:
		return 0
	case c.rng.IntN(100) < c.keep:
		return n
	}
	return c.rng.IntN(n)
}

// undoNames undoes changes in a folder, and then in those that are in it: that what was removed with all that was in it is there again.
func (c *cutter) undoNames(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	changes, _, err := c.home.changes(number(info))
	if err != nil {
		return err
	}
	kept := c.survivors(len(changes))
	for i := len(changes) - 1; i >= kept; i-- {
		if err := c.undo(dir, changes[i]); err != nil {
			return err
		}
	}
	c.loss.Names += len(changes) - kept
	return c.each(dir, func(path string, d os.DirEntry) error {
		if d.IsDir() {
			return c.undoNames(path)
		}
		return nil
	})
}

// undo undoes a change of a name, which may not have happened: the process may have died just before.
func (c *cutter) undo(dir string, g change) error {
	name := filepath.Join(dir, g.Name)
	switch {
	case g.Gone:
	case g.From == "":
		if err := os.RemoveAll(name); err != nil {
			return err
		}
	default:
		former := filepath.Join(dir, g.From)
		if _, err := os.Lstat(former); err == nil {
			break
		}
		if err := os.Rename(name, former); err != nil {
			return err
		}
	}
	if g.Trash == "" {
		return nil
	}
	if err := os.Rename(c.home.trash(g.Trash), name); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// each visits what is in a folder, in order, but for what is written down here.
func (c *cutter) each(dir string, visit func(path string, d os.DirEntry) error) error {
	list, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, d := range list {
		if path := filepath.Join(dir, d.Name()); path != c.home.path {
			if err := visit(path, d); err != nil {
				return err
			}
		}
	}
	return nil
}

// undoBytes puts back what was overwritten in the files below a folder.
func (c *cutter) undoBytes(dir string) error {
	return c.each(dir, func(path string, d os.DirEntry) error {
		if d.IsDir() {
			return c.undoBytes(path)
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		record, err := os.Open(c.home.dataOf(number(info)))
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		notes, _, err := readNotes(record)
		if err = errors.Join(err, record.Close()); err != nil || len(notes) == 0 {
			return err
		}
		if err := c.restore(path, info.Size(), notes); err != nil {
			return err
		}
		return os.Remove(c.home.dataOf(number(info))) // it may have another name yet
	})
}

// blockSizes are what disks, and kernels, write as a whole.
var blockSizes = []int64{512, 4096}

// restore puts back, block by block, what was in a file before the writes that are noted, or before some of them.
func (c *cutter) restore(path string, size int64, notes []note) (err error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	block := blockSizes[c.rng.IntN(len(blockSizes))]
	kept := map[int64]int{} // how many of the writes, from the first one on, are kept of a block
	length := notes[0].size // without them
	for i := len(notes) - 1; i >= 0; i-- {
		w := notes[i]
		for b := w.at / block; b*block < w.at+w.length; b++ {
			if _, drawn := kept[b]; !drawn {
				kept[b] = c.survivors(len(notes))
			}
			from, to := max(w.at, b*block), min(w.at+w.length, (b+1)*block)
			if i < kept[b] {
				length = max(length, min(to, size)) // a write that the process died in may not have got there
				continue
			}
			if _, err := f.WriteAt(w.before(from, to), from); err != nil {
				return err
			}
			c.loss.Blocks++
		}
	}
	return f.Truncate(length)
}
