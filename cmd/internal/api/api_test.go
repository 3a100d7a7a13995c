package api

import (
	"encoding/json"
	"fmt"
	"testing"
)

// read decodes text as a T and says what came of it.
func read[T any](text string) string {
	var v T
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		return "refused"
	}
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

func TestValuesAreReadInEveryFormThatToolsSend(t *testing.T) {
	for _, c := range []struct {
		name, text, want string
		read             func(string) string
	}{
		{"a truth", `true`, `true`, read[Bool]}, {"a truth as text", `"false"`, `false`, read[Bool]}, {"no truth", `"yes"`, "refused", read[Bool]},
		{"a number for a truth", `1`, "refused", read[Bool]},
		{"a number", `5`, `5`, read[Int]}, {"a number as text", `"-5"`, `-5`, read[Int]}, {"a fraction", `1.5`, "refused", read[Int]},
		{"no number", `"x"`, "refused", read[Int]}, {"a number beyond all", `99999999999999999999`, "refused", read[Int]},
		{"tags", `["a","b"]`, `["a","b"]`, read[Tags]}, {"tags in one text", `" a, b ,,"`, `["a","b"]`, read[Tags]}, {"no tags", `""`, `[]`, read[Tags]},
		{"tags of empty texts", `["",""]`, `[]`, read[Tags]}, {"a number for tags", `7`, "refused", read[Tags]}, {"a tag that is a number", `[7]`, "refused", read[Tags]},
	} {
		if got := c.read(c.text); got != c.want {
			t.Errorf("%s %s: %s, want %s", c.name, c.text, got, c.want)
		}
	}
}

func TestMessagePropertiesAreAnObjectOrAnEmptyList(t *testing.T) {
	for text, want := range map[string]string{
		`[]`: "<nil>", ` [ ] `: "refused", `{}`: "<nil>", `{"delivery_mode":"2","priority":7}`: "2", `[1]`: "refused", `"x"`: "refused",
		`{"delivery_mode":"two"}`: "refused",
	} {
		var p MessageProperties
		got := "refused"
		if err := json.Unmarshal([]byte(text), &p); err == nil {
			got = "<nil>"
			if p.DeliveryMode != nil {
				got = fmt.Sprint(*p.DeliveryMode)
			}
		}
		if got != want {
			t.Errorf("%s: delivery mode %s, want %s", text, got, want)
		}
	}
}

func TestAVhostIsWhatItSaysAndElseWhatItsMetadataSays(t *testing.T) {
	for text, want := range map[string]string{
		`{"name":"v"}`: `{}`,
		`{"name":"v","metadata":{"description":"m","tags":["m"],"default_queue_type":"quorum"}}`:                                                             `{"description":"m","tags":["m"],"default_queue_type":"quorum"}`,
		`{"name":"v","description":"d","tags":"t","default_queue_type":"classic","metadata":{"description":"m","tags":["m"],"default_queue_type":"quorum"}}`: `{"description":"d","tags":["t"],"default_queue_type":"classic"}`,
		`{"name":"v","description":"","metadata":{"description":"m"}}`:                                                                                       `{"description":""}`,
	} {
		var v DefinedVhost
		if err := json.Unmarshal([]byte(text), &v); err != nil {
			t.Fatal(err)
		}
		b, err := json.Marshal(v.New())
		if err != nil || string(b) != want {
			t.Errorf("%s: %s, %v, want %s", text, b, err, want)
		}
	}
}
