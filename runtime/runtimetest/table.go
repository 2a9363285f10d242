package runtimetest

import (
	"cmp"
	"os"
	"slices"
	"strings"
	"testing"
)

// CheckTable checks that a document's table of features, of which each row begins with a Feature
// in backquotes, says of the named runtime what the suite has checked: yes, or no, and more after
// it. A feature without a row is one that all runtimes have.
func CheckTable(t *testing.T, file, name string, lacks []Feature) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	column := -1
	said := map[Feature]string{}
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(line, "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if len(cells) < 3 {
			continue
		}
		if i := slices.Index(cells, name); cells[1] == "feature" && i > 0 {
			column = i
		}
		if f := strings.Trim(cells[1], "`"); column > 0 && column < len(cells) && "`"+f+"`" == cells[1] {
			said[Feature(f)] = cells[column]
		}
	}
	if column < 0 {
		t.Fatalf("%s has no table of features with a column %s", file, name)
	}
	for f := range probes {
		want := "yes"
		if slices.Contains(lacks, f) {
			want = "no"
		}
		if word, _, _ := strings.Cut(cmp.Or(said[f], "yes")+" ", " "); strings.Trim(word, ",:;.") != want {
			t.Errorf("%s says of %s in the row %s: %q, want %s", file, name, f, said[f], want)
		}
	}
}
