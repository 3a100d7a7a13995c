package rawclient

import (
	"bytes"
	"reflect"
	"testing"
)

func TestTablesComeBackAsTheyWere(t *testing.T) {
	want := Table{"void": nil, "bool": true, "octet": int8(-3), "short": int16(-300), "int": int32(7), "long": int64(-1 << 40), "double": 2.5,
		"text": "t", "time": Timestamp(9), "table": Table{"empty": Table{}}, "array": []any{"a", int32(1), []any{}}}
	c := &cursor{b: AppendTable(nil, want)}
	if got := c.table(); c.err != nil || len(c.b) != 0 || !reflect.DeepEqual(got, want) {
		t.Fatalf("got %v, %v, %d octets left", got, c.err, len(c.b))
	}
}

func TestTruncatedValuesAreErrors(t *testing.T) {
	whole := AppendTable(nil, Table{"k": []any{"text", Table{"n": int64(1)}}})
	for n := range whole {
		c := &cursor{b: whole[:n]}
		if c.table(); c.err == nil {
			t.Errorf("%d octets of %d are taken for a table", n, len(whole))
		}
	}
}

func TestBitsShareAnOctetAndReservedArgumentsAreFilledIn(t *testing.T) {
	got := AppendCall(nil, 1, "queue.declare", "q", false, true, false, true)
	want := []byte{1, 0, 1, 0, 0, 0, 13, 0, 50, 0, 10, 0, 0, 1, 'q', 0b1010, 0, 0, 0, 0, frameEnd}
	if !bytes.Equal(got, want) {
		t.Fatalf("got %v, want %v", got, want)
	}
	back := decode(&cursor{b: []byte{1, 'q', 0, 0, 0, 2, 0, 0, 0, 3}}, layouts["queue.declare-ok"].arguments)
	if !reflect.DeepEqual(back, []any{"q", uint64(2), uint64(3)}) {
		t.Fatalf("got %v", back)
	}
}

func TestPropertiesComeBackAsTheyWere(t *testing.T) {
	priority, at := byte(0), uint64(1<<63)
	p := Properties{ContentType: "a", ContentEncoding: "b", Headers: Table{"k": "v"}, DeliveryMode: 2, Priority: &priority, CorrelationID: "c",
		ReplyTo: "d", Expiration: "e", MessageID: "f", Timestamp: &at, Type: "g", UserID: "h", AppID: "i", ReservedID: "j"}
	want := p.Append(nil)
	var got Properties
	c := &cursor{b: want}
	if got.parse(c); c.err != nil || !bytes.Equal(got.Raw, want) {
		t.Fatalf("%v: %+v", c.err, got)
	}
	got.Raw = nil
	if again := got.Append(nil); !bytes.Equal(again, want) {
		t.Fatalf("got %q, want %q", again, want)
	}
}
