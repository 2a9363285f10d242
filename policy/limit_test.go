package policy_test

import (
	"slices"
	"testing"

	"wolffia/perm"
	"wolffia/policy"
	"wolffia/runtime"
)

// Limits take away only, whatever the rules before them give, and stay when the rules are made
// anew.
func TestLimits(t *testing.T) {
	dir := t.TempDir()
	base, err := policy.For(t.Context(), dir, &policy.Options{
		Preset: "agent-safe", StateDir: t.TempDir(), Rules: []perm.Rule{{Pattern: "docs", Level: perm.View}}, Reveals: []perm.Rule{{Pattern: ".env", Level: perm.Write}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		preset string
		rules  []string
		want   map[string]perm.Level
	}{
		{"", nil, map[string]perm.Level{"a": perm.Write, "docs/a": perm.View, ".env": perm.Write}},
		{"", []string{"a=read", "docs=read", ".env=none", "a=read"}, map[string]perm.Level{"a": perm.Read, "b": perm.Write, "docs/a": perm.View, ".env": perm.None}},
		{"read-only", nil, map[string]perm.Level{"a": perm.Read, "docs/a": perm.View, ".env": perm.None}},
		{"view-only", []string{"b=none"}, map[string]perm.Level{"a": perm.View, "b": perm.None}},
	} {
		limits, err := policy.Limits(c.preset, c.rules)
		if err != nil {
			t.Fatal(err)
		}
		all := slices.Concat(base.Rules, limits)
		choice, err := policy.ChoiceOf(all)
		if err != nil {
			t.Fatal(err)
		}
		again, err := policy.For(t.Context(), dir, &policy.Options{Choice: choice, StateDir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		for _, rules := range [][]perm.Rule{all, again.Rules} {
			p, err := perm.Compile(rules)
			if err != nil {
				t.Fatal(err)
			}
			for path, want := range c.want {
				if got := p.Level(path, false); got != want {
					t.Errorf("%q %q: %s is %v, want %v", c.preset, c.rules, path, got, want)
				}
			}
		}
	}
	for _, c := range []struct {
		preset string
		rules  []string
	}{{"odd", nil}, {"full-access", nil}, {"", []string{"a=write"}}, {"", []string{"a"}}, {"", []string{"a=odd"}}, {"", []string{"{a=read"}}} {
		if _, err := policy.Limits(c.preset, c.rules); runtime.Class(err) != runtime.ErrInvalid {
			t.Errorf("%+v: got err %v; want runtime.Class(err) == runtime.ErrInvalid", c, err)
		}
	}
}
