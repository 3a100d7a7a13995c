package message_test

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/understudy-mq/understudy/core/message"
)

func TestRecordComesBack(t *testing.T) {
	long := []byte(strings.Repeat("n", 255))
	for _, want := range []message.Record{
		{Form: message.FormAMQP091, Exchange: []byte{}, RoutingKey: []byte("q"), Properties: []byte{0, 0}, BodySize: 4, Body: []byte("body")},
		{Form: message.FormAMQP091, Exchange: long, RoutingKey: long, Properties: bytes.Repeat([]byte{7}, 300), BodySize: 1 << 40, Body: []byte("tail")},
		{Form: message.FormAMQP091, Exchange: []byte{}, RoutingKey: []byte{}, Properties: []byte{}, Body: []byte{}},
	} {
		head := message.AppendRecord(nil, &want)
		var got message.Record
		if err := message.ParseRecord(append(head, want.Body...), &got); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, %v, want %+v", got, err, want)
		}
		for n := range head {
			if err := message.ParseRecord(head[:n], &got); !errors.Is(err, message.ErrRecord) {
				t.Errorf("cut at %d of %d: %v", n, len(head), err)
			}
		}
	}
}

func TestLocKeepsIndexAndOffset(t *testing.T) {
	for _, c := range []struct {
		index  uint64
		offset int
	}{{0, 0}, {1, 1<<24 - 1}, {1<<40 - 1, 12345}} {
		if l := message.NewLoc(c.index, c.offset); l.Index() != c.index || l.Offset() != c.offset {
			t.Errorf("%+v came back as %d, %d", c, l.Index(), l.Offset())
		}
	}
}

func FuzzRecord(f *testing.F) {
	f.Add(message.AppendRecord(nil, &message.Record{Form: message.FormAMQP091, Exchange: []byte("x"), RoutingKey: []byte("k"), Properties: []byte{0, 0}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		var r message.Record
		if err := message.ParseRecord(b, &r); err != nil {
			return
		}
		var again message.Record
		if err := message.ParseRecord(append(message.AppendRecord(nil, &r), r.Body...), &again); err != nil || !reflect.DeepEqual(r, again) {
			t.Fatalf("%+v came back as %+v, %v", r, again, err)
		}
	})
}
