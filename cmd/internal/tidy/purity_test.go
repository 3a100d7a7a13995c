package tidy

import (
	"go/ast"
	"go/token"
	"go/types"
	"strconv"
	"strings"
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
	for _, p := range typed(t, "./core/...") {
		if !pure(strings.TrimPrefix(p.PkgPath, modulePath+"/")) {
			continue
		}
		for _, f := range p.Syntax {
			ast.Inspect(f, func(n ast.Node) bool {
				if r, ok := n.(*ast.RangeStmt); ok && isMap(p.TypesInfo.TypeOf(r.X)) {
					t.Errorf("%s: core may not iterate a map: its order differs between replicas", p.Fset.Position(r.Pos()))
				}
				return true
			})
		}
	}
}

func isMap(t types.Type) bool {
	if t == nil {
		return false
	}
	_, ok := t.Underlying().(*types.Map)
	return ok
}

// typed loads packages (without their tests) with types.
func typed(t *testing.T, patterns ...string) []*packages.Package {
	t.Helper()
	loaded, err := packages.Load(&packages.Config{
		Dir: rootDir,
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedSyntax | packages.NeedTypes | packages.NeedTypesInfo |
			packages.NeedImports | packages.NeedDeps | packages.NeedExportFile,
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
