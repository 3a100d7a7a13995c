package harness

import (
	"encoding/json"
	"testing"
)

func TestFingerprintsDifferWhenOneNodeDiffers(t *testing.T) {
	row := func(applied uint64, print string) map[uint64]Group {
		return map[uint64]Group{1: {Group: 1, Applied: applied, Fingerprint: json.RawMessage(print)}}
	}
	for _, c := range []struct {
		name string
		a, b map[uint64]Group
		same bool
	}{
		{"equal", row(7, `"ab"`), row(7, `"ab"`), true},
		{"another state", row(7, `"ab"`), row(7, `"ac"`), false},
		{"behind", row(7, `"ab"`), row(6, `"ab"`), false},
		{"a group missing", row(7, `"ab"`), map[uint64]Group{}, false},
		{"no groups at all", map[uint64]Group{}, map[uint64]Group{}, false},
	} {
		if err := sameGroups(1, c.a, 2, c.b); (err == nil) != c.same {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
