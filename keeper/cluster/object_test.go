package cluster

import (
	"encoding/json"
	"testing"
	"time"

	"wolffia/internal/test/launchtest"
	"wolffia/runtime"
	"wolffia/runtime/launch"
)

var somewhere = place{machine: "m", stateDir: "/state", uid: 1000}

func spec(change func(*runtime.SandboxConfig)) *launch.Spec {
	return launchtest.Spec(func(s *launch.Spec) {
		s.Root, s.Etc, s.Covers, s.Binds, s.Guest, s.CreatedAt = nil, "", nil, nil, "", 1700000000000
		s.Scratch = []string{"/workspace"}
		s.Config = &runtime.SandboxConfig{
			Name: "ann's", Image: "debian:13", Kubernetes: &runtime.KubernetesConfig{Guest: "example.com/guest:1"},
			Labels: map[string]string{launch.LabelUserID: "ann@example.com", launch.LabelProjectID: "ümlaut/π", launch.LabelRecord: "{}", "TOKEN": "secret"},
		}
		change(s.Config)
	})
}

// What isolates is in a file, so that a change of it is seen in a diff.
func TestObject(t *testing.T) {
	for name, change := range map[string]func(*launch.Spec){
		"plain": func(*launch.Spec) {},
		"limits": func(s *launch.Spec) {
			s.Config.Resources = runtime.Resources{Memory: 512 << 20, CPUs: 1.5}
			s.Config.Kubernetes.RuntimeClass = "gvisor"
			s.Config.TTL = time.Hour
			s.Deadline = time.UnixMilli(s.CreatedAt).Add(s.Config.TTL)
		},
		"filtered": func(s *launch.Spec) { s.Network = runtime.NetworkFiltered },
	} {
		s := spec(func(*runtime.SandboxConfig) {})
		change(s)
		o, err := object(s, somewhere)
		if err != nil {
			t.Fatal(err)
		}
		b, err := json.MarshalIndent(o.Object, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		launchtest.Golden(t, name, string(b)+"\n")
	}
}

func TestNoObjectWithoutFilter(t *testing.T) {
	s := spec(func(*runtime.SandboxConfig) {})
	s.Seccomp = nil
	if o, err := object(s, somewhere); err == nil {
		t.Errorf("object: %v", o)
	}
}
