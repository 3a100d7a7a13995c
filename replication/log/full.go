package log

import "time"

// A full disk. One spare file, its space allocated, is always in stock. When it is taken and no other can be made, the log says
// that the disk is full: appends wait and only truncations, which are small, are written, into the room that the current segment has.
// So segments can be dropped, the dropped file is the new spare, and the log goes on.

// wakeKeeper has the stock of spare files looked at.
func (l *Log) wakeKeeper() {
	select {
	case l.keeperWake <- struct{}{}:
	default:
	}
}

// keepSpare keeps a spare file in stock, and looks for room while there is none.
func (l *Log) keepSpare() {
	defer close(l.keeperDone)
	tick := time.NewTicker(retryInterval)
	defer tick.Stop()
	for {
		select {
		case <-l.stop:
			return
		case <-l.keeperWake:
			l.refill()
		case <-tick.C:
			if l.isFull() {
				l.refill()
			}
		}
	}
}

func (l *Log) isFull() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.full != nil || l.stuck != nil
}

// refill makes a spare file if there is none, and lets a stuck write try again.
func (l *Log) refill() {
	l.sparesMu.Lock()
	var err error
	if len(l.spares) == 0 {
		err = l.makeSpare()
	}
	l.sparesMu.Unlock()
	switch {
	case err == nil:
		l.setFull(nil)
	case isFull(err):
		l.setFull(err)
	default:
		l.o.Logger.Warn("no spare log file could be made", "error", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.retry = true
	l.awake.Broadcast()
}

// setFull records whether a spare file is in stock (nil) or cannot be made.
func (l *Log) setFull(err error) {
	l.mu.Lock()
	l.full = err
	l.awake.Broadcast()
	l.mu.Unlock()
	l.tellFull()
}

// setStuck records that a write finds no room, or (nil) that one did.
func (l *Log) setStuck(err error) {
	l.mu.Lock()
	same := l.stuck == nil && err == nil
	l.stuck, l.retry = err, false
	l.mu.Unlock()
	if !same {
		l.tellFull()
	}
}

// tellFull calls Options.Full when the answer has changed.
func (l *Log) tellFull() {
	l.fullMu.Lock()
	defer l.fullMu.Unlock()
	l.mu.Lock()
	err := l.full
	if err == nil {
		err = l.stuck
	}
	l.mu.Unlock()
	if (err != nil) != l.fullTold {
		l.fullTold = err != nil
		l.o.Full(err)
	}
}

// awaitRetry blocks a stuck write until it is worth another try; it is false when the log ends.
func (l *Log) awaitRetry() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for !l.retry && !l.closing && !l.failed {
		l.awake.Wait()
	}
	return !l.closing && !l.failed
}
