package telemetry

import (
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestTheLinksMetricsSayWhatTheNodeSays(t *testing.T) {
	m := NewMetrics(slog.New(slog.DiscardHandler))
	err := m.WatchLink(func() Link {
		return Link{
			Role: "standby", Generation: 3, Fenced: true, SplitBrain: true, Waiting: 6, Seed: 0.5,
			Groups: []LinkGroup{
				{Group: 1, State: "following", Position: 7, LagEntries: 2, LagSeconds: 1.5, ContactAge: 0.25, CompleteAge: 0.75, Mismatches: 4},
				{Group: 2, State: "halted", ContactAge: -1, CompleteAge: -1},
			},
			Readers:  []LinkReader{{Name: "a", Group: 1, Behind: 5}, {Name: "a", Group: 2}},
			Holds:    []LinkHold{{Name: "a", State: "extended", Bytes: 10, Left: 20}, {Name: "b", State: "lost", Left: -1}},
			Confirms: []LinkConfirms{{Group: 1, Mode: "degraded", DegradedSeconds: 9}},
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	text := w.Body.String()
	for _, line := range []string{
		`understudy_link_role{role="standby"} 1`, `understudy_link_role{role="primary"} 0`,
		`understudy_link_follower_state{group="1",state="following"} 1`, `understudy_link_follower_state{group="2",state="halted"} 1`,
		`understudy_link_position_index{group="1"} 7`, `understudy_link_lag_entries{group="1"} 2`,
		`understudy_link_lag_seconds{group="1"} 1.5`, `understudy_link_contact_age_seconds{group="1"} 0.25`,
		`understudy_link_complete_age_seconds{group="1"} 0.75`, `understudy_link_hash_mismatch_total{group="1"} 4`, `understudy_link_readers 1`,
		`understudy_link_reader_behind_entries{group="1",reader="a"} 5`, `understudy_link_hold_bytes{reader="a"} 10`,
		`understudy_link_hold_left_bytes{reader="a"} 20`, `understudy_link_hold_state{reader="b",state="lost"} 1`,
		`understudy_link_confirm_mode{group="1",mode="degraded"} 1`, `understudy_link_degraded_seconds_total{group="1"} 9`,
		"understudy_link_generation 3", "understudy_link_fenced 1", "understudy_link_split_brain_suspected 1",
		"understudy_link_seed_progress_ratio 0.5", "understudy_link_publishers_wait 6",
	} {
		if !strings.Contains(text, "\n"+line+"\n") {
			t.Errorf("no line %s", line)
		}
	}
	for _, absent := range []string{`contact_age_seconds{group="2"}`, `complete_age_seconds{group="2"}`, `hold_left_bytes{reader="b"}`} {
		if strings.Contains(text, absent) {
			t.Errorf("%s is there though nobody knows it", absent)
		}
	}
}
