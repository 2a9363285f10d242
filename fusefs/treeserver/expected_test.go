package treeserver

import (
	"encoding/json"
	"testing"

	"wolffia/perm"
)

// Rules that were compiled ahead are used for the same rules only.
func TestExpected(t *testing.T) {
	ahead := []perm.Rule{{Pattern: "**", Level: perm.Write}, {Pattern: "secret", Level: perm.None, Priority: 1}}
	text := func(rules []perm.Rule) []byte {
		b, err := json.Marshal(rules)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	e := expect(text(ahead))
	for name, c := range map[string]struct {
		e     *expected
		rules []perm.Rule
		same  bool
	}{
		"the same":     {e, ahead, true},
		"one less":     {e, ahead[:1], false},
		"another":      {e, []perm.Rule{ahead[0], {Pattern: "secrets", Level: perm.None, Priority: 1}}, false},
		"none ahead":   {expect(nil), ahead, false},
		"broken ahead": {expect(text([]perm.Rule{{Pattern: "["}})), ahead, false},
	} {
		text := text(c.rules)
		policy, err := c.e.compile(text)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if same := c.e != nil && policy == c.e.policy; same != c.same {
			t.Errorf("%s: compiled ahead: %t", name, same)
		}
		if got, _ := json.Marshal(policy.Rules()); string(got) != string(text) {
			t.Errorf("%s: it has the rules %s, and %s were asked for", name, got, text)
		}
	}
	if _, err := e.compile([]byte("nonsense")); err == nil {
		t.Error("nonsense is taken for rules")
	}
}
