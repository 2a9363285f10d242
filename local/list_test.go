package local_test

import (
	"path/filepath"
	"strconv"
	"testing"

	"wolffia/internal/test/testbin"
	"wolffia/local"
	"wolffia/perm"
	"wolffia/runtime"
	"wolffia/runtime/bwrap"
)

// A list decodes no configuration that its process knows, and shows what others have changed.
func TestListKnowsConfigurations(t *testing.T) {
	rt, state, codebase := newRuntime(t)
	rules := make([]perm.Rule, 500)
	for i := range rules {
		rules[i] = perm.Rule{Pattern: "/" + strconv.Itoa(i), Level: perm.Read}
	}
	s, err := rt.Create(t.Context(), &runtime.SandboxConfig{CodebasePath: codebase, Permissions: rules})
	if err != nil {
		t.Fatal(err)
	}
	other, err := local.New(&local.Options{StateDir: state, Binary: filepath.Join(testbin.Dir(t), "wolffia")}, bwrap.Backend())
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	list := func(rt *local.Runtime) *runtime.Sandbox {
		all, err := rt.List(t.Context())
		if err != nil || len(all) != 1 || all[0].ID != s.ID {
			t.Fatalf("%v, %v", all, err)
		}
		return all[0]
	}
	decoded := testing.AllocsPerRun(5, func() { list(other) })
	if known := testing.AllocsPerRun(5, func() { list(rt) }); known > decoded/2 {
		t.Errorf("%.0f allocations, and %.0f of a process that does not know the configuration", known, decoded)
	}
	if _, err := other.ChangeLabels(t.Context(), s.ID, func(labels map[string]string) error {
		labels["new"] = "label"
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if got := list(rt); got.Labels["new"] != "label" {
		t.Errorf("labels %v after another process has set them", got.Labels)
	}
}
