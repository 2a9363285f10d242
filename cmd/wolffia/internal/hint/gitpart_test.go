package hint

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"wolffia/internal/shellword"
)

// Where git finds no repository since the codebase is a part of one, or linked to one, that is said.
func TestPartHint(t *testing.T) {
	dir := t.TempDir()
	for _, d := range []string{"repo/.git", "repo/sub/deep", "repo/module", "plain", "linked"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range []string{"repo/module/.git", "linked/.git"} {
		if err := os.WriteFile(filepath.Join(dir, f), []byte("gitdir: elsewhere\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "moved"), 0o755), os.Symlink("../linked", filepath.Join(dir, "moved/.git"))); err != nil {
		t.Fatal(err)
	}
	const failure = "fatal: not a git repository (or any parent up to mount point /x)\n"
	part := "a part of the repository " + dir + "/repo, which the sandbox does not show: to show it, add --codebase " + shellword.Quote(dir+"/repo")
	for codebase, want := range map[string]string{
		"repo": "", "repo/sub": part, "repo/sub/deep": part, "repo/module": part, "plain": "", "linked": "use --worktree BRANCH", "moved": "is a symbolic link",
	} {
		got := partHint(failure, filepath.Join(dir, codebase), true)
		if want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", codebase, got, want)
		}
	}
	for text, codebase := range map[string]string{failure: "", "not a git repository": dir + "/repo/sub"} {
		if got := partHint(text, codebase, true); got != "" {
			t.Errorf(`%q, %q: got %q, want ""`, text, codebase, got)
		}
	}
}
