package testenv

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"wolffia/internal/host/probe"
)

// without tells the processes of Without what they are: "hide", then "test", with
// the test's name.
const without = "WOLFFIA_TEST_WITHOUT"

// nobody is a user, and a group, that every host has.
const nobody = 65534

// Without runs the calling test, which must not be a part of another and needs
// root, once more as an unprivileged user, in a mount namespace where users may
// show mounts to others and the named things are missing: files of /etc are
// gone, programs, named without a slash, are replaced by one that does nothing and
// is not setuid. There it returns an empty directory of that user's. Here it
// returns "" when that has ended, and has failed t if it has failed.
func Without(t *testing.T, missing ...string) (dir string) {
	t.Helper()
	stage, name, _ := strings.Cut(os.Getenv(without), " ")
	if name != t.Name() {
		Root(t) // who may hide files from setuid programs
		Need(t, probe.Fuse)
		Tools(t, append([]string{"fusermount3"}, slices.DeleteFunc(slices.Clone(missing), func(m string) bool { return strings.Contains(m, "/") })...)...)
		onceMore(t, "hide", &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS})
		return ""
	}
	const over = "/mnt" // every host has it, and in this namespace it is not in use
	if stage == "test" {
		return over + "/user"
	}
	if err := hide(over, missing); err != nil {
		t.Fatal(err)
	}
	onceMore(t, "test", &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}})
	return ""
}

// onceMore runs the test at another stage of Without. It executes /proc/self/exe,
// since the user may not reach the test program by its name.
func onceMore(t *testing.T, stage string, attr *syscall.SysProcAttr) {
	t.Helper()
	attr.Pdeathsig = syscall.SIGKILL
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run="+Exactly(t), "-test.v", "-test.timeout=60s")
	cmd.Env = append(os.Environ(), without+"="+stage+" "+t.Name(), "TMPDIR=/mnt/user", "HOME=/mnt/user")
	cmd.SysProcAttr, cmd.Dir = attr, "/"
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%s: got err %v, out %s; want err == nil", stage, err, out)
	} else if !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Errorf("%s: the test did not run:\n%s", stage, out)
	}
}

// hide takes things away in this mount namespace, by file systems that end with
// it.
func hide(over string, missing []string) error {
	err := errors.Join(
		unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""),
		unix.Mount("none", over, "tmpfs", 0, "mode=755"),
		os.Mkdir(over+"/upper", 0o755), os.Mkdir(over+"/work", 0o755),
		unix.Mount("none", "/etc", "overlay", 0, fmt.Sprintf("lowerdir=/etc,upperdir=%[1]s/upper,workdir=%[1]s/work", over)),
		os.WriteFile("/etc/fuse.conf", []byte("user_allow_other\n"), 0o644),
		os.WriteFile(over+"/none", []byte("#!/bin/sh\n"), 0o755), os.Chmod(over+"/none", 0o755), // whatever the umask
		os.Mkdir(over+"/user", 0o755), os.Chmod(over+"/user", 0o755), os.Chown(over+"/user", nobody, nobody),
	)
	for _, name := range missing {
		if strings.Contains(name, "/") {
			if rerr := os.Remove(name); !errors.Is(rerr, fs.ErrNotExist) {
				err = errors.Join(err, rerr)
			}
			continue
		}
		path, lerr := exec.LookPath(name)
		if lerr == nil {
			lerr = unix.Mount(over+"/none", path, "", unix.MS_BIND, "")
		}
		err = errors.Join(err, lerr)
	}
	return err
}
