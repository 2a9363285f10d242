package local_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"wolffia/runtime"
)

// What a caller that was killed while it removed a sandbox has left, what the sandbox
// had changed of an image with it, goes with the next create, rm, ls or prune.
func TestHalfRemoved(t *testing.T) {
	rt, state, codebase := newRuntime(t)
	other := create(t, rt, codebase)
	for what, do := range map[string]func() error{
		"create": func() error {
			s, err := rt.Create(t.Context(), &runtime.SandboxConfig{})
			return errors.Join(err, rt.Destroy(t.Context(), s.ID))
		},
		"rm of another": func() error {
			s, err := rt.Create(t.Context(), &runtime.SandboxConfig{Name: "another"})
			return errors.Join(err, rt.Destroy(t.Context(), s.ID))
		},
		"rm of it": func() error {
			err := rt.Destroy(t.Context(), "halfremoved1")
			if errors.Is(err, runtime.ErrNotFound) {
				return nil
			}
			return errors.New("it was there")
		},
		"ls": func() error {
			_, err := rt.List(t.Context())
			return err
		},
		"prune": func() error {
			got, err := rt.Prune(t.Context(), false)
			if want := []runtime.Pruned{{ID: "halfremoved1", Reason: "half"}}; !slices.Equal(got, want) {
				t.Errorf("pruned: %+v, want %+v", got, want)
			}
			return err
		},
	} {
		half := filepath.Join(state, "sandboxes", "halfremoved1")
		for _, d := range []string{"run/upper/etc", "run/work"} {
			if err := os.MkdirAll(filepath.Join(half, d), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		for _, f := range []string{"lock", "run/upper/etc/large", "lifetime.json"} {
			if err := os.WriteFile(filepath.Join(half, f), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := do(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if _, err := os.Lstat(half); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: it is still there (%v)", what, err)
		}
	}
	if _, err := rt.Get(t.Context(), other); err != nil {
		t.Error(err)
	}
}

// Beside those who make, start, stop and destroy sandboxes, prune takes none that
// they still want.
func TestPruneBesideOthers(t *testing.T) {
	rt, state, _ := newRuntime(t)
	second := another(t, state)
	over := make(chan struct{})
	var pruners, makers sync.WaitGroup
	pruners.Go(func() {
		for {
			select {
			case <-over:
				return
			default:
			}
			got, err := second.Prune(t.Context(), false)
			// Of what is just being destroyed it may take the last name away.
			if err != nil || slices.ContainsFunc(got, func(p runtime.Pruned) bool { return p.Reason != "half" }) {
				t.Errorf("pruned %+v, %v", got, err)
				return
			}
		}
	})
	for range 4 {
		makers.Go(func() {
			for range 5 {
				s, err := rt.Create(t.Context(), &runtime.SandboxConfig{TTL: runtime.MaxLifetime})
				if err != nil {
					t.Error(err)
					return
				}
				for _, err := range []error{
					rt.Start(t.Context(), s.ID), rt.Stop(t.Context(), s.ID), rt.Start(t.Context(), s.ID), rt.Destroy(t.Context(), s.ID),
				} {
					if err != nil {
						t.Errorf("sandbox %s: %v", s.ID, err)
					}
				}
			}
		})
	}
	makers.Wait()
	close(over)
	pruners.Wait()
}
