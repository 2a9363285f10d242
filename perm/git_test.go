package perm

import (
	"path"
	"slices"
	"strings"
	"testing"
)

// What is git's in other names than ".git" is at most Read, ".git" is as any other name, and keys
// are hidden in both.
func TestGitRules(t *testing.T) {
	p := mustCompile(t, slices.Concat(AnyGitRules(), GitRules([]string{"deploy", "odd[x]*/{a}\xff\n/g", "bare/"}), testRules(t, "**=write", "/x/=none@200", "/y/=view@200"))...)
	for _, dir := range []string{"deploy", "odd[x]*/{a}\xff\n/g", "bare", "x.git", "a/b.git"} {
		for file, want := range map[string]Level{
			"": Read, "config": Read, "hooks/x": Read, "new": Read, "modules/m/config": Read, "git-crypt/keys/default": None,
			"modules/a/b/annex/creds/abc": None, "rr-cache/x/postimage.1": None, "rr-cache/x/preimage": Read,
		} {
			if got := p.Level(path.Join(dir, file), file == ""); got != want {
				t.Errorf("%q in %q is %v, want %v", file, dir, got, want)
			}
		}
		if got := p.Level(dir, false); got != Read {
			t.Errorf("a link %q is %v", dir, got)
		}
	}
	for name, want := range map[string]Level{
		".git": Write, "a/.git": Write, ".git/config": Write, ".git/git-crypt/keys/x": None, "a/.git/modules/m/annex/creds": None, "sub/deploy/x": Write,
		"oddx/a/g/config": Write, "config": Write, "hooks/x": Write, "x/c.git": None, "y/c.git": View, "agit": Write, ".gitignore": Write,
	} {
		if got := p.Level(name, false); got != want {
			t.Errorf("%q is %v, want %v", name, got, want)
		}
	}
}

// The root as a bare repository is guarded by the names of its parts: working trees can be in it.
func TestGitRulesOfTheRoot(t *testing.T) {
	for _, dir := range []string{".", ""} {
		p := mustCompile(t, append(GitRules([]string{dir}), testRules(t, "**=write")...)...)
		for name, want := range map[string]Level{
			"hooks/update": Read, "config": Read, "HEAD": Read, "FETCH_HEAD": Read, "refs/heads/x": Read, "objects/info/alternates": Read, "config.lock": Read,
			"worktrees/w/config.worktree": Read, "git-crypt/keys/x": None, "main/config": Write, "main/hooks": Write, "new": Write,
		} {
			if got := p.Level(name, false); got != want {
				t.Errorf("%q of the root %q is %v, want %v", name, dir, got, want)
			}
		}
	}
}

func TestGitInPlace(t *testing.T) {
	level := func(name string, rules []Rule) Level { return mustCompile(t, rules...).Level(name, false) }
	for _, preset := range Presets() {
		rules := GitInPlace(preset.Rules)
		want := map[string]Level{"view-only": View, "full-access": Write}[preset.Name]
		if want == None {
			want = Read
		}
		for _, name := range []string{".git", ".git/config", "a/.git/hooks/x"} {
			if got := level(name, rules); got != want {
				t.Errorf("%s: %s is %v, want %v", preset.Name, name, got, want)
			}
		}
		if again := GitInPlace(rules); len(again) != len(rules) {
			t.Errorf("%s: not the same the second time", preset.Name)
		}
		if got := GitUnguarded(rules); (got != "") == preset.Git {
			t.Errorf(`%s: got %q; want (got != "") != %v`, preset.Name, got, preset.Git)
		}
	}
	for text, unguarded := range map[string]bool{
		"/.git/config=write": true, ".git/=write": true, "/{a,b/.git}/x=write": true, "/.git=write": true,
		"/.git/config=read": false, "**=write": false, "/.gitignore=write": false, "*.git/=write": false,
	} {
		req := Request{Reveals: testRules(t, text)}
		rules, err := Assemble(&req)
		if err != nil {
			t.Fatal(err)
		}
		got := GitUnguarded(rules)
		if (got != "") != unguarded || unguarded && !strings.Contains(got, text) {
			t.Errorf("--reveal %s: %q", text, got)
		}
		if guarded := len(GitInPlace(rules)) > len(rules); guarded == unguarded {
			t.Errorf("--reveal %s: guarded %t", text, guarded)
		}
		req = Request{Rules: testRules(t, text)}
		if rules, err = Assemble(&req); err != nil || GitUnguarded(rules) != "" {
			t.Errorf("--rule %s: %q, %v", text, GitUnguarded(rules), err)
		}
	}
	if own := testRules(t, "**=write"); len(GitInPlace(own)) != 1 || GitUnguarded(own) != "" {
		t.Error("rules that no preset has made are not as they were")
	}
}

// Rules of an earlier version are of use to a sandbox that has got git directories of its own.
func TestGitPrivate(t *testing.T) {
	old := func(pattern, source string) Rule {
		return Rule{Pattern: pattern, Level: Read, AtMost: true, Priority: PrioritySecret, Source: source}
	}
	rules := append(testRules(t, "**=write"), old("*.git", "any git repository"), old("*.git/config", "any git repository"),
		old("/deploy/config", "git repository deploy"), old("/deploy/hooks", "git repository deploy"))
	p := mustCompile(t, GitPrivate(rules)...)
	for name, want := range map[string]Level{".git": Write, ".git/config": Write, "deploy/HEAD": Read, "x.git/config": Read, "a": Write} {
		if got := p.Level(name, false); got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	if today := preset(t, DefaultPreset); !slices.Equal(GitPrivate(GitInPlace(today)), today) {
		t.Error("today's rules are not as they were")
	}
}
