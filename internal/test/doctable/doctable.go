// Package doctable compares the tables of documents with those that the code makes.
package doctable

import (
	"flag"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the tables of this package into the documents")

// Updating reports whether the test is to write what it would compare: the flag -update.
func Updating() bool { return *update }

// Check compares a table with the one that a document has between the lines "<!-- NAME: COMMAND -->" and
// "<!-- end of NAME -->". COMMAND is how the table is written: the test with -update, which writes want.
func Check(t *testing.T, file, name, want string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, begun := strings.Cut(string(text), "<!-- "+name+": ")
	command, rest, named := strings.Cut(rest, " -->\n")
	got, after, ended := strings.Cut(rest, "<!-- end of "+name+" -->")
	switch {
	case !begun || !named || !ended:
		t.Fatalf("%s has no table between the lines <!-- %s: COMMAND --> and <!-- end of %s -->", file, name, name)
	case got == want:
	case *update:
		before := strings.TrimSuffix(string(text), got+"<!-- end of "+name+" -->"+after)
		if err := os.WriteFile(file, []byte(before+want+"<!-- end of "+name+" -->"+after), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		for _, line := range differing(got, want) {
			t.Errorf("%s: %s", file, line)
		}
		t.Logf("%s writes the table", command)
	}
}

// Cell makes text fit into a cell of a table.
func Cell(text string) string { return strings.ReplaceAll(text, "|", "\\|") }

// Code joins names for a cell of a table, each as code.
func Code(names []string, between string) string {
	if len(names) == 0 {
		return ""
	}
	return "`" + strings.Join(names, "`"+between+"`") + "`"
}

// differing lists the lines that only one of two texts has.
func differing(got, want string) []string {
	lines := map[string]string{}
	for line := range strings.Lines(got) {
		lines[line] = "- "
	}
	for line := range strings.Lines(want) {
		if lines[line] != "" {
			delete(lines, line)
		} else {
			lines[line] = "+ "
		}
	}
	var list []string
	for _, line := range slices.Sorted(maps.Keys(lines)) {
		list = append(list, lines[line]+strings.TrimSpace(line))
	}
	if len(list) == 0 {
		list = []string{"the rows are in another order"}
	}
	return list
}
