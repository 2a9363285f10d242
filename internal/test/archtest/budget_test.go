package archtest

import (
	"go/ast"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

// Budgets keep the house from growing unseen. A commit that raises one says why; one that has made something smaller
// lowers it, which [slack] demands.
var (
	// maxLines are lines of Go without tests, in packages that are larger than defaultLines.
	maxLines = map[string]int{
		"service/e2b":                       2700,
		"cmd/wolffia":                       6065,
		"fusefs":                            10860,
		"fusefs/cow":                        5650,
		"guest":                             3410,
		"service/e2b/envd":                  2050,
		"internal/host/gateway":             2870,
		"internal/git/gitsync":              4600,
		"internal/host/statedir":            3000,
		"internal/host/rootfs":              2830,
		"internal/filecall":                 2130,
		"local":                             7040,
		"image/store":                       2540,
		"mcp":                               3300,
		"perm":                              3745,
		"policy":                            2100,
		"runtime":                           2460,
		"cmd/wolffia/internal/sandboxflags": 2050,
		"service":                           4830,
		"service/opensandbox":               3410,
		"service/console":                   2702, // an API of forty calls
		"cmd/wolffia/internal/serving":      2300,
		"service/server":                    2440,
		"session":                           6293,
		"shim":                              5460,
	}
	// maxFiles are files without tests, in packages that have more than defaultFiles. Most files of
	// fusefs need each other: a request needs its node's name, level, halves and git directory at
	// once. What needs less is in the packages below it.
	maxFiles = map[string]int{"fusefs": 61}
)

const (
	defaultFiles = 40
	defaultLines = 2000
	maxMethods   = 61     // methods of a type
	maxProduct   = 168330 // lines of Go of the product
	maxColumns   = 120
	maxWide      = 1718 // lines with more
)

// slack is how much smaller than its budget something may be, in percent.
const slack = 5

// within checks that n is at most a budget, and not much less.
func within(t *testing.T, what string, n, budget int) {
	t.Helper()
	switch {
	case n > budget:
		t.Errorf("%s: %d, the budget is %d: make it smaller, or raise the budget and say why", what, n, budget)
	case n < budget-budget*slack/100-1:
		t.Errorf("%s: %d, the budget is %d: lower it", what, n, budget)
	}
}

// isProduct reports whether a package is a part of the product: not a suite, nor what tests alone use.
func isProduct(pkg string) bool {
	return !strings.HasPrefix(pkg, "internal/test/") && pkg != "bench" && pkg != "runtime/mock" && !strings.HasSuffix(pkg, "test")
}

func TestBudgets(t *testing.T) {
	lines, files, wide, product := make(map[string]int), make(map[string]int), 0, 0
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == ".git" || d.Name() == ".cache" || d.Name() == "testdata") {
			return fs.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(file, ".go") {
			return nil
		}
		pkg, err := filepath.Rel(root, filepath.Dir(file))
		if err != nil {
			return err
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		own := isProduct(pkg) && !strings.HasSuffix(file, "_test.go")
		if own {
			files[pkg]++
		}
		for line := range strings.Lines(string(text)) {
			if utf8.RuneCountInString(strings.ReplaceAll(strings.TrimSuffix(line, "\n"), "\t", "    ")) > maxColumns && own {
				wide++
			}
			if own {
				lines[pkg]++
				product++
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for pkg, n := range lines {
		if budget, large := maxLines[pkg]; large {
			within(t, "lines of "+pkg, n, budget)
		} else if n > defaultLines {
			within(t, "lines of "+pkg, n, defaultLines)
		}
		if budget, large := maxFiles[pkg]; large {
			within(t, "files of "+pkg, files[pkg], budget)
		} else if files[pkg] > defaultFiles {
			within(t, "files of "+pkg, files[pkg], defaultFiles)
		}
		methods := make(map[string]int)
		_, parsed := sources(t, pkg)
		for _, f := range parsed {
			for _, decl := range f.Decls {
				if m, is := decl.(*ast.FuncDecl); is && m.Recv != nil {
					methods[pkg+"."+receiver(m)]++
				}
			}
		}
		for name, n := range methods {
			if n > maxMethods {
				within(t, "methods of "+name, n, maxMethods)
			}
		}
	}
	within(t, "lines of the product", product, maxProduct)
	within(t, "lines of the product with more than 120 columns", wide, maxWide)
}

// receiver returns the name of the type that a method belongs to.
func receiver(m *ast.FuncDecl) string {
	e := m.Recv.List[0].Type
	for {
		switch x := e.(type) {
		case *ast.StarExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.IndexListExpr:
			e = x.X
		case *ast.Ident:
			return x.Name
		default:
			return "?"
		}
	}
}
