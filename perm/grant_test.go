package perm_test

import (
	"testing"

	"wolffia/perm"
)

func compile(t *testing.T, rules []perm.Rule) *perm.Policy {
	t.Helper()
	p, err := perm.Compile(rules)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestGrantsAll(t *testing.T) {
	for _, preset := range perm.Presets() {
		if got, want := compile(t, preset.Rules).GrantsAll(), preset.Name == "full-access"; got != want {
			t.Errorf("%s: got %v, want %v", preset.Name, got, want)
		}
	}
	all := perm.Rule{Pattern: "**", Level: perm.Write}
	for name, test := range map[string]struct {
		rules []perm.Rule
		want  bool
	}{
		"no rule":      {nil, false},
		"all":          {[]perm.Rule{all}, true},
		"the same":     {[]perm.Rule{all, {Pattern: "/src/", Level: perm.Write, Priority: 1}}, true},
		"read":         {[]perm.Rule{{Pattern: "**", Level: perm.Read}}, false},
		"but one file": {[]perm.Rule{all, {Pattern: "/a/b/c", Level: perm.Read, Priority: 1}}, false},
		"at most":      {[]perm.Rule{all, {Pattern: "x", Level: perm.Read, AtMost: true, Priority: 1}}, false},
		"below only":   {[]perm.Rule{{Pattern: "/*", Level: perm.Write}}, false},
		"outranked":    {[]perm.Rule{{Pattern: "**", Level: perm.Write, Priority: 5}, {Pattern: "x", Level: perm.None}}, true},
	} {
		if got := compile(t, test.rules).GrantsAll(); got != test.want {
			t.Errorf("%s: got %v, want %v", name, got, test.want)
		}
	}
}

func TestFresh(t *testing.T) {
	p := compile(t, []perm.Rule{
		{Pattern: "**", Level: perm.Write},
		{Pattern: "*.pem", Level: perm.None, Priority: 1},
		{Pattern: ".claude/*", Level: perm.Read, AtMost: true, Except: "plans", Priority: 1},
		{Pattern: "/docs/", Level: perm.Read, Priority: 1},
		{Pattern: "/flat/*", Type: perm.Directory, Level: perm.View, Priority: 1},
	})
	for dir, want := range map[string]perm.Level{".claude": perm.Read, "docs": perm.Read, "src": perm.Write, "flat": perm.View} {
		if got := p.Fresh(p.Enter(p.Root(), dir)); got != want {
			t.Errorf("%s: %v, want %v", dir, got, want)
		}
	}
	if got := p.Fresh(p.Root()); got != perm.Write {
		t.Errorf("root: %v", got)
	}
}
