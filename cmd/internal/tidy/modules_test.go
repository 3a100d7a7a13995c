package tidy

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/mod/modfile"
)

// dependency is a row of README's table of dependencies: | `module` | reason |
var dependency = regexp.MustCompile("(?m)^\\| `([a-z0-9.-]+/[^`]+)` \\| (.+) \\|$")

func TestEveryDirectDependencyHasItsReasonInTheReadme(t *testing.T) {
	readme, err := os.ReadFile(filepath.Join(rootDir, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	given := map[string]bool{}
	for _, row := range dependency.FindAllStringSubmatch(string(readme), -1) {
		given[row[1]] = true
	}
	used := usedModules(t)
	for m := range used {
		if !given[m] {
			t.Errorf("%s is imported or a tool, but README.md gives no reason for it", m)
		}
	}
	for m := range given {
		if !used[m] {
			t.Errorf("README.md gives a reason for %s, which nothing imports", m)
		}
	}
}

// usedModules are the modules that our code imports or runs as tools.
func usedModules(t *testing.T) map[string]bool {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(rootDir, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	mod, err := modfile.Parse("go.mod", text, nil)
	if err != nil {
		t.Fatal(err)
	}
	var modules []string
	for _, r := range mod.Require {
		modules = append(modules, r.Mod.Path)
	}
	slices.SortFunc(modules, func(a, b string) int { return len(b) - len(a) }) // the longest that fits is the one
	used := map[string]bool{}
	note := func(path string) {
		if i := slices.IndexFunc(modules, func(m string) bool { return within(path, m) }); i >= 0 {
			used[modules[i]] = true
		}
	}
	for _, tool := range mod.Tool {
		note(tool.Path)
	}
	for _, f := range allSources(t) {
		for _, imp := range f.ast.Imports {
			path, err := strconv.Unquote(imp.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			if first, _, _ := strings.Cut(path, "/"); strings.Contains(first, ".") {
				note(path)
			}
		}
	}
	return used
}
