package cases

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// reports are how many there are in each section.
var reports = map[string]int{"A": 30, "B": 20, "C": 22, "D": 10, "E": 19, "S": 6}

var (
	testName   = regexp.MustCompile(`(?m)^func (Test\w+)\(t \*testing\.T\)`)
	reportName = regexp.MustCompile(`(?:^Test|^Test\w\d+And)([A-ES]\d+)(?:[A-Z_]|$)`)
	// provenBy is a row of README's table: reports, part, test, folder.
	provenBy = regexp.MustCompile("(?m)^\\| ([A-ES]\\d+(?:, [A-ES]\\d+)*) \\| [^|]+ \\| `(Test\\w+)` \\| `([\\w/]+)` \\|$")
)

func TestEveryReportHasATest(t *testing.T) {
	tests := map[string]bool{} // folder and name
	proven := map[string]bool{}
	root := filepath.Join("..", "..")
	must(t, filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		folder, err := filepath.Rel(root, filepath.Dir(path))
		for _, m := range testName.FindAllStringSubmatch(string(text), -1) {
			tests[filepath.ToSlash(folder)+" "+m[1]] = true
			for name := m[1]; ; {
				r := reportName.FindStringSubmatch(name)
				if r == nil {
					break
				}
				proven[r[1]] = true
				_, after, ok := strings.Cut(name, "And")
				if name = "Test" + after; !ok {
					break
				}
			}
		}
		return err
	}))
	readme, err := os.ReadFile(filepath.Join("..", "README.md"))
	must(t, err)
	for _, m := range provenBy.FindAllStringSubmatch(string(readme), -1) {
		if !tests[m[3]+" "+m[2]] {
			t.Errorf("interop/README.md names %s in %s for %s: there is no such test", m[2], m[3], m[1])
		}
		for r := range strings.SplitSeq(m[1], ", ") {
			proven[r] = true
		}
	}
	for section, n := range reports {
		for i := 1; i <= n; i++ {
			if r := fmt.Sprint(section, i); !proven[r] {
				t.Errorf("report %s has no test of its name and no row in interop/README.md", r)
			}
		}
	}
}
