package message

import (
	"bytes"
	"testing"
)

func propertiesOf(headers Table) []byte {
	return AppendProperties(nil, &Properties{
		Set: PropContentType | PropHeaders | PropMessageID, ContentType: "t", Headers: AppendTable(nil, headers), MessageID: "m",
	})
}

func TestCutHeadersLeavesTheRestByteForByte(t *testing.T) {
	field := func(key string, value any) Field { return Field{Key: key, Value: value} }
	all := Table{field("a", int32(1)), field("cut", "x"), field("b", Table{field("cut", true)}), field("cut", []any{"y", nil}), field("c", nil)}
	var taken []any
	scratch := make([]byte, 0, 512)
	got := CutHeaders(propertiesOf(all), scratch, func(key, value []byte) bool {
		if string(key) != "cut" {
			return false
		}
		taken = append(taken, Value(value))
		return true
	})
	if want := propertiesOf(Table{all[0], all[2], all[4]}); !bytes.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
	if len(taken) != 2 || taken[0] != "x" {
		t.Errorf("taken %v", taken)
	}
	if &got[0] != &scratch[:1][0] {
		t.Error("the scratch was not used")
	}
}

func TestCutHeadersOfNothingIsTheSameBytes(t *testing.T) {
	none := func(_, _ []byte) bool { return false }
	for _, props := range [][]byte{{0, 0}, propertiesOf(nil), propertiesOf(Table{{Key: "a", Value: "b"}})} {
		if got := CutHeaders(props, nil, none); &got[0] != &props[0] || len(got) != len(props) {
			t.Errorf("%q became %q", props, got)
		}
	}
	all := func(_, _ []byte) bool { return true }
	if got := CutHeaders([]byte{0, 0}, nil, all); !bytes.Equal(got, []byte{0, 0}) {
		t.Errorf("no headers became %q", got)
	}
}

func TestAddHeaderComesLast(t *testing.T) {
	got := AddHeader(propertiesOf(Table{{Key: "a", Value: "b"}}), "n", int64(7))
	if want := propertiesOf(Table{{Key: "a", Value: "b"}, {Key: "n", Value: int64(7)}}); !bytes.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
	headers, err := PropertiesHeaders(AddHeader([]byte{0, 0}, "n", int64(7)))
	if n, _ := headers.Get("n"); err != nil || n != int64(7) {
		t.Errorf("%v %v", headers, err)
	}
}

// FuzzCutHeaders: whatever is cut, what is left is a property list, with that many headers less.
func FuzzCutHeaders(f *testing.F) {
	f.Add(propertiesOf(Table{{Key: "a", Value: "b"}, {Key: "c", Value: Table{}}}), byte(1))
	f.Fuzz(func(t *testing.T, props []byte, pick byte) {
		if CheckProperties(props) != nil {
			return
		}
		before, err := PropertiesHeaders(props)
		if err != nil {
			t.Fatal(err)
		}
		n, cut := byte(0), 0
		got := CutHeaders(props, nil, func(_, value []byte) bool {
			Value(value)
			n++
			if n&pick == 0 {
				return false
			}
			cut++
			return true
		})
		if err := CheckProperties(got); err != nil {
			t.Fatal(err)
		}
		after, err := PropertiesHeaders(got)
		if err != nil || len(after) != len(before)-cut {
			t.Fatalf("%d headers, %d cut, %d left: %v", len(before), cut, len(after), err)
		}
	})
}
