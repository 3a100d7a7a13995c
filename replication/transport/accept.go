package transport

import (
	"context"
	"errors"
	"io"
	"net"
	"syscall"
	"time"
)

func (t *Transport) accept() {
	for {
		conn, err := t.listener.Accept()
		if err != nil {
			if t.ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				return
			}
			t.opts.Logger.Warn("cannot accept a peer", "error", err)
			select {
			case <-time.After(backoffMin):
			case <-t.ctx.Done():
			}
			continue
		}
		select {
		case t.slots <- struct{}{}:
		default:
			t.opts.Logger.Warn("too many peer connections: one is refused", "remote", conn.RemoteAddr())
			_ = conn.Close()
			continue
		}
		t.wait.Go(func() {
			defer func() { <-t.slots }()
			t.incoming(conn)
		})
	}
}

func (t *Transport) incoming(conn net.Conn) {
	defer conn.Close()
	stop := context.AfterFunc(t.ctx, func() { _ = conn.Close() })
	defer stop()
	h, fr, err := t.receive(conn)
	if err == nil {
		if h.role == roleStream {
			err = t.takeStream(conn, h.From, fr)
		} else {
			err = t.takeFrames(conn, h.From, fr)
		}
	}
	if hungUp(err) && fr != nil {
		t.opts.Logger.Debug("a peer has hung up", "peer", h.From)
		if h.role == roleUrgent && t.opts.HungUp != nil && t.ctx.Err() == nil {
			t.opts.HungUp(h.From)
		}
		return
	}
	if err == nil || t.ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
		return
	}
	if unsaid, say := t.knocking(h.From).tell(err, time.Now()); say {
		t.opts.Logger.Warn("a peer's connection ends", "peer", h.From, "remote", conn.RemoteAddr(), "error", err, "failures_before", unsaid)
	}
}

func hungUp(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET)
}

func (t *Transport) takeFrames(conn net.Conn, from uint64, fr *frameReader) error {
	if err := conn.SetWriteDeadline(time.Time{}); err != nil {
		return err
	}
	for {
		if err := conn.SetReadDeadline(time.Now().Add(silenceMost)); err != nil {
			return err
		}
		f, err := fr.next()
		if err != nil {
			return err
		}
		switch {
		case f.Kind == kindPing:
			if err := conn.SetWriteDeadline(time.Now().Add(writeMost)); err != nil {
				return err
			}
			err = writeFrame(conn, Frame{Kind: kindPong})
		case f.Kind >= Raft && f.Kind < kindsEnd:
			err = t.opts.Receive(from, f)
		default:
			err = errUnexpected
		}
		if err != nil {
			return err
		}
	}
}
