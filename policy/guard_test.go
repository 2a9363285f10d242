package policy

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"wolffia/perm"
)

func TestCovering(t *testing.T) {
	name := strings.Repeat("n", 250)
	deep := strings.Repeat(name+"/", 16) + name
	var wide, nested []string
	for i := range 1500 {
		wide = append(wide, fmt.Sprint("d", i))
		nested = append(nested, fmt.Sprintf("x/y/d%d", i))
	}
	for _, tt := range []struct{ paths, want []string }{
		{nil, nil},
		{[]string{"b/[c]", ".git"}, []string{"/.git", `/b/\[c\]`}},
		{[]string{deep}, []string{"/" + strings.TrimSuffix(strings.Repeat(name+"/", 4), "/")}},
		{nested, []string{"/x/y"}},
		{wide, []string{"**"}},
	} {
		if got := covering(tt.paths); !slices.Equal(got, tt.want) {
			t.Errorf("%.60q: %.300q, want %.300q", tt.paths, got, tt.want)
		}
	}
}

// TestManyRepositories: there can be more repositories than rules.
func TestManyRepositories(t *testing.T) {
	p := newPlace(t)
	for i := range 1500 {
		for _, dir := range []string{fmt.Sprintf("packages/p%d/.git", i), fmt.Sprintf("mirrors/m%d", i)} {
			write(t, p.root, dir+"/HEAD", "ref: refs/heads/main\n")
			write(t, p.root, dir+"/config", "[core]\n\tbare = true\n")
			write(t, p.root, dir+"/objects/info/packs", "")
			write(t, p.root, dir+"/refs/x", "")
		}
	}
	made := p.levels("packages/p1/.git/config write mirrors/m1499/config read packages/p1/a write")
	if len(made.Sealed) == 0 || len(made.Notes()) == 0 {
		t.Error("no warning says that bare repositories are read-only")
	}
}

// TestManyWays: where there are too many directories on the way to what is guarded, no link takes
// the place of any of them either.
func TestManyWays(t *testing.T) {
	var paths []string
	for i := range 300 {
		paths = append(paths, fmt.Sprintf("a/d%d/e/f/g/hook", i))
	}
	p, err := perm.Compile(append(pathRules(paths, "test"), perm.Rule{Pattern: "**", Level: perm.Write}))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "a/d7", "a/d7/e", "a/d299/e/f/g"} {
		if got := p.Level(name, false); got != perm.Read {
			t.Errorf("a link %s is at %v", name, got)
		}
	}
	if got := p.Level("b", false); got != perm.Write {
		t.Errorf("b is at %v", got)
	}
}

// What the user's own configuration of git names in the codebase is guarded: by a relative path in
// each working tree, also in those that are made later.
func TestOwnGitConfiguration(t *testing.T) {
	p := newPlace(t)
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("GIT_CONFIG_GLOBAL", "")
	t.Setenv("XDG_CONFIG_HOME", "")
	commit(t, p.root, "a", "1")
	write(t, home, ".gitconfig", "[core]\n\thooksPath = tools/hooks\n[include]\n\tpath = "+p.root+"/git/inc\n[diff]\n\texternal = "+p.root+"/bin/d x\n")
	for _, preset := range []string{"agent-safe", "development"} {
		p.o.Preset = preset
		p.levels("tools/hooks/pre-commit read tools/hooks read tools read tools/x write new/tools/hooks/pre-commit read new/tools read git/inc read git/incs write git read bin/d read bin/e write a write")
	}
	p.o.Preset = "full-access"
	p.levels("tools/hooks/pre-commit write git/inc write")
}
