package gitguard

import (
	"strings"
	"testing"

	"wolffia/internal/gitconfig"
	"wolffia/internal/test/gittable"
)

// old is a configuration as a user has one.
const old = `[core]
	repositoryformatversion = 0
	filemode = true
	bare = false
	logallrefupdates = true
	pager = less -R ; with a comment
[remote "origin"]
	url = git@example.org:a/b.git
	fetch = +refs/heads/*:refs/remotes/origin/*
[branch "main"]
	remote = origin
	merge = refs/heads/main
[submodule "m"]
	active = true
	url = https://example.org/m.git
`

// TestEverythingThatActsIsRefused: each setting of the table, in each spelling, alone and in a
// configuration that is there, in an old repository and in a new one.
func TestEverythingThatActsIsRefused(t *testing.T) {
	fill := strings.NewReplacer("{mark}", "/tmp/mark", "{file}", "/tmp/file", "{hooks}", "/tmp/hooks", "{outside}", "/outside").Replace
	for _, s := range gittable.Settings {
		if s.Key == "extensions.worktreeConfig" {
			continue // config.worktree is checked as well, and git sparse-checkout needs it
		}
		text := s.Text(fill)
		for _, was := range []string{"", old} {
			for _, is := range []string{was + text, text + was, was + "[core]\n" + text + "[user]\n\tname = x\n"} {
				for _, fresh := range []bool{false, true} {
					c := Change{File: "a/.git/config", Old: was, New: is, Fresh: fresh}
					if err := c.Check(); err == nil {
						t.Errorf("%s = %q can be set; fresh: %t\n%s", s.Key, s.Value, fresh, text)
					}
				}
			}
		}
	}
	for says, text := range gittable.Spellings("core", "fsmonitor", "/tmp/mark") {
		c := Change{File: ".git/config", Old: old, New: old + text, Fresh: true}
		if err := c.Check(); err == nil {
			t.Errorf("%s: can be set\n%q", says, text)
		}
	}
}

// TestWhatGitDoesIsAllowed: what git's own commands write.
func TestWhatGitDoesIsAllowed(t *testing.T) {
	const module = ".git/modules/a/b/config"
	for _, tt := range []struct {
		file, old, add string
		fresh          bool
	}{
		{".git/config", old, "[user]\n\tname = Ann\n\temail = a@b\n", false},
		{".git/config", old, "[remote \"up\"]\n\turl = https://example.org/x.git\n", false},
		{"a/.git/config", old, "[remote \"up\"]\n\turl = ../x\n\tfetch = +refs/heads/*:refs/remotes/up/*\n[branch \"x\"]\n\tremote = up\n\tmerge = refs/heads/x\n", false},
		{".git/config", old + "[remote \"up\"]\n\turl = ../x\n", "[remote \"up\"]\n\tfetch = +refs/heads/*:refs/remotes/up/*\n", false},
		{".git/config", old, "[branch \"x\"]\n\tremote = .\n\tmerge = refs/heads/main\n", false},
		{".git/config", old, "[branch \"x\"]\n\tremote = origin\n\tmerge = refs/heads/x\n", false},
		{".git/config", old, "[submodule \"n\"]\n\turl = /workspace/n\n\tactive = true\n", false},
		{".git/config", "", "[core]\n\tbare = true\n\tfilemode\n[remote \"origin\"]\n\turl = /workspace/x\n\tfetch = +refs/*:refs/*\n\tmirror = true\n", true},
		{module, "", "[core]\n\tworktree = ../../../../a/b\n", true},
		{"x/.git/modules/m/config", "", "[core]\n\tworktree = ../../../m\n", true},
		{"x/.git/worktrees/w/modules/m/config", "", "[core]\n\tworktree = ../../../../../w/m\n", true},
		{"x/.git/worktrees/w/modules/a/b/config", "", "[core]\n\tworktree = ../../../../../../../w/a/b\n", true},
		{".git/config.worktree", "", "[core]\n\tsparseCheckout = true\n\tsparseCheckoutCone = true\n", false},
	} {
		c := Change{File: tt.file, Old: tt.old, New: tt.old + tt.add, Fresh: tt.fresh, Root: "/workspace"}
		if err := c.Check(); err != nil {
			t.Errorf("%s: %v", tt.add, err)
		}
	}
	removed := strings.Replace(old, "[branch \"main\"]\n\tremote = origin\n\tmerge = refs/heads/main\n", "", 1)
	if err := (&Change{File: ".git/config", Old: old, New: removed}).Check(); err != nil {
		t.Errorf("a branch's settings removed: %v", err)
	}
}

// TestPathsOfRemotes: a remote on this host is one of the codebase.
func TestPathsOfRemotes(t *testing.T) {
	for _, tt := range []struct {
		file, root, url string
		linked          bool
		want            string // the way, or what the error has in it
	}{
		{"a/.git/config", "/workspace", "/workspace/b/c", false, "b/c"},
		{"a/.git/config", "/workspace", "file:///workspace/b/c/", true, "b/c"},
		{"a/.git/config", "/workspace", "/workspace", false, ""},
		{"a/.git/config", "/workspace", "../b", false, "b"},
		{"a/.git/config", "/workspace", "../b.git", true, "b.git"},
		{"a/.git/config", "", "./b.git/c", true, "a/b.git/c"},
		{".git/config", "/workspace", "b/c", false, "b/c"},
		{"a/.git/config", "/workspace", "host:../b", false, ""},
		{"a/.git/config", "/workspace", "https://example.org/b", false, ""},

		{"a/.git/config", "", "/workspace/b", false, "outside of the codebase"},
		{"a/.git/config", "/workspace", "/home/ann/b", false, "outside of the codebase"},
		{"a/.git/config", "/workspace", "/workspaces/b", false, "outside of the codebase"},
		{"a/.git/config", "/workspace", "file:///home/ann/b", false, "outside of the codebase"},
		{"a/.git/config", "/workspace", "file://workspace/home/ann/b", false, "no path"},
		{"a/.git/config", "/workspace", "file://b", false, "no path"},
		{"a/.git/config", "/workspace", "file:///workspace/%2e%2e/b", false, "decode"},
		{"a/.git/config", "/workspace", "/workspace/b/../../c", false, "leads out"},
		{"a/.git/config", "/workspace", "/workspace/b/../c", false, "b c"},
		{"a/.git/config", "/workspace", "../b.git/../c", true, "another working tree"},
		{"a/.git/config", "/workspace", "../../b", false, "leads out"},
		{"a/.git/config", "/workspace", "../../x:y", false, "leads out"},
		{"a/.git/config", "/workspace", "~/b", false, "outside of the codebase"},
		{"a/.git/config", "/workspace", "../b", true, "another working tree"},
		{"a/.git/config", "/workspace", "../b/c.git", true, "another working tree"},
		{"a.git/config", "/workspace", "../b", false, "absolute"},
		{"a/.git/modules/b/config", "/workspace", "../b.git", false, "absolute"},
	} {
		for _, key := range []string{"remote \"up\"]\n\turl", "remote \"up\"]\n\tpushurl", "submodule \"up\"]\n\turl"} {
			text := old + "[" + key + " = " + tt.url + "\n"
			c := Change{File: tt.file, Old: old, New: text, Root: tt.root, Linked: tt.linked}
			err := c.Check()
			if err != nil {
				if !strings.Contains(err.Error(), tt.want) || tt.want == "" {
					t.Errorf("%s in %s: %v", tt.url, tt.file, err)
				}
				continue
			}
			if got := strings.Join(Ways(tt.file, tt.root, text), " "); got != tt.want {
				t.Errorf("%s in %s is allowed, and leads to %q, want %q", tt.url, tt.file, got, tt.want)
			}
		}
	}
	const config = "[remote \"a\"]\n\turl = ../b\n[remote \"c\"]\n\turl = /x\n[remote \"d\"]\n\turl = ~/x\n[remote \"e\"]\n\turl = ../../../out\n"
	if got, err := RemoteWays("x/y/.git/config", "w/z", config); err != nil || strings.Join(got, " ") != "w/b" {
		t.Errorf("in another working tree: %q, %v", got, err)
	}
	if got, err := RemoteWays("x/y/.git/config", ".", config); err == nil {
		t.Errorf("in another working tree, from which it leads out: %q", got)
	}
}

// What a working tree's own configuration says of remotes counts beside what the repository's says.
func TestNoRemotesOfWorktrees(t *testing.T) {
	for _, file := range []string{".git/config.worktree", ".git/worktrees/w/config.worktree"} {
		for _, text := range []string{
			"[remote \"origin\"]\n\turl = https://evil.example/x\n", "[remote \"origin\"]\n\tpushurl = https://evil.example/x\n", "[remote \"new\"]\n\turl = https://evil.example/x\n",
			"[remote \"origin\"]\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n", "[branch \"main\"]\n\tremote = .\n", "[submodule \"m\"]\n\turl = https://evil.example/m.git\n",
		} {
			for _, fresh := range []bool{false, true} {
				if err := (&Change{File: file, New: text, Fresh: fresh}).Check(); err == nil {
					t.Errorf("%s, fresh %t, can have %q", file, fresh, text)
				}
			}
		}
		if err := (&Change{File: file, New: "[core]\n\tsparseCheckout = true\n[index]\n\tsparse = true\n"}).Check(); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
}

// TestWhatIsThereStays: settings of the user's are not changed, removed or put elsewhere.
func TestWhatIsThereStays(t *testing.T) {
	replace := func(from, to string) string {
		if !strings.Contains(old, from) {
			t.Fatalf("%q is not in the configuration", from)
		}
		return strings.Replace(old, from, to, 1)
	}
	for says, is := range map[string]string{
		"changed":             replace("less -R", "less"),
		"removed":             replace("\tpager = less -R ; with a comment\n", ""),
		"hidden in a comment": replace("\tpager", "#\tpager"),
		"in another section":  replace("\tpager", "[other]\n\tpager"),
		"remote changed":      replace("git@example.org:a/b.git", "git@evil.example:a/b.git"),
		"remote twice":        old + "[remote \"origin\"]\n\turl = /evil\n",
		"remote's push":       old + "[remote \"origin\"]\n\tpushurl = /evil\n",
		"remote's fetch":      old + "[remote \"origin\"]\n\tfetch = +refs/heads/*:refs/heads/*\n",
		"remote removed":      replace("\turl = git@example.org:a/b.git\n", ""),
		"submodule changed":   replace("https://example.org/m.git", "https://evil.example/m.git"),
		"bare":                replace("bare = false", "bare = true"),
		"a branch's remote":   replace("remote = origin", "remote = https://evil.example/"),
		"empty":               "",
		"cut off":             old[:40],
	} {
		if err := (&Change{File: ".git/config", Old: old, New: is}).Check(); err == nil {
			t.Errorf("%s: is allowed", says)
		}
	}
	two := old + "[core]\n\teditor = a\n\teditor = b\n"
	if err := (&Change{File: ".git/config", Old: two, New: old + "[core]\n\teditor = b\n\teditor = a\n"}).Check(); err == nil {
		t.Error("the order of two values is changed")
	}
}

// TestTextThatCouldBeReadInTwoWays: is refused.
func TestTextThatCouldBeReadInTwoWays(t *testing.T) {
	for _, add := range []string{
		"[user]\n\tname = a\x00b\n", "[user]\r\n\tname = a\r\n", "[user]\n\tname = a\\x\n", "[user]\n\tname = \"a\n", "[user \"x]\n\tname = a\n",
		"[user]\n\tname : a\n", "[user\n\tname = a\n", "[]\n\tname = a\n", "[user]\n\tname = a\vb\n", "[user]\n\tname ; = a\n", "name\n= a\n",
		"[remote \"\"]\n\turl = /x\n", "[core \"\"]\n\teol = lf\n", "[user]\n\tname = a\\nb\n", "[remote \"a\\\nb\"]\n\turl = /x\n",
		"[remote \"-x\"]\n\turl = /x\n", "[remote \"a/../b\"]\n\turl = /x\n", "[remote \"x:y\"]\n\turl = /x\n",
		"[remote \"x\"]\n\turl = ext::sh -c x\n", "[remote \"x\"]\n\turl = -x\n", "[remote \"x\"]\n\turl = foo://x\n", "[remote \"x\"]\n\turl =\n", "[remote \"x\"]\n\turl\n",
		"[remote \"x\"]\n\turl = ssh://-oProxyCommand=x/y\n", "[remote \"x\"]\n\turl = fd::7\n", "[remote \"x\"]\n\turl = a.b+c-d::e\n",
		"[remote \"x\"]\n\turl = /x\n\tfetch = +refs/heads/*:refs/heads/*\n", "[remote \"x\"]\n\turl = /x\n\tfetch = refs/heads/*:refs/remotes/origin/*\n",
	} {
		if err := (&Change{File: ".git/config", Old: old, New: old + add}).Check(); err == nil {
			t.Errorf("%q is allowed", add)
		}
	}
	if err := (&Change{File: ".git/config", Old: "[core\n", New: "[core]\n"}).Check(); err == nil {
		t.Error("a configuration that git does not read is taken for an empty one")
	}
	for _, value := range []string{"../../../..", "/x", "../../..", "../../../.git/x", "../../../x.git/y", "../../../../x", "x", "../../../a/../../x"} {
		if err := (&Change{File: "x/.git/modules/m/config", New: "[core]\n\tworktree = " + value + "\n", Fresh: true}).Check(); err == nil {
			t.Errorf("core.worktree = %s is allowed", value)
		}
	}
	for _, value := range []string{"../../../../../..", "../../../../../../../m", "../../../../../y.git/m", "/m"} {
		if err := (&Change{File: "x/.git/worktrees/w/modules/m/config", New: "[core]\n\tworktree = " + value + "\n", Fresh: true}).Check(); err == nil {
			t.Errorf("core.worktree = %s is allowed for a linked working tree", value)
		}
	}
	if err := (&Change{File: ".git/worktrees/w/config", New: "[core]\n\tworktree = ../../../x\n", Fresh: true}).Check(); err == nil {
		t.Error("core.worktree of a linked working tree")
	}
	if err := (&Change{File: ".git/config", New: "[core]\n\tworktree = ../x\n", Fresh: true}).Check(); err == nil {
		t.Error("core.worktree of what is no submodule")
	}
}

func FuzzCheck(f *testing.F) {
	f.Add(old, "[user]\n\tname = x\n", true)
	f.Fuzz(func(t *testing.T, was, add string, fresh bool) {
		c := Change{File: ".git/config", Old: was, New: was + add, Fresh: fresh}
		if c.Check() != nil {
			return
		}
		settings, err := gitconfig.Parse(c.New)
		if err != nil {
			t.Fatalf("it is allowed, and git does not read it: %v", err)
		}
		had, _ := gitconfig.Parse(was)
		known := map[gitconfig.Setting]bool{}
		for _, s := range had {
			known[s] = true
		}
		for _, s := range settings {
			for _, bad := range []string{"core.pager", "core.fsmonitor", "core.sshcommand", "core.hookspath", "include.path"} {
				if s.Name == bad && !known[s] {
					t.Fatalf("%s = %q is new", s.Name, s.Value)
				}
			}
		}
	})
}
