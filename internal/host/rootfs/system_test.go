package rootfs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// The copy of the host's system has nothing that not all may read, and no names of people.
func TestMakeSystem(t *testing.T) {
	if err := CheckSystem(); err != nil {
		t.Skip("this host's system cannot be used with root inside: ", err)
	}
	defer unix.Umask(unix.Umask(0o077))
	to := filepath.Join(t.TempDir(), "system")
	owners, err := MakeSystem(to)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(owners, func(o SystemOwner) bool { return o.Path == "var/mail" && o.GID == 8 && o.Mode == 0o2775 }) {
		t.Errorf("/var/mail of no group: %v", owners)
	}
	files := 0
	err = filepath.WalkDir(to, func(path string, d fs.DirEntry, err error) error {
		name := strings.TrimPrefix(path, to)
		if err != nil || d.Type()&fs.ModeSymlink != 0 {
			return err
		}
		if st, err := d.Info(); err != nil || st.Mode()&0o044 != 0o044 {
			t.Errorf("%s: %v, mode %v", name, err, st.Mode())
		}
		if d.IsDir() {
			return nil
		}
		files++
		var st unix.Stat_t
		switch err := unix.Stat(name, &st); {
		case name == "/etc/shadow" || name == "/etc/gshadow" || name == "/etc/nsswitch.conf":
		case err != nil || !publicFile(&st):
			t.Errorf("%s is copied: %v, mode %o", name, err, st.Mode)
		}
		return nil
	})
	if err != nil || files < 100 {
		t.Errorf("%d files: %v", files, err)
	}
	passwd, err := os.ReadFile(to + "/etc/passwd")
	if err != nil || !strings.HasPrefix(string(passwd), "root:x:0:0:") || strings.Contains(string(passwd), ":1000:") {
		t.Errorf("passwd: %q, %v", passwd, err)
	}
}

// What all may not enter hides what is in it, also from root.
func TestSystemCopyIsOfWhatAllMayEnter(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	secret := filepath.Join(dir, "closed", "in", "file")
	if err := errors.Join(os.MkdirAll(filepath.Dir(secret), 0o755), os.WriteFile(secret, nil, 0o644), os.Chmod(filepath.Join(dir, "closed"), 0o710)); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Chmod(dir, 0o755), os.Chmod(filepath.Dir(dir), 0o755)); err != nil {
		t.Fatal(err)
	}
	for mode, want := range map[fs.FileMode]bool{0o710: false, 0o711: true} {
		c := &systemCopy{to: filepath.Join(t.TempDir(), "to"), open: map[string]bool{"/": true}}
		err := errors.Join(os.Chmod(filepath.Join(dir, "closed"), mode), c.tree(secret, true), c.file(secret, nil))
		if _, lerr := os.Lstat(c.to + secret); err != nil || (lerr == nil) != want {
			t.Errorf("mode %o: %v, copied: %v", mode, err, lerr)
		}
	}
}

// The key is another one when a file was replaced, and the same while nothing changes.
func TestSystemKey(t *testing.T) {
	if a, b := SystemKey(), SystemKey(); a != b || !strings.Contains(a, "/etc/passwd") || !strings.Contains(a, dpkgDir+"/status") {
		t.Errorf("%s\n%s", a, b)
	}
	file := filepath.Join(t.TempDir(), "file")
	var keys []string
	for _, text := range []string{"a", "b"} {
		if err := errors.Join(os.WriteFile(file+".new", []byte(text), 0o644), os.Rename(file+".new", file)); err != nil {
			t.Fatal(err)
		}
		keys = append(keys, string(appendState(nil, file)))
	}
	if keys[0] == keys[1] || keys[1] != string(appendState(nil, file)) {
		t.Error(keys)
	}
}

func TestUnsettled(t *testing.T) {
	for status, want := range map[string]bool{
		"Package: a\nStatus: install ok installed\n\nPackage: b\nStatus: deinstall ok config-files\n": false,
		"Package: a\nStatus: install ok half-configured\n":                                            true,
		"Package: a\nStatus: install ok triggers-pending\n":                                           true,
		"Package: a\nStatus: install reinstreq installed\n":                                           true,
		"": false,
	} {
		if got := unsettled([]byte(status)); (got != "") != want {
			t.Errorf("%q: %q, want one: %t", status, got, want)
		}
	}
}

// The kernel's list of locks names a file that another process has locked.
func TestLockedIn(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		t.Fatal(err)
	}
	for _, typ := range []int16{unix.F_UNLCK, unix.F_WRLCK} {
		if err := unix.FcntlFlock(f.Fd(), unix.F_SETLK, &unix.Flock_t{Type: typ}); err != nil {
			t.Fatal(err)
		}
		locks, err := os.ReadFile("/proc/locks")
		if err != nil {
			t.Fatal(err)
		}
		if got, want := lockedIn(string(locks), &st), typ == unix.F_WRLCK; got != want {
			t.Errorf("lock %d: %t in\n%s", typ, got, locks)
		}
	}
}

func TestDebian(t *testing.T) {
	for release, want := range map[string]bool{
		"NAME=x\nID=debian\n": true, "ID=ubuntu\n": true, "ID=linuxmint\nID_LIKE=\"ubuntu debian\"\n": true,
		"ID=fedora\n": false, "NAME=debian\nID=arch\n": false, "ID_LIKE=\"rhel fedora\"": false, "": false,
	} {
		if debian(release) != want {
			t.Errorf("%q: want %t", release, want)
		}
	}
}

// A file of a package counts with the sum that the package has, and nothing else of the database does.
func TestConffiles(t *testing.T) {
	sum := "cc3493ecd2d09837ffdcc3e25fdfff18"
	got := conffiles([]byte("Package: a\nConffiles:\n /etc/a " + sum + "\n /etc/b " + sum + " obsolete\n /etc/../c " + sum + "\n /usr/d " + sum + "\n /etc/e newconffile\nDescription: x\n"))
	if len(got) != 1 || got["/etc/a"] != sum {
		t.Errorf("%v", got)
	}
}
