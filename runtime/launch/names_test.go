package launch_test

import (
	"slices"
	"testing"

	"wolffia/runtime"
	"wolffia/runtime/launch"
)

// Another name of the codebase is a link of the mount table where the root directory has its place, and made
// by PID 1 where something is mounted.
func TestCodebaseNames(t *testing.T) {
	s := &launch.Spec{
		Home: "/home/u", Tag: "tag", Scratch: []string{"/scratch"}, Binds: []runtime.Mount{{Source: "/s", Target: "/opt/tool"}},
		Config: &runtime.SandboxConfig{CodebasePath: "/data/p", MountPoint: "/data/p", CodebaseNames: []string{"/work/p", "/home/u/p", "/tmp/p", "/opt/tool/p", "/scratch/p", "/opt/toolbox"}},
	}
	var links []string
	for _, m := range s.Mounts() {
		if m.Kind == launch.Symlink {
			links = append(links, m.Source+" "+m.Target)
		}
	}
	if want := []string{"/data/p /work/p", "/data/p /opt/toolbox"}; !slices.Equal(links, want) {
		t.Errorf("links in the mount table: got %q, want %q", links, want)
	}
	var made []string
	command := s.Command("")
	for i, arg := range command {
		if arg == "--link" {
			made = append(made, command[i-1]+" "+command[i+1])
		}
	}
	if want := []string{"/data/p /home/u/p", "/data/p /tmp/p", "/data/p /opt/tool/p", "/data/p /scratch/p"}; !slices.Equal(made, want) {
		t.Errorf("links by PID 1: got %q, want %q", made, want)
	}
}
