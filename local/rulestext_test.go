package local

import (
	"encoding/json"
	"testing"

	"wolffia/internal/host/statedir"
	"wolffia/perm"
	"wolffia/runtime"
)

// The text is always that of the rules, also when the caller changes the slice that it gave before.
func TestRulesText(t *testing.T) {
	var r rulesText
	rules := []perm.Rule{{Pattern: "a", Level: perm.Read}}
	c := &statedir.Config{SandboxConfig: runtime.SandboxConfig{Permissions: rules}}
	for _, pattern := range []string{"a", "b", "b", "c"} {
		rules[0].Pattern = pattern
		want, err := json.Marshal(rules)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := r.of(c); err != nil || string(got) != string(want) {
			t.Errorf("%s, want %s: %v", got, want, err)
		}
	}
	same := testing.AllocsPerRun(10, func() { _, _ = r.of(c) })
	if same != 0 {
		t.Errorf("the same rules again: %v allocations", same)
	}
	c.HeaderOnly = true
	if text, err := r.of(c); err == nil {
		t.Errorf("of rules that were not read: %s", text)
	}
}
