package policy

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"wolffia/perm"
)

func parsed(t *testing.T, texts ...string) (rules []perm.Rule) {
	t.Helper()
	for _, text := range texts {
		r, err := perm.ParseRule(text)
		if err != nil {
			t.Fatal(err)
		}
		rules = append(rules, r)
	}
	return rules
}

// A codebase with a few files.
func project(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"docs/a.md", ".env", "src/main.go"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestDoubts(t *testing.T) {
	dir := project(t)
	for _, tt := range []struct {
		name          string
		rules, reveal []string
		want          string // in the one warning; empty: no warning
	}{
		{"a directory", []string{"/docs/=read"}, nil, ""},
		{"what may be made later", []string{"/new/file=write"}, nil, ""},
		{"a pattern", []string{"*.nothing=none"}, nil, ""},
		{"a misspelled restriction", []string{"/dosc/=read"}, nil, `rule "/dosc/=read": the codebase has no such path`},
		{"a path of the host", []string{dir + "/docs=read"}, nil, `: a pattern begins at the root of the codebase, not of the host: write "/docs=read"`},
		{"all by a path of the host", []string{dir + "=read"}, nil, `write "/**=read"`},
		{"a secret", []string{".env=read"}, nil, `rule ".env=read": it does not decide about ".env", which is none: rule ".env=none" of preset agent-safe outranks it; to outrank that: --reveal '/.env=read'`},
		{"secrets", []string{"*.pem=read"}, nil, `"x.pem", which is none`},
		{"a secret among others", []string{"{src,.env}=read"}, nil, `".env", which is none`},
		{"what the host executes", []string{"/.vscode/=write"}, nil, `".vscode/x", which is read`},
		{"what is revealed", nil, []string{".env=read"}, ""},
		{"a secret at the level that it has", []string{".env=none"}, nil, ""},
		{"one's own rule of a higher priority", []string{"/.env=none"}, []string{".env=read"}, ""},
		{"one's own more specific rule", []string{"/docs/a.md=read", "docs/a.md=view"}, nil, `rule "docs/a.md=view": it does not decide about "docs/a.md", which is read: rule "/docs/a.md=read" of --rule`},
		{"what is in a .git", []string{"/.git/config=read"}, nil, `rule "/.git/config=read": ".git" is the sandbox's own copy, in which no rule holds; to hide all of it: --rule '/.git=none'`},
		{"what is in any .git", []string{".git/hooks/=write"}, nil, `".git" is the sandbox's own copy`},
		{"what is in a .git that is hidden", []string{"/.git/hook*=none", ".git/=none"}, nil, ""},
		{"a .git in place", nil, []string{"/.git/config=write"}, ""},
		{"everything", []string{"**=read"}, nil, ""},
		{"what is tracked by nothing", []string{"src/=read", "/src/main.go=write"}, nil, ""},
	} {
		p, err := For(t.Context(), dir, &Options{Rules: parsed(t, tt.rules...), Reveals: parsed(t, tt.reveal...), StateDir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case tt.want == "" && len(p.Warnings) > 0:
			t.Errorf(`%s: got p.Warnings %q; want tt.want != "" or len(p.Warnings) <= 0`, tt.name, p.Warnings)
		case tt.want != "" && (len(p.Warnings) != 1 || !strings.Contains(p.Warnings[0], tt.want)):
			t.Errorf("%s: %q, want %q", tt.name, p.Warnings, tt.want)
		}
	}
}

func TestUnmatched(t *testing.T) {
	rules := parsed(t, "/docs/=read", "*.go=read", "*.rs=read", "/dosc=none", "**=read", "docs/b*=read", "main.go=none")
	none, whole, err := Unmatched(project(t), rules)
	if err != nil || !whole {
		t.Fatal(whole, err)
	}
	var got []string
	for _, r := range none {
		got = append(got, r.Pattern)
	}
	if want := []string{"*.rs", "/dosc", "docs/b*"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// What rules were made from is known from them; made again with the choice they are equal, for
// all presets, and with a rule more they are as if it had been given at first.
func TestChoice(t *testing.T) {
	dir := project(t)
	file := filepath.Join(dir, "p.yaml")
	if err := os.WriteFile(file, []byte("version: 1\nrules:\n  - docs/=read\n  - {pattern: src/, level: write, priority: 200}\n  - {pattern: x, level: none, priority: 3000}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	options := []Options{{File: file}}
	for _, preset := range perm.Presets() {
		options = append(options, Options{Preset: preset.Name}, Options{Preset: preset.Name, File: file})
	}
	options = append(options, Options{
		File: file, Preset: "agent-safe", Project: parsed(t, "src/=read"), ProjectReveals: parsed(t, "/.env=read", "/x.pem=read"), ProjectPreset: true,
	})
	state := t.TempDir()
	sorted := func(rules []perm.Rule) []perm.Rule {
		rules = slices.Clone(rules)
		slices.SortFunc(rules, func(a, b perm.Rule) int { return strings.Compare(a.String()+a.Source, b.String()+b.Source) })
		return slices.Compact(rules)
	}
	for _, o := range options {
		o.StateDir = state
		o.Rules, o.Reveals = parsed(t, "/docs/=view", "a=none"), parsed(t, "/.env=read")
		first, err := For(t.Context(), dir, &o)
		if err != nil {
			t.Fatal(err)
		}
		c, err := ChoiceOf(first.Rules)
		if err != nil {
			t.Fatal(err)
		}
		if c.Preset != o.Preset || c.PresetRules == 0 {
			t.Errorf("preset %q of %+v", c.Preset, o)
		}
		again, err := For(t.Context(), dir, &Options{Choice: c, StateDir: state})
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(sorted(again.Rules), sorted(first.Rules)) {
			t.Errorf("%+v: again\n%v\nfirst\n%v", o, sorted(again.Rules), sorted(first.Rules))
		}
		added, err := For(t.Context(), dir, &Options{Choice: c, StateDir: state, Rules: parsed(t, "a=read", "b=read"), Reveals: parsed(t, "/.env=none")})
		if err != nil {
			t.Fatal(err)
		}
		o.Rules, o.Reveals = parsed(t, "/docs/=view", "a=read", "b=read"), parsed(t, "/.env=none")
		want, err := For(t.Context(), dir, &o)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(sorted(added.Rules), sorted(want.Rules)) {
			t.Errorf("%+v: added\n%v\nwant\n%v", o, sorted(added.Rules), sorted(want.Rules))
		}
	}
	for _, rules := range [][]perm.Rule{
		{{Pattern: "**", Level: perm.Write}},
		nil,
		{{Pattern: "**", Level: perm.Write, Source: "mine"}},
		{{Pattern: "**", Level: perm.Write, Source: "preset of tomorrow"}},
	} {
		if _, err := ChoiceOf(rules); err == nil {
			t.Errorf("%v: no error", rules)
		}
	}
}
