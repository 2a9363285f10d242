package gvisor_test

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/runtime-spec/specs-go"

	"wolffia/internal/test/launchtest"
	"wolffia/runtime"
	"wolffia/runtime/gvisor"
	"wolffia/runtime/launch"
)

// The configuration and the flags are the isolation: a change of them must be
// seen in a diff.
func TestSpec(t *testing.T) {
	specs := launchtest.Specs()
	specs["kvm"] = launchtest.Spec(func(s *launch.Spec) { s.Platform = gvisor.KVM })
	for name, s := range specs {
		t.Run(name, func(t *testing.T) {
			config, err := json.MarshalIndent(gvisor.Spec(s, s.Mounts()), "", "\t")
			if err != nil {
				t.Fatal(err)
			}
			launchtest.Golden(t, name, strings.Join(gvisor.Flags(s, s.Dir+"/state", s.Dir, math.MaxUint64), "\n")+"\n\n"+string(config)+"\n")
		})
	}
}

// Whatever a spec says, the sandbox is isolated, and its first process is the
// guest with its filter.
func TestSpecAlwaysIsolates(t *testing.T) {
	for _, s := range []*launch.Spec{
		launchtest.Spec(func(*launch.Spec) {}),
		{},
		{Platform: "nonsense"},
		launchtest.Spec(func(s *launch.Spec) { s.Network = "nonsense" }),
		launchtest.Spec(func(s *launch.Spec) { s.RootDir, s.Root, s.Etc = "/root-directory", nil, "" }),
		launchtest.Spec(func(s *launch.Spec) {
			s.Binds = []runtime.Mount{{Source: "/a", Target: "/a"}, {Source: "/b", Target: "/b", Writable: true}}
		}),
	} {
		got := gvisor.Spec(s, s.Mounts())
		p := got.Process
		if got.Root.Readonly == (s.RootDir != "") || !p.NoNewPrivileges || p.Terminal || p.Env == nil || !slices.Contains([]string{"", "GOMAXPROCS=4"}, strings.Join(p.Env, " ")) {
			t.Errorf(`gvisor.Spec: got got.Root %+v, p %+v; want got.Root.Readonly != s.RootDir != "" and p.NoNewPrivileges and not p.Terminal and p.Env != nil and []string{"", "GOMAXPROCS=4"} contains strings.Join(p.Env, " ")`,
				got.Root, p)
		}
		if !slices.Equal(p.Args, []string{launch.GuestPath, "--seccomp", "/run/wolffia/seccomp", launch.SessionsPath, s.Tag}) {
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
				t.Errorf(`got m %+v; want m.Options contains "nosuid" and (m.Type != "bind" or writable or m.Options contains "ro")`, m)
			}
		}
		flags := gvisor.Flags(s, "/state", "/bundle", 1024)
		for _, want := range []string{
			"--network=none", "--overlay2=none", "--host-uds=none", "--host-fifo=none", "--net-raw=false", "--allow-suid=false",
			"--allow-flag-override=false", "--file-access-mounts=shared", "--ignore-cgroups", "--dcache=128",
		} {
			if !slices.Contains(flags, want) {
				t.Errorf("no %s in %q", want, flags)
			}
		}
		if flags[len(flags)-1] != s.Tag || !slices.Contains(flags, "run") {
			t.Errorf(`gvisor.Flags "/state" "/bundle": got flags %q; want flags[len(flags)-1] == %v and flags contains "run"`, flags, s.Tag)
		}
	}
}
