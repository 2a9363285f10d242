package fields

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the tables in docs/cli.md and docs/configuration.md")

// TestDocs checks that the documents have the tables of this package.
func TestDocs(t *testing.T) {
	for file, table := range map[string]string{"../docs/cli.md": flagTable(), "../docs/configuration.md": boundTable()} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		const begin, end = "<!-- settings: go test ./fields -update -->\n", "<!-- end of settings -->"
		before, rest, ok1 := strings.Cut(string(text), begin)
		_, after, ok2 := strings.Cut(rest, end)
		if !ok1 || !ok2 {
			t.Fatalf("%s lacks %s", file, begin)
		}
		want := before + begin + table + end + after
		switch {
		case want == string(text):
		case !*update:
			t.Errorf("%s differs from the table of settings: go test ./fields -update", file)
		default:
			if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// cell makes text fit into a cell of a table.
func cell(text string) string { return strings.ReplaceAll(text, "|", "\\|") }

// flagTable has the flags of the commands that make sandboxes.
func flagTable() string {
	var b strings.Builder
	b.WriteString("| flag | of | |\n| --- | --- | --- |\n")
	for _, g := range Groups() {
		for i := range Table {
			f := &Table[i]
			if f.Group != g || f.On&(sandbox|Serve)&^f.Hidden == 0 {
				continue
			}
			name := "`--" + f.Name + "`"
			if f.Letter != "" {
				name = "`-" + f.Letter + "`, " + name
			}
			help := f.Help
			if f.Default != "" {
				help += " (default " + f.Default + ")"
			}
			fmt.Fprintf(&b, "| %s | %s | %s |\n", name, onText(f.On&^f.Hidden), cell(help))
		}
	}
	return b.String()
}

// onText names commands.
func onText(on Command) string {
	var has, lacks []string
	for _, c := range []struct {
		is   Command
		name string
	}{{Run, "run"}, {Create, "create"}, {Shell, "shell"}, {MCP, "mcp"}, {Pooling, "pool start"}, {Serve, "serve"}} {
		if on&c.is != 0 {
			has = append(has, c.name)
		} else {
			lacks = append(lacks, c.name)
		}
	}
	switch {
	case len(lacks) == 0:
		return "all"
	case len(lacks) < len(has):
		return "not " + strings.Join(lacks, ", ")
	}
	return strings.Join(has, ", ")
}

// boundTable says what a project's file may set. Keys of which it may say the same are in one row.
func boundTable() string {
	var rows [][2]string
	for _, k := range Keys() {
		key, may := "`"+k.Key+"`", mayText(&k)
		if i := slices.IndexFunc(rows, func(r [2]string) bool { return r[1] == may }); i >= 0 {
			rows[i][0] += ", " + key
		} else {
			rows = append(rows, [2]string{key, may})
		}
	}
	var b strings.Builder
	b.WriteString("| key | in a project's file |\n| --- | --- |\n")
	for _, r := range rows {
		fmt.Fprintf(&b, "| %s | %s |\n", r[0], cell(r[1]))
	}
	return b.String()
}

func mayText(k *Field) string {
	b := k.Bound
	switch {
	case b.Note != "":
		return b.Note
	case b.How == Deny && b.Because != "":
		return "needs `allow`: " + b.Because
	case b.How == Never:
		return "never"
	case b.How == Free:
		return "anything"
	case b.How == Most:
		return "not more than yours; the value `0` means no limit. If you have set none: any"
	case b.How == Same && b.Refuse != "":
		return fmt.Sprintf("yours. Without yours: any, but `%s` needs `allow`: %s", b.Refuse, b.Because)
	case b.How == Same:
		return "yours. Without yours: any"
	case b.How == Ranked:
		return fmt.Sprintf("your value or one before it: `%s`. Without yours: up to `%s`", strings.Join(k.Order(), "`, `"), b.Normal)
	}
	return "needs `allow`"
}
