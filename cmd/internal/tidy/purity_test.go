package tidy

import (
	"go/ast"
	"go/token"
	"go/types"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"golang.org/x/tools/go/packages"
)

// impure are imports that would let the machine depend on anything but its entries.
var impure = []string{
	"context", "crypto/rand", "io/fs", "log", "maps", "math/rand", "net", "os", "runtime", "sync", "syscall", "time", "unsafe",
}

// pure says whether a folder's code must be pure: all of core but the part with a disk.
func pure(dir string) bool {
	return within(dir, "core") && !within(dir, "core/store") && !within(dir, "core/coretest")
}

func TestCoreImportsNothingImpure(t *testing.T) {
	for _, f := range allSources(t) {
		if f.test || !pure(f.dir) {
			continue
		}
		for _, imp := range f.ast.Imports {
			path, err := strconv.Unquote(imp.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			for _, bad := range impure {
				if within(path, bad) {
					t.Errorf("%s: core may not import %s", where(imp), path)
				}
			}
		}
	}
}

func TestCoreHasNoConcurrency(t *testing.T) {
	for _, f := range allSources(t) {
		if f.test || !pure(f.dir) {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			if what := concurrent(n); what != "" {
				t.Errorf("%s: core may not use %s", where(n), what)
			}
			return true
		})
	}
}

func concurrent(n ast.Node) string {
	switch n := n.(type) {
	case *ast.GoStmt:
		return "a goroutine"
	case *ast.SelectStmt:
		return "select"
	case *ast.ChanType, *ast.SendStmt:
		return "a channel"
	case *ast.UnaryExpr:
		if n.Op == token.ARROW {
			return "a channel"
		}
	}
	return ""
}

func TestCoreNeverIteratesAMap(t *testing.T) {
	for _, p := range typed(t, nil, purePackages(t)...) {
		for _, at := range mapIterations(p) {
			t.Errorf("%s: core may not iterate a map: its order differs between replicas", at)
		}
	}
}

// The rule is not toothless: with one more file in core it finds what is in it.
func TestAnIterationOfAMapIsFound(t *testing.T) {
	path, err := filepath.Abs(filepath.Join(rootDir, "core/message/bad.go"))
	if err != nil {
		t.Fatal(err)
	}
	bad := "package message\n\ntype set map[int]bool\n\nfunc size(s set) (n int) {\n\tfor range s {\n\t\tn++\n\t}\n\treturn n\n}\n"
	found := mapIterations(typed(t, map[string][]byte{path: []byte(bad)}, modulePath+"/core/message")[0])
	if len(found) != 1 || found[0].Line != 6 {
		t.Errorf("found %v, want line 6 of bad.go", found)
	}
}

func mapIterations(p *packages.Package) (found []token.Position) {
	for _, f := range p.Syntax {
		ast.Inspect(f, func(n ast.Node) bool {
			if r, ok := n.(*ast.RangeStmt); ok && isMap(p.TypesInfo.TypeOf(r.X)) {
				found = append(found, p.Fset.Position(r.Pos()))
			}
			return true
		})
	}
	return found
}

// purePackages are the import paths of core's pure packages.
func purePackages(t *testing.T) (paths []string) {
	t.Helper()
	for _, f := range allSources(t) {
		if path := modulePath + "/" + f.dir; !f.test && pure(f.dir) && !slices.Contains(paths, path) {
			paths = append(paths, path)
		}
	}
	if len(paths) < 3 {
		t.Fatalf("core has only the packages %v: does this test look in the right place?", paths)
	}
	return paths
}

func isMap(t types.Type) bool {
	if t == nil {
		return false
	}
	_, ok := t.Underlying().(*types.Map)
	return ok
}

// typed loads packages (without their tests) with types; overlay has files that are not on disk.
func typed(t *testing.T, overlay map[string][]byte, patterns ...string) []*packages.Package {
	t.Helper()
	loaded, err := packages.Load(&packages.Config{
		Dir:     rootDir,
		Overlay: overlay,
		Mode:    packages.LoadSyntax, // what they import comes as the compiler's export data
	}, patterns...)
	if err != nil {
		t.Fatal(err)
	}
	if len(loaded) == 0 {
		t.Fatalf("%v matches no package", patterns)
	}
	for _, p := range loaded {
		for _, e := range p.Errors {
			t.Errorf("%s: %v", p.PkgPath, e)
		}
	}
	return loaded
}
