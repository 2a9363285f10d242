package docker_test

import (
	"testing"

	"wolffia/internal/dockertest"
	"wolffia/internal/testenv"
	"wolffia/runtime"
)

// Podman is an engine too: what depends on the engine is tested with it as well.
// The whole suite runs on it where WOLFFIA_TEST_DOCKER is its socket.
func TestPodman(t *testing.T) {
	testenv.Root(t)
	testenv.Tools(t, "podman")
	t.Setenv("DOCKER_HOST", "unix://"+dockertest.Podman(t))
	need(t)
	for _, tt := range []struct {
		name string
		test func(*testing.T)
	}{
		{"Work", work},
		{"Limits", limits},
		{"Image", TestImage},
		{"ImageReadOnly", TestImageReadOnly},
		{"ImageMissing", TestImageMissing},
		{"KilledShim", TestKilledShim},
		{"KilledKeeper", TestKilledKeeper},
		{"KilledKeeperInTheMaking", TestKilledKeeperInTheMaking},
		{"Lost", TestLost},
		{"Lookalikes", TestLookalikes},
		{"KilledContainer", TestKilledContainer},
		{"ForeignContainer", TestForeignContainer},
		{"Labels", TestLabels},
	} {
		t.Run(tt.name, tt.test)
	}
}

// work does a bit of everything in a sandbox.
func work(t *testing.T) {
	rt := fresh(t)
	s := start(t, rt, &runtime.SandboxConfig{})
	if got := sh(t, rt, s.ID, "cat file; echo new >new; touch ~/x /tmp/x; eval [ ~$(id -un) = $HOME ] && echo home; cat /etc/hostname; grep CapBnd /proc/self/status; ls /sys/class/net"); got != "contenthome\n"+s.ID+"\nCapBnd:\t0000000000000000\nlo\n" {
		t.Errorf("%q", got)
	}
	destroy(t, rt, s.ID)
}

func limits(t *testing.T) {
	rt := fresh(t)
	s := start(t, rt, &runtime.SandboxConfig{Resources: runtime.Resources{Memory: 64 << 20, CPUs: 1, PIDs: 20}})
	// What is in memory as files counts, wherever it is, and no process can be
	// ended for it.
	if got := sh(t, rt, s.ID, `for d in /tmp /var/tmp ~ /dev/shm /run/wolffia/s; do head -c 200M /dev/zero 2>/dev/null >$d/file && echo $d; done; echo alive`); got != "alive\n" {
		t.Errorf("%q", got)
	}
	destroy(t, rt, s.ID)
}
