package archtest

import (
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// generated, as a budget, is for a page that a program writes as a whole: its words are not counted.
const generated = -1

// maxWords are the words that a page may have, as wc -w counts them, without the tables that are written by
// tests. A page without a row fails the test: lower the row when the page gets shorter.
var maxWords = map[string]int{
	"ARCHITECTURE.md":       2166,
	"CHANGELOG.md":          7564,
	"CONTRIBUTING.md":       2196,
	"README.md":             2514,
	"SECURITY.md":           4972,
	"docs/README.md":        365,
	"docs/attack-matrix.md": generated,
	"docs/backends.md":      3099,
	"docs/cli.md":           5184,
	"docs/comparison.md":    1658,
	"docs/configuration.md": 1059,
	"docs/cow.md":           1524,
	"docs/decisions/01-one-package-per-process.md": 138,
	"docs/decisions/02-siblings.md":                175,
	"docs/decisions/03-locks.md":                   190,
	"docs/decisions/04-running-without-a-file.md":  167,
	"docs/decisions/05-root.md":                    162,
	"docs/decisions/06-dead-shim.md":               130,
	"docs/decisions/07-protocol.md":                173,
	"docs/decisions/08-timeouts.md":                162,
	"docs/decisions/09-lifetimes.md":               282,
	"docs/decisions/10-etc.md":                     163,
	"docs/decisions/11-rules-recorded.md":          131,
	"docs/decisions/12-git-tracked.md":             191,
	"docs/decisions/13-git-checked.md":             475,
	"docs/decisions/14-secrets.md":                 133,
	"docs/decisions/15-executed.md":                162,
	"docs/decisions/16-audit.md":                   175,
	"docs/decisions/17-fuse-loop.md":               479,
	"docs/decisions/18-cache-invalidation.md":      426,
	"docs/decisions/19-no-bind-mounts.md":          69,
	"docs/decisions/20-seccomp.md":                 136,
	"docs/decisions/21-guard.md":                   141,
	"docs/decisions/22-core-dumps.md":              96,
	"docs/decisions/23-host-sockets.md":            123,
	"docs/decisions/24-sessions.md":                191,
	"docs/decisions/25-shell-signals.md":           357,
	"docs/decisions/26-session-files.md":           133,
	"docs/decisions/27-operations.md":              107,
	"docs/decisions/28-separate-programs.md":       469,
	"docs/decisions/29-registry.md":                139,
	"docs/decisions/30-files-inside.md":            117,
	"docs/decisions/31-keeper.md":                  178,
	"docs/decisions/32-engine-scan.md":             108,
	"docs/decisions/33-docker-root.md":             135,
	"docs/decisions/34-gvisor-namespaces.md":       251,
	"docs/decisions/35-gvisor-patches.md":          174,
	"docs/decisions/36-filter-by-guest.md":         131,
	"docs/decisions/37-cgroups.md":                 147,
	"docs/decisions/38-limits-without-groups.md":   146,
	"docs/decisions/39-images.md":                  104,
	"docs/decisions/40-image-mounts.md":            169,
	"docs/decisions/41-bare-setup.md":              87,
	"docs/decisions/42-own-path.md":                274,
	"docs/decisions/43-static-filter.md":           343,
	"docs/decisions/44-one-file.md":                425,
	"docs/decisions/45-toolchains.md":              342,
	"docs/decisions/46-configuration.md":           370,
	"docs/decisions/47-denials.md":                 289,
	"docs/decisions/48-volumes.md":                 463,
	"docs/decisions/49-git-identity.md":            282,
	"docs/decisions/50-unattended.md":              346,
	"docs/decisions/51-queued.md":                  334,
	"docs/decisions/52-secret-names-inside.md":     456,
	"docs/decisions/53-names.md":                   565,
	"docs/decisions/54-mcp.md":                     418,
	"docs/decisions/55-opensandbox.md":             631,
	"docs/decisions/56-copy-on-write.md":           595,
	"docs/decisions/57-apply-and-git.md":           1256,
	"docs/decisions/58-worktrees.md":               543,
	"docs/decisions/59-throughput.md":              769,
	"docs/decisions/60-spares.md":                  1061,
	"docs/decisions/61-cold-start.md":              1955,
	"docs/decisions/62-faster-processes.md":        1073,
	"docs/decisions/63-direct-connections.md":      904,
	"docs/decisions/64-early-writeback.md":         316,
	"docs/decisions/65-timer-slack.md":             495,
	"docs/decisions/66-listing-ahead.md":           732,
	"docs/decisions/67-git-as-commits.md":          437,
	"docs/decisions/68-git-monitor.md":             751,
	"docs/decisions/README.md":                     672,
	"docs/filesystem.md":                           1925,
	"docs/first-hour.md":                           1460,
	"docs/git.md":                                  2389,
	"docs/images.md":                               834,
	"docs/limits.md":                               1092,
	"docs/mcp.md":                                  1462,
	"docs/network.md":                              1388,
	"docs/opensandbox.md":                          2263,
	"docs/packages.md":                             43,
	"docs/performance.md":                          6645,
	"docs/pool.md":                                 1270,
	"docs/ports.md":                                922,
	"docs/recipes/README.md":                       152,
	"docs/recipes/agent.md":                        637,
	"docs/recipes/ci.md":                           675,
	"docs/recipes/git.md":                          468,
	"docs/recipes/go.md":                           381,
	"docs/recipes/make.md":                         239,
	"docs/recipes/node.md":                         335,
	"docs/recipes/python.md":                       267,
	"docs/recipes/rust.md":                         209,
	"docs/recipes/server.md":                       302,
	"docs/rules.md":                                2799,
	"docs/service.md":                              2844,
	"docs/sessions.md":                             2249,
	"docs/state.md":                                3337,
	"docs/static.md":                               1412,
	"docs/toolchains.md":                           798,
	"docs/volumes.md":                              869,
	"docs/wire.md":                                 2975,
}

// maxDocuments is how many words all pages may have together.
const maxDocuments = 99661

// tables are the parts of a page that tests write: see package doctable.
var tables = regexp.MustCompile(`(?ms)^<!-- \w+: [^\n]* -->\n.*?^<!-- end of \w+ -->$`)

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
		n := len(strings.Fields(tables.ReplaceAllString(read(t, page), "")))
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
