// Package dockertest starts a Docker engine for the tests alone: dockerd with its data,
// sockets, process files in a temporary directory. It needs root, and Debian's package
// docker.io.
//
// A test program that needs one says so in its TestMain:
//
//	func TestMain(m *testing.M) { os.Exit(dockertest.Main(m)) }
//
// Where WOLFFIA_TEST_DOCKER names a socket, as in scripts/test for the tests as a
// user, that engine is taken.
package dockertest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/internal/test/wait"
)

// Socket is the environment variable that names an engine to use.
const Socket = "WOLFFIA_TEST_DOCKER"

// none is an address without an engine: tests do not use the host's own.
const none = "/nonexistent/docker.sock"

// Main runs the tests with DOCKER_HOST set to an engine, if there can be one, and
// returns the exit code. Without one, [probe.Docker] says what is missing.
func Main(m *testing.M) int {
	host := os.Getenv(Socket)
	switch {
	case host != "":
	case os.Geteuid() != 0:
		host = none
	default:
		e, err := Start()
		switch {
		case errors.Is(err, exec.ErrNotFound):
			host = none
		case err != nil:
			fmt.Fprintln(os.Stderr, "dockertest:", err)
			return 1
		default:
			host = e.Socket
			defer func() {
				if err := e.Stop(); err != nil {
					panic(err)
				}
			}()
		}
	}
	if err := os.Setenv("DOCKER_HOST", "unix://"+host); err != nil {
		panic(err)
	}
	return m.Run()
}

// An Engine is a dockerd that runs.
type Engine struct {
	Socket string // its path
	dir    string
	remap  bool
	apart  bool
	cmd    *exec.Cmd
}

// Start starts an engine in a directory of its own. The caller stops it.
func Start() (*Engine, error) { return start(&Engine{}) }

// StartRemapped is Start of an engine with userns-remap. It sees an /etc of its
// own, since it adds a user.
func StartRemapped() (*Engine, error) { return start(&Engine{remap: true}) }

// StartApart is Start of an engine in a mount namespace of its own, like a snap.
func StartApart() (*Engine, error) { return start(&Engine{apart: true}) }

func start(e *Engine) (_ *Engine, err error) {
	if _, err := exec.LookPath("dockerd"); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "dockerd")
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(dir, 0o711); err != nil { // users may be given the socket
		return nil, err
	}
	e.Socket, e.dir = filepath.Join(dir, "sock"), dir
	if err := e.Run(); err != nil {
		return nil, errors.Join(err, e.Stop())
	}
	return e, nil
}

// Run starts dockerd, also one that was killed, and waits until it answers.
func (e *Engine) Run() error {
	path, err := exec.LookPath("dockerd")
	if err != nil {
		return err
	}
	log, err := os.OpenFile(e.file("log"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	// It reports on NOTIFY_SOCKET when it is ready (sd_notify(3)).
	notify, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Net: "unixgram", Name: e.file("notify")})
	if err != nil {
		return err
	}
	defer os.Remove(e.file("notify"))
	defer notify.Close()
	e.cmd = &exec.Cmd{
		Path: path,
		Args: []string{
			"dockerd", "--iptables=false", "--ip6tables=false", "--bridge=none",
			"--data-root", e.file("data"), "--exec-root", e.file("exec"), "--pidfile", e.file("pid"),
			"--host", "unix://" + e.Socket,
		},
		Env:    append(os.Environ(), "NOTIFY_SOCKET="+e.file("notify"), "DOCKER_TMPDIR="+e.file("tmp")),
		Stdout: log, Stderr: log,
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true}, // a ^C is for the tests, which end it
	}
	if e.remap {
		for _, d := range []string{"etc", "work"} {
			if err := os.Mkdir(e.file(d), 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
				return err
			}
		}
		e.cmd.Path = "/bin/sh"
		e.cmd.Args = append([]string{
			"sh", "-c", `mount -t overlay -o "lowerdir=/etc,upperdir=$0/etc,workdir=$0/work" none /etc && exec dockerd "$@"`, e.dir, "--userns-remap=default",
		}, e.cmd.Args[1:]...)
	}
	if e.remap || e.apart {
		e.cmd.SysProcAttr.Unshareflags = syscall.CLONE_NEWNS
	}
	if err := e.cmd.Start(); err != nil {
		return err
	}
	if err := notify.SetReadDeadline(time.Now().Add(wait.Limit)); err != nil {
		return err
	}
	go func() { // ends with dockerd
		_ = unix.Waitid(unix.P_PID, e.cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		_ = notify.Close() // it will not say any more
	}()
	for buf := make([]byte, 4096); ; {
		n, err := notify.Read(buf)
		if err != nil {
			said, _ := os.ReadFile(e.file("log"))
			return fmt.Errorf("dockerd does not say that it is ready: %w\n%s", err, said)
		}
		if strings.Contains(string(buf[:n]), "READY=1") {
			return nil
		}
	}
}

// Kill ends dockerd without a chance to clean up, and its containerd with it.
// What runs in its containers goes on.
func (e *Engine) Kill() error {
	err := e.cmd.Process.Kill()
	_ = e.cmd.Wait()
	return errors.Join(err, e.killContainerd())
}

// Hang stops dockerd until Resume: it accepts connections, and answers nothing.
func (e *Engine) Hang() error { return e.cmd.Process.Signal(syscall.SIGSTOP) }

// Resume ends Hang.
func (e *Engine) Resume() error { return e.cmd.Process.Signal(syscall.SIGCONT) }

// killContainerd ends the containerd of a dockerd that was killed.
func (e *Engine) killContainerd() error {
	pid, err := os.ReadFile(e.file("exec/containerd/containerd.pid"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var n int
	if _, serr := fmt.Sscan(string(pid), &n); err != nil || serr != nil {
		return errors.Join(err, serr)
	}
	if cmdline, rerr := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", n)); rerr == nil && strings.Contains(string(cmdline), e.dir) {
		err = unix.Kill(n, unix.SIGKILL)
	}
	// The next dockerd would take an unreaped process for a live one.
	return errors.Join(err, os.Remove(e.file("exec/containerd/containerd.pid")))
}

// Stop ends dockerd, and removes its directory. What is left running or mounted
// is an error.
func (e *Engine) Stop() error {
	var errs []error
	if e.cmd != nil && e.cmd.Process != nil {
		kill := time.AfterFunc(wait.Limit, func() { _ = e.cmd.Process.Kill() })
		_ = e.cmd.Process.Signal(syscall.SIGTERM)
		_ = e.cmd.Wait()
		if !kill.Stop() {
			errs = append(errs, fmt.Errorf("dockerd did not end in %v", wait.Limit))
		}
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	errs = append(errs, err)
	for line := range strings.Lines(string(mounts)) {
		f := strings.Fields(line)
		if len(f) < 5 || !strings.HasPrefix(f[4], e.dir+"/") {
			continue
		}
		// Its own data directory and network namespace are mounts that it leaves.
		if f[4] != e.file("data") && !strings.HasPrefix(f[4], e.file("exec/netns")) && !strings.HasPrefix(f[4], e.file("data/")) {
			errs = append(errs, fmt.Errorf("dockerd has left the mount %s", f[4]))
		}
		if err := unix.Unmount(f[4], unix.MNT_DETACH); !errors.Is(err, unix.EINVAL) { // gone with one around it
			errs = append(errs, err)
		}
	}
	return errors.Join(append(errs, os.RemoveAll(e.dir))...)
}

func (e *Engine) file(name string) string { return filepath.Join(e.dir, name) }

// Containers lists what there is in the engine at a socket, by name, whether or
// not it runs.
func Containers(t testing.TB) []string {
	t.Helper()
	return strings.Fields(Docker(t, "ps", "--all", "--format", "{{.Names}}"))
}

// Docker runs Debian's docker command with the tests' engine, and returns what it
// prints.
func Docker(t testing.TB, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), wait.Limit) // in cleanups too
	defer cancel()
	cmd := exec.CommandContext(ctx, "/usr/bin/docker", args...)
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("docker %v: %v: %s", args, err, said.String())
	}
	return string(out)
}
