package perm_test

import (
	"slices"
	"testing"

	"wolffia/perm"
)

func TestTargets(t *testing.T) {
	for _, c := range []struct {
		name string
		dir  bool
		rule perm.Rule
		want []string
	}{
		{"docs/a.md", false, perm.Rule{Pattern: "**", Level: perm.Read}, []string{"/docs/a.md", "/docs/**", "**/*.md"}},
		{"docs/a.md", false, perm.Rule{Pattern: "/docs/**", Level: perm.Read}, []string{"/docs/a.md", "/docs/**", "/docs/**/*.md"}},
		{"x/docs/in/a.md", false, perm.Rule{Pattern: "docs/", Level: perm.Read}, []string{"/x/docs/in/a.md", "/x/docs/in/**", "/x/docs/**/*.md", "docs/"}},
		{"docs/a.md", false, perm.Rule{Pattern: "*.md", Level: perm.Read}, []string{"/docs/a.md", "*.md"}},
		{"docs/a.md", false, perm.Rule{Pattern: "*.md", Except: "b.md", Level: perm.Read}, []string{"/docs/a.md"}},
		{"docs/a.md", false, perm.Rule{Pattern: "*.*", NotBelow: "x", Level: perm.Read}, []string{"/docs/a.md"}},
		{"a.md", false, perm.Rule{Pattern: "**", Level: perm.Read, AtMost: true}, []string{"/a.md", "**/*.md"}},
		{"docs/new", true, perm.Rule{Pattern: "**", Level: perm.Read}, []string{"/docs/new", "/docs/**"}},
		{"docs/.env", false, perm.Rule{Pattern: "**", Level: perm.View, Ask: true}, []string{"/docs/.env", "/docs/**"}},
		{"d*\xff/a[1].m*", false, perm.Rule{Pattern: "**", Level: perm.Read}, []string{`/d\*\xff/a\[1\].m\*`, `/d\*\xff/**`, `**/*.m\*`}},
		{".", true, perm.Rule{Pattern: "**", Level: perm.Read}, nil},
	} {
		got := perm.Targets(c.name, c.dir, &c.rule)
		if !slices.Equal(got, c.want) {
			t.Errorf("%q by %v: %q, want %q", c.name, c.rule, got, c.want)
		}
		for _, pattern := range got {
			if _, err := perm.ParseRule(pattern + "=write"); err != nil {
				t.Errorf("%q: %v", pattern, err)
			}
		}
	}
}

// No target gives more than the rule's paths.
func TestTargetsAreNotWider(t *testing.T) {
	paths := []string{"a.md", "docs/a.md", "docs/in/b.md", "docs/in/c.txt", "x/docs/d.md", "x/e.md", "docs.md/f.md", ".x.md"}
	for _, rule := range []perm.Rule{
		{Pattern: "**"},
		{Pattern: "docs/"},
		{Pattern: "/docs/**"},
		{Pattern: "*.md"},
		{Pattern: "/docs/*"},
		{Pattern: "docs/**/*.md"},
		{Pattern: "*.*", Except: "e.md"},
		{Pattern: "docs/*", Except: "a.md"},
		{Pattern: "*.*", NotBelow: "in"},
		{Pattern: "*.md", Type: perm.File},
		{Pattern: "DOCS", Fold: true},
	} {
		rule.Level = perm.Write
		of, err := perm.Compile([]perm.Rule{rule})
		if err != nil {
			t.Fatal(err)
		}
		for _, at := range paths {
			if of.Level(at, false) != perm.Write {
				continue
			}
			for _, target := range perm.Targets(at, false, &rule) {
				to, err := perm.Compile([]perm.Rule{{Pattern: target, Level: perm.Write}})
				if err != nil {
					t.Fatal(err)
				}
				if to.Level(at, false) != perm.Write {
					t.Errorf("target %q of %q does not give it", target, at)
				}
				for _, other := range paths {
					if to.Level(other, false) == perm.Write && of.Level(other, false) != perm.Write {
						t.Errorf("target %q of %q by %v gives %q", target, at, rule, other)
					}
				}
			}
		}
	}
}

func TestAskIsALevelOfRules(t *testing.T) {
	r, err := perm.ParseRule("secrets/**=ask")
	if want := (perm.Rule{Pattern: "secrets/**", Level: perm.View, Ask: true}); err != nil || r != want || r.String() != "secrets/**=ask" {
		t.Fatalf("%+v, %v, %s", r, err, r)
	}
	f, err := perm.ParsePolicy("p", []byte("version: 1\nrules:\n  - a=ask\n  - pattern: b\n    level: ask\n"))
	if err != nil || len(f.Rules) != 2 || !f.Rules[0].Ask || !f.Rules[1].Ask || f.Rules[1].Level != perm.View {
		t.Fatalf("%+v, %v", f, err)
	}
	if _, err := perm.ParsePolicy("p", []byte("version: 1\nrules:\n  - a=ask\n  - a=view\n")); err == nil {
		t.Error("a=view repeats a=ask")
	}
	if _, err := perm.Compile([]perm.Rule{{Pattern: "a", Level: perm.Read, Ask: true}}); err == nil {
		t.Error("a rule with ask and read is accepted")
	}
	p, err := perm.Compile([]perm.Rule{{Pattern: "**", Level: perm.Write}, {Pattern: "a", Level: perm.View, Ask: true}})
	if err != nil {
		t.Fatal(err)
	}
	if e := p.Explain("a", false); e.Level != perm.View || !e.Rule.Ask {
		t.Errorf("%+v", e)
	}
}

func TestNamesSecret(t *testing.T) {
	for name, want := range map[string]bool{".env": true, "x/secrets/a": true, "id_rsa": true, "README.md": false, ".git/config": false, "x.git/config": false, ".bashrc": false} {
		if got := perm.NamesSecret(name); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
