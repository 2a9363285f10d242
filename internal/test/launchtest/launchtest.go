// Package launchtest has the launch specifications that the backends' pure tests share.
// Golden files hold what each backend makes of them.
package launchtest

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"wolffia/runtime"
	"wolffia/runtime/launch"
)

var update = flag.Bool("update", false, "write the golden files")

// Golden compares got with the file testdata/NAME.golden: a change of what
// isolates must be seen in a diff. With -update it writes the file.
func Golden(t *testing.T, name, got string) {
	t.Helper()
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
		t.Errorf("-want +got (go test -run %s -update writes it):\n%s", t.Name(), diff)
	}
}

// Spec is an ordinary spec, changed.
func Spec(change func(*launch.Spec)) *launch.Spec {
	s := &launch.Spec{
		ID: "abcdefghijkl", Tag: "abcdefghijkl-01234567", Hostname: "abcdefghijkl",
		UID: 1000, GID: 1001, Home: "/home/ann",
		Root: []launch.Mount{
			{Source: "/usr", Target: "/usr"},
			{Kind: launch.Symlink, Source: "usr/bin", Target: "/bin"},
			{Kind: launch.Symlink, Source: "usr/lib", Target: "/lib"},
			{Source: "/opt", Target: "/opt"},
			{Kind: launch.Symlink, Source: "../tmp", Target: "/var/tmp"},
		},
		Etc:        "/state/run/mnt/etc",
		Covers:     []runtime.Mount{{Source: "/proc/sys", Target: "/proc/sys"}, {Source: "/state/run/mnt/no-file", Target: "/proc/keys"}},
		Binds:      []runtime.Mount{{Source: "/state/run/mnt/tree", Target: "/workspace", Writable: true}},
		Guest:      "/usr/local/bin/wolffia-guest",
		Network:    runtime.NetworkNone,
		Seccomp:    []byte{1},
		Processors: 4,
		Dir:        "/state/run/mnt/backend",
	}
	change(s)
	return s
}

// Specs are what a backend has to translate, by the names of golden files.
func Specs() map[string]*launch.Spec {
	return map[string]*launch.Spec{
		"codebase":    Spec(func(*launch.Spec) {}),
		"no-codebase": Spec(func(s *launch.Spec) { s.Binds, s.Scratch = nil, []string{"/workspace"} }),
		"network":     Spec(func(s *launch.Spec) { s.Network = runtime.NetworkHost }),
		"mounts": Spec(func(s *launch.Spec) {
			s.Binds = append(s.Binds,
				runtime.Mount{Source: "/data", Target: "/data"},
				runtime.Mount{Source: "/home/ann/cache", Target: "/cache", Writable: true})
		}),
		"nested": Spec(func(s *launch.Spec) {
			s.Binds = []runtime.Mount{
				{Source: "/state/run/mnt/tree", Target: "/home/ann/src/x", Writable: true},
				{Source: "/home/ann", Target: "/home/ann", Writable: true},
				{Source: "/home/ann/src/x/data", Target: "/home/ann/src/x/data"},
				{Source: "/data", Target: "/data"},
			}
		}),
		"rootfs": Spec(func(s *launch.Spec) {
			s.Etc = ""
			s.Root = []launch.Mount{
				{Source: "/r/bin", Target: "/bin"},
				{Source: "/r/etc", Target: "/etc"},
				{Kind: launch.Symlink, Source: "../tmp", Target: "/var/tmp"},
			}
			s.Binds = append([]runtime.Mount{{Source: "/state/run/mnt/etc/passwd", Target: "/etc/passwd"}}, s.Binds...)
		}),
		"limits": Spec(func(s *launch.Spec) {
			s.Binds, s.Scratch = nil, []string{"/workspace"}
			s.Config = &runtime.SandboxConfig{Resources: runtime.Resources{Memory: 64 << 20, PIDs: 10}}
			s.Rlimits = launch.Rlimits{PIDs: 10, Data: 64 << 20}
		}),
		"git":   Spec(func(s *launch.Spec) { s.Git = "/state/run/mnt/git" }),
		"image": Spec(func(s *launch.Spec) { s.Root, s.Etc, s.RootDir = nil, "", "/state/run/mnt/root" }),
		"root": Spec(func(s *launch.Spec) {
			s.Root, s.Etc, s.RootDir = nil, "", "/state/run/mnt/root"
			s.RootInside, s.UID, s.GID, s.Home = true, 0, 0, ""
			s.Binds = append(s.Binds, runtime.Mount{Source: "/cache", Target: "/root/.cache/go", Writable: true})
		}),
	}
}
