package fusermount

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestUmountSuits(t *testing.T) {
	for _, c := range []struct {
		setuid        bool
		version, want string // "" is that it does
	}{
		{true, "umount from util-linux 2.38.1 (libmount 2.38.1: selinux)\n", ""},
		{true, "umount from util-linux 2.34\n", ""},
		{true, "umount from util-linux 3.0\n", ""},
		{true, "umount from util-linux 2.33.1\n", "older than 2.34"},
		{true, "umount from util-linux x\n", "not of util-linux"},
		{true, "BusyBox v1.36.1 multi-call binary.\n", "not of util-linux"},
		{true, "", "not of util-linux"},
		{false, "umount from util-linux 2.38.1\n", "not setuid root"},
	} {
		err := umountSuits("/bin/umount", c.setuid, c.version)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%v %q: %v, want %q", c.setuid, c.version, err, c.want)
		}
	}
}

// What fusermount3 does not send is an error that says so.
func TestReceive(t *testing.T) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	for _, c := range []struct {
		name   string
		rights []byte
		want   string // "" is a descriptor
	}{
		{"one", unix.UnixRights(int(null.Fd())), ""},
		{"none", nil, "fusermount3 sent 0 descriptors instead of one"},
	} {
		fd, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		ours, theirs := os.NewFile(uintptr(fd[0]), "ours"), os.NewFile(uintptr(fd[1]), "theirs")
		if err := unix.Sendmsg(fd[1], []byte{0}, c.rights, nil, 0); err != nil {
			t.Fatal(err)
		}
		f, err := receive(ours)
		switch {
		case c.want == "" && err != nil:
			t.Errorf(`%s: got err %v; want c.want != "" or err == nil`, c.name, err)
		case c.want == "":
			_ = f.Close()
		case err == nil || err.Error() != c.want:
			t.Errorf("%s: %v, want %s", c.name, err, c.want)
		}
		_, _ = ours.Close(), theirs.Close()
	}
}
