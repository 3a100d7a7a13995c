package source

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	"github.com/understudy-mq/understudy/core/entry"
	"github.com/understudy-mq/understudy/link/wire"
)

// cutsOf is Options.Cuts of a cluster that was promoted in the place of former.
func cutsOf(former string) func(string) ([]wire.Cut, error) {
	return func(cluster string) ([]wire.Cut, error) {
		if cluster != former {
			return nil, fmt.Errorf("%w: not %s", ErrConflict, cluster)
		}
		return []wire.Cut{{
			Former: wire.Position{Group: 1, Position: entry.Position{Index: 9, Term: 2, Hash: 3}}, Fingerprint: 4,
			Here: wire.Position{Group: 1, Position: entry.Position{Index: 50, Term: 6, Hash: 7}},
		}}, nil
	}
}

// TestTheLogIsHeldForAFormerSourceFromThePlaceThatItIsTold: it begins to read only once it has wound itself back.
func TestTheLogIsHeldForAFormerSourceFromThePlaceThatItIsTold(t *testing.T) {
	s, a := gatekeeper(t, "reads", "")
	got := call(s, http.MethodPost, wire.PathRewind, "reads", `{"reader":"back","standby":"it","cluster":"former"}`)
	var r wire.Rewind
	if err := json.Unmarshal(got.Body.Bytes(), &r); err != nil || got.Code != http.StatusOK {
		t.Fatalf("%d %s, %v", got.Code, got.Body, err)
	}
	want, _ := cutsOf("former")("former")
	if r.Cluster != "ours" || len(r.Cuts) != 1 || r.Cuts[0] != want[0] {
		t.Errorf("%+v", r)
	}
	if list := s.Readers(); len(list) != 1 || list[0].Name != "back" || list[0].Positions[1] != want[0].Here {
		t.Errorf("readers %+v", list)
	}
	if a.notes != 1 || a.returned != "former" {
		t.Errorf("%+v", *a)
	}
}
