package dockertest

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/internal/test/wait"
)

// Podman starts Debian's podman as an engine, in a directory of its own, until
// the test ends, and returns its socket's path. Without root it is rootless, and
// needs newuidmap and numbers of its own in /etc/subuid.
func Podman(t testing.TB) (socket string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "podman")
	if err != nil {
		t.Fatal(err)
	}
	file := func(name string) string { return filepath.Join(dir, name) }
	socket = file("sock")
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket})
	if err == nil {
		err = os.WriteFile(file("containers.conf"), []byte(containersConf()), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	listener.SetUnlinkOnClose(false)
	// It takes over a socket that listens already, so no client has to wait until it
	// does (sd_listen_fds(3)).
	sock, err := listener.File()
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.OpenFile(file("log"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	driver := "overlay"
	if os.Geteuid() != 0 {
		driver = "vfs" // whatever kernel
	}
	env := append(os.Environ(), "CONTAINERS_CONF="+file("containers.conf"), "XDG_RUNTIME_DIR="+dir, "XDG_CONFIG_HOME="+dir, "TMPDIR="+dir)
	podman := []string{
		"--root", file("data"), "--runroot", file("run"), "--tmpdir", file("tmp"),
		"--storage-driver", driver, "--cgroup-manager", "cgroupfs", "--events-backend", "file",
	}
	cmd := exec.Command("/bin/sh", append(append([]string{"-c", `LISTEN_PID=$$ LISTEN_FDS=1 exec podman "$@"`, "sh"}, podman...), "system", "service", "--time", "0")...)
	cmd.Env = env
	cmd.ExtraFiles = []*os.File{sock}
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a ^C is for the tests, which end it
	err = errors.Join(cmd.Start(), sock.Close(), listener.Close(), log.Close())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		said, _ := os.ReadFile(file("log"))
		kill := time.AfterFunc(wait.Limit, func() { _ = cmd.Process.Kill() })
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // a rootless one is two processes
		if !kill.Stop() {
			t.Errorf("podman did not end in %v", wait.Limit)
		}
		// What watches a container has podman clean up after it, in its own time.
		wait.Poll(func() bool { return !named(dir + "/") })
		if t.Failed() {
			t.Logf("podman said: %s", said)
		}
		if os.Geteuid() != 0 {
			// What lies there belongs to numbers that are its own; then its process
			// ends that keeps its namespaces.
			for _, args := range [][]string{{"unshare", "rm", "-rf", file("data"), file("run")}, {"system", "migrate"}} {
				c := exec.Command("podman", append(podman, args...)...)
				c.Env = env
				if out, err := c.CombinedOutput(); err != nil {
					t.Errorf("podman %v: %v: %s", args, err, out)
				}
			}
		} else if err := unix.Unmount(file("data/overlay"), unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
			t.Error(err) // its own mount, which it leaves
		}
		if err := os.RemoveAll(dir); err != nil { // stops at a mount that was left
			t.Error(err)
		}
	})
	return socket
}

// named reports whether a process has the text in its command line.
func named(text string) bool {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	return slices.ContainsFunc(files, func(file string) bool {
		b, _ := os.ReadFile(file)
		return bytes.Contains(b, []byte(text))
	})
}

// containersConf lets containers have no more than we have: root need not be able
// to raise its own limits (containers.conf(5)).
func containersConf() string {
	const most = 1 << 15
	limit := func(name string, what int) string {
		var r unix.Rlimit
		if err := unix.Getrlimit(what, &r); err != nil {
			panic(err)
		}
		n := min(r.Max, most)
		return fmt.Sprintf("\"%s=%d:%d\"", name, n, n)
	}
	return "[containers]\ndefault_ulimits = [" + limit("nofile", unix.RLIMIT_NOFILE) + ", " + limit("nproc", unix.RLIMIT_NPROC) + "]\n"
}
