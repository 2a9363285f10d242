package gitdiff

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"wolffia/internal/host/probe"
	"wolffia/internal/test/testbin"
	"wolffia/internal/test/testenv"
)

// An ownTest is a script of git's own tests, t/NAME.sh in its source.
type ownTest struct {
	name string
	// differs has, for what fails inside, a part of its title and the reason.
	differs map[string]string
}

// ownLimit is a guard against a hang: one script takes up to two minutes.
const ownLimit = 10 * time.Minute

// Git's own tests of the installed version say the same inside as outside. Their repositories are in the codebase, as git directories
// that the sandbox has made.
func TestGitsOwnTests(t *testing.T) {
	testenv.Soak(t, "git's own tests take half an hour")
	testenv.Need(t, probe.UserNamespaces, probe.Bubblewrap, probe.Fuse)
	testenv.Unprivileged(t)
	testenv.Tools(t, "git", "apt-get", "dpkg-source", "make", "gcc")
	h := newHost(t)
	script, err := filepath.Abs("testdata/gitstests.sh")
	if err != nil {
		t.Fatal(err)
	}
	cache := filepath.Join(h.home, "cache")
	if builds := os.Getenv("GOCACHE"); builds != "" {
		cache = filepath.Join(filepath.Dir(builds), "gitstests")
	}
	ctx, cancel := context.WithTimeout(t.Context(), ownLimit)
	defer cancel()
	fetch := h.command(ctx, h.home, "sh", script, cache)
	var said strings.Builder
	fetch.Env, fetch.Stderr = os.Environ(), &said
	at, err := fetch.Output()
	if err != nil {
		testenv.Lacks(t, "the source of git, and what builds it", err.Error()+"\n"+said.String())
	}
	top := filepath.Join(h.home, "top")
	if err := os.Mkdir(top, 0o755); err != nil {
		t.Fatal(err)
	}
	h.says(t, top, "cp", "-r", strings.TrimSpace(string(at)), "git")
	wolffia := filepath.Join(testbin.Dir(t), "wolffia")
	// The tests' home directory is in the codebase.
	h.says(t, top, wolffia, "create", "--name", "box", "--reveal", ".gitconfig=write")
	t.Cleanup(func() { h.says(t, top, wolffia, "rm", "-f", "box") })
	for _, own := range ownTests {
		t.Run(own.name, func(t *testing.T) {
			var results [2]string
			for i, side := range []string{"outside", "inside"} {
				args := []string{"sh", "-c", ownScript, "sh", side, own.name}
				if i == 1 {
					args = append([]string{wolffia, "exec", "box", "--"}, args...)
				}
				ctx, cancel := context.WithTimeout(t.Context(), ownLimit)
				defer cancel()
				out, err := h.command(ctx, top, args[0], args[1:]...).Output()
				if err != nil {
					t.Fatalf("%s: %v", side, err)
				}
				results[i] = own.expected(string(out), i == 1)
			}
			if !strings.Contains(results[0], "\n1..") {
				t.Fatalf("outside, it says %q", results[0])
			}
			if diff := cmp.Diff(results[0], results[1]); diff != "" {
				t.Errorf("-outside +inside:\n%s", diff)
			}
		})
	}
}

// ownScript runs the script $2 with its files in the directory $1, and prints its results.
const ownScript = `at=$PWD/$1; mkdir -p "$at"; cd git/t
GIT_TEST_INSTALLED=$(dirname "$(command -v git)") GIT_TEST_CHAIN_LINT=0 TEST_OUTPUT_DIRECTORY=$at sh "./$2.sh" --root="$at/trash" >"$at/out" 2>/dev/null
grep -E '^(ok|not ok|1\.\.)' "$at/out"; rm -rf "$at"`

// result is a line of a test's result.
var result = regexp.MustCompile(`(?m)^(?:not )?ok \d+ .*\n`)

// expected returns results without those that differ inside. A line that is to fail inside has to.
func (o *ownTest) expected(results string, inside bool) string {
	return result.ReplaceAllStringFunc(results, func(line string) string {
		for part := range o.differs {
			if strings.Contains(line, part) && (!inside || strings.HasPrefix(line, "not ok ") || strings.Contains(line, "# skip ")) {
				return ""
			}
		}
		return line
	})
}

// Reasons for a difference.
const (
	bare = "a bare repository cannot be made in the codebase"
	keys = "the rules hide private keys, and so gpg does not work"
)

// ownTests are of references, the index, commits, checkouts, merges, rebases, stashes, working trees and submodules.
var ownTests = []ownTest{
	{name: "t1401-symbolic-ref"},
	{name: "t1403-show-ref"},
	{name: "t1404-update-ref-errors"},
	{name: "t1410-reflog"},
	{name: "t1414-reflog-walk"},
	{name: "t1415-worktree-refs"},
	{name: "t1430-bad-ref-name"},
	{name: "t1600-index"},
	{name: "t1700-split-index"},
	{name: "t2004-checkout-cache-temp"},
	{name: "t2007-checkout-symlink"},
	{name: "t2012-checkout-last"},
	{name: "t2013-checkout-submodule"},
	{name: "t2018-checkout-branch"},
	{name: "t2020-checkout-detach"},
	{name: "t2060-switch"},
	{name: "t2070-restore"},
	{name: "t2200-add-update"},
	{name: "t2203-add-intent"},
	{name: "t2400-worktree-add", differs: map[string]string{"bare repo": bare, "local clone --shared from linked checkout": bare}},
	{name: "t2401-worktree-prune"},
	{name: "t2402-worktree-list", differs: map[string]string{"bare repo setup": bare, "bare main": bare}},
	{name: "t2403-worktree-move"},
	{name: "t2404-worktree-config"},
	{name: "t3200-branch", differs: map[string]string{
		"bare main worktree":                bare,
		"git branch -m with symlinked .git": "it makes a directory with HEAD, objects and refs beside .git",
	}},
	{name: "t3400-rebase"},
	{name: "t3418-rebase-continue"},
	{name: "t3420-rebase-autostash"},
	{name: "t3501-revert-cherry-pick"},
	{name: "t3903-stash"},
	{name: "t6030-bisect-porcelain", differs: map[string]string{"bisection on bare repo": bare}},
	{name: "t7102-reset"},
	{name: "t7201-co"},
	{name: "t7300-clean", differs: map[string]string{
		"almost look like git": "it makes what git on the host would take for a repository", "nested bare repositories should be cleaned": bare,
	}},
	{name: "t7501-commit-basic-functionality"},
	{name: "t7508-status"},
	{name: "t7600-merge", differs: map[string]string{"merge --ff-only tag": keys, "merge --no-edit tag": keys}},
}
