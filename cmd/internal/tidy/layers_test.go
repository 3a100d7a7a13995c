package tidy

import (
	"slices"
	"strconv"
	"strings"
	"testing"
)

// layer says which packages of ours a folder's packages may import, and why. The first row that fits a package counts;
// a package may always import what lies below its own row's folder.
type layer struct {
	folder string
	may    []string // folders, each with all below it
	reason string
}

var layers = []layer{
	{"core/entry", nil, "the log's format stands by itself: the link reads it too"},
	{"core/message", nil, "content and tables stand by themselves: the endpoints read them too"},
	{"core", nil, "the machine knows nothing but its own parts"},
	{"replication", nil, "raft groups carry any machine: they see builtin types only"},
	{"session", []string{"core"}, "the waist speaks the machine's commands and effects"},
	{"amqp", []string{"session", "core"}, "endpoints speak to sessions; commands, effects and field tables are core's"},
	{"link", []string{"replication", "core/entry"}, "the standby reads committed entries, and nothing of how they are applied"},
	{"cmd", []string{"core", "session", "amqp", "replication", "link"}, "the binary wires everything"},
	{"interop", nil, "black-box tests know the built binary and client libraries only"},
}

// forTests are what tests of any layer may import, and all of interop is tests.
var forTests = []string{"cmd/loopback", "cmd/powercut"}

// exceptions are imports beyond a row, each with its reason.
var exceptions = map[[2]string]string{
	{"interop/sessions", "session/resume"}: "it is a client library, made for applications",
}

func TestImportsPointDownwards(t *testing.T) {
	for _, f := range allSources(t) {
		l, ok := layerOf(f.dir)
		if !ok {
			t.Errorf("%s: lies in no layer", f.path)
			continue
		}
		for _, imp := range f.ast.Imports {
			path, err := strconv.Unquote(imp.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			ours, ok := strings.CutPrefix(path, modulePath+"/")
			if !ok || mayImport(l, ours) || slices.Contains(forTests, ours) && (f.test || l.folder == "interop") || exceptions[[2]string{f.dir, ours}] != "" {
				continue
			}
			t.Errorf("%s: %s may not import %s: %s", where(imp), l.folder, ours, l.reason)
		}
	}
}

func TestTheShippedBinaryCannotLoseItsPower(t *testing.T) {
	for _, f := range allSources(t) {
		if f.test || within(f.dir, "interop") || strings.HasPrefix(f.text, "//go:build powerloss\n") {
			continue
		}
		for _, imp := range f.ast.Imports {
			if imp.Path.Value == strconv.Quote(modulePath+"/cmd/powercut") {
				t.Errorf("%s: it is for tests, and the build tag powerloss", where(imp))
			}
		}
	}
}

func TestEveryLayerHasAReason(t *testing.T) {
	for _, l := range layers {
		if l.reason == "" {
			t.Errorf("%s: no reason", l.folder)
		}
	}
	for imp, reason := range exceptions {
		if reason == "" {
			t.Errorf("%v: no reason", imp)
		}
	}
}

// The table is not toothless: imports that point upwards are found.
func TestLayersRefuseWhatPointsUpwards(t *testing.T) {
	for _, c := range []struct {
		dir, imported string
		want          bool
	}{
		{"core", "core/entry", true},
		{"core", "session", false},
		{"core/entry", "core", false},
		{"replication/log", "core/entry", false},
		{"amqp/v091", "core/message", true},
		{"amqp/v091", "replication", false},
		{"session", "amqp/v091", false},
		{"link", "core", false},
		{"interop/failover", "interop/harness", true},
		{"interop/failover", "core/entry", false},
	} {
		l, ok := layerOf(c.dir)
		if !ok {
			t.Fatalf("%s lies in no layer", c.dir)
		}
		if got := mayImport(l, c.imported); got != c.want {
			t.Errorf("%s imports %s: allowed %v, want %v", c.dir, c.imported, got, c.want)
		}
	}
}

func layerOf(dir string) (layer, bool) {
	for _, l := range layers {
		if within(dir, l.folder) {
			return l, true
		}
	}
	return layer{}, false
}

func mayImport(l layer, path string) bool {
	if within(path, l.folder) {
		return true
	}
	for _, folder := range l.may {
		if within(path, folder) {
			return true
		}
	}
	return false
}

func within(path, folder string) bool { return path == folder || strings.HasPrefix(path, folder+"/") }
