package main

import (
	"bytes"
	"os"
	"runtime"
	"slices"
	"testing"

	moby "github.com/moby/profiles/seccomp"
	"github.com/opencontainers/runtime-spec/specs-go"

	"wolffia/internal/sys/seccomp"
	"wolffia/runtime/launch"
)

func TestFilterIsGenerated(t *testing.T) {
	for _, goarch := range architectures {
		for kind, root := range kinds {
			got, err := os.ReadFile("../" + kind + goarch + ".bpf")
			if err != nil {
				t.Fatal(err)
			}
			want, err := compiled(goarch, root)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want) {
				t.Errorf("%s%s is not what the profile says: go generate ./internal/sys/seccomp", kind, goarch)
			}
			own, err := seccomp.Filter(seccomp.OwnUID, seccomp.OwnGID)
			if root {
				own, err = seccomp.RootFilter()
			}
			if goarch == runtime.GOARCH && (err != nil || !bytes.Equal(own, want)) {
				t.Errorf("%s: the filter in use is another one (%v)", kind, err)
			}
		}
	}
}

// TestApplies compares our reading of the profile with its own, on this architecture.
func TestApplies(t *testing.T) {
	var all []string
	for _, c := range launch.RootCapabilities {
		all = append(all, c.Name)
	}
	testApplies(t, false, nil)
	testApplies(t, true, all)
}

// testApplies is TestApplies for programs with capabilities.
func testApplies(t *testing.T, root bool, capabilities []string) {
	t.Helper()
	own, err := moby.GetDefaultProfile(&specs.Spec{Process: &specs.Process{Capabilities: &specs.LinuxCapabilities{Bounding: capabilities}}})
	if err != nil {
		t.Fatal(err)
	}
	var want, got []string
	for _, s := range own.Syscalls {
		want = append(want, s.Names...)
	}
	for _, s := range moby.DefaultProfile().Syscalls {
		ok, err := applies(s, runtime.GOARCH, root)
		if err != nil {
			t.Fatal(err)
		}
		if ok {
			got = append(got, s.Names...)
		}
	}
	if len(want) < 300 || !slices.Equal(got, want) {
		t.Errorf("%q\nwant %q", got, want)
	}
}
