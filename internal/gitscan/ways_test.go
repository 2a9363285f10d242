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
