package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"slices"
	"syscall"
	"testing"
)

func TestAHealthyNodesLogIsALineForEachThingThatPeopleCanUse(t *testing.T) {
	s := serveNode(t, "--log-format", "json")
	s.signal(syscall.SIGTERM)
	if code := s.exit(); code != 0 {
		t.Errorf("exit %d", code)
	}
	var got []string
	for lines := bufio.NewScanner(bytes.NewReader(s.log.Bytes())); lines.Scan(); {
		var line struct{ Msg, Data, Version string }
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			t.Fatalf("%s: %v", lines.Text(), err)
		}
		if line.Msg == "starting" && (line.Data != s.data || line.Version == "") {
			t.Errorf("%s: want version and data folder", lines.Text())
		}
		got = append(got, line.Msg)
	}
	if want := []string{"starting", "leader changed", "leader changed", "stopping", "stopped"}; !slices.Equal(got, want) { // two groups
		t.Errorf("it logged %q, want %q", got, want)
	}
}
