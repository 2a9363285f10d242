package bwrap_test

import (
	"strings"
	"testing"

	"wolffia/internal/test/launchtest"
	"wolffia/runtime"
	"wolffia/runtime/bwrap"
	"wolffia/runtime/launch"
)

// The command line is the isolation: a change of it must be seen in a diff.
func TestArgs(t *testing.T) {
	for name, s := range launchtest.Specs() {
		t.Run(name, func(t *testing.T) {
			line := append(append(bwrap.Args(s), "--"), s.Command("")...)
			launchtest.Golden(t, name, strings.Join(line, "\n")+"\n")
		})
	}
}

// Whatever a spec says, the line has all of the isolation.
func TestArgsAlwaysIsolate(t *testing.T) {
	always := []string{
		"--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-uts", "--unshare-cgroup",
		"--disable-userns", "--cap-drop ALL", "--new-session", "--die-with-parent", "--as-pid-1",
		"--clearenv", "--seccomp 3",
	}
	for _, s := range []*launch.Spec{launchtest.Spec(func(*launch.Spec) {}), {}, launchtest.Spec(func(s *launch.Spec) { s.Network = "nonsense" })} {
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
