package bubblewrap

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"wolffia/internal/sys/hostpath"
)

// copied copies a program of the host's.
func copied(t *testing.T, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	written(t, to, string(b))
}

// written writes a file that can be executed.
func written(t *testing.T, to, text string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(to), 0o755), os.WriteFile(to, []byte(text), 0o755), os.Chmod(to, 0o755)); err != nil {
		t.Fatal(err)
	}
}

// The shipped program is used where wolffia's tarball, a package or make install has put it, and only
// if the host has none that is new enough.
func TestShipped(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	at := func(name string) string { return filepath.Join(root, name) }
	for _, place := range []string{"tar/", "usr/lib/wolffia/", "local/libexec/wolffia/", "lib/wolffia/"} {
		copied(t, "/bin/true", at(place+Name))
	}
	copied(t, "/bin/true", at("old/bwrap"))
	written(t, at("new/bwrap"), "\x7fELF --unshare-user --disable-userns")
	written(t, at("script/bwrap"), "#!/bin/sh\nexec /opt/bwrap \"$@\"\n")
	for _, test := range []struct{ path, beside, want string }{
		{"none", "tar", "tar/" + Name},
		{"none", "usr/bin", "usr/lib/wolffia/" + Name},
		{"none", "local/bin", "local/libexec/wolffia/" + Name},
		{"none", "opt", ""}, // not at lib/wolffia, which is in no prefix of wolffia's
		{"old", "tar", "tar/" + Name},
		{"new", "tar", ""},
		{"script", "tar", ""},
	} {
		t.Setenv("PATH", at(test.path))
		want := ""
		if test.want != "" {
			want = at(test.want)
		}
		if got, err := Shipped(at(test.beside)); got != want || err != nil {
			t.Errorf("PATH %s, beside %s: got %q, %v; want %q", test.path, test.beside, got, err, want)
		}
	}
	if got, err := Shipped("tar"); got != "" || err != nil {
		t.Errorf("a relative directory: got %q, %v; want none", got, err)
	}
}

// A program that another user or a sandbox can change is not executed.
func TestShippedIsRefused(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	refused := func(why, want string, change func(path string) error) {
		dir, err := filepath.EvalSymlinks(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, Name)
		copied(t, "/bin/true", path)
		if err := change(path); err != nil {
			t.Fatal(err)
		}
		if got, err := Shipped(dir); got != "" || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %q, %v; want an error with %q", why, got, err, want)
		}
	}
	refused("others write", "others can write", func(path string) error { return os.Chmod(path, 0o757) })
	refused("its group writes", "others can write", func(path string) error { return os.Chmod(path, 0o775) })
	refused("a link", "not a file", func(path string) error { return errors.Join(os.Remove(path), os.Symlink("/bin/true", path)) })
	if os.Geteuid() == 0 {
		refused("of another user", "belongs to user 2345", func(path string) error { return os.Chown(path, 2345, 0) })
	}
	refused("a sandbox writes", "a sandbox can write", func(path string) error {
		hostpath.Distrust(t.Name(), func() ([]string, error) { return []string{filepath.Dir(path)}, nil })
		return nil
	})
	hostpath.Distrust(t.Name(), func() ([]string, error) { return nil, nil })
}
