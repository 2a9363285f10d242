package fusefs

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/fusefs/backing"
	"wolffia/internal/test/testenv"
	"wolffia/internal/test/wait"
	"wolffia/perm"
)

// The rules of package perm, through the mount.
func TestPolicy(t *testing.T) {
	mounted(t, setup{
		Policy: []perm.Rule{
			{Pattern: "**", Level: perm.Read},
			{Pattern: "/docs/**", Level: perm.View, Priority: 1},
			{Pattern: "*.log", Level: perm.Write, Priority: 1},
			{Pattern: "/out/", Level: perm.Write, Priority: 1},
			{Pattern: "secrets/", Level: perm.None, Priority: 2},
			{Pattern: "*.pem", Level: perm.None, Priority: 2},
		},
		Host: func(t *testing.T, dir string) {
			for _, f := range []string{
				"main.go", "docs/page", "a/b/run.log", "out/file", "out/key.pem", "a/secrets/x", "key.pem",
			} {
				write(t, dir, f, f)
			}
		},
	}, func(t *testing.T, c *client) {
		for _, tt := range []struct {
			name         string
			read, append syscall.Errno
		}{
			{"main.go", 0, unix.EACCES},
			{"docs/page", unix.EACCES, unix.EACCES},
			{"a/b/run.log", 0, 0},
			{"out/file", 0, 0},
			{"out/key.pem", unix.ENOENT, unix.ENOENT},
			{"a/secrets/x", unix.ENOENT, unix.ENOENT},
			{"key.pem", unix.ENOENT, unix.ENOENT},
		} {
			_, err := os.ReadFile(c.at(tt.name))
			wantErrno(t, "read "+tt.name, err, tt.read)
			f, err := os.OpenFile(c.at(tt.name), os.O_WRONLY|os.O_APPEND, 0)
			wantErrno(t, "append to "+tt.name, err, tt.append)
			f.Close()
		}
		ok(t, "a new log in a read-only directory", os.WriteFile(c.at("a/b/new.log"), nil, 0o644))
		wantErrno(t, "any other file there", os.WriteFile(c.at("a/b/new"), nil, 0o644), unix.EACCES)
		wantErrno(t, "a new key", os.WriteFile(c.at("out/new.pem"), nil, 0o644), unix.EACCES)
		wantErrno(t, "a new secrets directory", os.Mkdir(c.at("out/secrets"), 0o755), unix.EACCES)
		ok(t, "a directory", os.MkdirAll(c.at("out/x/y"), 0o755))
		write(t, c.host, "out/x/secrets/later", "later")
		_, err := os.Stat(c.at("out/x/secrets/later"))
		wantErrno(t, "a secret made later", err, unix.ENOENT)
		wantErrno(t, "move a directory where other rules hold", rename(c.at("out/x"), c.at("x")), unix.EACCES)
		ok(t, "rename it where the same hold", rename(c.at("out/x"), c.at("out/z")))
		names, err := readNames(c.dir)
		ok(t, "list", err)
		if !slices.Equal(names, []string{"a", "docs", "main.go", "out"}) {
			t.Errorf("lists %q", names)
		}
	})
}

// A directory that the host moved keeps no rules of where it was.
func TestMovedDirectoryLosesItsPlace(t *testing.T) {
	mounted(t, setup{
		Timeout: time.Millisecond,
		Rules:   []fakeRule{{"/vault", perm.None}},
		Host: func(t *testing.T, dir string) {
			write(t, dir, "open/file", "public")
			write(t, dir, "gone/file", "public")
		},
	}, func(t *testing.T, c *client) {
		for name, to := range map[string]string{"open": "vault", "gone": "../gone"} {
			fd, err := unix.Open(c.at(name), unix.O_DIRECTORY, 0)
			ok(t, "open", err)
			defer unix.Close(fd)
			ok(t, "move", os.Rename(filepath.Join(c.host, name), filepath.Join(c.host, to)))
			write(t, c.host, to+"/later", secret)
			wait.Until(t, "that it is gone", func() bool {
				_, err := unix.Openat(fd, "later", unix.O_RDONLY, 0)
				return err != nil
			})
			if _, err := unix.Openat(fd, "made", unix.O_CREAT|unix.O_WRONLY, 0o644); err == nil {
				t.Errorf("a file could be made in %s", to)
			}
			buf := make([]byte, 4096)
			if n, err := unix.Getdents(fd, buf); err == nil {
				t.Errorf("%s could be listed: %q", to, buf[:n])
			}
		}
	})
}

// What belongs to others is shown with what the server may really do.
func TestForeignInodesShowRealAccess(t *testing.T) {
	const other = 65534
	const childEnv = "WOLFFIA_FUSEFS_FOREIGN"
	if os.Getenv(childEnv) != "" {
		showForeign(t)
		return
	}
	testenv.Root(t) // which can make files of others
	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{"rw": 0o646, "r": 0o644, "none": 0o640, "x": 0o755, "w": 0o622} {
		write(t, dir, name, name)
		if err := os.Chmod(filepath.Join(dir, name), mode); err != nil {
			t.Fatal(err)
		}
	}
	write(t, dir, "own", "own")
	if err := os.Chown(filepath.Join(dir, "own"), other, other); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(dir, "own"), 0o640); err != nil {
		t.Fatal(err)
	}
	// The directories above cannot be entered, and need not be.
	root, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if err := root.Chmod(0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), childEnv+"=1")
	cmd.ExtraFiles = []*os.File{root}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: other, Gid: other}}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("CombinedOutput: got err %v, out %s; want err == nil", err, out)
	}
}

func showForeign(t *testing.T) {
	tr, err := newTree(&Options{Root: 3, Rules: newFakeRules([]fakeRule{{"rw", perm.Read}}), Owner: Owner{7, 8}})
	if err != nil {
		t.Fatal(err)
	}
	defer tr.close()
	for name, want := range map[string]uint32{
		"rw": 0o444, "r": 0o444, "none": 0o040, "x": 0o555, "w": 0o222, "own": 0o640,
	} {
		h, _ := tr.acquire(tr.table.get(rootID), usePath)
		obj, errno := tr.Examine(backing.At{FD: h.fd, Name: name})
		h.release()
		if errno != 0 {
			t.Fatal(errno)
		}
		level := tr.levels.rules.Child(0, name, false)
		if got := tr.attrs.mode(obj, level, states{}) & 0o7777; got != want {
			t.Errorf("%s of mode %o: shown as %o, want %o", name, obj.Mode&0o7777, got, want)
		}
	}
}
