package testenv

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"wolffia/internal/host/probe"
)

// staged tells the processes of OnSmallDisk what they are: "mount", then
// "test", with the test's name, the directory and the user.
const staged = "WOLFFIA_TEST_STAGED"

// A Disk is a small file system of a test's own.
type Disk struct {
	Dir      string // where it is mounted
	ReadOnly string // where it is mounted once more, read-only
	t        testing.TB
}

// OnSmallDisk runs the calling test, which must not be a part of another, once
// more as the same user, where a tmpfs of that size is mounted. There it returns
// it. Here it returns nil when that has ended, and has failed t if it has failed.
func OnSmallDisk(t *testing.T, size string) *Disk {
	t.Helper()
	stage, rest, _ := strings.Cut(os.Getenv(staged), " ")
	name, rest, _ := strings.Cut(rest, " ")
	if name == t.Name() && stage == "test" {
		return &Disk{rest + "/rw", rest + "/ro", t}
	}
	if name == t.Name() && stage == "mount" {
		uid, gid, _ := strings.Cut(rest, " ")
		if err := mountFor(t, size, number(uid), number(gid)); err != nil {
			t.Error(err)
		}
		return nil
	}
	attr := &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() != 0 { // who mounts has to be root, if only in a namespace
		Need(t, probe.UserNamespaces)
		attr.Cloneflags |= syscall.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Geteuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getegid(), Size: 1}}
	}
	cmd := again(t, fmt.Sprint("mount ", t.Name(), " ", os.Geteuid(), " ", os.Getegid()), attr)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("on a small disk: %v\n%s", err, out)
	} else {
		t.Logf("on a small disk:\n%s", out)
	}
	return nil
}

func number(s string) int {
	n, _ := strconv.Atoi(s)
	return n
}

// again is the test once more.
func again(t *testing.T, stage string, attr *syscall.SysProcAttr) *exec.Cmd {
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run="+Exactly(t), "-test.v", "-test.timeout=120s")
	cmd.Env = append(os.Environ(), staged+"="+stage)
	cmd.SysProcAttr = attr
	return cmd
}

// mountFor mounts the disk, and runs the test as the user again, who may not
// mount.
func mountFor(t *testing.T, size string, uid, gid int) (err error) {
	dir, err := os.MkdirTemp("", "disk")
	if err != nil {
		return err
	}
	rw, ro := dir+"/rw", dir+"/ro"
	defer func() { err = errors.Join(err, os.Remove(rw), os.Remove(ro), os.Remove(dir)) }()
	for _, do := range []func() error{
		func() error { return os.Chmod(dir, 0o755) },
		func() error { return os.Mkdir(rw, 0o755) },
		func() error { return os.Mkdir(ro, 0o755) },
		func() error { return unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "") },
		func() error { return unix.Mount("disk", rw, "tmpfs", 0, "mode=0755,size="+size) },
		func() error { return unix.Mount(rw, ro, "", unix.MS_BIND, "") },
		func() error { return unix.Mount("", ro, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, "") },
	} {
		if err := do(); err != nil {
			return err
		}
	}
	defer func() {
		_ = unix.Unmount(ro, unix.MNT_DETACH)
		_ = unix.Unmount(rw, unix.MNT_DETACH)
	}()
	attr := &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if uid != 0 {
		attr.Cloneflags = syscall.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: uid, Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: gid, Size: 1}}
	}
	cmd := again(t, "test "+t.Name()+" "+dir, attr)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return cmd.Run()
}

// Fill writes a file until there is no room left. It returns what removes it.
func (d *Disk) Fill() (empty func()) {
	d.t.Helper()
	f, err := os.OpenFile(d.Dir+"/ballast", os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		d.t.Fatal(err)
	}
	for _, size := range []int64{1 << 16, 1 << 12, 1} {
		for err = nil; err == nil; {
			_, err = io.CopyN(f, zeros{}, size)
		}
	}
	_ = f.Close()
	return func() {
		if err := os.Remove(f.Name()); err != nil {
			d.t.Fatal(err)
		}
	}
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { return len(b), nil }
