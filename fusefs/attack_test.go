package fusefs

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"wolffia/fusefs/backing"
	"wolffia/perm"
)

const secret = "the secret content"

// The name decides, never another name of the same inode.
func TestHardLinksDoNotSteer(t *testing.T) {
	mountedBoth(t, setup{
		Rules: []fakeRule{{"/hidden", perm.None}, {"/list", perm.View}, {"/ro", perm.Read}},
		Host: func(t *testing.T, dir string) {
			write(t, dir, "rw/a", "shared")
			for _, d := range []string{"hidden", "list", "ro"} {
				if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.Link(filepath.Join(dir, "rw/a"), filepath.Join(dir, d, "a")); err != nil {
					t.Fatal(err)
				}
			}
		},
	}, func(t *testing.T, c *client) {
		look := func(order ...string) {
			for _, d := range order {
				var st unix.Stat_t
				err := unix.Lstat(c.at(d+"/a"), &st)
				if d == "hidden" {
					wantErrno(t, "stat hidden", err, syscall.ENOENT)
					continue
				}
				ok(t, "stat "+d, err)
			}
		}
		for _, order := range [][]string{{"rw", "ro", "list", "hidden"}, {"hidden", "list", "ro", "rw"}} {
			look(order...)
			for range 3 {
				_, err := os.ReadFile(c.at("list/a"))
				wantErrno(t, "read list", err, syscall.EACCES)
				wantErrno(t, "write ro", os.WriteFile(c.at("ro/a"), nil, 0o644), syscall.EACCES)
				f, err := os.OpenFile(c.at("rw/a"), os.O_RDWR, 0)
				ok(t, "write rw", err)
				f.Close()
			}
		}
		var a, b unix.Stat_t
		ok(t, "stat", unix.Stat(c.at("rw/a"), &a))
		ok(t, "stat", unix.Stat(c.at("ro/a"), &b))
		if a.Ino != b.Ino || a.Nlink != 4 {
			t.Errorf("inode %d and %d, %d links: want the real ones", a.Ino, b.Ino, a.Nlink)
		}
		// What is written by one name does not change what may not be written by another.
		ok(t, "write", os.WriteFile(c.at("rw/a"), []byte("something longer"), 0o644))
		for name, want := range map[string]string{"ro/a": "shared", "rw/a": "something longer"} {
			got, err := os.ReadFile(c.at(name))
			ok(t, "read", err)
			if string(got) != want {
				t.Errorf("%s holds %q, want %q", name, got, want)
			}
		}
		wantErrno(t, "link ro to rw", os.Link(c.at("ro/a"), c.at("rw/b")), syscall.EACCES)
		wantErrno(t, "link list to rw", os.Link(c.at("list/a"), c.at("rw/b")), syscall.EACCES)
		wantErrno(t, "rename ro to rw", rename(c.at("ro/a"), c.at("rw/b")), syscall.EACCES)
	})
}

func TestSymlinksAndDotsStayInside(t *testing.T) {
	mountedBoth(t, setup{
		Rules: []fakeRule{{".env", perm.None}, {"shown", perm.View}},
		Host: func(t *testing.T, dir string) {
			write(t, dir, "../outside", secret)
			write(t, dir, ".env", secret)
			write(t, dir, "sub/file", "inside")
			for name, target := range map[string]string{
				"out": "../outside", "abs": filepath.Join(filepath.Dir(dir), "outside"),
				"env": ".env", "up": "..", "loop": "loop", "shown": "sub/file", "good": "sub/file",
			} {
				if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
					t.Fatal(err)
				}
			}
		},
	}, func(t *testing.T, c *client) {
		// The client's own kernel follows links, in the client's own view.
		got, err := os.ReadFile(c.at("good"))
		if string(got) != "inside" {
			t.Errorf("good: %q, %v", got, err)
		}
		_, err = os.ReadFile(c.at("env"))
		wantErrno(t, "a link to what is hidden", err, syscall.ENOENT)
		_, err = os.ReadFile(c.at("loop"))
		wantErrno(t, "a loop", err, syscall.ELOOP)
		_, err = os.Readlink(c.at("shown"))
		wantErrno(t, "where a link points that may be viewed only", err, syscall.EACCES)
		_, err = os.Lstat(c.at("shown"))
		ok(t, "that it exists", err)
		_, err = os.ReadFile(c.at("sub/../../outside"))
		if err == nil {
			_, err = os.Stat(filepath.Join(c.dir, "..", "host"))
			ok(t, "the client's own ..", err) // it left the mount, as anywhere
		}
		// Asked of the server itself, no path leads anywhere.
		var st unix.Stat_t
		ok(t, "out", unix.Lstat(c.at("out"), &st))
		if st.Mode&unix.S_IFMT != unix.S_IFLNK {
			t.Errorf("out is a %o, not a link", st.Mode)
		}
	})
}

func TestServerTakesPlainNamesOnly(t *testing.T) {
	base := t.TempDir()
	write(t, base, "outside", secret)
	write(t, base, "root/sub/file", "inside")
	tr := testTree(t, filepath.Join(base, "root"), newFakeRules(nil))
	for _, name := range []string{"", ".", "..", "../outside", "sub/file", "/", "a\x00b", "/etc/passwd"} {
		if errno := lookup(tr, rootID, name, nil); errno != syscall.EINVAL {
			t.Errorf("lookup %q: %v, want EINVAL", name, errno)
		}
	}
}

// A parent that is renamed takes with it only what has the same level there.
func TestRenameKeepsLevels(t *testing.T) {
	mountedBoth(t, setup{
		Rules: []fakeRule{
			{"/app/secrets", perm.None},
			{"/app/config", perm.Read},
			{"/vault", perm.None},
			{"/ro", perm.Read},
		},
		Host: func(t *testing.T, dir string) {
			write(t, dir, "app/secrets/key", secret)
			write(t, dir, "app/config", "config")
			write(t, dir, "free/dir/file", "free")
			write(t, dir, "free/file", "free")
			write(t, dir, "vault/key", secret)
			write(t, dir, "ro/file", "ro")
		},
	}, func(t *testing.T, c *client) {
		wantErrno(t, "a parent of hidden names", rename(c.at("app"), c.at("app2")), syscall.EXDEV)
		wantErrno(t, "into the parent's place", rename(c.at("free"), c.at("app")), syscall.EXDEV)
		wantErrno(t, "what is hidden", rename(c.at("app/secrets"), c.at("free/s")), syscall.ENOENT)
		wantErrno(t, "onto what is hidden", rename(c.at("free/file"), c.at("vault")), syscall.EACCES)
		wantErrno(t, "a directory onto it", rename(c.at("free/dir"), c.at("app/secrets")), syscall.EACCES)
		wantErrno(t, "what is read-only", rename(c.at("app/config"), c.at("free/c")), syscall.EACCES)
		wantErrno(t, "onto what is read-only", rename(c.at("free/file"), c.at("app/config")), syscall.EACCES)
		wantErrno(t, "into read-only", rename(c.at("free/file"), c.at("ro/x")), syscall.EACCES)

		swap := func(a, b string) error {
			return unix.Renameat2(unix.AT_FDCWD, c.at(a), unix.AT_FDCWD, c.at(b), unix.RENAME_EXCHANGE)
		}
		wantErrno(t, "exchange with a parent", swap("free", "app"), syscall.EXDEV)
		wantErrno(t, "exchange with a parent, the other way", swap("app", "free"), syscall.EXDEV)
		wantErrno(t, "exchange with read-only", swap("free/file", "app/config"), syscall.EACCES)
		wantErrno(t, "exchange with read-only, the other way", swap("ro/file", "free/file"), syscall.EACCES)
		wantErrno(t, "exchange with hidden", swap("free/file", "vault"), syscall.ENOENT)
		ok(t, "exchange a file and a directory", swap("free/file", "free/dir"))
		got, err := os.ReadFile(c.at("free/file/file"))
		if string(got) != "free" {
			t.Errorf("after the exchange: %q, %v", got, err)
		}
		ok(t, "exchange them back", swap("free/file", "free/dir"))
		wantErrno(t, "whiteout", unix.Renameat2(unix.AT_FDCWD, c.at("free/file"), unix.AT_FDCWD, c.at("free/w"),
			unix.RENAME_WHITEOUT), syscall.EINVAL)
		wantErrno(t, "no replace", unix.Renameat2(unix.AT_FDCWD, c.at("free/file"), unix.AT_FDCWD, c.at("free/dir"),
			unix.RENAME_NOREPLACE), syscall.EEXIST)

		// A directory moves with what is open in it.
		f, err := os.Open(c.at("free/dir/file"))
		ok(t, "open", err)
		defer f.Close()
		ok(t, "a plain directory", rename(c.at("free/dir"), c.at("free/dir2")))
		buf := make([]byte, 10)
		n, _ := f.Read(buf)
		if string(buf[:n]) != "free" {
			t.Errorf("read %q after the parent was renamed", buf[:n])
		}
		ok(t, "remove it", os.RemoveAll(c.at("free/dir2")))
	})
}

// The error of a removal must not depend on whether a hidden name exists.
func TestHiddenNamesAnswerTheSame(t *testing.T) {
	mountedBoth(t, setup{
		Rules: []fakeRule{{"there", perm.None}, {"nowhere", perm.None}},
		Host: func(t *testing.T, dir string) {
			write(t, dir, "there", secret)
			write(t, dir, "dirs/there/file", secret)
			write(t, dir, "empty/file", "")
			write(t, dir, "file", "")
		},
	}, func(t *testing.T, c *client) {
		for _, dir := range []string{"", "dirs"} {
			for what, do := range map[string]func(p string) error{
				"stat":      func(p string) error { _, err := os.Lstat(p); return err },
				"unlink":    unix.Unlink,
				"rmdir":     unix.Rmdir,
				"create":    func(p string) error { return os.WriteFile(p, nil, 0o644) },
				"exclusive": func(p string) error { f, err := os.OpenFile(p, os.O_CREATE|os.O_EXCL, 0o644); f.Close(); return err },
				"mkdir":     func(p string) error { return unix.Mkdir(p, 0o755) },
				"symlink":   func(p string) error { return os.Symlink("x", p) },
				"link":      func(p string) error { return unix.Link(c.at("file"), p) },
				"rename":    func(p string) error { return rename(c.at("file"), p) },
				"from":      func(p string) error { return rename(p, c.at("new")) },
				"below":     func(p string) error { _, err := os.Lstat(p + "/file"); return err },
			} {
				a, b := do(c.at(filepath.Join(dir, "there"))), do(c.at(filepath.Join(dir, "nowhere")))
				if errnoIn(a) != errnoIn(b) || a == nil {
					t.Errorf("%s: %v where it is, %v where it is not", what, a, b)
				}
			}
		}
		wantErrno(t, "rmdir of what holds hidden names", unix.Rmdir(c.at("dirs")), syscall.ENOTEMPTY)
		var st, other unix.Stat_t
		ok(t, "stat", unix.Stat(c.at("dirs"), &st))
		ok(t, "stat", unix.Stat(c.at("empty"), &other))
		if st.Nlink != 1 || st.Size != other.Size || st.Blocks != other.Blocks {
			t.Errorf("%d links and size %d, without hidden names %d, tell of what is hidden", st.Nlink, st.Size, other.Size)
		}
	})
}

func TestSetIDIsStripped(t *testing.T) {
	mounted(t, setup{Host: func(t *testing.T, dir string) {
		write(t, dir, "suid", "x")
		if err := os.Chmod(filepath.Join(dir, "suid"), 0o755|os.ModeSetuid|os.ModeSetgid); err != nil {
			t.Fatal(err)
		}
	}}, func(t *testing.T, c *client) {
		mode := func(p string) uint32 {
			var st unix.Stat_t
			ok(t, "stat "+p, unix.Lstat(p, &st))
			return st.Mode & 0o7777
		}
		if m := mode(c.at("suid")); m != 0o755 {
			t.Errorf("shown as %o, want 755", m)
		}
		f, err := os.OpenFile(c.at("suid"), os.O_WRONLY, 0)
		ok(t, "open", err)
		_, err = f.WriteString("mine now")
		ok(t, "write", err)
		f.Close()
		if m := mode(filepath.Join(c.host, "suid")); m != 0o755 {
			t.Errorf("still %o on the host after a write, want 755", m)
		}
		fd, err := unix.Open(c.at("created"), unix.O_CREAT|unix.O_WRONLY, 0o6755)
		ok(t, "create", err)
		ok(t, "fchmod", unix.Fchmod(fd, 0o6711))
		unix.Close(fd)
		ok(t, "mknod", unix.Mknod(c.at("made"), unix.S_IFREG|0o6755, 0))
		ok(t, "mkdir", unix.Mkdir(c.at("dir"), 0o6755))
		ok(t, "chmod", unix.Chmod(c.at("dir"), 0o6755))
		for _, name := range []string{"created", "made", "dir"} {
			for _, p := range []string{c.at(name), filepath.Join(c.host, name)} {
				if m := mode(p); m&0o6000 != 0 {
					t.Errorf("%s has mode %o", p, m)
				}
			}
		}
		for _, typ := range []uint32{unix.S_IFCHR, unix.S_IFBLK} {
			wantErrno(t, "a device", unix.Mknod(c.at("dev"), typ|0o644, int(unix.Mkdev(1, 3))), syscall.EPERM)
		}
		ok(t, "a socket", unix.Mknod(c.at("sock"), unix.S_IFSOCK|0o644, 0))
		ok(t, "a FIFO", unix.Mkfifo(c.at("fifo"), 0o644))
		ok(t, "chown to oneself", os.Chown(c.at("made"), clientUID, clientUID))
		if err := os.Chown(c.at("made"), 0, 0); err == nil {
			t.Error("chown to another worked")
		}
	})
}

// Another file system below the root is not entered, least of all the
// server's own mount.
func TestMountsBelowAreNotEntered(t *testing.T) {
	mounted(t, setup{Bind: [2]string{"other", "below"}, Host: func(t *testing.T, dir string) {
		write(t, dir, "below/file", "hidden by the mount")
		write(t, dir, "other/file", "plain")
	}}, func(t *testing.T, c *client) {
		// The client is a server here: of no kernel.
		tr := testTree(t, c.host, newFakeRules(nil))
		if errno := lookup(tr, rootID, "below", nil); errno != syscall.EACCES {
			t.Errorf("lookup: %v, want EACCES", errno)
		}
		if errno := lookup(tr, rootID, "other", nil); errno != 0 {
			t.Errorf("lookup of a plain directory: %v", errno)
		}
		h, _ := tr.acquire(tr.table.get(rootID), usePath)
		defer h.release()
		if _, errno := backing.OpenBeneath(h.fd, "below", unix.O_PATH, 0); errno != syscall.EXDEV {
			t.Errorf("open: %v, want EXDEV", errno)
		}
	})
}
