package gitpairs

import (
	"os"
	"path/filepath"
	"testing"
)

// A linked working tree is of its repository's if both say so.
func TestRepository(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"main/.git/HEAD": "ref: x\n",
		// a linked one, and one with relative paths
		"linked/.git":                          "gitdir: " + root + "/main/.git/worktrees/linked\n",
		"main/.git/worktrees/linked/gitdir":    root + "/linked/.git\n",
		"main/.git/worktrees/linked/commondir": "../..\n",
		"near/.git":                            "gitdir: ../main/.git/worktrees/near\n",
		"main/.git/worktrees/near/gitdir":      "../../../../near/.git\n",
		"main/.git/worktrees/near/commondir":   "../..\n",
		// one that only says so, a submodule, one that has a repository of its own making
		"forged/.git":                    "gitdir: " + root + "/main/.git/worktrees/linked\n",
		"main/sub/.git":                  "gitdir: ../.git/modules/sub\n",
		"main/.git/modules/sub/HEAD":     "ref: x\n",
		"made/.git":                      "gitdir: own\n",
		"made/own/gitdir":                root + "/made/.git\n",
		"made/own/commondir":             root + "/main/.git\n",
		"bare.git/HEAD":                  "ref: x\n",
		"ofbare/.git":                    "gitdir: " + root + "/bare.git/worktrees/a\n",
		"bare.git/worktrees/a/gitdir":    root + "/ofbare/.git\n",
		"bare.git/worktrees/a/commondir": "../..\n",
	} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]string{
		"main": "main", "linked": "main", "near": "main", "forged": "forged", "main/sub": "main/sub", "made": "made", "ofbare": "bare.git", "absent": "absent",
	} {
		if got := Repository(filepath.Join(root, name)); got != filepath.Join(root, want) {
			t.Errorf("Repository(%s) = %s, want %s", name, got, want)
		}
	}
}
