package tidy

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

const modulePath = "github.com/understudy-mq/understudy"

// file is one Go file of the tree.
type file struct {
	path string // from the root, with slashes
	dir  string // likewise
	test bool
	ast  *ast.File
	text string
}

// sources parses every Go file of the tree, once.
var sources = sync.OnceValues(func() ([]file, error) {
	var files []file
	root := os.DirFS(rootDir)
	err := fs.WalkDir(root, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if path != "." && (strings.HasPrefix(d.Name(), ".") || generated[path]) {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		text, err := fs.ReadFile(root, path)
		if err != nil {
			return err
		}
		parsed, err := parser.ParseFile(fset, path, text, parser.ParseComments)
		if err != nil {
			return err
		}
		files = append(files, file{
			path: path, dir: filepath.ToSlash(filepath.Dir(path)), test: strings.HasSuffix(path, "_test.go"),
			ast: parsed, text: string(text),
		})
		return nil
	})
	return files, err
})

var fset = token.NewFileSet()

// rootDir is the root of the tree, from this package's folder.
const rootDir = "../../.."

// generated are folders that the targets and a node make; git ignores them.
var generated = map[string]bool{"bin": true, "understudy-data": true}

func allSources(t *testing.T) []file {
	t.Helper()
	files, err := sources()
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func where(n ast.Node) token.Position { return fset.Position(n.Pos()) }
