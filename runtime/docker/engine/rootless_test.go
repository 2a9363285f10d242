package engine

import (
	"errors"
	"testing"

	"github.com/moby/moby/api/types/system"

	"wolffia/runtime"
)

// Only the tree server's mount, on top of whatever is at the place, will do.
func TestHasTree(t *testing.T) {
	const (
		tree  = "331 329 0:64 / /work\\040space rw,nosuid shared:3 - fuse.wolffia wolffia rw,user_id=1\n"
		plain = "357 351 254:0 /state/engine/tree /work\\040space rw,relatime - ext4 /dev/vda rw\n"
		other = "358 351 254:0 / /work\\040space2 rw - fuse.wolffia wolffia rw\n"
		forge = "359 351 254:0 /x\\040-\\040fuse.wolffia /work\\040space rw,relatime - ext4 fuse.wolffia rw\n"
	)
	for text, want := range map[string]bool{
		"": false, "garbage\n - fuse.wolffia": false, tree: true, plain: false, other: false, forge: false,
		plain + tree + other: true, tree + plain: false, other + plain: false,
	} {
		if hasTree(text, "/work space") != want {
			t.Errorf("%q: %v", text, !want)
		}
	}
}

// A rootless Podman, of which that is known, may run sandboxes without limits.
func TestSuitsRootless(t *testing.T) {
	info := &system.Info{SecurityOptions: []string{"name=seccomp,profile=default", "name=rootless"}, MemoryLimit: true, CPUCfsQuota: true, PidsLimit: true}
	if err := suits(info, &runtime.Resources{}, true); err != nil {
		t.Error(err)
	}
	for _, want := range []runtime.Resources{{Memory: 1 << 30}, {CPUs: 1}, {PIDs: 10}} {
		if err := suits(info, &want, true); !errors.Is(err, runtime.ErrUnsupported) {
			t.Errorf("%+v: %v", want, err)
		}
	}
	if err := suits(&system.Info{SecurityOptions: []string{"name=rootless"}}, &runtime.Resources{}, true); !errors.Is(err, runtime.ErrUnsupported) {
		t.Error(err) // no seccomp
	}
}
