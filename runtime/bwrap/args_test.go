package bwrap_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"wolffia/runtime"
	"wolffia/runtime/bwrap"
)

var update = flag.Bool("update", false, "write the golden files")

func spec(change func(*runtime.LaunchSpec)) *runtime.LaunchSpec {
	s := &runtime.LaunchSpec{
		ID: "abcdefghijkl", Hostname: "abcdefghijkl",
		UID: 1000, GID: 1000, User: "ann", Home: "/home/ann",
		Root: []runtime.RootEntry{
			{Name: "usr", Source: "/usr"},
			{Name: "bin", Link: "usr/bin"},
			{Name: "lib", Link: "usr/lib"},
			{Name: "opt", Source: "/opt"},
		},
		Etc:     "/state/run/mnt/etc",
		Binds:   []runtime.Mount{{Source: "/state/run/mnt/tree", Target: "/workspace", Writable: true}},
		Guest:   "/usr/local/bin/wolffia-guest",
		Network: runtime.NetworkNone,
		Seccomp: []byte{1},
	}
	change(s)
	return s
}

// The command line is the isolation: a change of it must be seen in a diff.
func TestArgs(t *testing.T) {
	for name, s := range map[string]*runtime.LaunchSpec{
		"codebase":    spec(func(*runtime.LaunchSpec) {}),
		"no-codebase": spec(func(s *runtime.LaunchSpec) { s.Binds, s.Scratch = nil, []string{"/workspace"} }),
		"network":     spec(func(s *runtime.LaunchSpec) { s.Network = runtime.NetworkHost }),
		"mounts": spec(func(s *runtime.LaunchSpec) {
			s.Binds = append(s.Binds,
				runtime.Mount{Source: "/data", Target: "/data"},
				runtime.Mount{Source: "/home/ann/cache", Target: "/cache", Writable: true})
		}),
		"rootfs": spec(func(s *runtime.LaunchSpec) {
			s.Etc = ""
			s.Root = []runtime.RootEntry{{Name: "bin", Source: "/r/bin"}, {Name: "etc", Source: "/r/etc"}}
			s.Binds = append([]runtime.Mount{{Source: "/state/run/mnt/etc/passwd", Target: "/etc/passwd"}}, s.Binds...)
		}),
		"image": spec(func(s *runtime.LaunchSpec) {
			s.Root, s.Etc, s.RootDir = nil, "", "/state/run/mnt/root"
		}),
	} {
		t.Run(name, func(t *testing.T) {
			got := strings.Join(bwrap.Args(s), "\n") + "\n"
			file := filepath.Join("testdata", name+".golden")
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("-want +got (go test ./runtime/bwrap -update writes it):\n%s", diff)
			}
		})
	}
}

// Whatever a spec says, the line has all of the isolation and ends with the
// guest.
func TestArgsAlwaysIsolate(t *testing.T) {
	always := []string{
		"--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-uts", "--unshare-cgroup",
		"--disable-userns", "--cap-drop ALL", "--new-session", "--die-with-parent", "--as-pid-1",
		"--clearenv", "--seccomp 3",
	}
	for _, s := range []*runtime.LaunchSpec{spec(func(*runtime.LaunchSpec) {}), {}, spec(func(s *runtime.LaunchSpec) { s.Network = "nonsense" })} {
		line := " " + strings.Join(bwrap.Args(s), " ") + " "
		for _, want := range always {
			if !strings.Contains(line, " "+want+" ") {
				t.Errorf("no %s in:%s", want, line)
			}
		}
		if s.RootDir == "" && !strings.Contains(line, " --remount-ro / ") {
			t.Errorf("the root can be written to:%s", line)
		}
		if s.Network != runtime.NetworkHost && !strings.Contains(line, " --unshare-net ") {
			t.Errorf("network %q is not isolated:%s", s.Network, line)
		}
	}
}
