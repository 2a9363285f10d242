package defaults

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"wolffia/internal/host/statedir"
	"wolffia/runtime"
)

// TestLeaveToolchains: a volume takes the place of a toolchain, and a read-only one all below it;
// below one that can be written, as a home directory, toolchains are mounted.
func TestLeaveToolchains(t *testing.T) {
	tool := func(target string) runtime.Mount {
		return runtime.Mount{Source: target, Target: target, Toolchain: true}
	}
	for name, test := range map[string]struct {
		volume runtime.VolumeMount
		left   []string
	}{
		"elsewhere":       {runtime.VolumeMount{Target: "~/.car"}, []string{"/home/u/.cargo/bin", "/opt/x/bin"}},
		"read-only above": {runtime.VolumeMount{Target: "~/.cargo", ReadOnly: true}, []string{"/opt/x/bin"}},
		"writable above":  {runtime.VolumeMount{Target: "~/.cargo"}, []string{"/home/u/.cargo/bin", "/opt/x/bin"}},
		"home":            {runtime.VolumeMount{Target: "~"}, []string{"/home/u/.cargo/bin", "/opt/x/bin"}},
		"same":            {runtime.VolumeMount{Target: "~/.cargo/bin"}, []string{"/opt/x/bin"}},
		"same, absolute":  {runtime.VolumeMount{Target: "/opt/x/bin"}, []string{"/home/u/.cargo/bin"}},
		"absolute above":  {runtime.VolumeMount{Target: "/opt", ReadOnly: true}, []string{"/home/u/.cargo/bin"}},
		"below":           {runtime.VolumeMount{Target: "~/.cargo/bin/x", ReadOnly: true}, []string{"/home/u/.cargo/bin", "/opt/x/bin"}},
	} {
		c := &statedir.Config{User: "u"}
		c.Mounts = []runtime.Mount{tool("/home/u/.cargo/bin"), tool("/opt/x/bin")}
		test.volume.Name = "v"
		c.Volumes = []runtime.VolumeMount{test.volume}
		LeaveToolchains(c) // as Create
		if err := Volumes(c); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		var left []string
		for _, m := range c.Mounts {
			left = append(left, m.Target)
		}
		if diff := cmp.Diff(test.left, left); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	own := &statedir.Config{User: "u"}
	own.Mounts = []runtime.Mount{{Source: "/x", Target: "/x"}}
	own.Volumes = []runtime.VolumeMount{{Name: "v", Target: "/x"}}
	if LeaveToolchains(own); len(own.Mounts) != 1 {
		t.Error("a mount of the user's own was left out")
	}
}
