package policy

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"wolffia/perm"
)

// TestNewNamesInCodebase: a name with a dot that does not exist at the top cannot be made, whatever
// program looks for it; one that exists is as it was.
func TestNewNamesInCodebase(t *testing.T) {
	p := newPlace(t)
	write(t, p.root, ".known/x", "", ".oddrc", "", ".config/mine", "", "sub/x", "")
	p.levels(".newagent/settings.json read .newrc read .config/theirs read .settings read .known/new write .oddrc write .config/mine write " +
		"sub/.newagent write .cache/x write .wolffia-abc write .eslintrc.json write .git write .envrc none .env.example write .vscode/extensions.json write")
	p.o.Reveals = []perm.Rule{{Pattern: "/.newagent", Level: perm.Write}}
	p.levels(".newagent/settings.json write")
	p.o = Options{Worktree: WorktreeName("b")}
	p.levels(".wolffia/worktree-b/.newagent read .wolffia/worktree-b/main.go write")
	for _, preset := range []string{"development", "full-access"} {
		p.o = Options{Preset: preset}
		p.levels(".newagent write .config/theirs write")
	}
}

// TestConditions: what a program of the host executes because of a name beside it is guarded where
// that name exists, and what a shell acts on at a cd at the top.
func TestConditions(t *testing.T) {
	p := newPlace(t)
	write(t, p.root, "shell/.envrc", "", "shell/deep/x", "", "pnp/x", "", ".yarn/sdks/x", "", "tool/bin/hermit", "", "other/bin/x", "")
	p.levels("mise.toml read .shadowenv.d/x read .direnv/x read shell/flake.nix read shell/devbox.json read shell/deep/flake.nix write flake.nix write a/flake.nix write " +
		".pnp.cjs read pnp/.pnp.cjs write tool/bin/activate-hermit read tool/bin/x write other/bin/hermit write")
}

// TestWorstCase: a codebase as bad as a sandbox can make it has rules that are sound.
func TestWorstCase(t *testing.T) {
	p := newPlace(t)
	odd := strings.Repeat("\xff", longestOpened/4-8)
	for i := range maxOpened - 1 {
		write(t, p.root, fmt.Sprintf("%s%d/.vscode/x", odd, i), "")
	}
	for i := range 400 {
		write(t, p.root, fmt.Sprintf("o%s%d/.x%s", odd, i, odd), "", fmt.Sprintf(".eslintrc%s%d", odd, i), "")
	}
	p.levels("main.go write .newagent read")
}

// TestHomeLinks: whatever link below the home leads into the codebase, what it leads to is guarded,
// also by way of further links.
func TestHomeLinks(t *testing.T) {
	p := newPlace(t)
	home := t.TempDir()
	t.Setenv("HOME", home)
	write(t, p.root, "dots/fish/config.fish", "", "dots/nvim/init.lua", "", "dots/emacs/init.el", "", "dots/agent/hooks/h", "", "dots/conf/new/rc", "", "dots/tool", "", "src/main.go", "", "notes/x", "", "units/x.service", "", "real/x", "")
	links := map[string]string{
		".config/fish/config.fish": "dots/fish/config.fish", ".config/nvim/init.lua": "dots/nvim/init.lua", ".emacs.d/init.el": "dots/emacs/init.el",
		".newagent/hooks": "dots/agent/hooks", ".config/new": "dots/conf/new", "bin/tool": "dots/tool", ".config/systemd/user/x.wants/x.service": "units/x.service",
		"go-to-src": "src", ".cache/x": "notes", ".futurerc": "dots/missing",
	}
	for link, target := range links {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(home, link)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(filepath.Join(p.root, target), filepath.Join(home, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("../../../real", filepath.Join(p.root, "dots/conf/new/further")); err != nil {
		t.Fatal(err)
	}
	p.levels("dots/fish/config.fish read dots/fish/other write dots/nvim/init.lua read dots/emacs/init.el read dots/agent/hooks/new read dots/agent/x write dots/conf/new/rc read " +
		"dots/tool read units/x.service read real/x read src/main.go write notes/x write dots/missing read")
	p.o.Preset = "development"
	p.levels("dots/fish/config.fish write")
}

// TestHomeWalkIsBounded: a home of any size is looked through from the top, within bounds.
func TestHomeWalkIsBounded(t *testing.T) {
	home := t.TempDir()
	for i := range 30 {
		for j := range 30 {
			write(t, home, fmt.Sprintf(".d%d/e%d/f", i, j), "")
		}
	}
	for _, link := range []string{".zlast", ".d29/link"} {
		if err := os.Symlink("/nowhere", filepath.Join(home, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(home, filepath.Join(home, ".loop")); err != nil {
		t.Fatal(err)
	}
	w := homeWalk{home: home, left: 1000, end: time.Now().Add(time.Hour)}
	w.walk()
	if !slices.Contains(w.links, ".zlast") || !slices.Contains(w.links, ".d29/link") || w.left > 0 {
		t.Errorf("%d left, links %q", w.left, w.links)
	}
	w = homeWalk{home: home, left: 100_000, end: time.Now().Add(time.Hour)}
	if w.walk(); w.left == 100_000 || slices.Contains(w.links, ".loop/.loop/.loop/.loop") {
		t.Errorf("links %q", w.links)
	}
}
