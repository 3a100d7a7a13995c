package node

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/understudy-mq/understudy/replication/durable"
)

func openFolder(t *testing.T, path string) *Folder {
	t.Helper()
	f, err := OpenFolder(nil, path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// claimed makes a folder of node 2 with three groups, closed again.
func claimed(t *testing.T, clusterID string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "data")
	f := openFolder(t, path)
	if err := f.Claim(Identity{NodeID: 2, Groups: 3, ClusterID: clusterID}); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// wantError checks that an error names what it is about.
func wantError(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one with %q", parts)
	}
	for _, p := range parts {
		if !strings.Contains(err.Error(), p) {
			t.Errorf("error %q does not say %q", err, p)
		}
	}
}

func TestASecondProcessIsRefused(t *testing.T) {
	path := t.TempDir()
	openFolder(t, path)
	_, err := OpenFolder(nil, path)
	wantError(t, err, path, "in use by another process")
}

func TestTheFolderRemembersWhoseItIs(t *testing.T) {
	f := openFolder(t, claimed(t, "c1"))
	if got, want := f.Identity(), (Identity{Format: 1, NodeID: 2, Groups: 3, ClusterID: "c1"}); got != want {
		t.Errorf("identity %+v, want %+v", got, want)
	}
	if err := f.Claim(Identity{NodeID: 2, Groups: 3}); err != nil {
		t.Errorf("its own node is refused: %v", err)
	}
}

func TestAnotherNodesFolderIsRefused(t *testing.T) {
	err := openFolder(t, claimed(t, "")).Claim(Identity{NodeID: 1, Groups: 3})
	wantError(t, err, "belongs to node 2", "--node-id 2")
}

func TestAnotherNumberOfGroupsIsRefused(t *testing.T) {
	err := openFolder(t, claimed(t, "")).Claim(Identity{NodeID: 2, Groups: 4})
	wantError(t, err, "--groups 3", "fixed at the first start")
}

func TestTheClusterIDIsLearntOnceAndNeverChanges(t *testing.T) {
	path := claimed(t, "")
	f := openFolder(t, path)
	if err := f.SetClusterID("c1"); err != nil {
		t.Fatal(err)
	}
	wantError(t, f.SetClusterID("c2"), "belongs to cluster c1")
	_ = f.Close()
	if got := openFolder(t, path).Identity().ClusterID; got != "c1" {
		t.Errorf("cluster id %q after opening again, want c1", got)
	}
}

func TestAFolderOfANewerVersionIsRefused(t *testing.T) {
	path := claimed(t, "")
	if err := os.WriteFile(filepath.Join(path, identityFile), []byte(`{"format":2}`), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := OpenFolder(nil, path)
	wantError(t, err, "format 2", "start the version that wrote it")
}

func TestADamagedIdentityIsRefused(t *testing.T) {
	path := claimed(t, "")
	if err := os.WriteFile(filepath.Join(path, identityFile), []byte(`{"for`), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := OpenFolder(nil, path)
	wantError(t, err, identityFile, "damaged")
}

// A log whose owner is unknown must not be taken for nobody's: two nodes would vote with one log.
func TestALogWithoutAnIdentityIsRefused(t *testing.T) {
	path := claimed(t, "")
	if err := os.Mkdir(filepath.Join(path, LogDir), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(path, identityFile)); err != nil {
		t.Fatal(err)
	}
	_, err := OpenFolder(nil, path)
	wantError(t, err, "has a log but no "+identityFile)
}

func TestWhatTheFolderHasWrittenOutlastsAPowerCut(t *testing.T) {
	mem := vfs.NewCrashableMem()
	f := &Folder{fs: mem, path: "/a/b/data"}
	if err := durable.MakeDir(mem, f.path, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"one", "two"} {
		if err := f.replace("file", []byte(text)); err != nil {
			t.Fatal(err)
		}
		after := &Folder{fs: mem.CrashClone(vfs.CrashCloneCfg{}), path: f.path}
		if got, err := after.readFile("file"); string(got) != text {
			t.Errorf("after the cut the file has %q, %v, want %q", got, err, text)
		}
	}
	if err := f.remove("file"); err != nil {
		t.Fatal(err)
	}
	after := &Folder{fs: mem.CrashClone(vfs.CrashCloneCfg{}), path: f.path}
	if _, err := after.readFile("file"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what was removed is there again: %v", err)
	}
}
