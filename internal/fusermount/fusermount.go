// Package fusermount mounts and unmounts FUSE in the host's mount namespace for
// a user who is not root, by the setuid programs that hosts have for that:
// fusermount3(1) mounts; fusermount3 or umount(8) of util-linux unmounts.
package fusermount

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"golang.org/x/sys/unix"
)

// Mount mounts a FUSE file system at dir, with options of fusermount3(1), and
// returns the descriptor of /dev/fuse that answers for it, which the caller
// closes. It mounts nothing on a host where Unmount could not work.
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

// receive reads the descriptor that fusermount3 has sent before it ended
// (fusermount3(1), _FUSE_COMMFD). The caller closes the descriptor.
func receive(socket *os.File) (*os.File, error) {
	oob := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := unix.Recvmsg(int(socket.Fd()), make([]byte, 8), oob, unix.MSG_CMSG_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("receive the mount from fusermount3: %w", err)
	}
	messages, err := unix.ParseSocketControlMessage(oob[:n])
	if err != nil {
		return nil, fmt.Errorf("receive the mount from fusermount3: %w", err)
	}
	if len(messages) != 1 {
		return nil, errors.New("fusermount3 sent no descriptor")
	}
	rights, err := unix.ParseUnixRights(&messages[0])
	if err != nil {
		return nil, fmt.Errorf("receive the mount from fusermount3: %w", err)
	}
	if len(rights) != 1 {
		return nil, fmt.Errorf("fusermount3 sent %d descriptors instead of one", len(rights))
	}
	return os.NewFile(uintptr(rights[0]), "/dev/fuse"), nil
}

// Unmount detaches a mount of this user's, whether or not its server answers.
// fusermount3 unmounts only what it finds in /etc/mtab, which some hosts lack;
// umount(8) reads /proc/self/mountinfo.
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

// FixUnmount is the command, for root, that lets fusermount3 unmount.
const FixUnmount = "ln -s ../proc/self/mounts /etc/mtab"

// mtab is where fusermount3 looks for what it unmounts.
const mtab = "/etc/mtab"

// CanUnmount returns an error with the fix if no program of this host could
// unmount what Mount mounts.
func CanUnmount() error {
	f, err := os.Open(mtab)
	if err == nil {
		return f.Close()
	}
	if uerr := umountWorks(); uerr != nil {
		return fmt.Errorf("this host has no program that unmounts for a user: fusermount3 needs %s (%w), and %w; as root: %s", mtab, plain(err), uerr, FixUnmount)
	}
	return nil
}

// umountWorks returns an error that says why umount(8) would not unmount FUSE
// for a user: it has to be setuid root, and util-linux's from 2.34 on (its
// release notes).
func umountWorks() error {
	path, err := exec.LookPath("umount")
	if err != nil {
		return errors.New("there is no umount")
	}
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	var said bytes.Buffer
	cmd := &exec.Cmd{Path: path, Args: []string{"umount", "--version"}, Env: []string{}, Dir: "/", Stdout: &said}
	_ = cmd.Run() // busybox's has no such option
	return umountSuits(path, st.Mode&unix.S_ISUID != 0 && st.Uid == 0, said.String())
}

// umountSuits is umountWorks for a program that says version of itself.
func umountSuits(path string, setuid bool, version string) error {
	if !setuid {
		return fmt.Errorf("%s is not setuid root", path)
	}
	_, text, ok := strings.Cut(version, "util-linux ")
	var major, minor int
	if n, _ := fmt.Sscanf(text, "%d.%d", &major, &minor); !ok || n != 2 {
		return fmt.Errorf("%s is not util-linux's", path)
	}
	if major < 2 || major == 2 && minor < 34 {
		return fmt.Errorf("%s is of util-linux %d.%d, older than 2.34", path, major, minor)
	}
	return nil
}

// fusermount3 runs the program, with socket for the descriptor if it is one.
func fusermount3(socket *os.File, args ...string) error {
	err := run("fusermount3", socket, args...)
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return fmt.Errorf("%w: install the package fuse3", err)
	case err != nil && strings.Contains(err.Error(), "user_allow_other"):
		return fmt.Errorf("the engine, which is another user, may not look into it: put the line user_allow_other into /etc/fuse.conf (%w)", err)
	}
	return err
}

// run runs a program of the path with nothing in its environment. The error is
// what the program has said, if it has said something.
func run(name string, socket *os.File, args ...string) error {
	path, err := exec.LookPath(name)
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
	var pe *os.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}
