package toolchain

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the tables in docs/toolchains.md")

// TestDocs checks that docs/toolchains.md has the tables of this package.
func TestDocs(t *testing.T) {
	const file = "../docs/toolchains.md"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	want := string(text)
	for name, table := range map[string]string{"layouts": layoutTable(), "shapes": shapeTable()} {
		begin, end := "<!-- "+name+": go test ./toolchain -update -->\n", "<!-- end of "+name+" -->"
		before, rest, ok1 := strings.Cut(want, begin)
		_, after, ok2 := strings.Cut(rest, end)
		if !ok1 || !ok2 {
			t.Fatalf("%s lacks %s", file, begin)
		}
		want = before + begin + table + end + after
	}
	if want == string(text) {
		return
	}
	if !*update {
		t.Fatalf("%s differs from the tables in the code: go test ./toolchain -update", file)
	}
	if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}

// code joins names for a cell of a table.
func code(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return "`" + strings.Join(names, "` `") + "`"
}

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
