package fusefs

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"golang.org/x/sys/unix"
)

// MountForOthers is Mount with AllowOther in the mount namespace of the host,
// where a daemon can see it. Root mounts by itself; for others fusermount3(1)
// does, if /etc/fuse.conf has user_allow_other. The caller removes the mount with
// Unmount: it outlives whoever serves it.
func MountForOthers(dir string) (*os.File, error) {
	if os.Geteuid() == 0 {
		return Mount(dir, &MountOptions{AllowOther: true})
	}
	fd, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("socketpair: %w", err)
	}
	ours, theirs := os.NewFile(uintptr(fd[0]), "fusermount"), os.NewFile(uintptr(fd[1]), "fusermount")
	defer ours.Close()
	err = fusermount(theirs, "-o", "allow_other,default_permissions,fsname=wolffia,subtype=wolffia", "--", dir)
	_ = theirs.Close()
	if err != nil {
		return nil, fmt.Errorf("mount a tree on %s: %w", dir, err)
	}
	// It has sent the descriptor, or the socket has hung up (fusermount3(1)).
	oob := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := unix.Recvmsg(int(ours.Fd()), make([]byte, 8), oob, unix.MSG_CMSG_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("receive the mount from fusermount3: %w", err)
	}
	messages, err := unix.ParseSocketControlMessage(oob[:n])
	if err != nil || len(messages) != 1 {
		return nil, fmt.Errorf("fusermount3 sent no descriptor (%w)", err)
	}
	rights, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(rights) != 1 {
		return nil, fmt.Errorf("fusermount3 sent no descriptor (%w)", err)
	}
	return os.NewFile(uintptr(rights[0]), "/dev/fuse"), nil
}

// Unmount removes a mount of MountForOthers, whether or not it is served; what is
// not mounted is no error. With force, root's gives up on those who wait for its
// server first. It does not touch the tree.
func Unmount(dir string, force bool) error {
	mounted, err := isMounted(dir)
	if err != nil || !mounted {
		return err
	}
	if os.Geteuid() != 0 {
		if err := fusermount(nil, "-u", "-z", "--", dir); err != nil {
			return fmt.Errorf("unmount %s: %w", dir, err)
		}
		return nil
	}
	if force {
		_ = unix.Unmount(dir, unix.MNT_FORCE|unix.UMOUNT_NOFOLLOW)
	}
	if err := unix.Unmount(dir, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil && !errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("unmount %s: %w", dir, err)
	}
	return nil
}

// isMounted looks into the table of mounts (proc_pid_mountinfo(5)).
func isMounted(dir string) (bool, error) {
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return false, err
	}
	octal := strings.NewReplacer("\\", `\134`, " ", `\040`, "\t", `\011`, "\n", `\012`)
	for line := range strings.Lines(string(table)) {
		if f := strings.Fields(line); len(f) > 4 && f[4] == octal.Replace(dir) {
			return true, nil
		}
	}
	return false, nil
}

// fusermount runs fusermount3, with socket for the descriptor if it is one.
func fusermount(socket *os.File, args ...string) error {
	path, err := exec.LookPath("fusermount3")
	if err != nil {
		return fmt.Errorf("%w: install the package fuse3", err)
	}
	var said bytes.Buffer
	cmd := &exec.Cmd{Path: path, Args: append([]string{"fusermount3"}, args...), Env: []string{}, Dir: "/", Stderr: &said}
	if socket != nil {
		cmd.ExtraFiles = []*os.File{socket}
		cmd.Env = []string{"_FUSE_COMMFD=3"}
	}
	err = cmd.Run()
	switch text := strings.TrimSpace(said.String()); {
	case err == nil:
		return nil
	case strings.Contains(text, "user_allow_other"):
		return fmt.Errorf("the engine, which is another user, may not look into it: put the line user_allow_other into /etc/fuse.conf (%s)", text)
	case text != "":
		return errors.New(text)
	}
	return fmt.Errorf("fusermount3: %w", err)
}
