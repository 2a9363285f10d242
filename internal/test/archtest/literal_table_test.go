package archtest

import (
	"fmt"
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"wolffia/internal/test/doctable"
)

// literalRows are rows of a table, sorted: one for each literal of a package that begins with a name
// of the given form and ends with a text, such as Tool{Name: "glob", Description: "Find files"}. The row
// has the text's first sentence.
func literalRows(t *testing.T, pkg string, form *regexp.Regexp) string {
	t.Helper()
	var rows []string
	_, files := sources(t, pkg)
	for _, f := range files {
		ast.Inspect(f, func(n ast.Node) bool {
			var first, last string
			switch n := n.(type) {
			case *ast.CompositeLit:
				first, last = ends(n.Elts)
			case *ast.CallExpr:
				first, last = ends(n.Args)
			}
			if form.MatchString(first) && strings.HasSuffix(last, ".") {
				sentence, _, _ := strings.Cut(last, ". ")
				rows = append(rows, fmt.Sprintf("| `%s` | %s |\n", first, doctable.Cell(strings.TrimSuffix(sentence, "."))))
			}
			return true
		})
	}
	if len(rows) < 5 {
		t.Errorf("package %s has the literals %q only", pkg, rows)
	}
	slices.Sort(rows)
	return strings.Join(slices.Compact(rows), "")
}

// ends returns the text of the first of expressions, and the last text among the others; "" for
// none.
func ends(all []ast.Expr) (first, last string) {
	for i, e := range all {
		switch text := textOf(e); {
		case i == 0:
			first = text
		case text != "":
			last = text
		}
	}
	return first, last
}

// textOf returns the value of a text in quotes, or of several that are added; "" for anything else.
func textOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.KeyValueExpr:
		return textOf(e.Value)
	case *ast.BasicLit:
		if e.Kind == token.STRING {
			text, _ := strconv.Unquote(e.Value)
			return text
		}
	case *ast.BinaryExpr:
		return textOf(e.X) + textOf(e.Y)
	}
	return ""
}
