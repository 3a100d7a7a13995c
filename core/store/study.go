package store

import (
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/understudy-mq/understudy/core"
)

// Study loads the machine of a group as the newest checkpoint in folder dir has it, with the index of its last entry, and
// changes nothing there. Entries after that may be applied to the machine, which is the caller's. It is for a store that
// no process has open. Errors: no store there, or one that Open would refuse.
func Study(fs vfs.FS, dir string, group uint64) (m *core.Machine, applied uint64, err error) {
	p, err := pebble.Open(dir, &pebble.Options{FS: fs, ReadOnly: true, ErrorIfNotExists: true, Logger: quiet{}})
	if err != nil {
		return nil, 0, fmt.Errorf("opening the store in %s to read it: %w", dir, err)
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	state, _, err := readState(p, group, metaState)
	if err != nil {
		return nil, 0, err
	}
	m = core.New(group)
	return m, state.index, loadRows(p, m, group, state.generation)
}

// quiet has Pebble say nothing.
type quiet struct{}

func (quiet) Infof(string, ...any)  {}
func (quiet) Errorf(string, ...any) {}
func (quiet) Fatalf(format string, args ...any) {
	panic(fmt.Sprintf(format, args...)) // as Pebble's contract wants: it does not return
}
