package integrations

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var blocks = regexp.MustCompile("(?s)```[a-z]*\n(.*?)```")

// TestPage: each example of docs/use-from.md is one of a page, or of a package's, whose own test runs it.
func TestPage(t *testing.T) {
	docs := filepath.Join("..", "..", "..", "docs")
	read := func(path ...string) string {
		text, err := os.ReadFile(filepath.Join(path...))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	var of strings.Builder
	for _, page := range []string{"e2b.md", "mcp.md", "opensandbox.md", "swerex.md"} {
		of.WriteString(read(docs, page))
	}
	readmes, err := filepath.Glob(filepath.Join(packages, "*", "README.md"))
	if err != nil || len(readmes) == 0 {
		t.Fatal("no packages", err)
	}
	page := read(docs, "use-from.md")
	for _, file := range readmes {
		text := read(file)
		of.WriteString(text)
		if example := blocks.FindString(text); !strings.Contains(page, example) {
			t.Errorf("docs/use-from.md has no example of %s", file)
		}
	}
	all := blocks.FindAllStringSubmatch(page, -1)
	if len(all) < 9 {
		t.Errorf("docs/use-from.md has %d examples", len(all))
	}
	for _, block := range all {
		if !strings.Contains(of.String(), block[1]) {
			t.Errorf("docs/use-from.md has an example that no other page has, so that no test runs it:\n%s", block[1])
		}
	}
}

// example runs the example of a package's README, but for the call of a model.
func (p *python) example(t *testing.T, env ...string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(p.dir, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	example := blocks.FindStringSubmatch(string(text))
	if example == nil {
		t.Fatal("README.md has no example")
	}
	code := strings.Replace(example[1], "Runner.run_sync(", "dict(agent=", 1)
	out := p.run(t, append(env, "ANTHROPIC_API_KEY=none"), "-c", strings.Replace(code, `dict(agent=agent, "`, `dict(agent=agent, text="`, 1))
	if strings.Contains(code, "hello") && strings.TrimSpace(out) != "hello" {
		t.Errorf("the example of README.md: %q", out)
	}
}
