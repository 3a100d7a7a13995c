package tidy

import (
	"go/ast"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// topFolders and topFiles are all that the root holds, beside dot-folders and what git ignores.
var (
	topFolders = []string{"amqp", "cmd", "core", "interop", "link", "replication", "session"}
	topFiles   = []string{"go.mod", "go.sum", "Makefile", "README.md", "LICENSE", ".gitignore"}
)

func TestTheRootHoldsTheSevenFoldersAndNoOthers(t *testing.T) {
	entries, err := os.ReadDir(rootDir)
	if err != nil {
		t.Fatal(err)
	}
	var folders []string
	for _, e := range entries {
		switch name := e.Name(); {
		case e.IsDir() && (strings.HasPrefix(name, ".") || generated[name]):
		case e.IsDir():
			folders = append(folders, name)
		case name == "understudy" || name == ".git": // a built binary; a worktree's pointer
		case !slices.Contains(topFiles, name):
			t.Errorf("%s does not belong at the root", name)
		}
	}
	if !slices.Equal(folders, topFolders) {
		t.Errorf("folders at the root: %v, want %v", folders, topFolders)
	}
	for _, name := range topFiles {
		if _, err := os.Stat(filepath.Join(rootDir, name)); err != nil {
			t.Errorf("the root lacks %s", name)
		}
	}
}

// sections are what a package's doc.go says, in this order.
var sections = []string{"Guarantees:", "Not guaranteed:", "Concurrency:"}

func TestEveryPackageSaysItsContract(t *testing.T) {
	docs := map[string]string{}
	packages := map[string]string{}
	for _, f := range allSources(t) {
		if f.test {
			continue
		}
		packages[f.dir] = f.ast.Name.Name
		if filepath.Base(f.path) == "doc.go" {
			docs[f.dir] = f.ast.Doc.Text()
		}
	}
	for dir, name := range packages {
		for _, fault := range contractFaults(name, docs[dir]) {
			t.Errorf("%s/doc.go: %s", dir, fault)
		}
	}
}

func contractFaults(name, doc string) (faults []string) {
	if doc == "" {
		return []string{"is missing, or has no package comment"}
	}
	if name != "main" && !strings.HasPrefix(doc, "Package "+name+" ") {
		faults = append(faults, `does not begin with "Package `+name+` "`)
	}
	if name == "main" && !strings.HasPrefix(doc, "Command ") {
		faults = append(faults, `does not begin with "Command "`)
	}
	at := 0
	for _, s := range sections {
		i := strings.Index(doc[at:], "\n"+s)
		if i < 0 {
			faults = append(faults, "lacks "+s+" (in the order "+strings.Join(sections, " ")+")")
			continue
		}
		at += i
	}
	return faults
}

func TestContractsWithoutASectionAreFound(t *testing.T) {
	whole := "Package a does b.\n\nGuarantees: x.\n\nNot guaranteed: y.\n\nConcurrency: z.\n"
	if faults := contractFaults("a", whole); len(faults) != 0 {
		t.Errorf("a whole contract has faults: %v", faults)
	}
	for _, s := range sections {
		if len(contractFaults("a", strings.Replace(whole, s, "", 1))) == 0 {
			t.Errorf("the lack of %q is not found", s)
		}
	}
}

func TestNoInitAndNoPackageLogger(t *testing.T) {
	for _, f := range allSources(t) {
		for _, d := range f.ast.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil && d.Name.Name == "init" {
					t.Errorf("%s: no init: say it where it is used", where(d))
				}
			case *ast.GenDecl:
				if d.Tok == token.VAR && mentionsLogger(d) {
					t.Errorf("%s: no logger of a package's own: it is handed in", where(d))
				}
			}
		}
	}
}

func mentionsLogger(d *ast.GenDecl) (found bool) {
	ast.Inspect(d, func(n ast.Node) bool {
		if _, deeper := n.(*ast.FuncLit); deeper {
			return false
		}
		s, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		pkg, ok := s.X.(*ast.Ident)
		name := s.Sel.Name
		if ok && (pkg.Name == "slog" || pkg.Name == "log") && (name == "Logger" || name == "New" || name == "Default") {
			found = true
		}
		return true
	})
	return found
}

var (
	designName = regexp.MustCompile(`[A-Za-z0-9_./-]*DESIGN\.md`)
	leftOver   = regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|X` + `XX)\b`)
	skips      = regexp.MustCompile(`\b[tb]\.Skip(f|Now)?\(`)
)

func TestEveryDesignThatIsNamedExists(t *testing.T) {
	eachText(t, func(path, text string) {
		for _, name := range designName.FindAllString(text, -1) {
			fromRoot := filepath.Join(rootDir, name)
			fromFile := filepath.Join(rootDir, filepath.Dir(path), name)
			if !exists(fromRoot) && !exists(fromFile) {
				t.Errorf("%s names %s, which does not exist", path, name)
			}
		}
	})
}

func TestNothingIsLeftForLaterOrSkipped(t *testing.T) {
	eachText(t, func(path, text string) {
		if s := leftOver.FindString(text); s != "" && strings.HasSuffix(path, ".go") {
			t.Errorf("%s has a %s", path, s)
		}
		if s := skips.FindString(text); s != "" && !strings.HasPrefix(path, "cmd/internal/tidy/") {
			t.Errorf("%s calls %s...): tests are not skipped", path, s)
		}
	})
}

// eachText visits the Go and Markdown files of the tree but for this package's own, which name what they look for.
func eachText(t *testing.T, visit func(path, text string)) {
	t.Helper()
	root := os.DirFS(rootDir)
	err := fs.WalkDir(root, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != "." && (strings.HasPrefix(d.Name(), ".") || generated[path] || path == "cmd/internal/tidy") {
			return fs.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, ".md") {
			return nil
		}
		text, err := fs.ReadFile(root, path)
		if err == nil {
			visit(path, string(text))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
