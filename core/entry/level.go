package entry

import "fmt"

// Level is the newest feature level that this code reads. A level stands for what a group's log may hold behind the
// LevelRaise that names it; 0 for what it may hold before the first.
const Level = 1

// LevelRaise says that what follows in the group's log may need a feature level to be read. It is a control command, proposed
// once every member of the cluster, and of its standbys, reads that level. The present level or a lower one does nothing.
type LevelRaise struct{ Level uint8 }

// Kind implements Command.
func (*LevelRaise) Kind() Kind { return KindLevelRaise }

func (x *LevelRaise) code(c *coder) {
	if c.u8(&x.Level); !c.encoding && c.err == nil {
		c.err = x.readable(Level)
	}
}

// readable says whether code that reads level can go on behind x.
func (x *LevelRaise) readable(level uint64) error {
	if uint64(x.Level) <= level {
		return nil
	}
	return fmt.Errorf("%w: it needs feature level %d, and %d can be read", ErrUnknown, x.Level, level)
}
