package session

import (
	"bytes"
	"fmt"
	"strconv"

	"github.com/understudy-mq/understudy/core/entry"
	"github.com/understudy-mq/understudy/core/message"
)

// The headers by which a client says how to recognise a publish that it sends again. They are addressed to the broker and
// taken out: an application that publishes what it received, headers and all, must not have its retry swallowed.
const (
	headerDedupID   = "x-dedup-id"
	headerPublisher = "x-pub-name"
	headerSequence  = "x-pub-seq"
)

// dedupIDMax bounds a dedup id, in bytes.
const dedupIDMax = 1024

// recogniser finds out of a named session's publishes how to recognise them.
type recogniser struct {
	names     [][]byte // of headers with a dedup id
	byMessage bool     // the message-id property is one
	scratch   []byte   // of the properties without those headers

	// Of the publish at hand:
	id        []byte
	publisher []byte
	sequence  uint64
	numbered  bool
	wrong     string
}

func newRecogniser(r *Request) *recogniser {
	if r.Dedup == DedupOff {
		return nil
	}
	d := &recogniser{byMessage: r.Dedup == DedupMessageID, names: [][]byte{[]byte(headerDedupID)}}
	for _, name := range r.DedupHeaders {
		d.names = append(d.names, []byte(name))
	}
	return d
}

// recognise moves what a publish is known by out of its record, to id, publisher and sequence. wrong is a text for the client
// about a value that is none, "" for nothing.
func (d *recogniser) recognise(rec *message.Record) (wrong string) {
	d.id, d.publisher, d.sequence, d.numbered, d.wrong = d.id[:0], d.publisher[:0], 0, false, ""
	if !message.HasAny(rec.Properties, message.PropHeaders|message.PropMessageID) {
		return ""
	}
	if d.mentioned(rec.Properties) {
		if cut := message.CutHeaders(rec.Properties, d.scratch, d.take); len(cut) != len(rec.Properties) {
			rec.Properties, d.scratch = cut, cut
		}
	}
	switch {
	case d.wrong != "":
	case len(d.publisher) > 0 != d.numbered:
		d.wrong = fmt.Sprintf("%s and %s need each other", headerPublisher, headerSequence)
	case d.byMessage && len(d.id) == 0 && !d.numbered:
		if p, err := message.ParseProperties(rec.Properties); err == nil {
			d.id = append(d.id, p.MessageID...)
		}
	}
	return d.wrong
}

// mentioned is a quick look whether one of the headers may be there.
func (d *recogniser) mentioned(properties []byte) bool {
	for _, name := range d.names {
		if bytes.Contains(properties, name) {
			return true
		}
	}
	return bytes.Contains(properties, []byte("x-pub-"))
}

// take takes one header, if it is one of ours.
func (d *recogniser) take(key, value []byte) bool {
	switch string(key) {
	case headerPublisher:
		name, ok := message.Value(value).(string)
		if !ok || name == "" || len(name) > entry.PublisherBytesMax {
			d.fail("%s must be text of 1 to %d bytes", headerPublisher, entry.PublisherBytesMax)
		}
		d.publisher = append(d.publisher[:0], name...)
		return true
	case headerSequence:
		n, ok := positive(message.Value(value))
		if !ok {
			d.fail("%s must be a whole number from 1 to 9223372036854775807", headerSequence)
		}
		d.sequence, d.numbered = n, true
		return true
	}
	for _, name := range d.names {
		if bytes.Equal(key, name) {
			text, ok := textOf(message.Value(value))
			if !ok || text == "" || len(text) > dedupIDMax {
				d.fail("%s must be text of 1 to %d bytes, or a whole number", name, dedupIDMax)
			}
			d.id = append(d.id[:0], text...)
			return true
		}
	}
	return false
}

func (d *recogniser) fail(format string, args ...any) {
	if d.wrong == "" {
		d.wrong = fmt.Sprintf(format, args...)
	}
}

// positive is a whole number above 0, or the text of one, as libraries that have no integers send it.
func positive(value any) (uint64, bool) {
	n, _ := message.Integer(value)
	if text, ok := value.(string); ok {
		n, _ = strconv.ParseInt(text, 10, 64)
	}
	return uint64(n), n > 0
}
