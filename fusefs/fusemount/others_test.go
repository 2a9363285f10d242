package fusemount

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"wolffia/internal/host/probe"
	"wolffia/internal/test/testenv"
)

// A mount for others is in the mount table of the host until it is unmounted, whether or not a
// server serves it, and by whatever name.
func TestMountForOthers(t *testing.T) {
	testenv.Need(t, probe.Fuse, probe.Fusermount)
	for _, name := range []string{"plain", "with space", "with\\backslash", "with\nline"} {
		dir := filepath.Join(t.TempDir(), name)
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := Unmount(dir, true); err != nil {
			t.Errorf("nothing is mounted on %q: %v", name, err)
		}
		device, err := MountForOthers(dir)
		if err != nil {
			t.Fatal(err)
		}
		if is, err := isMounted(dir); err != nil || !is {
			t.Errorf("%q is mounted: %v, %v", name, is, err)
		}
		if err := device.Close(); err != nil {
			t.Error(err)
		}
		link := filepath.Join(t.TempDir(), "link")
		if err := os.Symlink(filepath.Dir(dir), link); err != nil {
			t.Fatal(err)
		}
		if is, err := isMounted(filepath.Join(link, name)); err != nil || !is {
			t.Errorf("%q is mounted, by another name: %v, %v", name, is, err)
		}
		for _, force := range []bool{true, false} {
			if err := Unmount(filepath.Join(link, name), force); err != nil {
				t.Errorf("%q: %v", name, err)
			}
			if is, err := isMounted(dir); err != nil || is {
				t.Errorf("%q is mounted: %v, %v", name, is, err)
			}
		}
		if err := os.Remove(dir); err != nil {
			t.Error(err)
		}
	}
	if f, err := MountForOthers(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a directory that is not there was mounted on:", f)
	}
}

// On a host without /etc/mtab, from which fusermount3 unmounts nothing, a user's
// mount is removed nevertheless.
func TestUnmountWithoutMtab(t *testing.T) {
	dir := testenv.Without(t, "/etc/mtab")
	if dir == "" {
		return
	}
	for _, served := range []bool{false, true} { // with a server that does not answer
		device, err := MountForOthers(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer device.Close()
		if !served {
			_ = device.Close()
		}
		if err := Unmount(dir, true); err != nil {
			t.Errorf("served %v: %v", served, err)
		}
		if is, err := isMounted(dir); err != nil || is {
			t.Errorf("served %v: mounted: %v, %v", served, is, err)
		}
	}
}

// Where nothing could unmount it, nothing is mounted.
func TestMountWhereNothingUnmounts(t *testing.T) {
	dir := testenv.Without(t, "/etc/mtab", "umount")
	if dir == "" {
		return
	}
	_, err := MountForOthers(dir)
	for _, want := range []string{"/etc/mtab", "is not setuid root", "ln -s ../proc/self/mounts /etc/mtab"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
	if is, err := isMounted(dir); err != nil || is {
		t.Errorf("it is mounted: %v, %v", is, err)
	}
}
