package jsontable

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/understudy-mq/understudy/core/message"
)

func TestJSONBecomesAFieldTable(t *testing.T) {
	var object map[string]json.RawMessage
	const text = `{"n":null,"i":9223372036854775807,"f":1e3,"s":"x","b":false,"l":[1,"a",[]],"t":{"k":-1}}`
	if err := json.Unmarshal([]byte(text), &object); err != nil {
		t.Fatal(err)
	}
	b, err := Encode(object)
	if err != nil {
		t.Fatal(err)
	}
	want := message.AppendTable(nil, message.Table{
		{Key: "b", Value: false}, {Key: "f", Value: 1e3}, {Key: "i", Value: int64(9223372036854775807)},
		{Key: "l", Value: []any{int64(1), "a", []any{}}}, {Key: "n"}, {Key: "s", Value: "x"},
		{Key: "t", Value: message.Table{{Key: "k", Value: int64(-1)}}},
	})
	if string(b) != string(want) {
		t.Errorf("%q, want %q", b, want)
	}
	back, err := json.Marshal(DecodeRaw(b))
	if want := `{"b":false,"f":1000,"i":9223372036854775807,"l":[1,"a",[]],"n":null,"s":"x","t":{"k":-1}}`; err != nil || string(back) != want {
		t.Errorf("back: %s, %v, want %s", back, err, want)
	}
	for name, value := range map[string]string{
		"deep arrays": strings.Repeat("[", 100) + strings.Repeat("]", 100),
		"deep tables": strings.Repeat(`{"a":`, 100) + "1" + strings.Repeat("}", 100),
		"a long key":  `{"` + strings.Repeat("k", 256) + `":1}`,
		"a big float": "1e999",
		"many values": "[" + strings.Repeat("null,", message.TableElementsMax) + "null]",
	} {
		if _, err := Encode(map[string]json.RawMessage{"x": json.RawMessage(value)}); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}
