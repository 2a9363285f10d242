package gitscan

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Where git looks because of what is in a repository is found, over names that could be links.
func TestScanWays(t *testing.T) {
	for _, tt := range []struct {
		name  string
		files map[string]string
		want  []string
	}{
		{"nothing", map[string]string{"r/.git/config": "[remote \"o\"]\nurl = https://example.org/x\npushurl = host:x\n"}, nil},
		{"a submodule", map[string]string{
			".git/modules/s/config": "[core]\nworktree = ../../../libs/s", ".git/modules/s/HEAD": "", "libs/s/.git": "gitdir: ../../.git/modules/s\n",
		}, []string{"libs/s"}},
		{"a submodule below", map[string]string{
			"r/.git/modules/s/config": "[core]\nworktree = ../../../s", "r/.git/modules/s/HEAD": "", "r/s/.git": "gitdir: ../.git/modules/s\n",
		}, []string{"r", "r/.git", "r/s"}},
		{"a separate git directory", map[string]string{"a/.git": "gitdir: ../b/c/x.git\n", "b/c/x.git/HEAD": ""}, []string{"a/.git", "b/c"}},
		{"an absolute one", map[string]string{"a/.git": "gitdir: ROOT/b/q/../x.git\n", "b/x.git/HEAD": "", "b/q/x": ""}, []string{"b", "b/q"}},
		{"outside", map[string]string{"a/.git": "gitdir: /elsewhere/x.git\n"}, nil},
		{"objects", map[string]string{"r/.git/objects/info/alternates": "../../../a/b.git/objects\n# c\nROOT/c/d/.git/objects\n/elsewhere\n"}, []string{"a", "c/d", "r/.git"}},
		{
			"remotes",
			map[string]string{"r/.git/config": "[remote \"o\"]\nurl = ROOT/a\npushurl = file://ROOT/b/c\n[submodule \"s\"]\nurl = ../d\n[remote \"p\"]\nurl = ../e.git\n"},
			[]string{"a", "b/c", "d", "r/.git"},
		},
	} {
		root := t.TempDir()
		for name, text := range tt.files {
			write(t, filepath.Join(root, name), strings.ReplaceAll(text, "ROOT", root))
		}
		if got := scan(t, nil, root).Ways; !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

// What is not there, and would lead git elsewhere by a .git file if a sandbox made it, is guarded.
func TestScanLater(t *testing.T) {
	for _, tt := range []struct {
		name  string
		files map[string]string
		want  []string
	}{
		{"the git directory of a submodule", map[string]string{".git/x": "", "m/.git": "gitdir: ../.git/modules/m\n", "w/.git": "gitdir: ../.git/worktrees/w\n"}, []string{".git/modules/m"}},
		{"one that is there", map[string]string{".git/modules/s/HEAD": "", "s/.git": "gitdir: ../.git/modules/s\n"}, nil},
		{"a repository above a bare one", map[string]string{"a/x.git/HEAD": "", "a/w/.git": "gitdir: ../x.git\n"}, []string{".git", "a/.git", "a/x.git/.git"}},
		{"beside a repository", map[string]string{"a/r/.git/worktrees/w/HEAD": "", "a/w/.git": "gitdir: ../r/.git/worktrees/w\n"}, []string{".git", "a/.git"}},
		{"in a repository", map[string]string{"a/r/.git/worktrees/w/HEAD": "", "a/r/w/.git": "gitdir: ../.git/worktrees/w\n"}, nil},
		{"outside", map[string]string{"w/.git": "gitdir: /elsewhere/x.git\n"}, nil},
	} {
		root := t.TempDir()
		for name, text := range tt.files {
			write(t, filepath.Join(root, name), text)
		}
		if got := scan(t, nil, root).Outside; !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}
