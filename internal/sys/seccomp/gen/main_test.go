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
)

func TestFilterIsGenerated(t *testing.T) {
	for _, goarch := range architectures {
		got, err := os.ReadFile("../filter_" + goarch + ".bpf")
		if err != nil {
			t.Fatal(err)
		}
		want, err := compiled(goarch)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("the filter for %s is not what the profile says: go generate ./internal/sys/seccomp", goarch)
		}
		if own, err := seccomp.Filter(seccomp.OwnUID, seccomp.OwnGID); goarch == runtime.GOARCH && (err != nil || !bytes.Equal(own, want)) {
			t.Errorf("the filter in use is another one (%v)", err)
		}
	}
}

// TestApplies compares our reading of the profile with its own, on this architecture.
func TestApplies(t *testing.T) {
	own, err := moby.GetDefaultProfile(&specs.Spec{Process: &specs.Process{Capabilities: &specs.LinuxCapabilities{}}})
	if err != nil {
		t.Fatal(err)
	}
	var want, got []string
	for _, s := range own.Syscalls {
		want = append(want, s.Names...)
	}
	for _, s := range moby.DefaultProfile().Syscalls {
		ok, err := applies(s, runtime.GOARCH)
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
