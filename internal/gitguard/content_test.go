package gitguard

import (
	"slices"
	"strings"
	"testing"
)

func TestPartOf(t *testing.T) {
	for path, want := range map[string]Part{
		".git": Link, "a/.git": Link, ".git/config": Config, "x.git/config.worktree": Config, ".git/worktrees/w/config.worktree": OwnConfig, ".git/modules/m/worktrees/w/config.worktree": OwnConfig, ".git/modules/rebase-merge/config": Config,
		".git/hooks": Hooks, ".git/hooks/pre-commit": Other, ".git/hooks/x.sample": Sample, ".git/hooks/a/x.sample": Other, ".git/hooks/config": Config,
		".git/refs/heads/hooks/x.lock": Lock, ".git/refs/remotes/o/a/hooks/x.lock": Lock, ".git/worktrees/hooks/HEAD.lock": Lock, ".git/worktrees/hooks/refs/bisect/hooks/x.lock": Lock,
		".git/worktrees/w/hooks/x.lock": Other, ".git/worktrees/hooks/rebase-merge/done": Sequence, "refs/deploy/hooks/x.lock": Other,
		".git/hooks/x.lock": Other, ".git/modules/hooks/HEAD.lock": Other, ".git/commondir": Other, ".git/worktrees/w/commondir": Commondir,
		".git/modules/m/worktrees/w/commondir": Commondir, "worktrees/w/commondir": Commondir, ".git/objects/info/alternates": Alternates,
		".git/config.lock": Lock, ".git/refs/heads/x.lock": Lock, ".git/rebase-merge": Sequence, ".git/rebase-merge/done": Sequence,
		".git/rebase-merge/git-rebase-todo": Todo, ".git/rebase-merge/git-rebase-todo.lock": Lock, ".git/sequencer/todo": Todo, "todo": Other, ".git/sequencer/opts": Options, ".git/MERGE_RR": Rerere, ".git/rebase-merge/strategy": Strategy, ".git/worktrees/w/rebase-merge/strategy": Strategy, ".git/rebase-merge/strategy_opts": Sequence, ".git/rebase-apply/apply-opt": ApplyOptions, ".git/rebase-apply/apply-opt.lock": Lock, ".git/rebase-merge/apply-opt": Sequence, "x.git": Other,
		".git/BISECT_LOG": Sequence, ".git/BISECT_NAMES": BisectNames, ".git/rebase-merge/author-script": Author, ".git/rebase-merge/author-script.lock": Lock, ".git/rebase-apply/author-script": Sequence,
		".git/rebase-merge/rewritten": Other, ".git/rebase-merge/rewritten/x": Other, ".git/rebase-merge/rewritten-list": Sequence, ".git/rebase-apply/rewritten": Sequence, ".git/index": Other,
	} {
		if got := PartOf(path); got != want {
			t.Errorf("%q is %d, want %d", path, got, want)
		}
	}
}

func TestAside(t *testing.T) {
	for path, want := range map[string]bool{
		".git/modules/m/remotes": true, ".git/modules/m/n/branches/up": true, "x.git/modules/refs/remotes": true, ".git/worktrees/w/modules/m/crypt": true,
		".git/modules/m/refs/heads/y.git/modules/n/remotes": true, ".git/modules/remotes/m/remotes": true, ".git/modules/m/modules/n/lazygit.yml": true,
		".git/modules/m/refs/remotes/o": false, ".git/modules/m/logs/refs/remotes": false, ".git/modules/m/n/refs/heads/branches/x": false,
		".git/modules/remotes": false, ".git/modules/remotes/HEAD": false, ".git/modules": false, "remotes": false, "a/modules/m/remotes": false, ".git": false,
		".git/modules/m/refs/worktrees/w/modules/remotes": false,
	} {
		if got := Aside(path, false); got != want {
			t.Errorf("%q: %t", path, got)
		}
	}
	if Aside(".git/modules/m/branches", true) || !Aside(".git/modules/m/branches/up", true) {
		t.Error("of directories, only an empty one that git makes is allowed")
	}
	for path, want := range map[string]Place{
		".git": Elsewhere, ".git/modules": Modules, ".git/worktrees/w/modules": Modules, ".git/modules/m": Module, ".git/modules/m/refs": ModuleRefs,
		".git/modules/m/refs/y.git/modules/n": Module, ".git/modules/refs": Module,
	} {
		if got := PlaceOf(path); got != want {
			t.Errorf("%q is at %d", path, got)
		}
	}
}

func TestComplete(t *testing.T) {
	for _, tt := range []struct {
		names []string
		want  bool
	}{
		{[]string{"HEAD", "objects", "refs"}, true},
		{[]string{"HEAD", "objects", "reftable"}, true},
		{[]string{"HEAD", "commondir"}, true},
		{[]string{"objects", "refs", "config", "commondir"}, false},
		{[]string{"HEAD", "objects"}, false},
		{[]string{"HEAD", "refs"}, false},
	} {
		if got := Complete(func(s string) bool { return slices.Contains(tt.names, s) }); got != tt.want {
			t.Errorf("%q: %t", tt.names, got)
		}
		for _, name := range tt.names {
			if !Essential(name) && name != "config" {
				t.Errorf("%q is not essential", name)
			}
		}
	}
}

func TestContent(t *testing.T) {
	for _, tt := range []struct {
		part       Part
		file, text string
		ok         bool
	}{
		{Commondir, ".git/worktrees/w/commondir", "../..\n", true},
		{Commondir, ".git/worktrees/w/commondir", "../../..\n", false},
		{Commondir, ".git/worktrees/w/commondir", "", false},
		{Link, "a/.git", "gitdir: ../.git/modules/a\n", true},
		{Link, "a/.git", "gitdir: ../b/x.git", true},
		{Link, "a/.git", "gitdir: /workspace/.git/worktrees/a\n", true},
		{Link, ".git", "gitdir: x.git\n", false},
		{Link, "a/.git", "gitdir: ../b/.git\n", false},
		{Link, "a/.git", "gitdir: ../.git/worktrees/w/modules/a/b\n", true},
		{Link, "a/.git", "gitdir: ../.git/modules/a.git/b\n", true},
		{Link, "a/.git", "gitdir: ../.git/worktrees/w/modules\n", false},
		{Link, "a/.git", "gitdir: ../.git/modules\n", false},
		{Link, "a/.git", "gitdir: ../.git/modules/refs/a\n", true},
		{Link, "a/.git", "gitdir: ../.git/modules/a/refs/b\n", false},
		{Link, "a/.git", "gitdir: ../b\n", false},
		{Link, "a/.git", "gitdir: ../../x.git\n", false},
		{Link, "a/.git", "gitdir: b/../x.git\n", true},
		{Link, "a/.git", "gitdir: b/../../../x.git\n", false},
		{Link, "a/.git", "gitdir: /other/x.git\n", false},
		{Link, "a/.git", "gitdir: /workspace/../x.git\n", false},
		{Link, "a/.git", "gitdir: /workspacex/x.git\n", false},
		{Link, "a/.git", "gitdir: ../.git/worktrees/a/b\n", false},
		{Link, "a/.git", "gitdir: ../.git/refs\n", false},
		{Link, "a/.git", "gitdir: ../x.git\nfoo", false},
		{Link, "a/.git", "x\ngitdir: ../x.git\n", false},
		{Link, "a/.git", "", false},
		{Alternates, ".git/objects/info/alternates", "../../x.git/objects\n# c\n\n/workspace/y/.git/objects\n", true},
		{Alternates, ".git/objects/info/alternates", "../../../x.git/objects\n", false},
		{Alternates, ".git/objects/info/alternates", "../../x/objects\n", false},
		{Alternates, ".git/objects/info/alternates", "/home/ann/x/.git/objects\n", false},
		{Alternates, ".git/objects/info/alternates", "\"/workspace/x\"\n", false},
		{Todo, "", "# c\npick abc x\n  squash def y\n\nmerge -C abc x # y\nu refs/heads/x\nnoop\n", true},
		{Todo, "", "pick abc x\nexec true\n", false},
		{Todo, "", "x true\n", false},
		{Todo, "", "\t x\ttrue\n", false},
		{Todo, "", "#pick abc x\n; x\n;x true\n//x true\n  ! x\n\u2022 x true\n", true}, // with another core.commentChar
		{Todo, "", "; x\nx true\n", false},
		{Todo, "", "; x\rx true\n", true}, // one line
		{Todo, "", "\x01x true\n", false},
		{Todo, "", "x\x00 true\n", false},
		{Todo, "", "; c\x00\nx true\n", false},
		{Todo, "", "C x\n", false},
		{Todo, "", "pick\rx true\n", true}, // one line, to git as well
		{Strategy, "", "ort\n", true},
		{Strategy, "", "a/evil\n", false},
		{Strategy, "", "", false},
		{ApplyOptions, "", "", true},
		{ApplyOptions, "", "\n", true},
		{ApplyOptions, "", " '--whitespace=fix' '-p2' '-C3' '--directory=a b/c' '--exclude=*.x' '--ignore-whitespace'\n", true},
		{ApplyOptions, "", " '--build-fake-ancestor=/home/ann/.profile'\n", false},
		{ApplyOptions, "", " '-p1' '--build-fake-ancestor=x'\n", false},
		{ApplyOptions, "", " '-p1'\\'' --build-fake-ancestor=x'\n", false},
		{ApplyOptions, "", " '--reject'\n", false},
		{ApplyOptions, "", " '--unsafe-paths' '--directory=/'\n", false},
		{ApplyOptions, "", " '--directory=/home/ann'\n", false},
		{ApplyOptions, "", " '--directory=a/../..'\n", false},
		{ApplyOptions, "", " '-pbuild'\n", false},
		{ApplyOptions, "", " -p1\n", false},
		{ApplyOptions, "", "'-p1'\n", false},
		{ApplyOptions, "", " '-p1''-p1'\n", false},
		{ApplyOptions, "", " '-p1\n", false},
		{ApplyOptions, "", " '-p1'\n '-p1'\n", false},
		{Author, "", "GIT_AUTHOR_NAME='O'\\''Neill $(x)'\nGIT_AUTHOR_EMAIL=''\nGIT_AUTHOR_DATE='@1 +0100'\n", true},
		{Author, "", "GIT_AUTHOR_NAME='x'; touch y\n", false},
		{Author, "", "touch y\n", false},
		{Author, "", "GIT_AUTHOR_NAME='x'\\'touch y\n", false},
		{BisectNames, "", "\n", true},
		{BisectNames, "", " 'a b' 'c'\\''d'\n", true},
		{BisectNames, "", " 'a' 'b c' 'd'\\''e'\\!'' '`x`$(y)'\n", true},
		{BisectNames, "", "x`touch y`\n", false},
		{BisectNames, "", " 'a'\\'$(x)\n", false},
		{BisectNames, "", " 'a'\n$(x)\n", false},
		{BisectNames, "", " 'a", false},
		{BisectNames, "", " 'a'`touch y`\n", false},
		{Rerere, ".git/MERGE_RR", "", true},
		{Rerere, ".git/MERGE_RR", "1111111111111111111111111111111111111111\tf\x00", false},
		{Options, "", "[options]\n\tedit = true\n\tstrategy = recursive\n", true},
		{Options, "", "[options]\n\tstrategy = a/evil\n", false},
		{Options, "", "[options]\n\tstrategy = ort\n[OPTIONS]\n\tStrategy = \"a/evil\"\n", false},
		{OwnConfig, ".git/worktrees/w/config.worktree", "[core]\n\tsparseCheckout = true\n\tsparseCheckoutCone = true\n[index]\n\tsparse = true\n", true},
		{OwnConfig, ".git/worktrees/w/config.worktree", "[core]\n\thooksPath = hooks\n", false},
		{OwnConfig, ".git/worktrees/w/config.worktree", "[include]\n\tpath = x\n", false},
		{OwnConfig, ".git/worktrees/w/config.worktree", "[core]\n\tbare = true\n", false},
		{OwnConfig, ".git/worktrees/w/config.worktree", "[remote \"up\"]\n\turl = https://example.invalid/x\n", false},
		{OwnConfig, ".git/worktrees/w/config.worktree", "[branch \"*\"]\n\tdescription = x\n", false},
		{OwnConfig, ".git/worktrees/w/config.worktree", "[core]\n\tsparseCheckout = tr", false},
		{Config, ".git/config", "", false},
		{Other, "x", "", false},
	} {
		if err := tt.part.Content(tt.file, "/workspace", tt.text); (err == nil) != tt.ok {
			t.Errorf("%q in %q: %v", tt.text, tt.file, err)
		}
	}
	if Rerere.Written("x") != "" || Todo.Written("x") != "x" {
		t.Error("what is written of rerere's records, and of instructions")
	}
	if Link.Content("a/.git", "", "gitdir: /x.git") == nil {
		t.Error("an absolute path where nobody knows where the tree is")
	}
}

// What is not refused at once is the beginning of something allowed.
func TestBegins(t *testing.T) {
	for _, x := range []struct {
		part Part
		text string
		want bool
	}{
		{Link, "g", true},
		{Link, "gitdir: ", true},
		{Link, "gitdir: ../x", true},
		{Link, "gitdir: /workspace/a", true},
		{Link, "gitdir: /work", true},
		{Link, "gitdir: /workspaces", false},
		{Link, "gitdir: /tmp", false},
		{Link, "gitdir: ../x\n", false},
		{Link, "gitdir: a\x01", false},
		{Link, "gitdir:a", false},
		{Link, "x", false},
		{Commondir, "../", true},
		{Commondir, "../../", false},
		{Commondir, "a", false},
		{ApplyOptions, " '--white", true},
		{ApplyOptions, " '-p1'\n", false},
		{Todo, "pick", false},
		{Config, "[core]", false},
		{OwnConfig, "[core]\n\tsparseCheckout = tr", true},
		{OwnConfig, "[core]\n\tbare = true\n", false},
	} {
		if got := x.part.Begins("/workspace", x.text); got != x.want {
			t.Errorf("%d.Begins(%q) = %v", x.part, x.text, got)
		}
	}
}

// Ways are the paths that git follows.
func TestWays(t *testing.T) {
	for _, x := range []struct{ file, text, want string }{
		{"a/b/.git", "gitdir: ../../.git/modules/x\n", ".git/modules/x"},
		{"a/.git", "gitdir: /workspace/c/d/.git/worktrees/a", "c/d/.git/worktrees/a"},
		{"a/.git", "gitdir: /other/x.git\n", ""},
		{"a/.git", "gitdir: ../b/c/../../d/../e/x.git", "b/c d e/x.git"},
		{"a/.git", "../x.git", ""},
		{"a/.git/objects/info/alternates", "# c\n../../../b/.git/objects\n/workspace/c.git/objects\n/x\n", "b/.git/objects c.git/objects"},
		{"a/.git/modules/m/n/config", "[core]\n\tworktree = ../../../../m/n\n[remote \"origin\"]\n\turl = /workspace/x\n", "a/m/n x"},
		{"a/.git/config", "[core]\n\tworktree = ../m\n", ""},
		{"a/.git/HEAD", "gitdir: ../x.git\n", ""},
	} {
		if got := strings.Join(Ways(x.file, "/workspace", x.text), " "); got != x.want {
			t.Errorf("%q in %s leads to %q, want %q", x.text, x.file, got, x.want)
		}
	}
}
