package store

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
)

// The facts about a group, each a row of its own because different hands write them:
const (
	metaState  = "state"  // stateMeta: by each checkpoint and by an install
	metaFloor  = "floor"  // contents of entries below are not in the log any more: by an evacuation and by an install
	metaSwept  = "swept"  // below this floor the contents without a reference are deleted: by checkpoints
	metaStaged = "staged" // stateMeta of a snapshot that is complete, waiting to be installed
)

// formatVersion is the version of a stateMeta and of the layout that it stands for.
const formatVersion = 1

const stateMetaBytes = 1 + 4*8

// stateMeta says what the rows of a generation are.
type stateMeta struct {
	generation, index, term uint64
	hash                    uint64 // the log's rolling hash up to index
	conf                    []byte // nil if no membership was ever recorded
}

func (s *stateMeta) mark() mark { return mark{s.index, s.term, s.hash} }

func (s *stateMeta) encode() []byte {
	b := append(make([]byte, 0, stateMetaBytes+1+len(s.conf)), formatVersion)
	b = binary.BigEndian.AppendUint64(b, s.generation)
	b = binary.BigEndian.AppendUint64(b, s.index)
	b = binary.BigEndian.AppendUint64(b, s.term)
	b = binary.BigEndian.AppendUint64(b, s.hash)
	if s.conf == nil {
		return append(b, 0)
	}
	return append(append(b, 1), s.conf...)
}

func (s *stateMeta) decode(b []byte) error {
	if len(b) > 0 && b[0] != formatVersion {
		return fmt.Errorf("stored form of version %d, this program reads %d: start the version that wrote it", b[0], formatVersion)
	}
	if len(b) < stateMetaBytes+1 {
		return fmt.Errorf("row of %d bytes is too short", len(b))
	}
	s.generation = binary.BigEndian.Uint64(b[1:])
	s.index = binary.BigEndian.Uint64(b[9:])
	s.term = binary.BigEndian.Uint64(b[17:])
	s.hash = binary.BigEndian.Uint64(b[25:])
	s.conf = nil
	if b[stateMetaBytes] == 1 {
		s.conf = append([]byte{}, b[stateMetaBytes+1:]...)
	}
	return nil
}

// readState reads a stateMeta row; false if there is none.
func readState(r pebble.Reader, group uint64, name string) (s stateMeta, ok bool, err error) {
	b, closer, err := r.Get(metaKey(group, name))
	if errors.Is(err, pebble.ErrNotFound) {
		return s, false, nil
	}
	if err != nil {
		return s, false, fmt.Errorf("group %d: reading its %s row: %w", group, name, err)
	}
	defer closer.Close()
	if err := s.decode(b); err != nil {
		return s, false, fmt.Errorf("group %d: its %s row: %w", group, name, err)
	}
	return s, true, nil
}

// readIndex reads a row that is one index; 0 if there is none.
func readIndex(r pebble.Reader, group uint64, name string) (uint64, error) {
	b, closer, err := r.Get(metaKey(group, name))
	if errors.Is(err, pebble.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("group %d: reading its %s row: %w", group, name, err)
	}
	defer closer.Close()
	if len(b) != 8 {
		return 0, fmt.Errorf("group %d: its %s row has %d bytes, not 8: the store is damaged", group, name, len(b))
	}
	return binary.BigEndian.Uint64(b), nil
}

func encodeIndex(index uint64) []byte { return binary.BigEndian.AppendUint64(nil, index) }
