package fields

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"wolffia/internal/test/doctable"
)

// TestDocs checks that the documents have the tables of this package.
func TestDocs(t *testing.T) {
	doctable.Check(t, "../docs/cli.md", "settings", flagTable())
	doctable.Check(t, "../docs/configuration.md", "settings", boundTable())
	doctable.Check(t, "../docs/pool.md", "settings", poolTable())
}

// poolTable says what each flag of create means for a sandbox of a pool.
func poolTable() string {
	var b strings.Builder
	b.WriteString("| flags | for a pooled sandbox |\n| --- | --- |\n")
	for _, means := range []struct {
		pool Pool
		text string
	}{
		{Shape, "a part of the shape: the pooled sandbox was started with the same value"},
		{Claim, "not a part of it: the pooled sandbox gets the value when it is claimed"},
		{Cold, "`pool start` refuses them, and a command with one starts its sandbox as without a pool"},
	} {
		var flags []string
		for _, f := range Of(Create) {
			if f.Record != "" && f.Pool == means.pool {
				flags = append(flags, "--"+f.Name)
			}
		}
		fmt.Fprintf(&b, "| %s | %s |\n", doctable.Code(flags, ", "), means.text)
	}
	return b.String()
}

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
			fmt.Fprintf(&b, "| %s | %s | %s |\n", name, onText(f.On&^f.Hidden), doctable.Cell(help))
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
		fmt.Fprintf(&b, "| %s | %s |\n", r[0], doctable.Cell(r[1]))
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
