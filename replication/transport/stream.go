package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

const (
	chunkBytes = 256 << 10
	// stallMost is how long one chunk of a snapshot may take, either way; stageMost how long the receiver may take to
	// bring the last of it to disk.
	stallMost = 30 * time.Second
	stageMost = 5 * time.Minute
)

// Stream sends a snapshot over a connection of its own: header, then what body writes. It answers nil once the receiver
// says that it has it on disk.
func (t *Transport) Stream(ctx context.Context, to, group uint64, header []byte, body io.WriterTo) error {
	conn, fr, err := t.dial(ctx, to, roleStream)
	if err != nil {
		return fmt.Errorf("connect for a snapshot: %w", err)
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	w := &chunkWriter{conn: conn, group: group, buf: make([]byte, 0, chunkBytes)}
	if err := w.frame(kindStream, header); err != nil {
		return fmt.Errorf("send a snapshot's header: %w", err)
	}
	if _, err := body.WriteTo(w); err != nil {
		return fmt.Errorf("send a snapshot: %w", err)
	}
	if err := errors.Join(w.flush(), w.frame(kindEnd, nil)); err != nil {
		return fmt.Errorf("send a snapshot's end: %w", err)
	}
	if err := conn.SetReadDeadline(time.Now().Add(stageMost)); err != nil {
		return err
	}
	f, err := fr.next()
	if err != nil {
		return fmt.Errorf("a snapshot's answer: %w", err)
	}
	if f.Kind != kindTaken {
		return fmt.Errorf("the receiver of a snapshot says: %s", f.Payload)
	}
	return nil
}

// chunkWriter cuts what is written into frames.
type chunkWriter struct {
	conn  net.Conn
	group uint64
	buf   []byte
}

func (w *chunkWriter) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		k := min(len(p), chunkBytes-len(w.buf))
		w.buf = append(w.buf, p[:k]...)
		p = p[k:]
		if len(w.buf) == chunkBytes {
			if err := w.flush(); err != nil {
				return 0, err
			}
		}
	}
	return n, nil
}

func (w *chunkWriter) flush() error {
	if len(w.buf) == 0 {
		return nil
	}
	err := w.frame(kindChunk, w.buf)
	w.buf = w.buf[:0]
	return err
}

func (w *chunkWriter) frame(k Kind, payload []byte) error {
	if err := w.conn.SetWriteDeadline(time.Now().Add(stallMost)); err != nil {
		return err
	}
	return writeFrame(w.conn, Frame{Kind: k, Group: w.group, Payload: payload})
}

// takeStream receives a snapshot and answers how it went.
func (t *Transport) takeStream(conn net.Conn, from uint64, fr *frameReader) error {
	if err := conn.SetDeadline(time.Time{}); err != nil {
		return err
	}
	fr.most = chunkBytes + helloBytes
	r := &chunkReader{conn: conn, fr: fr}
	f, err := r.next()
	if err != nil {
		return err
	}
	if f.Kind != kindStream {
		return errUnexpected
	}
	header := append([]byte(nil), f.Payload...)
	if err = t.opts.Snapshot(t.ctx, from, f.Group, header, r); err == nil {
		_, err = io.Copy(io.Discard, r) // to the end: a stream without one is cut off
	}
	answer := Frame{Kind: kindTaken}
	if err != nil {
		text := []byte(err.Error())
		answer = Frame{Kind: kindRefusal, Payload: text[:min(len(text), helloBytes)]}
	}
	if e := conn.SetWriteDeadline(time.Now().Add(stallMost)); e != nil {
		return e
	}
	return errors.Join(err, writeFrame(conn, answer))
}

// chunkReader is a snapshot's bytes; io.EOF only after the end frame.
type chunkReader struct {
	conn net.Conn
	fr   *frameReader
	left []byte
	done bool
}

func (r *chunkReader) next() (Frame, error) {
	if err := r.conn.SetReadDeadline(time.Now().Add(stallMost)); err != nil {
		return Frame{}, err
	}
	f, err := r.fr.next()
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return f, err
}

// Close ends the stream, also for who reads it. Safe from any goroutine.
func (r *chunkReader) Close() error { return r.conn.Close() }

func (r *chunkReader) Read(p []byte) (int, error) {
	for len(r.left) == 0 {
		if r.done {
			return 0, io.EOF
		}
		f, err := r.next()
		if err != nil {
			return 0, err
		}
		switch f.Kind {
		case kindChunk:
			r.left = f.Payload
		case kindEnd:
			r.done = true
		default:
			return 0, errUnexpected
		}
	}
	n := copy(p, r.left)
	r.left = r.left[n:]
	return n, nil
}
