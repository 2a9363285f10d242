package archtest

import (
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"wolffia/internal/test/doctable"
)

// TestTablesOfPackages: each package has a row with the first sentence of its comment
// and what it may import, in ARCHITECTURE.md or docs/packages.md.
func TestTablesOfPackages(t *testing.T) {
	rows := map[string]string{}
	comments := packageComments(t)
	for _, pkg := range slices.Sorted(maps.Keys(comments)) {
		sentence, err := firstSentence(pkg, comments[pkg])
		if err != nil {
			t.Errorf("package comment of %s: %v", pkg, err)
		}
		document := documentOf(pkg)
		rows[document] += fmt.Sprintf("| `%s` | %s | %s |\n", pkg, sentence, mayImport(pkg))
	}
	for document, body := range rows {
		doctable.Check(t, filepath.Join(root, document), "packages", "| package | what it does | may import |\n| --- | --- | --- |\n"+body)
	}
}

// documentOf is the document with a package's row: the packages of the product that
// are rooms of the house are in ARCHITECTURE.md.
func documentOf(pkg string) string {
	shared := []string{"internal/host/boot", "internal/host/rootfs", "internal/host/statedir"}
	parts := []string{ // of a room
		"local/pool",
		"keeper/mark",
		"shim/prefetch",
		"fusefs/device",
		"fusefs/backing",
		"local/conns",
		"local/kept",
		"local/defaults",
		"perm/plainyaml",
		"service/container",
		"service/container/files",
		"service/container/view",
		"service/e2b/envd",
		"service/e2b/fault",
		"service/e2b/steps",
		"service/meter",
		"service/port",
		"service/quota",
		"session/dialect",
	}
	switch {
	case slices.Contains(shared, pkg):
	case slices.Contains(parts, pkg), strings.HasPrefix(pkg, "internal/"), strings.HasPrefix(pkg, "cmd/wolffia/internal/"), slices.Contains(exempt, pkg), pkg == "docs", strings.HasSuffix(pkg, "test"):
		return "docs/packages.md"
	}
	return "ARCHITECTURE.md"
}

// packageComments returns the comment of each package of this module, by its
// directory. One without a comment has an empty one.
func packageComments(t *testing.T) map[string]string {
	t.Helper()
	comments := map[string]string{}
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == ".git" || d.Name() == ".cache" || d.Name() == "testdata"):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go"):
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.PackageClauseOnly|parser.ParseComments)
		if err != nil {
			return err
		}
		pkg, err := filepath.Rel(root, filepath.Dir(file))
		if err != nil {
			return err
		}
		if pkg = filepath.ToSlash(pkg); len(comments[pkg]) == 0 {
			comments[pkg] = commentOf(f)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(comments) < 40 {
		t.Errorf("only %d packages were found", len(comments))
	}
	return comments
}

func commentOf(f *ast.File) string {
	if f.Doc == nil {
		return ""
	}
	return f.Doc.Text()
}

// firstSentence returns what a package does: the first sentence of its comment,
// without the package's name. A package does one thing: the sentence has no "and", but
// in a list behind a colon.
func firstSentence(pkg, comment string) (string, error) {
	sentence := new(doc.Package).Synopsis(comment)
	rest, found := strings.CutPrefix(strings.TrimPrefix(sentence, "Package "), filepath.Base(pkg)+" ")
	if !found {
		name := filepath.Base(pkg) // a program's comment begins with its name as a word
		rest, found = strings.CutPrefix(sentence, strings.ToUpper(name[:1])+name[1:]+" ")
	}
	switch {
	case !found || !strings.HasSuffix(rest, "."):
		return sentence, fmt.Errorf("want a first sentence that begins with the package's name: %q", sentence)
	case strings.Contains(strings.Split(rest, ":")[0], " and "):
		return rest, fmt.Errorf("want a first sentence without \"and\": %q", sentence)
	case len(rest) > 120:
		return rest, fmt.Errorf("want a first sentence of at most 120 bytes: %q", sentence)
	}
	return strings.NewReplacer("|", `\|`, "[", "`", "]", "`").Replace(strings.TrimSuffix(rest, ".")), nil
}

// mayImport is a package's cell of what [allow] lets it import.
func mayImport(pkg string) string {
	list := allow[pkg]
	if len(list) == 0 {
		return ""
	}
	if slices.Contains(list, "...") {
		return "all"
	}
	return strings.Join(slices.Sorted(slices.Values(list)), ", ")
}

// Every package that a rule names exists.
func TestRulesNamePackages(t *testing.T) {
	comments := packageComments(t)
	for pkg, list := range allow {
		for _, p := range append([]string{pkg}, list...) {
			if _, exists := comments[p]; !exists && !strings.HasSuffix(p, "*") && p != "..." {
				t.Errorf("the rule of %s names %s, which is not a package", pkg, p)
			}
		}
	}
}
