// Package fusermount mounts FUSE for a user other than root, with the setuid programs of the
// host. It works in the host's mount namespace: fusermount3(1) mounts; fusermount3 or
// umount(8) of util-linux unmounts.
package fusermount

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"golang.org/x/sys/unix"

	"wolffia/internal/sys/hostpath"
)

// Mount mounts a FUSE file system at dir with options of fusermount3(1). It returns the descriptor
// of /dev/fuse that answers for it, which the caller closes. It mounts nothing if Unmount could
// not work on this host.
func Mount(dir, options string) (*os.File, error) {
	if err := CanUnmount(); err != nil {
		return nil, err
	}
	fd, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("socketpair: %w", err)
	}
	ours, theirs := os.NewFile(uintptr(fd[0]), "fusermount"), os.NewFile(uintptr(fd[1]), "fusermount")
	defer ours.Close()
	err = fusermount3(theirs, "-o", options, "--", dir)
	_ = theirs.Close()
	if err != nil {
		return nil, err
	}
	return receive(ours)
}

// receive reads the descriptor that fusermount3 sent before it ended (fusermount3(1),
// _FUSE_COMMFD). The caller closes the descriptor.
func receive(socket *os.File) (*os.File, error) {
	oob := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := unix.Recvmsg(int(socket.Fd()), make([]byte, 8), oob, unix.MSG_CMSG_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("receive the mount from fusermount3: %w", err)
	}
	var rights []int
	messages, err := unix.ParseSocketControlMessage(oob[:n])
	if err == nil && len(messages) == 1 {
		rights, err = unix.ParseUnixRights(&messages[0])
	}
	if err != nil {
		return nil, fmt.Errorf("receive the mount from fusermount3: %w", err)
	}
	if len(rights) != 1 {
		return nil, fmt.Errorf("fusermount3 sent %d descriptors instead of one", len(rights))
	}
	return os.NewFile(uintptr(rights[0]), "/dev/fuse"), nil
}

// Unmount detaches a mount of this user, whether or not its server answers. fusermount3 unmounts
// only what is in /etc/mtab, which some hosts lack; umount(8) reads /proc/self/mountinfo.
func Unmount(dir string) error {
	err := fusermount3(nil, "-u", "-z", "--", dir)
	if err == nil {
		return nil
	}
	if uerr := run("umount", nil, "-l", "-i", "--", dir); uerr != nil {
		return errors.Join(fmt.Errorf("fusermount3: %w", err), fmt.Errorf("umount: %w", uerr), CanUnmount())
	}
	return nil
}

// FixUnmount is the command for root that makes fusermount3 able to unmount.
const FixUnmount = "ln -s ../proc/self/mounts /etc/mtab"

// mtab is fusermount3's table of mounts.
const mtab = "/etc/mtab"

// CanUnmount returns an error with the fix if no program of this host can unmount for a user.
func CanUnmount() error {
	f, err := os.Open(mtab)
	if err == nil {
		return f.Close()
	}
	if uerr := umountWorks(); uerr != nil {
		return fmt.Errorf("no program of this host can unmount for a user: fusermount3 needs %s (%w), and %w; as root: %s", mtab, plain(err), uerr, FixUnmount)
	}
	return nil
}

// umountWorks returns an error if umount(8) cannot unmount FUSE for a user: it must be setuid
// root, and util-linux 2.34 or later (its release notes).
func umountWorks() error {
	path, err := hostpath.Look("umount")
	if err != nil {
		return errors.New("umount is not installed")
	}
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	var said bytes.Buffer
	cmd := &exec.Cmd{Path: path, Args: []string{"umount", "--version"}, Env: []string{}, Dir: "/", Stdout: &said}
	_ = cmd.Run() // busybox's umount has no such option
	return umountSuits(path, st.Mode&unix.S_ISUID != 0 && st.Uid == 0, said.String())
}

// umountSuits is umountWorks for the program at path, which prints version.
func umountSuits(path string, setuid bool, version string) error {
	if !setuid {
		return fmt.Errorf("%s is not setuid root", path)
	}
	_, text, ok := strings.Cut(version, "util-linux ")
	var major, minor int
	if n, _ := fmt.Sscanf(text, "%d.%d", &major, &minor); !ok || n != 2 {
		return fmt.Errorf("%s is not of util-linux", path)
	}
	if major < 2 || major == 2 && minor < 34 {
		return fmt.Errorf("%s is of util-linux %d.%d, older than 2.34", path, major, minor)
	}
	return nil
}

// fusermount3 runs fusermount3. It sends the descriptor of a mount over socket, which may be nil.
func fusermount3(socket *os.File, args ...string) error {
	err := run("fusermount3", socket, args...)
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return fmt.Errorf("%w: install the package fuse3", err)
	case err != nil && strings.Contains(err.Error(), "user_allow_other"):
		return fmt.Errorf("the container engine runs as another user, which may not use the mount: put the line user_allow_other into /etc/fuse.conf (%w)", err)
	}
	return err
}

// run runs a program of PATH with an empty environment. The error is what the program printed to
// stderr, if anything.
func run(name string, socket *os.File, args ...string) error {
	path, err := hostpath.Look(name)
	if err != nil {
		return err
	}
	var said bytes.Buffer
	cmd := &exec.Cmd{Path: path, Args: append([]string{name}, args...), Env: []string{}, Dir: "/", Stderr: &said}
	if socket != nil {
		cmd.ExtraFiles = []*os.File{socket}
		cmd.Env = []string{"_FUSE_COMMFD=3"}
	}
	err = cmd.Run()
	if text := strings.TrimSpace(said.String()); err != nil && text != "" {
		return errors.New(text)
	}
	return err
}

// plain drops the operation and the path that a *PathError repeats.
func plain(err error) error {
	if pe, ok := errors.AsType[*os.PathError](err); ok {
		return pe.Err
	}
	return err
}
