package session_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// stage is the environment variable that tells the test program that it is
// PID 1 of a namespace of its own: "prepare", or "ready".
const stage = "WOLFFIA_TEST_STAGE"

// sessionsDir is a tmpfs of the test's own: some tests destroy its content.
const sessionsDir = "/dev/shm"

// outside says why the tests do not run as PID 1; nil: they do.
var outside error

// workerFiles are what a fuzz worker inherits, see internal/fuzz: two pipes and the
// memory that is shared. They are here so that no finalizer closes them.
var workerFiles []*os.File

// TestMain runs the tests as PID 1 of a process namespace, as the guest is in
// a sandbox, without any capability: what a test kills, or a mistake in what it
// tests, is nobody else's. Where that cannot be, tests of a live shell say so;
// see connect.
//
// With -fuzz the workers do, which run the fuzz targets; not their coordinator, from
// which they could not get a namespace of their own: it has no capability to map root.
func TestMain(m *testing.M) {
	flag.Parse()
	switch {
	case flag.Lookup("test.fuzz").Value.String() != "" && flag.Lookup("test.fuzzworker").Value.String() != "true":
		outside = errors.New("with -fuzz only the workers are isolated: add -run '^$'")
	case os.Getpid() != 1 || os.Getenv(stage) == "":
		code, err := isolate()
		if err == nil {
			os.Exit(code)
		}
		outside = err
	case os.Getenv(stage) == "prepare":
		fmt.Fprintln(os.Stderr, "prepare PID 1 for the tests:", prepare())
		os.Exit(1)
	}
	m.Run()
	closeGuest()
}

// isolate runs this program once more, with the same arguments, and returns
// its exit code.
func isolate() (int, error) {
	runtime.LockOSThread() // the parent-death signal is bound to this thread
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Args[0] = os.Args[0]
	cmd.Env = append(os.Environ(), stage+"=prepare")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if flag.Lookup("test.fuzzworker").Value.String() == "true" {
		for fd := uintptr(3); fd < 6; fd++ {
			workerFiles = append(workerFiles, os.NewFile(fd, "fuzz"))
		}
		cmd.ExtraFiles = workerFiles
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: os.Geteuid(), HostID: os.Geteuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getegid(), HostID: os.Getegid(), Size: 1}},
		AmbientCaps: []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_SETPCAP},
		Pdeathsig:   unix.SIGKILL,
	}
	if err := cmd.Start(); err != nil {
		return 0, fmt.Errorf("namespaces for the tests: %w", err)
	}
	err := cmd.Wait()
	if err != nil && !errors.As(err, new(*exec.ExitError)) {
		return 1, nil
	}
	if ws := cmd.ProcessState.Sys().(syscall.WaitStatus); ws.Signaled() {
		fmt.Fprintln(os.Stderr, "the tests were ended by", ws.Signal())
		return 128 + int(ws.Signal()), nil
	}
	return cmd.ProcessState.ExitCode(), nil
}

// prepare gives PID 1 its /proc, the sessions' directory, and /mnt for files of the tests' commands,
// which another run of the tests must not see. It takes the capabilities, and begins again. It
// returns only if it fails.
func prepare() error {
	runtime.LockOSThread() // capabilities are the thread's that executes the next stage
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return err
	}
	if err := unix.Mount("tmpfs", sessionsDir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=1777"); err != nil {
		return err
	}
	if err := unix.Mount("tmpfs", "/mnt", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=1777"); err != nil {
		return err
	}
	for c := uintptr(0); unix.Prctl(unix.PR_CAPBSET_READ, c, 0, 0, 0) == nil; c++ {
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err != nil {
			return err
		}
	}
	var none [2]unix.CapUserData
	if err := unix.Capset(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &none[0]); err != nil {
		return err
	}
	if err := os.Setenv(stage, "ready"); err != nil {
		return err
	}
	return unix.Exec("/proc/self/exe", os.Args, os.Environ())
}
