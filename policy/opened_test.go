package policy

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"wolffia/perm"
)

// TestExecuted: what the host executes because of its name is guarded where the
// host's programs are started: at the root, in working trees, and where it is already.
func TestExecuted(t *testing.T) {
	p := newPlace(t)
	commit(t, p.root, "a", "")
	commit(t, p.root+"/sub", "a", "")
	commit(t, p.root+"/vendor/x", "a", "")
	write(t, p.root, "packages/web/.vscode/settings.json", "{}", "node_modules/x/.vscode/settings.json", "{}", "packages/api/main.go", "",
		"shared/agent/hook", "", "lib/tool", "")
	for link, target := range map[string]string{".claude": "shared/agent", "sub/.husky": "/nowhere", "packages/web/.vscode/tasks.json": "../../../lib/tasks.json"} {
		if err := os.Symlink(target, filepath.Join(p.root, link)); err != nil {
			t.Fatal(err)
		}
	}
	p.levels(".vscode/tasks.json read .bashrc read .husky read sub/.vscode/tasks.json read sub/mise.toml read packages/web/.vscode/tasks.json read packages/web/.envrc none packages/web/.husky/x read " +
		"packages/api/.vscode/tasks.json write new/.vscode/tasks.json write new/.bashrc write node_modules/x/.vscode/settings.json write vendor/x/.vscode/tasks.json write " +
		".claude read shared/agent/hook read shared/agent/new read shared/other write lib/tasks.json read lib/tool write .vscode/extensions.json write CLAUDE.md write AGENTS.md write")
	p.o = Options{Preset: "read-only", Rules: []perm.Rule{{Pattern: "**", Level: perm.Write}}}
	p.levels(".vscode/tasks.json read new/.vscode/tasks.json write")
	for _, preset := range []string{"development", "full-access"} {
		p.o = Options{Preset: preset}
		p.levels(".vscode/tasks.json write .bashrc write shared/agent/hook write")
	}
}

// TestExecutedLinks: links that a sandbox has made in great number do not keep the next
// one from being made, nor do links that no program follows guard what they lead to.
func TestExecutedLinks(t *testing.T) {
	p := newPlace(t)
	write(t, p.root, "a/b/x", "", "c/x", "", "new/dir/x", "")
	link := func(target, path string) {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(p.root, path)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(target, filepath.Join(p.root, path)); err != nil {
			t.Fatal(err)
		}
	}
	link("../c/x", "new/.bashrc")
	link("c", "none/.vscode/x")
	for i := range 11_000 {
		link(fmt.Sprint("../a/b/", i), fmt.Sprint(".husky/", i))
	}
	made := p.levels("a/b/1 read c/x write new/dir/x write .husky/1 read")
	if len(made.Rules) > 3000 {
		t.Errorf("%d rules", len(made.Rules))
	}
}

// TestExecutedHome: files of the user's home are guarded where they lead into the
// codebase, and where the codebase is the home.
func TestExecutedHome(t *testing.T) {
	p := newPlace(t)
	home := t.TempDir()
	t.Setenv("HOME", home)
	write(t, p.root, "dots/bash/rc", "", "dots/fish/config.fish", "")
	for link, target := range map[string]string{".bashrc": "dots/bash/rc", ".config/fish": "dots/fish", ".zshrc": "dots/zsh/rc"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(home, link)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(filepath.Join(p.root, target), filepath.Join(home, link)); err != nil {
			t.Fatal(err)
		}
	}
	p.levels("dots/bash/rc read dots/bash/other write dots/fish/new read dots/zsh/rc read")
	p.root = filepath.Dir(home)
	p.levels(filepath.Base(home) + "/.profile read " + filepath.Base(home) + "/bin/ls read " + filepath.Base(home) + "/src/x write")
}

// TestExecutedEverywhere: where the directories are too many for a rule each, all are guarded, and
// a note reports it.
func TestExecutedEverywhere(t *testing.T) {
	p := newPlace(t)
	for i := range maxOpened - 1 {
		write(t, p.root, fmt.Sprintf("%d/.vscode/x", i), "")
	}
	write(t, p.root, "node_modules/a/.vscode/x", "")
	if made := p.levels("new/.vscode/tasks.json write 1/.vscode/tasks.json read 1/.bashrc read"); made.Everywhere {
		t.Error("everywhere")
	}
	write(t, p.root, "more/.vscode/x", "")
	made := p.levels("new/.vscode/tasks.json read 1/.vscode/tasks.json read .bashrc read new/main.go write node_modules/b/.vscode/tasks.json write")
	if notes := strings.Join(made.Notes(), "\n"); !strings.Contains(notes, "in all directories") {
		t.Errorf("notes %q", notes)
	}
	p = newPlace(t)
	write(t, p.root, strings.Repeat("x", 200)+"/"+strings.Repeat("y", 200)+"/.claude/x", "")
	p.levels("new/.vscode/tasks.json read")
}

// TestOwnPolicyFile: the next start cannot take rules that a sandbox has written: its
// policy file is at most read, by whatever way it was named, with any preset.
func TestOwnPolicyFile(t *testing.T) {
	const text = "version: 1\nextends: %s\nrules: [docs/=read]\n"
	for _, preset := range []string{"agent-safe", "development", "full-access"} {
		p := newPlace(t)
		write(t, p.root, "conf/deep/p.yaml", fmt.Sprintf(text, preset), "conf/other", "")
		if err := os.Symlink("deep", filepath.Join(p.root, "conf/link")); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"conf/deep/p.yaml", "conf/link/p.yaml", "conf/../conf/deep/p.yaml"} {
			p.o.File = filepath.Join(p.root, name)
			for range 2 { // also where nothing depends on what is in the codebase
				p.levels("conf/deep/p.yaml read conf/deep/p.yaml.lock read conf/deep/q.yaml write conf/other write docs/x read")
			}
			compiled, err := perm.Compile(p.rules().Rules)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(name, "link") && compiled.Level("conf/link", false) != perm.Read {
				t.Errorf("%s: the link can be replaced", preset)
			}
			if conf := compiled.Enter(compiled.Root(), "conf"); conf == compiled.Enter(compiled.Root(), "x") || compiled.Enter(conf, "deep") == compiled.Enter(conf, "x") {
				t.Errorf("%s: a directory on the way can be renamed", preset)
			}
		}
		t.Chdir(p.root)
		p.o.File = "conf/deep/p.yaml"
		p.levels("conf/deep/p.yaml read")
		p.o.Reveals = []perm.Rule{{Pattern: "/conf/deep/p.yaml", Level: perm.Write}}
		p.levels("conf/deep/p.yaml write")
	}
}

// TestEarlierPolicyFile: nor can a sandbox write it that was made without it later, also
// over a part of the codebase.
func TestEarlierPolicyFile(t *testing.T) {
	for _, preset := range []string{"agent-safe", "full-access"} {
		p := newPlace(t)
		write(t, p.root, "conf/p.yaml", "version: 1\nextends: "+preset+"\nrules: [docs/=read]\n")
		commit(t, p.root, ".env", "A=1\n")
		p.levels("conf/p.yaml write")
		p.o.File = filepath.Join(p.root, "conf/p.yaml")
		p.levels("conf/p.yaml read .env write")
		p.o = Options{}
		p.levels("conf/p.yaml read conf/p.yaml.lock read conf/q.yaml write docs/x write .env write")
		p.o = Options{Preset: "development"}
		p.levels("conf/p.yaml read")
		if err := os.Symlink("conf/p.yaml", filepath.Join(p.root, "link.yaml")); err != nil {
			t.Fatal(err)
		}
		p.levels("link.yaml write")
		p.o.File = filepath.Join(p.root, "link.yaml")
		p.o.Preset = ""
		p.levels("link.yaml read conf/p.yaml read")
		p.o = Options{}
		p.levels("link.yaml read conf/p.yaml read")
		p.o = Options{Preset: "full-access"}
		p.levels("conf/p.yaml write")
		p.o, p.root = Options{}, filepath.Join(p.root, "conf")
		p.levels("p.yaml read q.yaml write")
	}
}
