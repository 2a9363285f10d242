package archtest

import (
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// generated, as a budget, is for a page that a program writes as a whole: its words are not
// counted.
const generated = -1

// maxWords are the words that a page may have, as wc -w counts them, without the tables and the
// transcripts that are written by tests. A page without a row fails the test: lower the row when the page gets shorter.
var maxWords = map[string]int{
	"ARCHITECTURE.md":                      1485,
	"CONTRIBUTING.md":                      1585,
	"README.md":                            977,
	"SCOPE.md":                             451,
	"SECURITY.md":                          3990,
	"integrations/deepagents/README.md":    169,
	"integrations/deepagents-js/README.md": 149,
	"integrations/harbor/README.md":        156,
	"integrations/inspect_ai/README.md":    166,
	"integrations/openai-agents/README.md": 160,
	"integrations/python/README.md":        225,
	"docs/README.md":                       285,
	"docs/attack-matrix.md":                generated,
	"docs/backends.md":                     1125,
	"docs/cli.md":                          1735,
	"docs/configuration.md":                844,
	"docs/cow.md":                          914,
	"docs/decisions/01-processes.md":       139,
	"docs/decisions/02-locks.md":           144,
	"docs/decisions/03-root.md":            158,
	"docs/decisions/04-protocol.md":        165,
	"docs/decisions/05-gate.md":            201,
	"docs/decisions/06-rules.md":           213,
	"docs/decisions/07-git.md":             198,
	"docs/decisions/08-copy-on-write.md":   191,
	"docs/decisions/09-static-filter.md":   187,
	"docs/decisions/10-sessions.md":        176,
	"docs/decisions/11-pools.md":           165,
	"docs/decisions/12-network.md":         181,
	"docs/decisions/13-mounts.md":          189,
	"docs/decisions/14-kernel.md":          196,
	"docs/decisions/15-keeper.md":          183,
	"docs/decisions/16-one-file.md":        186,
	"docs/decisions/17-front-ends.md":      198,
	"docs/decisions/18-root-inside.md":     220,
	"docs/decisions/19-kubernetes.md":      218,
	"docs/decisions/README.md":             215,
	"docs/e2b.md":                          890,
	"docs/docker.md":                       475,
	"docs/kubernetes.md":                   1170,
	"docs/faq.md":                          1093,
	"docs/filesystem.md":                   782,
	"docs/getting-started.md":              840,
	"docs/git.md":                          1190,
	"docs/images.md":                       1256,
	"docs/install.md":                      447,
	"docs/hosts.md":                        591,
	"docs/library.md":                      300,
	"docs/limits.md":                       598,
	"docs/mcp.md":                          736,
	"docs/network.md":                      1365,
	"docs/pause.md":                        920,
	"docs/opensandbox.md":                  1405,
	"docs/packages.md":                     2,
	"docs/performance.md":                  940,
	"docs/console.md":                      632,
	"docs/ask.md":                          1000,
	"docs/pool.md":                         505,
	"docs/recipes/README.md":               193,
	"docs/recipes/agent.md":                548,
	"docs/recipes/ci.md":                   912,
	"docs/recipes/git.md":                  378,
	"docs/recipes/go.md":                   300,
	"docs/recipes/images.md":               290,
	"docs/recipes/make.md":                 226,
	"docs/recipes/node.md":                 340,
	"docs/recipes/python.md":               190,
	"docs/recipes/rust.md":                 180,
	"docs/recipes/server.md":               350,
	"docs/rules.md":                        1780,
	"docs/operating.md":                    928,
	"docs/scale.md":                        935,
	"docs/service.md":                      1236,
	"docs/sessions.md":                     899,
	"docs/state.md":                        2676,
	"docs/use-from.md":                     452,
	"docs/static.md":                       718,
	"docs/code.md":                         344,
	"docs/swerex.md":                       398,
	"docs/toolchains.md":                   457,
	"docs/volumes.md":                      663,
	"docs/wire.md":                         1480,
}

// maxDocuments is how many words all pages may have together.
const maxDocuments = 51580

// written are the parts of a page that tests write: see packages doctable and transcript.
var written = regexp.MustCompile("(?ms)^<!-- \\w+: [^\n]* -->\n.*?^<!-- end of \\w+ -->$|^```console\n.*?^```$")

// TestWordsOfDocuments: each page of this repository is as short as it was promised to be.
func TestWordsOfDocuments(t *testing.T) {
	total, seen := 0, map[string]bool{}
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && file != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || d.Name() == "node_modules" || d.Name() == "dist"):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(file, ".md"):
			return nil
		}
		page, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		page = filepath.ToSlash(page)
		seen[page] = true
		budget, has := maxWords[page]
		n := len(strings.Fields(written.ReplaceAllString(read(t, page), "")))
		switch {
		case !has:
			t.Errorf("%s: has no budget: give it a row in maxWords", page)
		case budget == generated:
			return nil
		case n > budget:
			t.Errorf("%s: %d words, the budget is %d: make the page shorter, or raise the budget and say why", page, n, budget)
		}
		total += n
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for page := range maxWords {
		if !seen[page] {
			t.Errorf("%s: has a budget and does not exist: remove its row", page)
		}
	}
	if total > maxDocuments {
		t.Errorf("all pages: %d words, the budget is %d", total, maxDocuments)
	}
}

// maxCell is how many words a cell of a table may have: longer ones are not read. What needs more is a
// paragraph.
const maxCell = 25

// cellBreak divides the cells of a row: a bar that no backslash escapes.
var cellBreak = regexp.MustCompile(`(?:^|[^\\])\|`)

// TestCellsAreShort: no cell of a table has more than maxCell words, on a page that people write.
func TestCellsAreShort(t *testing.T) {
	rows := 0
	for page, budget := range maxWords {
		if budget == generated {
			continue
		}
		text := codeBlocks.ReplaceAllString(written.ReplaceAllString(read(t, page), ""), "")
		for line := range strings.Lines(text) {
			if !strings.HasPrefix(line, "|") {
				continue
			}
			rows++
			for _, cell := range cellBreak.Split(line, -1) {
				if n := len(strings.Fields(cell)); n > maxCell {
					t.Errorf("%s: a cell of %d words, %d are the most: make a paragraph of %q", page, n, maxCell, strings.TrimSpace(cell))
				}
			}
		}
	}
	if rows < 100 {
		t.Errorf("only %d rows of tables were found", rows)
	}
}
