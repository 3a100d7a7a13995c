package tidy

import (
	"go/ast"
	"testing"
)

// pastVFS are the folders whose code, tests apart, changes files by package os, where no test can take the power away, and why
// that is well.
var pastVFS = map[string]string{
	"amqp/v091/wire/internal/gen": "a generator: what it writes is committed",
	"cmd/internal/certs":          "certstest: tests",
	"cmd/internal/node":           "the lock file, which says nothing; a rewind's folder, which nobody takes up before it has its name",
	"cmd/loopback":                "tests",
	"cmd/powercut":                "it is the file system whose power goes",
	"cmd/understudy":              "what verbs write for whoever runs them",
	"interop":                     "tests",
	"link/simtest":                "tests",
	"link/source":                 "a seed's files, which the next start throws away",
}

// plain are the folders whose code renames, or syncs a folder, without replication/durable, and why.
var plain = map[string]string{
	"replication/durable": "it is the place for it",
	"core/store":          "it may import nothing of ours, and only syncs the folder that Pebble writes in",
	"replication/log":     "it keeps its folder open, and places its syncs among its other steps",
	"cmd/internal/audit":  "several files move on and one sync serves them all",
	"cmd/powercut":        "it is a file system",
}

// writes are package os's functions that change files or their names, but for Rename.
var writes = map[string]bool{
	"WriteFile": true, "Create": true, "CreateTemp": true, "OpenFile": true, "Mkdir": true, "MkdirAll": true, "MkdirTemp": true,
	"Remove": true, "RemoveAll": true, "Link": true, "Symlink": true, "Truncate": true, "Chmod": true,
}

func TestFilesAreChangedWhereAPowerCutCanBeTried(t *testing.T) {
	for _, f := range allSources(t) {
		if f.test {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			pkg, name := selected(n)
			switch {
			case pkg == "os" && writes[name] && !listed(pastVFS, f.dir):
				t.Errorf("%s: os.%s: take a vfs.FS, or say in the table why not", where(n), name)
			case pkg != "durable" && (name == "Rename" || name == "OpenDir") && !listed(plain, f.dir):
				t.Errorf("%s: %s: call replication/durable, or say in the table why not", where(n), name)
			}
			return true
		})
	}
}

// selected is what a selector names: of a package or a variable pkg, of anything else "".
func selected(n ast.Node) (pkg, name string) {
	s, ok := n.(*ast.SelectorExpr)
	if !ok {
		return "", ""
	}
	if x, ok := s.X.(*ast.Ident); ok {
		pkg = x.Name
	}
	return pkg, s.Sel.Name
}

func listed(table map[string]string, dir string) bool {
	for folder := range table {
		if within(dir, folder) {
			return true
		}
	}
	return false
}

func TestEveryRowOfTheTablesOfFilesHasAReasonAndAUse(t *testing.T) {
	used := map[string]bool{}
	for _, f := range allSources(t) {
		ast.Inspect(f.ast, func(n ast.Node) bool {
			pkg, name := selected(n)
			for folder := range pastVFS {
				used[folder] = used[folder] || pkg == "os" && writes[name] && within(f.dir, folder)
			}
			for folder := range plain {
				used[folder] = used[folder] || (name == "Rename" || name == "OpenDir") && within(f.dir, folder)
			}
			return true
		})
	}
	for _, table := range []map[string]string{pastVFS, plain} {
		for folder, reason := range table {
			if reason == "" || !used[folder] {
				t.Errorf("%s: no reason (%q), or nothing there needs the row", folder, reason)
			}
		}
	}
}
