package toolchain

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"wolffia/internal/test/doctable"
)

// TestDocs checks that docs/toolchains.md has the tables of this package.
func TestDocs(t *testing.T) {
	doctable.Check(t, "../docs/toolchains.md", "layouts", layoutTable())
	doctable.Check(t, "../docs/toolchains.md", "shapes", shapeTable())
}

// code joins names for a cell of a table.
func code(names []string) string { return doctable.Code(names, " ") }

func layoutTable() string {
	var b strings.Builder
	b.WriteString("| name | directory | entries of PATH | shown | set | never |\n| --- | --- | --- | --- | --- | --- |\n")
	for i := range layouts {
		l := &layouts[i]
		dir := "`" + l.Root + "`"
		if l.Var != "" {
			dir = "`$" + l.Var + "`, " + dir
		}
		var dirs, set []string
		for _, d := range l.Dirs {
			if d == "" {
				d = "."
			}
			dirs = append(dirs, d)
		}
		set = append(set, slices.Sorted(maps.Keys(l.Env))...)
		shown := code(l.Shows)
		if l.Also != "" {
			shown += ", and " + l.Also
		}
		if l.Refused != "" {
			shown = "nothing: " + l.Refused
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", l.Name, dir, code(dirs), shown, code(append(set, l.Pass...)), code(l.Never))
	}
	return b.String()
}

func shapeTable() string {
	var b strings.Builder
	b.WriteString("| name | contains | shown | set | never |\n| --- | --- | --- | --- | --- |\n")
	for i := range shapes {
		s := &shapes[i]
		var set []string
		set = append(set, slices.Sorted(maps.Keys(s.Env))...)
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", s.Name, code(s.Has), code(s.Shows), code(set), code(s.Never))
	}
	return b.String()
}
