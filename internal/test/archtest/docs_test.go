package archtest

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"wolffia/internal/test/doctable"
)

const root = "../../.."

// read returns a file of the repository.
func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// sources parses the files of a package, without its tests.
func sources(t *testing.T, pkg string) (*token.FileSet, []*ast.File) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(root, pkg, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	fset := token.NewFileSet()
	var files []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(fset, name, nil, parser.SkipObjectResolution|parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	if len(files) == 0 {
		t.Fatalf("package %s has no files", pkg)
	}
	return fset, files
}

// constants returns a package's constants. What depends on its imports is left out.
func constants(t *testing.T, pkg string) []*types.Const {
	t.Helper()
	fset, files := sources(t, pkg)
	conf := types.Config{Error: func(error) {}, Importer: none{}}
	checked, _ := conf.Check(pkg, fset, files, nil) // the imports are missing
	var all []*types.Const
	for _, name := range checked.Scope().Names() {
		if c, ok := checked.Scope().Lookup(name).(*types.Const); ok && c.Val().Kind() != constant.Unknown {
			all = append(all, c)
		}
	}
	return all
}

type none struct{}

func (none) Import(path string) (*types.Package, error) { return nil, fmt.Errorf("no %s", path) }

// jsonNames returns the names of all fields that a package has in JSON, but those of
// the types that are left out.
func jsonNames(t *testing.T, pkg string, without ...string) []string {
	t.Helper()
	var names []string
	_, files := sources(t, pkg)
	for _, f := range files {
		ast.Inspect(f, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if ok && slices.Contains(without, spec.Name.Name) {
				return false
			}
			field, ok := n.(*ast.Field)
			if !ok || field.Tag == nil {
				return true
			}
			m := regexp.MustCompile(`json:"([\w]+)`).FindStringSubmatch(field.Tag.Value)
			if m != nil {
				names = append(names, m[1])
			}
			return true
		})
	}
	if len(names) == 0 {
		t.Errorf("package %s has nothing in JSON", pkg)
	}
	return names
}

// mentions reports whether a document has a name as a word of its own.
func mentions(document, name string) bool {
	return regexp.MustCompile(`(^|[^\w.-])` + regexp.QuoteMeta(name) + `($|[^\w-])`).MatchString(document)
}

// TestWireIsSpecified: docs/wire.md has each frame and each operation by its number, each
// bound by its value, and each field and word of the messages; and none that is not there.
func TestWireIsSpecified(t *testing.T) {
	const page = root + "/docs/wire.md"
	doctable.Check(t, page, "frames", constantTable(t, "wire", "Type"))
	doctable.Check(t, page, "operations", constantTable(t, "wire", "SessionOp"))
	doctable.Check(t, page, "sockets", constantTable(t, "wire", "NetOp"))
	doctable.Check(t, page, "requests", textTable(t, "internal/host/boot", "Op")+"\n"+fieldHeader+fieldRows(t, "internal/host/boot", "Request", "Reply"))
	doctable.Check(t, page, "results", fieldHeader+fieldRows(t, "wire", "ExitStatus", "Failure"))
	doctable.Check(t, page, "infos", fieldHeader+fieldRows(t, "wire", "SessionInfo", "TerminalInfo", "JobInfo", "LeftPath"))
	document := read(t, "docs/wire.md")
	numbered := map[string]bool{}
	for _, c := range constants(t, "wire") {
		value := c.Val().ExactString()
		switch kind := c.Type().String(); {
		case strings.HasPrefix(c.Name(), "flag") && !strings.HasSuffix(c.Name(), "End"):
			flag := strings.TrimPrefix(c.Name(), "flag")
			numbered[flag] = true
			if !strings.Contains(document, "| "+value+" | `"+flag+"` |") {
				t.Errorf("docs/wire.md has no row of the flag %s, %s", flag, value)
			}
		case !c.Exported():
		case strings.HasSuffix(kind, ".Type"), strings.HasSuffix(kind, ".SessionOp"), strings.HasSuffix(kind, ".NetOp"):
			numbered[c.Name()] = true
			if !strings.Contains(document, "| "+value+" | `"+c.Name()+"` |") && !strings.Contains(document, "type "+value+", `"+c.Name()+"`") {
				t.Errorf("docs/wire.md has no row of %s, number %s", c.Name(), value)
			}
		case c.Val().Kind() == constant.String:
			if word := constant.StringVal(c.Val()); !strings.Contains(document, "`"+word+"`") {
				t.Errorf("docs/wire.md does not mention %s, %q", c.Name(), word)
			}
		case c.Name() == "FromEnd": // 2^64-1
		case !mentions(document, c.Name()) || !mentions(document, value):
			t.Errorf("docs/wire.md does not have %s with its value %s", c.Name(), value)
		}
	}
	for _, m := range regexp.MustCompile("(?m)^\\| \\d+ \\| `([A-Z]\\w+)` \\| .*\\| ").FindAllStringSubmatch(document, -1) {
		if !numbered[m[1]] {
			t.Errorf("docs/wire.md has a row of %s, which package wire does not have", m[1])
		}
	}
	for _, name := range jsonNames(t, "wire") {
		if !mentions(document, name) {
			t.Errorf("docs/wire.md does not mention the field %q", name)
		}
	}
}

// TestStateIsSpecified: docs/state.md has each file of the state directory and each field
// in it.
func TestStateIsSpecified(t *testing.T) {
	doctable.Check(t, root+"/docs/state.md", "config", fieldHeader+
		fieldRows(t, "internal/host/statedir", "Config")+
		fieldRows(t, "runtime", "SandboxConfig", "Mount", "VolumeMount", "Publish", "Expose", "Socket", "Resources", "GitConfig", "DockerConfig")+
		fieldRows(t, "network", "Policy", "Header")+
		fieldRows(t, "perm", "Rule"))
	doctable.Check(t, root+"/docs/state.md", "records", fieldHeader+
		fieldRows(t, "internal/host/statedir", "Lifetime:lifetime.json", "Process:shim.json", "shimRecord:shim.json", "Status:status.json", "PooledRecord:pooled.json",
			"Codebase:codebases/HASH.json", "Trust:trust/HASH.json")+
		fieldRows(t, "runtime", "LimitsState:limits.json")+
		fieldRows(t, "image/store", "Name:images/names.json", "Image:images/HEX/image.json", "IDs:its ids", "Owned:images/HEX/owners")+
		fieldRows(t, "volume", "Volume:volumes/NAME/volume.json")+
		fieldRows(t, "local/pool", "record:pools/SHAPE.json")+
		fieldRows(t, "service/registry", "Owner:registry.db", "Metadata:registry.db"))
	document := read(t, "docs/state.md")
	for _, pkg := range []string{"internal/host/statedir", "image/store", "service/registry", "volume"} {
		for _, name := range fileNames(t, pkg) {
			if !mentions(document, name) && !strings.Contains(document, name) {
				t.Errorf("docs/state.md does not mention the file %q of package %s", name, pkg)
			}
		}
	}
	for pkg, fields := range map[string][]string{
		"internal/host/statedir": jsonNames(t, "internal/host/statedir"),
		"service/registry":       jsonNames(t, "service/registry"),
		"image/store":            jsonNames(t, "image/store", "description"), // an image's own configuration
		"volume":                 jsonNames(t, "volume"),
		"perm":                   jsonNamesOf(t, "perm", "Rule"),
		"runtime":                jsonNamesOf(t, "runtime", "SandboxConfig", "Mount", "VolumeMount", "Resources", "DockerConfig", "LimitsState"),
	} {
		for _, name := range fields {
			if !mentions(document, name) {
				t.Errorf("docs/state.md does not mention the field %q of package %s", name, pkg)
			}
		}
	}
	for _, bucket := range []string{"metaBucket", "sandboxesBucket", "reservedBucket", "versionKey"} {
		if word := bytesOf(t, "service/registry", bucket); !mentions(document, word) {
			t.Errorf("docs/state.md does not mention %s, %q", bucket, word)
		}
	}
	for part, name := range map[int64]string{0: "shimPart", 1: "treePart", 2: "configPart", 3: "callerPart"} {
		if !slices.ContainsFunc(constants(t, "internal/host/statedir"), func(c *types.Const) bool {
			return c.Name() == name && c.Val().ExactString() == strconv.FormatInt(part, 10)
		}) {
			t.Errorf("docs/state.md has byte %d of a sandbox's lock as %s", part, name)
		}
	}
}

// bytesOf returns the text of a package's variable that is []byte("text").
func bytesOf(t *testing.T, pkg, name string) (text string) {
	t.Helper()
	_, files := sources(t, pkg)
	for _, f := range files {
		ast.Inspect(f, func(n ast.Node) bool {
			if v, ok := n.(*ast.ValueSpec); ok && v.Names[0].Name == name {
				text, _ = strconv.Unquote(v.Values[0].(*ast.CallExpr).Args[0].(*ast.BasicLit).Value)
			}
			return true
		})
	}
	if text == "" {
		t.Errorf("package %s has no variable %s with a text", pkg, name)
	}
	return text
}

// jsonNamesOf is jsonNames of some types only.
func jsonNamesOf(t *testing.T, pkg string, only ...string) []string {
	t.Helper()
	var others []string
	_, files := sources(t, pkg)
	for _, f := range files {
		ast.Inspect(f, func(n ast.Node) bool {
			if spec, ok := n.(*ast.TypeSpec); ok && !slices.Contains(only, spec.Name.Name) {
				others = append(others, spec.Name.Name)
			}
			return true
		})
	}
	return jsonNames(t, pkg, others...)
}

// fileNames returns the names of files in a package: string constants, and literals
// that are joined to a path.
func fileNames(t *testing.T, pkg string) []string {
	t.Helper()
	isName := regexp.MustCompile(`^[a-z][a-z.]*[a-z]$`)
	var names []string
	add := func(e ast.Expr) {
		if lit, ok := e.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			if name, err := strconv.Unquote(lit.Value); err == nil && isName.MatchString(name) {
				names = append(names, name)
			}
		}
	}
	_, files := sources(t, pkg)
	for _, f := range files {
		ast.Inspect(f, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			if sel, ok := call.Fun.(*ast.SelectorExpr); ok && sel.Sel.Name == "Join" && isIdent(sel.X, "filepath") {
				for _, arg := range call.Args {
					add(arg)
				}
			}
			return true
		})
		for _, decl := range f.Decls {
			if gen, ok := decl.(*ast.GenDecl); ok && gen.Tok == token.CONST {
				for _, spec := range gen.Specs {
					v := spec.(*ast.ValueSpec)
					for i, id := range v.Names {
						if i < len(v.Values) && regexp.MustCompile(`(?i)file|dir|log|socket`).MatchString(id.Name) {
							add(v.Values[i])
						}
					}
				}
			}
		}
	}
	if len(names) < 2 {
		t.Errorf("package %s has the files %q only", pkg, names)
	}
	return names
}

// TestInterfacesAreListed: the pages have the fields of audit logs, the metrics of the service and the tools of MCP.
func TestInterfacesAreListed(t *testing.T) {
	doctable.Check(t, root+"/docs/cli.md", "denials", fieldHeader+fieldRows(t, "fusefs/audit", "Record:a line", "Host:its host"))
	doctable.Check(t, root+"/docs/operating.md", "metrics", "| metric | |\n| --- | --- |\n"+
		literalRows(t, "service/meter", regexp.MustCompile(`^wolffia_\w+$`)))
	doctable.Check(t, root+"/docs/mcp.md", "tools", "| tool | |\n| --- | --- |\n"+literalRows(t, "mcp", regexp.MustCompile(`^[a-z]+(_[a-z]+)*$`)))
}

// TestDescriptorsAreListed: ARCHITECTURE.md has each descriptor that a shim is started with.
func TestDescriptorsAreListed(t *testing.T) {
	table, rows := "| fd | name | |\n| --- | --- | --- |\n", 0
	_, files := sources(t, "internal/host/boot")
	for _, f := range files {
		ast.Inspect(f, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || !strings.HasPrefix(spec.Names[0].Name, "FD") || spec.Comment == nil {
				return true
			}
			rows++
			table += fmt.Sprintf("| %s | `%s` | %s |\n", spec.Values[0].(*ast.BasicLit).Value,
				strings.ToLower(strings.TrimPrefix(spec.Names[0].Name, "FD")), commentCell("", spec.Comment))
			return true
		})
	}
	if rows < 5 {
		t.Errorf("package boot has %d descriptors with comments", rows)
	}
	doctable.Check(t, filepath.Join(root, "ARCHITECTURE.md"), "descriptors", table)
}

// TestArchitectureIsShort: it is a map, which is read at once.
func TestArchitectureIsShort(t *testing.T) {
	if n := strings.Count(read(t, "ARCHITECTURE.md"), "\n"); n > 200 {
		t.Errorf("ARCHITECTURE.md has %d lines, 200 are the most: move what is a reason to docs/decisions", n)
	}
}

// TestDecisions: each page has the form of the others, and a line in the index.
func TestDecisions(t *testing.T) {
	index := read(t, "docs/decisions/README.md")
	pages, err := filepath.Glob(filepath.Join(root, "docs/decisions/[0-9]*.md"))
	if err != nil || len(pages) == 0 {
		t.Fatal("no decisions", err)
	}
	for i, page := range pages {
		name := filepath.Base(page)
		if want := fmt.Sprintf("%02d-", i+1); !strings.HasPrefix(name, want) {
			t.Errorf("%s: want the number %s", name, want)
		}
		text := read(t, "docs/decisions/"+name)
		if n := len(strings.Fields(text)); n > 220 {
			t.Errorf("%s has %d words, 220 are the most: what concerns one file is in that file's comment", name, n)
		}
		title, rest, _ := strings.Cut(text, "\n")
		for _, heading := range []string{"\n## Objective\n", "\n## Decision\n", "\n## Consequences\n"} {
			_, after, found := strings.Cut(rest, heading)
			if !found {
				t.Errorf("%s: no %q, in that order", name, strings.TrimSpace(heading))
			}
			rest = after
		}
		if line := fmt.Sprintf("- [%s](%s)\n", strings.TrimPrefix(title, "# "), name); !strings.Contains(index, line) {
			t.Errorf("docs/decisions/README.md has no line %q", line)
		}
	}
	if n := strings.Count(index, "\n- ["); n != len(pages) {
		t.Errorf("docs/decisions/README.md has %d lines for %d pages", n, len(pages))
	}
}

var (
	links      = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	headings   = regexp.MustCompile(`(?m)^#+ (.*)$`)
	codeFiles  = regexp.MustCompile("`([a-z][a-z/]*/[a-z_]+\\.go)`")
	codeBlocks = regexp.MustCompile("(?ms)^ *```.*?^ *```$")
	dropped    = regexp.MustCompile(`[^a-z0-9 _-]`)
)

// anchors returns the names of a document's headings, as GitHub makes them.
func anchors(text string) []string {
	var all []string
	for _, m := range headings.FindAllStringSubmatch(codeBlocks.ReplaceAllString(text, ""), -1) {
		all = append(all, strings.ReplaceAll(dropped.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-"))
	}
	return all
}

// TestLinksOfDocuments: what a document links to in this repository exists, and so do the
// source files that it names.
func TestLinksOfDocuments(t *testing.T) {
	seen := 0
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && file != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata"):
			return fs.SkipDir
		case !strings.HasSuffix(file, ".md"):
			return nil
		}
		text, err := os.ReadFile(file)
		for _, m := range codeFiles.FindAllStringSubmatch(string(text), -1) {
			seen++
			if _, err := os.Stat(filepath.Join(root, m[1])); err != nil {
				t.Errorf("%s names the file %s, which does not exist", file, m[1])
			}
		}
		for _, m := range links.FindAllStringSubmatch(codeBlocks.ReplaceAllString(string(text), ""), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			seen++
			name, anchor, _ := strings.Cut(m[1], "#")
			target := file
			if name != "" {
				target = filepath.Join(filepath.Dir(file), name)
			}
			there, rerr := os.ReadFile(target)
			if _, serr := os.Stat(target); serr != nil {
				t.Errorf("%s: the link %s leads nowhere", file, m[1])
			} else if anchor != "" && (rerr != nil || !slices.Contains(anchors(string(there)), anchor)) {
				t.Errorf("%s: the link %s leads to no heading", file, m[1])
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if seen < 100 {
		t.Errorf("only %d links and files were found", seen)
	}
}
