package engine

import (
	"errors"
	"testing"

	"github.com/moby/moby/api/types/system"

	"wolffia/runtime"
)

// A rootless Podman, of which that is known, may run sandboxes without limits.
func TestSuitsRootless(t *testing.T) {
	info := &system.Info{SecurityOptions: []string{"name=seccomp,profile=default", "name=rootless"}, MemoryLimit: true, CPUCfsQuota: true, PidsLimit: true}
	if err := suits(info, &runtime.Resources{}, true); err != nil {
		t.Error(err)
	}
	for _, want := range []runtime.Resources{{Memory: 1 << 30}, {CPUs: 1}, {PIDs: 10}} {
		if err := suits(info, &want, true); !errors.Is(err, runtime.ErrUnsupported) {
			t.Errorf("%+v: got %v, want runtime.ErrUnsupported", want, err)
		}
	}
	if err := suits(&system.Info{SecurityOptions: []string{"name=rootless"}}, &runtime.Resources{}, true); !errors.Is(err, runtime.ErrUnsupported) {
		t.Error(err) // no seccomp
	}
}
