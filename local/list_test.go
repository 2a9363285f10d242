package local_test

import (
	"strconv"
	"testing"

	"wolffia/local"
	"wolffia/perm"
	"wolffia/runtime"
)

// A list decodes no configuration that its process knows, and shows what others have changed.
func TestListKnowsConfigurations(t *testing.T) {
	rt, state, codebase := newRuntime(t)
	env := map[string]string{} // rules no list decodes
	for i := range 500 {
		env["V"+strconv.Itoa(i)] = "x"
	}
	s, err := rt.Create(t.Context(), &runtime.SandboxConfig{CodebasePath: codebase, Env: env})
	if err != nil {
		t.Fatal(err)
	}
	other := another(t, state)
	list := func(rt *local.Runtime) *runtime.Sandbox {
		all, err := rt.List(t.Context())
		if err != nil || len(all) != 1 || all[0].ID != s.ID {
			t.Fatalf("List: got all %v, err %v; want err == nil and len(all) == 1 and all[0].ID == %v", all, err, s.ID)
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

// A process that has used a sandbox without reading its rules starts it again by them, and tells them.
func TestRulesOfAUsedSandbox(t *testing.T) {
	rt, state, codebase := newRuntime(t)
	write(t, codebase, "hidden", "secret\n")
	write(t, codebase, "shown", "content\n")
	rules := []perm.Rule{{Pattern: "**", Level: perm.Read}, {Pattern: "hidden", Level: perm.None}}
	s, err := runtime.Launch(t.Context(), rt, &runtime.SandboxConfig{CodebasePath: codebase, Permissions: rules})
	if err != nil {
		t.Fatal(err)
	}
	other := another(t, state)
	if out, _ := sh(t, other, s.ID(), "ls"); out != "shown\n" {
		t.Errorf("used: %s", out)
	}
	if err := other.Stop(t.Context(), s.ID()); err != nil {
		t.Fatal(err)
	}
	if err := other.Start(t.Context(), s.ID()); err != nil {
		t.Fatal(err)
	}
	if out, _ := sh(t, other, s.ID(), "ls"); out != "shown\n" {
		t.Errorf("started again: %s", out)
	}
	if info, err := other.Inspect(t.Context(), s.ID()); err != nil || len(info.Config.Permissions) != len(rules) || !info.Tree.Current {
		t.Errorf("Inspect: got info %+v, err %v; want err == nil and len(info.Config.Permissions) == len(rules) and info.Tree.Current",
			info, err)
	}
}

// What Inspect returns is the caller's: a change of it changes no sandbox.
func TestInspectReturnsACopy(t *testing.T) {
	rt, _, codebase := newRuntime(t)
	write(t, codebase, "hidden", "secret\n")
	write(t, codebase, "shown", "content\n")
	s, err := rt.Create(t.Context(), &runtime.SandboxConfig{
		CodebasePath: codebase, Env: map[string]string{"V": "1"},
		Permissions: []perm.Rule{{Pattern: "**", Level: perm.Read}, {Pattern: "hidden", Level: perm.None}},
	})
	if err != nil {
		t.Fatal(err)
	}
	info, err := rt.Inspect(t.Context(), s.ID)
	if err != nil {
		t.Fatal(err)
	}
	info.Config.Permissions[1].Level, info.Config.Env["V"] = perm.Read, "2"
	if err := rt.Start(t.Context(), s.ID); err != nil {
		t.Fatal(err)
	}
	if out, _ := sh(t, rt, s.ID, "ls; echo $V"); out != "shown\n1\n" {
		t.Errorf(`sh "ls; echo $V": got %q, want %q`, out, "shown\n1\n")
	}
}
