package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/understudy-mq/understudy/cmd/internal/node"
)

// formerNode is the data folder of a node of some cluster.
func formerNode(t *testing.T) string {
	t.Helper()
	data := filepath.Join(t.TempDir(), "data")
	f, err := node.OpenFolder(nil, data)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Claim(node.Identity{NodeID: 3, Groups: 1, ClusterID: "former"}); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return data
}

// doRejoin runs the verb and answers what it printed.
func doRejoin(t *testing.T, args ...string) (r rejoined, err error) {
	t.Helper()
	var out bytes.Buffer
	cmd := root()
	cmd.SetOut(&out)
	cmd.SetArgs(append([]string{"link", "rejoin", "--json"}, args...))
	if err := cmd.Execute(); err != nil {
		return r, err
	}
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatalf("%s: %v", out.Bytes(), err)
	}
	return r, nil
}

func TestARejoinThatIsNotToAskBeginsWithASeedAndSaysWhy(t *testing.T) {
	data := formerNode(t)
	r, err := doRejoin(t, "--data", data, "--source", "127.0.0.1:1", "--seed")
	if err != nil {
		t.Fatal(err)
	}
	if r.Way != "seed" || !strings.Contains(r.Reason, "--seed was given") || len(r.Commands) == 0 || !strings.Contains(r.Commands[0], "--node-id 3") {
		t.Errorf("%+v", r)
	}
	if _, err := os.Stat(filepath.Join(r.Former, "node.json")); err != nil {
		t.Errorf("the former data: %v", err)
	}
	if _, err := os.Stat(data); !os.IsNotExist(err) {
		t.Errorf("there is a folder in its place: %v", err)
	}
}

func TestARejoinThatLacksAFlagChangesNothing(t *testing.T) {
	data := formerNode(t)
	for _, c := range []struct{ args, want string }{
		{"", "--source must name"},
		{"--source nowhere", `--source: "nowhere" is not HOST:PORT`},
		{"--source http://127.0.0.1:1", "is not HOST:PORT"},
		{"--source 127.0.0.1:1", "--link-token-file"},
		{"--source 127.0.0.1:1 --link-token-file t --link-tls-cert c", "goes with --link-tls-key and --link-tls-ca"},
		{"--source 127.0.0.1:1 --link-token-file t --link-tls-cert c --link-tls-key k", "goes with --link-tls-key and --link-tls-ca"},
	} {
		_, err := doRejoin(t, append(strings.Fields(c.args), "--data", data)...)
		if !errors.As(err, new(usageError)) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want a usage error with %q", c.args, err, c.want)
		}
	}
	if list, _ := filepath.Glob(data + "*"); len(list) != 1 {
		t.Errorf("there is now %v", list)
	}
}

func TestARejoinThatNobodyAnswersChangesNothing(t *testing.T) {
	data := formerNode(t)
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("t"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := doRejoin(t, "--data", data, "--source", "127.0.0.1:1", "--link-token-file", token)
	if err == nil || !strings.Contains(err.Error(), "nothing was changed") {
		t.Errorf("%v", err)
	}
	if list, _ := filepath.Glob(data + "*"); len(list) != 1 {
		t.Errorf("there is now %v", list)
	}
	if _, err := doRejoin(t, "--data", filepath.Join(t.TempDir(), "empty"), "--source", "127.0.0.1:1", "--seed"); err == nil {
		t.Error("an empty folder was set aside")
	}
}

// Killed between the two renames there is no folder in its place: the next run begins where the first one did.
func TestARejoinThatBrokeOffBetweenItsTwoStepsIsTakenUp(t *testing.T) {
	data := formerNode(t)
	j := &rejoin{data: data}
	next := data + ".rejoined"
	if err := j.complete(next); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{next, data + ".former-20200101T000000"} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Rename(data, data+".former-20260101T000000"); err != nil {
		t.Fatal(err)
	}
	if err := j.complete(next); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(data, "node.json")); err != nil {
		t.Errorf("the former data is not back: %v", err)
	}
	aside, err := j.exchange(next, true)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(aside, "node.json")); err != nil {
		t.Errorf("the former data: %v", err)
	}
	if _, err := os.Stat(next); !os.IsNotExist(err) {
		t.Errorf("the new folder has not come to its place: %v", err)
	}
}
