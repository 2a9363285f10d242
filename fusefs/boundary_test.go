package fusefs

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"wolffia/perm"
)

// A way is an attempt to reach a file of a level below write. For a hidden file all errors are
// those for a file that does not exist.
type way struct {
	name string
	try  func(c *client, p string) error
	view syscall.Errno // what it says of a file that may be viewed only
	read syscall.Errno // and of one that may be read
}

func openedBy(flags int) func(*client, string) error {
	return func(_ *client, p string) error {
		fd, err := unix.Open(p, flags|unix.O_CLOEXEC, 0o644)
		unix.Close(fd)
		return err
	}
}

// reopening opens by a descriptor that may do nothing, which needs no
// permission to be had.
func reopening(flags int) func(*client, string) error {
	return func(_ *client, p string) error {
		fd, err := unix.Open(p, unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		again, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", fd), flags|unix.O_CLOEXEC, 0)
		unix.Close(again)
		return err
	}
}

var ways = []way{
	{"read", openedBy(unix.O_RDONLY), unix.EACCES, 0},
	{"write", openedBy(unix.O_WRONLY), unix.EACCES, unix.EACCES},
	{"read and write", openedBy(unix.O_RDWR), unix.EACCES, unix.EACCES},
	{"append", openedBy(unix.O_WRONLY | unix.O_APPEND), unix.EACCES, unix.EACCES},
	{"truncate by reading", openedBy(unix.O_RDONLY | unix.O_TRUNC), unix.EACCES, unix.EACCES},
	{"without a time of access", openedBy(unix.O_RDONLY | unix.O_NOATIME), unix.EACCES, 0},
	{"without either (mode 3)", openedBy(3), unix.EACCES, unix.EACCES},
	{"read again by /proc", reopening(unix.O_RDONLY), unix.EACCES, 0},
	{"write by /proc", reopening(unix.O_RDWR), unix.EACCES, unix.EACCES},
	{"run", func(_ *client, p string) error { return exec.Command(p).Run() }, unix.EACCES, 0},
	{"ask for reading", func(_ *client, p string) error { return unix.Access(p, unix.R_OK) }, unix.EACCES, 0},
	{"ask for writing", func(_ *client, p string) error { return unix.Access(p, unix.W_OK) }, unix.EACCES, unix.EACCES},
	{"touch", func(_ *client, p string) error { return unix.UtimesNanoAt(unix.AT_FDCWD, p, nil, 0) }, unix.EACCES, unix.EACCES},
	{"give to oneself", func(_ *client, p string) error { return unix.Chown(p, clientUID, clientUID) }, unix.EACCES, unix.EACCES},
	{"link elsewhere", func(c *client, p string) error { return unix.Link(p, c.at("free/linked")) }, unix.EACCES, unix.EACCES},
	{"link by a descriptor", func(c *client, p string) error {
		fd, err := unix.Open(p, unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return unix.Linkat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", fd), unix.AT_FDCWD, c.at("free/linked"), unix.AT_SYMLINK_FOLLOW)
	}, unix.EACCES, unix.EACCES},
	{"clone into", func(c *client, p string) error {
		from, err := os.Open(p)
		if err != nil {
			return err
		}
		defer from.Close()
		to, err := os.Create(c.at("free/clone"))
		if err != nil {
			return err
		}
		defer to.Close()
		return unix.IoctlFileClone(int(to.Fd()), int(from.Fd()))
	}, unix.EACCES, unix.EOPNOTSUPP},
	{"an attribute", func(_ *client, p string) error { return unix.Setxattr(p, "user.x", []byte("x"), 0) }, unix.EACCES, unix.EACCES},
	{"a handle", func(c *client, p string) error {
		h, _, err := unix.NameToHandleAt(unix.AT_FDCWD, p, 0)
		if err != nil {
			return err
		}
		// An older kernel (6.1) gives one, and opens it for the host's root only.
		tree, err := os.Open(c.dir)
		if err != nil {
			return err
		}
		defer tree.Close()
		fd, err := unix.OpenByHandleAt(int(tree.Fd()), h, unix.O_RDONLY)
		if err == nil {
			return unix.Close(fd)
		}
		if err == unix.EPERM {
			err = unix.EOPNOTSUPP
		}
		return err
	}, unix.EOPNOTSUPP, unix.EOPNOTSUPP},
}

// No other operation gets around the levels.
func TestNoOtherWayIn(t *testing.T) {
	long := strings.Repeat("l", 251) + ".pem"
	mounted(t, setup{
		Policy: []perm.Rule{
			{Pattern: "**", Level: perm.Write},
			{Pattern: "/view/", Level: perm.View, Priority: 1},
			{Pattern: "/read/", Level: perm.Read, Priority: 1},
			{Pattern: "*.pem", Level: perm.None, Priority: 2},
			{Pattern: "é", Level: perm.None, Priority: 2},
		},
		Host: func(t *testing.T, dir string) {
			for _, name := range []string{
				"view/file", "read/file", "free/file", "free/key.pem", "free/sub/key.pem", "free/a\nb.pem",
				"free/\xff\xfe.pem", "free/" + long, "free/é", "free/e\u0301", "free/KEY.PEM",
			} {
				write(t, dir, name, "#!/bin/sh\n")
				if err := os.Chmod(filepath.Join(dir, name), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			for _, name := range []string{"view/sock", "read/sock", "free/sock"} {
				l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, name)})
				if err != nil {
					t.Fatal(err)
				}
				l.SetUnlinkOnClose(false)
				t.Cleanup(func() { l.Close() })
			}
		},
	}, func(t *testing.T, c *client) {
		for _, w := range ways {
			wantErrno(t, w.name+" what may be viewed", w.try(c, c.at("view/file")), w.view)
			wantErrno(t, w.name+" what may be read", w.try(c, c.at("read/file")), w.read)
			hidden, absent := w.try(c, c.at("free/key.pem")), w.try(c, c.at("free/absent"))
			if errnoIn(hidden) != errnoIn(absent) || hidden == nil {
				t.Errorf("%s what is hidden: %v, and %v if it is not there", w.name, hidden, absent)
			}
		}
		for _, name := range []string{
			"free/key.pem", "free//key.pem", "free/./key.pem", "free/../free/key.pem", "free/sub/../key.pem", "free/key.pem/",
			"free/key.pem/.", "free/sub/key.pem", "./free/sub/./key.pem", "free/a\nb.pem", "free/\xff\xfe.pem", "free/" + long, "free/é",
		} {
			_, err := os.ReadFile(c.dir + "/" + name)
			wantErrno(t, fmt.Sprintf("read %.40q", name), err, unix.ENOENT)
		}
		// Rules are about bytes: these are other names.
		for _, name := range []string{"free/e\u0301", "free/KEY.PEM"} {
			_, err := os.ReadFile(c.at(name))
			ok(t, "read "+name, err)
		}
		for name, want := range map[string]syscall.Errno{"view/sock": unix.EACCES, "read/sock": unix.EACCES, "free/no.pem": unix.ENOENT} {
			_, err := net.Dial("unix", c.at(name))
			wantErrno(t, "connect to "+name, err, want)
		}
		_, err := net.Listen("unix", c.at("read/new"))
		wantErrno(t, "listen where nothing may be made", err, unix.EACCES)
		_, err = net.Listen("unix", c.at("free/sock.pem"))
		wantErrno(t, "listen by a hidden name", err, unix.EACCES)
		_, err = unix.Open(c.at("free"), unix.O_TMPFILE|unix.O_RDWR, 0o600)
		wantErrno(t, "a file without a name", err, unix.EOPNOTSUPP)
		wantErrno(t, "a key of that name", unix.Mknod(c.at("free/new.pem"), unix.S_IFREG|0o644, 0), unix.EACCES)
		names, err := readNames(c.at("free"))
		ok(t, "list", err)
		for _, name := range names {
			if strings.HasSuffix(name, ".pem") || name == "é" {
				t.Errorf("%q is listed", name)
			}
		}
	})
}
