package gvisor_test

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/runtime-spec/specs-go"

	"wolffia/runtime"
	"wolffia/runtime/gvisor"
)

var update = flag.Bool("update", false, "write the golden files")

func spec(change func(*runtime.LaunchSpec)) *runtime.LaunchSpec {
	s := &runtime.LaunchSpec{
		ID: "abcdefghijkl", Hostname: "abcdefghijkl",
		UID: 1000, GID: 1001, User: "ann", Home: "/home/ann",
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
		Dir:     "/state/run/mnt/backend",
	}
	change(s)
	return s
}

// The configuration and the flags are the isolation: a change of them must be
// seen in a diff.
func TestSpec(t *testing.T) {
	for name, s := range map[string]*runtime.LaunchSpec{
		"codebase":    spec(func(*runtime.LaunchSpec) {}),
		"no-codebase": spec(func(s *runtime.LaunchSpec) { s.Binds, s.Scratch = nil, []string{"/workspace"} }),
		"network":     spec(func(s *runtime.LaunchSpec) { s.Network = runtime.NetworkHost }),
		"kvm":         spec(func(s *runtime.LaunchSpec) { s.Platform = gvisor.KVM }),
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
			s.RootDir, s.Root, s.Etc = "/state/run/mnt/root", nil, ""
		}),
	} {
		t.Run(name, func(t *testing.T) {
			config, err := json.MarshalIndent(gvisor.Spec(s), "", "\t")
			if err != nil {
				t.Fatal(err)
			}
			got := strings.Join(gvisor.Flags(s, s.Dir+"/state", s.Dir), "\n") + "\n\n" + string(config) + "\n"
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
				t.Errorf("-want +got (go test ./runtime/gvisor -run TestSpec -update writes it):\n%s", diff)
			}
		})
	}
}

// Whatever a spec says, the sandbox is isolated, and its first process is the
// guest with its filter.
func TestSpecAlwaysIsolates(t *testing.T) {
	for _, s := range []*runtime.LaunchSpec{
		spec(func(*runtime.LaunchSpec) {}),
		{},
		{Platform: "nonsense"},
		spec(func(s *runtime.LaunchSpec) { s.Network = "nonsense" }),
		spec(func(s *runtime.LaunchSpec) { s.RootDir, s.Root, s.Etc = "/root-directory", nil, "" }),
		spec(func(s *runtime.LaunchSpec) {
			s.Binds = []runtime.Mount{{Source: "/a", Target: "/a"}, {Source: "/b", Target: "/b", Writable: true}}
		}),
	} {
		got := gvisor.Spec(s)
		p := got.Process
		if got.Root.Readonly == (s.RootDir != "") || !p.NoNewPrivileges || p.Terminal || len(p.Env) > 0 || p.Env == nil {
			t.Errorf("%+v, %+v", got.Root, p)
		}
		if !slices.Equal(p.Args, []string{runtime.GuestPath, "--seccomp", "/run/wolffia/seccomp", runtime.SessionsPath, s.ID}) {
			t.Errorf("it starts %q", p.Args)
		}
		if p.Capabilities == nil || !cmp.Equal(*p.Capabilities, specs.LinuxCapabilities{}) {
			t.Errorf("capabilities: %+v", p.Capabilities)
		}
		for _, want := range []specs.LinuxNamespaceType{"pid", "ipc", "uts", "mount", "user", "network"} {
			if !slices.Contains(got.Linux.Namespaces, specs.LinuxNamespace{Type: want}) {
				t.Errorf("no %s namespace of its own", want)
			}
		}
		for _, m := range got.Mounts {
			writable := m.Type == "bind" && (m.Destination == "/b" || m.Destination == "/workspace")
			if !slices.Contains(m.Options, "nosuid") || m.Type == "bind" && !writable && !slices.Contains(m.Options, "ro") {
				t.Errorf("%+v", m)
			}
		}
		flags := gvisor.Flags(s, "/state", "/bundle")
		for _, want := range []string{
			"--network=none", "--overlay2=none", "--host-uds=none", "--host-fifo=none", "--net-raw=false", "--allow-suid=false",
			"--allow-flag-override=false", "--file-access-mounts=shared", "--ignore-cgroups",
		} {
			if !slices.Contains(flags, want) {
				t.Errorf("no %s in %q", want, flags)
			}
		}
		if flags[len(flags)-1] != s.ID || !slices.Contains(flags, "run") {
			t.Errorf("%q", flags)
		}
	}
}
