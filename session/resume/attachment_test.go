package resume

import "testing"

// TestASessionGoesWhereItsGenerationIsAndNeverBack: what an attachment is to the one before.
func TestASessionGoesWhereItsGenerationIsAndNeverBack(t *testing.T) {
	for name, c := range map[string]struct {
		before int64
		first  bool
		now    status
		want   EventKind
		no     bool
	}{
		"the first":                    {first: true, now: status{new: true}, want: Attached},
		"the first, at a promoted one": {first: true, now: status{new: true, generation: 3}, want: Attached},
		"found":                        {first: true, now: status{}, want: Resumed},
		"goes on":                      {before: 1, now: status{generation: 1}, want: Resumed},
		"was away for too long":        {before: 1, now: status{generation: 1, new: true}, want: Attached},
		"promoted":                     {before: 1, now: status{generation: 2}, want: Promoted},
		"began in the lost moment":     {before: 1, now: status{generation: 2, new: true}, want: Promoted},
		"a source that is not fenced":  {before: 2, now: status{generation: 1}, no: true},
	} {
		s := &Session{generation: c.before, address: "10.0.0.1:5672"}
		if c.first {
			s.address = ""
		}
		how, err := s.compare(c.now)
		if how != c.want || err != nil != c.no || err != nil && fatal(err) != nil {
			t.Errorf("%s: %s, %v", name, how, err)
		}
	}
}
