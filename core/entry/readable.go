package entry

import "fmt"

// Readable says whether this code can read an entry, whole, and all that reads level can: nil, or an error that wraps ErrUnknown
// where a newer version wrote it, or ErrMalformed. No data is raft's own entry, and of a Replay only the head counts: what it carries is not applied
// where it is replayed again.
func Readable(data []byte, level uint64) error {
	if len(data) == 0 {
		return nil
	}
	if IsReplay(data) {
		_, err := ReadReplay(data)
		return err
	}
	r, err := Read(data)
	if err != nil {
		return err
	}
	var hot struct {
		publish Publish
		settle  Settle
		written Written
	}
	for b, ok := r.Next(); ok; b, ok = r.Next() {
		for rest := b.Commands; len(rest) > 0 && err == nil; {
			switch Kind(rest[0]) {
			case KindPublish:
				rest, err = DecodePublish(rest, &hot.publish)
			case KindSettle:
				rest, err = DecodeSettle(rest, &hot.settle)
			case KindWritten:
				rest, err = DecodeWritten(rest, &hot.written)
			default:
				rest, err = readable(rest, level)
			}
		}
		if err != nil {
			return fmt.Errorf("batch %d of node %d: %w", b.Seq, b.Node, err)
		}
	}
	return r.Err()
}

func readable(b []byte, level uint64) (rest []byte, err error) {
	cmd, rest, err := Next(b)
	if x, ok := cmd.(*LevelRaise); ok && err == nil {
		err = x.readable(level)
	}
	return rest, err
}
