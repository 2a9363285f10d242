package shimtest

import (
	"errors"
	"os/exec"
	"path/filepath"
	"testing"

	"wolffia/runtime"
)

// Twice checks that what is done in one state directory touches no sandbox of another that has the same id: the other
// is a copy of it, or has chosen the id too. In an engine, both cannot run at once.
func Twice(t *testing.T, backend Backend, engine bool) {
	for name, test := range map[string]func(*testing.T, Backend, bool){"Copy": stateCopied, "SameID": chosenTwice} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, backend, engine)
		})
	}
}

func stateCopied(t *testing.T, backend Backend, engine bool) {
	rt := backend.Fresh(t)
	var ids []string
	for _, c := range []*runtime.SandboxConfig{
		{}, {BoundToCaller: true}, {Resources: runtime.Resources{Memory: 256 << 20, BestEffort: true}},
	} {
		ids = append(ids, on(t, rt, c).ID)
	}
	state := filepath.Join(PublicDir(t), "state")
	if out, err := exec.CommandContext(t.Context(), "cp", "-a", rt.State, state).CombinedOutput(); err != nil {
		t.Fatalf("CombinedOutput: got err %v, out %s; want err == nil", err, out)
	}
	copied := backend.Open(t, state)
	if all, err := copied.List(t.Context()); err != nil || len(all) != 2 { // the caller of the bound one is no caller of its copy
		t.Errorf("%+v, %v; want two sandboxes", all, err)
	}
	if !engine {
		if err := errors.Join(copied.Start(t.Context(), ids[0]), copied.Stop(t.Context(), ids[0])); err != nil {
			t.Error(err)
		}
	}
	if err := copied.Destroy(t.Context(), ids[0]); err != nil {
		t.Error(err)
	}
	if _, err := copied.Prune(t.Context(), true); err != nil {
		t.Error(err)
	}
	if all, err := copied.List(t.Context()); err != nil || len(all) > 0 {
		t.Errorf("%+v, %v; want none", all, err)
	}
	for _, id := range ids {
		says(t, rt, id, "echo alive", "alive\n")
	}
}

func chosenTwice(t *testing.T, backend Backend, _ bool) {
	one, two := backend.Fresh(t), backend.Fresh(t)
	c := &runtime.SandboxConfig{ID: runtime.NewID()}
	on(t, one, c)
	if _, err := two.Create(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if err := two.Destroy(t.Context(), c.ID); err != nil {
		t.Error(err)
	}
	says(t, one, c.ID, "echo alive", "alive\n")
}
