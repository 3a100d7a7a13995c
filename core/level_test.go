package core

import (
	"errors"
	"strings"
	"testing"

	"github.com/understudy-mq/understudy/core/entry"
)

func TestAFeatureLevelOnlyRisesAndStopsWhoeverCannotReadIt(t *testing.T) {
	entryOf := func(level uint8) []byte {
		return entry.AppendBatch(entry.AppendHeader(nil, 5), 1, 0, 0, entry.Append(nil, &entry.LevelRaise{Level: level}))
	}
	m := New(0)
	before := m.Fingerprint()
	for index, level := range []uint8{entry.Level, entry.Level - 1, entry.Level} {
		if err := m.Apply(uint64(index+1), entryOf(level), &Effects{}); err != nil {
			t.Fatal(err)
		}
		if m.Level() != entry.Level {
			t.Errorf("level %d after a raise to %d", m.Level(), level)
		}
	}
	if m.Fingerprint() == before {
		t.Error("the level is no part of the fingerprint")
	}
	if err := m.Apply(4, entryOf(entry.Level+1), &Effects{}); !errors.Is(err, entry.ErrUnknown) {
		t.Errorf("a level that this version does not read: %v", err)
	}
}

func TestAStateOfANewerFeatureLevelIsNotLoaded(t *testing.T) {
	for level, want := range map[uint64]bool{entry.Level: true, entry.Level + 1: false} {
		h := headerRow{Level: level}
		c := rowCoder{encoding: true}
		h.code(&c)
		err := New(0).Load((*header)(nil).key(nil), c.buf)
		if (err == nil) != want || !want && !strings.Contains(err.Error(), "start a newer one") {
			t.Errorf("a state of level %d: %v", level, err)
		}
	}
}
