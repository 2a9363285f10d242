package docker_test

import (
	"errors"
	"net"
	"os"
	"os/user"
	"strings"
	"testing"

	"wolffia/internal/host/probe"
	"wolffia/internal/test/dockertest"
	"wolffia/internal/test/shimtest"
	"wolffia/internal/test/testenv"
	"wolffia/perm"
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
		{"Ports", ports},
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

// A rootless Podman runs its own user's sandboxes, with the user's number, if it
// can see their trees.
func TestRootlessPodman(t *testing.T) {
	testenv.Unprivileged(t)
	testenv.Tools(t, "podman", "newuidmap")
	testenv.Need(t, probe.UserNamespaces, probe.Fuse, probe.Fusermount)
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	subuid, err := os.ReadFile("/etc/subuid")
	if err != nil || !strings.Contains("\n"+string(subuid), "\n"+me.Username+":") {
		t.Skipf("a rootless Podman needs numbers in /etc/subuid, and %s has none", me.Username)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	shared := false
	for line := range strings.Lines(string(mounts)) {
		if f := strings.Fields(line); f[4] == "/" {
			shared = strings.HasPrefix(f[6], "shared:")
		}
	}
	t.Setenv("DOCKER_HOST", "unix://"+dockertest.Podman(t))
	rt := fresh(t)
	refused := func(c *runtime.SandboxConfig, why string) {
		s, err := rt.Create(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		if err := rt.Start(t.Context(), s.ID); !errors.Is(err, runtime.ErrUnsupported) || !strings.Contains(err.Error(), why) {
			t.Error(err)
		}
		destroy(t, rt, s.ID)
	}
	refused(&runtime.SandboxConfig{Resources: runtime.Resources{PIDs: 10}}, "limit")
	s, err := rt.Create(t.Context(), &runtime.SandboxConfig{})
	if err == nil {
		err = rt.Start(t.Context(), s.ID)
	}
	if err != nil {
		t.Fatal(err)
	}
	if got := sh(t, rt, s.ID, "id -u; grep CapBnd /proc/self/status"); got != me.Uid+"\nCapBnd:\t0000000000000000\n" {
		t.Errorf(`sh "id -u; grep CapBnd /proc/self/status": got %q, want %q`, got, me.Uid+"\nCapBnd:\t0000000000000000\n")
	}
	destroy(t, rt, s.ID)
	if !shared {
		refused(&runtime.SandboxConfig{CodebasePath: shimtest.PublicDir(t), Permissions: []perm.Rule{{Pattern: "**", Level: perm.Write}}}, "does not see the codebase")
		return
	}
	t.Run("Work", work)
	t.Run("KilledShim", TestKilledShim)
	t.Run("KilledKeeper", TestKilledKeeper)
	t.Run("ImageReadOnly", TestImageReadOnly)
}

// work does a bit of everything in a sandbox.
func work(t *testing.T) {
	rt := fresh(t)
	s := start(t, rt, &runtime.SandboxConfig{})
	if got := sh(t, rt, s.ID, "cat file; echo new >new; touch ~/x /tmp/x; eval [ ~$(id -un) = $HOME ] && echo home; cat /etc/hostname; grep CapBnd /proc/self/status; ls /sys/class/net"); got != "contenthome\n"+s.ID+"\nCapBnd:\t0000000000000000\nlo\n" {
		t.Errorf("sh: got %q, want %q", got, "contenthome\n"+s.ID+"\nCapBnd:\t0000000000000000\nlo\n")
	}
	destroy(t, rt, s.ID)
}

// A service of the host is exposed at a port below 1024, which PID 1 has to listen at.
func ports(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write([]byte("exposed\n"))
			_ = c.Close()
		}
	}()
	rt := fresh(t)
	s := start(t, rt, &runtime.SandboxConfig{Expose: []runtime.Expose{{HostPort: l.Addr().(*net.TCPAddr).Port, Port: 80}}})
	if got := sh(t, rt, s.ID, `/usr/bin/python3 -ISBc 'import socket; print(socket.create_connection(("127.0.0.1", 80)).recv(100).decode(), end="")'`); got != "exposed\n" {
		t.Errorf("sh: got %q, want %q", got, "exposed\n")
	}
	destroy(t, rt, s.ID)
}

func limits(t *testing.T) {
	rt := fresh(t)
	s := start(t, rt, &runtime.SandboxConfig{Resources: runtime.Resources{Memory: 64 << 20, CPUs: 1, PIDs: 20}})
	// What is in memory as files counts, wherever it is, and no process can be
	// ended for it.
	if got := sh(t, rt, s.ID, `for d in /tmp /var/tmp ~ /dev/shm /run/.w; do head -c 200M /dev/zero 2>/dev/null >$d/file && echo $d; done; echo alive`); got != "alive\n" {
		t.Errorf("sh: got %q, want %q", got, "alive\n")
	}
	destroy(t, rt, s.ID)
}
