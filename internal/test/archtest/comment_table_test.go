package archtest

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/constant"
	"go/token"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"wolffia/internal/test/doctable"
)

// docLink is a link of a Go comment, such as [StartRequest].
var docLink = regexp.MustCompile(`\[([A-Z][\w.]*)\]`)

// commentCell makes comments of what has a name a cell of a table, without that name in front.
func commentCell(name string, comments ...*ast.CommentGroup) string {
	var all []string
	for _, c := range comments {
		if text := strings.Join(strings.Fields(c.Text()), " "); text != "" {
			all = append(all, text)
		}
	}
	text := strings.Join(all, " ")
	if rest, found := strings.CutPrefix(text, name+" "); found && !strings.HasPrefix(rest, "and ") {
		text = strings.TrimPrefix(strings.TrimPrefix(rest, "is "), "are ")
	}
	return doctable.Cell(docLink.ReplaceAllString(text, "`$1`"))
}

// constantTable is a table of a package's constants of one type, in the order of their numbers, with
// their comments. If the constants have comments at their line, a comment above one is a heading.
func constantTable(t *testing.T, pkg, kind string) string {
	t.Helper()
	values := map[string]string{}
	for _, c := range constants(t, pkg) {
		if strings.HasSuffix(c.Type().String(), "."+kind) && c.Exported() {
			values[c.Name()] = c.Val().ExactString()
		}
	}
	table := "| number | name | |\n| --- | --- | --- |\n"
	_, files := sources(t, pkg)
	rows := 0
	for _, f := range files {
		for _, decl := range f.Decls {
			group, ok := decl.(*ast.GenDecl)
			if !ok || group.Tok != token.CONST {
				continue
			}
			for _, spec := range group.Specs {
				v := spec.(*ast.ValueSpec)
				value, has := values[v.Names[0].Name]
				if !has {
					continue
				}
				rows++
				if v.Comment != nil && v.Doc != nil {
					table += fmt.Sprintf("| | | **%s** |\n", strings.TrimSuffix(commentCell("", v.Doc), "."))
					v.Doc = nil
				}
				text := commentCell(v.Names[0].Name, v.Doc, v.Comment)
				if text == "" {
					t.Errorf("%s.%s has no comment", pkg, v.Names[0].Name)
				}
				table += fmt.Sprintf("| %s | `%s` | %s |\n", value, v.Names[0].Name, text)
			}
		}
	}
	if rows == 0 || rows != len(values) {
		t.Errorf("package %s: %d rows for %d constants of type %s", pkg, rows, len(values), kind)
	}
	return table
}

// textTable is a table of a package's constants that are texts and whose names have a prefix, with
// their comments.
func textTable(t *testing.T, pkg, prefix string) string {
	t.Helper()
	values := map[string]string{}
	for _, c := range constants(t, pkg) {
		if strings.HasPrefix(c.Name(), prefix) && c.Val().Kind() == constant.String {
			values[c.Name()] = constant.StringVal(c.Val())
		}
	}
	table := "| text | |\n| --- | --- |\n"
	_, files := sources(t, pkg)
	for _, f := range files {
		ast.Inspect(f, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || values[spec.Names[0].Name] == "" {
				return true
			}
			table += fmt.Sprintf("| `%s` | %s |\n", values[spec.Names[0].Name], commentCell(spec.Names[0].Name+":", spec.Doc, spec.Comment))
			return true
		})
	}
	if len(values) < 5 {
		t.Errorf("package %s has the texts %v only", pkg, values)
	}
	return table
}

// fieldHeader begins a table of fieldRows.
const fieldHeader = "| in | field | |\n| --- | --- | --- |\n"

// fieldRows are the fields that types of a package have in JSON, with their comments. A field without a
// comment has only its name. A kind may be TYPE or TYPE:LABEL.
func fieldRows(t *testing.T, pkg string, kinds ...string) string {
	t.Helper()
	table := ""
	_, files := sources(t, pkg)
	for _, kind := range kinds {
		kind, label, _ := strings.Cut(kind, ":")
		label = cmp.Or(label, kind)
		fields := 0
		for _, f := range files {
			ast.Inspect(f, func(n ast.Node) bool {
				spec, ok := n.(*ast.TypeSpec)
				if !ok || spec.Name.Name != kind {
					return true
				}
				for _, field := range spec.Type.(*ast.StructType).Fields.List {
					if field.Tag == nil {
						continue
					}
					name, _, _ := strings.Cut(reflect.StructTag(strings.Trim(field.Tag.Value, "`")).Get("json"), ",")
					if name == "" || name == "-" {
						continue
					}
					fields++
					table += fmt.Sprintf("| %s | `%s` | %s |\n", label, name, commentCell(field.Names[0].Name, field.Doc, field.Comment))
				}
				return false
			})
		}
		if fields == 0 {
			t.Errorf("package %s has no type %s with fields in JSON", pkg, kind)
		}
	}
	return table
}
