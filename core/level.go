package core

import (
	"fmt"

	"github.com/understudy-mq/understudy/core/entry"
)

// applyLevelRaise notes that what follows may need a feature level. Nothing in the machine depends on it yet: whoever proposes
// commands that an older version does not read looks at Level first.
func (m *Machine) applyLevelRaise(x *entry.LevelRaise) {
	if uint64(x.Level) > m.header.Level {
		m.header.Level = uint64(x.Level)
		m.touch(&m.header)
	}
}

// Level is the feature level that may be needed to read the group's log from here on.
func (m *Machine) Level() uint64 { return m.header.Level }

// level refuses what a newer version has made of the state.
func (c *rowCoder) level(v *uint64) {
	if c.u64(v); !c.encoding && *v > entry.Level {
		c.fail(fmt.Sprintf("the state is of feature level %d, this version reads %d: start a newer one", *v, entry.Level))
	}
}
