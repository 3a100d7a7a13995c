package session

import (
	"math"
	"strings"
	"testing"

	"github.com/understudy-mq/understudy/core/message"
)

func recorded(headers message.Table, messageID string) *message.Record {
	p := message.Properties{Set: message.PropContentType | message.PropHeaders, ContentType: "text/plain", Headers: message.AppendTable(nil, headers)}
	if messageID != "" {
		p.Set |= message.PropMessageID
		p.MessageID = messageID
	}
	return &message.Record{Properties: message.AppendProperties(nil, &p)}
}

func TestRecogniserTakesOutWhatIsForTheBroker(t *testing.T) {
	for name, c := range map[string]struct {
		request   Request
		headers   message.Table
		messageID string
		id        string
		publisher string
		sequence  uint64
		left      message.Table
	}{
		"nothing":                       {headers: properties("a", int32(1)), left: properties("a", int32(1))},
		"an id among others":            {headers: properties("a", int32(1), "x-dedup-id", "i", "b", true), id: "i", left: properties("a", int32(1), "b", true)},
		"an id alone":                   {headers: properties("x-dedup-id", "i"), id: "i", left: properties()},
		"an id that is a number":        {headers: properties("x-dedup-id", int64(-7)), id: "-7", left: properties()},
		"an id of bytes":                {headers: properties("x-dedup-id", []byte("\x00\x01")), id: "\x00\x01", left: properties()},
		"a publisher":                   {headers: properties("x-pub-name", "p", "x-pub-seq", int64(9), "a", nil), publisher: "p", sequence: 9, left: properties("a", nil)},
		"a sequence of 32 bits":         {headers: properties("x-pub-seq", int32(9), "x-pub-name", "p"), publisher: "p", sequence: 9, left: properties()},
		"a sequence as text":            {headers: properties("x-pub-seq", "9", "x-pub-name", "p"), publisher: "p", sequence: 9, left: properties()},
		"the highest sequence":          {headers: properties("x-pub-seq", int64(math.MaxInt64), "x-pub-name", "p"), publisher: "p", sequence: math.MaxInt64, left: properties()},
		"a name within a value":         {headers: properties("a", "x-dedup-id"), left: properties("a", "x-dedup-id")},
		"a name within a table":         {headers: properties("a", properties("x-dedup-id", "i")), left: properties("a", properties("x-dedup-id", "i"))},
		"another header, not asked for": {headers: properties("_AMQ_DUPL_ID", "i"), left: properties("_AMQ_DUPL_ID", "i")},
		"another header": {request: Request{DedupHeaders: []string{"_AMQ_DUPL_ID"}}, headers: properties("_AMQ_DUPL_ID", "i"), id: "i",
			left: properties()},
		"the message id, not asked for": {messageID: "m", left: properties()},
		"the message id":                {request: Request{Dedup: DedupMessageID}, messageID: "m", id: "m", left: properties()},
		"a header before the message id": {request: Request{Dedup: DedupMessageID}, headers: properties("x-dedup-id", "i"), messageID: "m", id: "i",
			left: properties()},
	} {
		t.Run(name, func(t *testing.T) {
			d := newRecogniser(&c.request)
			for range 2 { // the second time over the first one's leavings
				rec := recorded(c.headers, c.messageID)
				if wrong := d.recognise(rec); wrong != "" {
					t.Fatal(wrong)
				}
				if string(d.id) != c.id || string(d.publisher) != c.publisher || d.sequence != c.sequence {
					t.Fatalf("id %q, publisher %q, sequence %d", d.id, d.publisher, d.sequence)
				}
				if got, want := string(rec.Properties), string(recorded(c.left, c.messageID).Properties); got != want {
					t.Fatalf("properties %q\nwant %q", got, want)
				}
			}
		})
	}
}

func TestRecogniserRefusesWhatIsNoID(t *testing.T) {
	for name, c := range map[string]struct {
		headers message.Table
		text    string
	}{
		"an empty id":               {properties("x-dedup-id", ""), "x-dedup-id must be text of 1 to 1024 bytes, or a whole number"},
		"a long id":                 {properties("x-dedup-id", strings.Repeat("i", 1025)), "x-dedup-id must be text of 1 to 1024 bytes, or a whole number"},
		"a table":                   {properties("x-dedup-id", properties()), "x-dedup-id must be text of 1 to 1024 bytes, or a whole number"},
		"a sequence of 0":           {properties("x-pub-name", "p", "x-pub-seq", int64(0)), "x-pub-seq must be a whole number from 1 to 9223372036854775807"},
		"a sequence of 2^63":        {properties("x-pub-name", "p", "x-pub-seq", int64(math.MinInt64)), "x-pub-seq must be a whole number from 1 to 9223372036854775807"},
		"a sequence in words":       {properties("x-pub-name", "p", "x-pub-seq", "one"), "x-pub-seq must be a whole number from 1 to 9223372036854775807"},
		"a long name":               {properties("x-pub-name", strings.Repeat("p", 129), "x-pub-seq", int64(1)), "x-pub-name must be text of 1 to 128 bytes"},
		"a name that is no text":    {properties("x-pub-name", int32(1), "x-pub-seq", int64(1)), "x-pub-name must be text of 1 to 128 bytes"},
		"a name without a sequence": {properties("x-pub-name", "p"), "x-pub-name and x-pub-seq need each other"},
		"a sequence without a name": {properties("x-pub-seq", int64(1)), "x-pub-name and x-pub-seq need each other"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newRecogniser(&Request{})
			if wrong := d.recognise(recorded(c.headers, "")); wrong != c.text {
				t.Fatalf("got %q, want %q", wrong, c.text)
			}
		})
	}
}

// FuzzRecogniser: whatever a client's headers are, what is left of them is a property list, and what was taken out is bounded.
func FuzzRecogniser(f *testing.F) {
	f.Add(recorded(properties("x-dedup-id", "i", "x-pub-name", "p", "x-pub-seq", int64(2)), "m").Properties)
	f.Fuzz(func(t *testing.T, props []byte) {
		if message.CheckProperties(props) != nil {
			return
		}
		d := newRecogniser(&Request{Dedup: DedupMessageID})
		rec := &message.Record{Properties: props}
		wrong := d.recognise(rec)
		if err := message.CheckProperties(rec.Properties); err != nil {
			t.Fatal(err)
		}
		if wrong == "" && (len(d.id) > dedupIDMax || len(d.publisher) > 128) {
			t.Fatalf("%d and %d bytes", len(d.id), len(d.publisher))
		}
	})
}
