// Package release tests what a release is installed by.
package release

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"wolffia/internal/test/testenv"
)

const (
	installer = "../../../packaging/install.sh"
	sums      = "SHA256SUMS"
	signature = "SHA256SUMS.minisig"
	// key signed the files of testdata: testdata/make made them, and deleted the secret key.
	key      = "RWT9YIIzNjaRxP3iy3yVar1YY1d9Wd3CpAG90ksxwyrJPYiX3fJfT4ed"
	otherKey = "RWT9YIIzNjaRxP3iy3yVar1YY1d9Wd3CpAG90ksxwyrJPYiX3fJfT4ec"
)

// TestInstaller: packaging/install.sh installs what its key has signed, removes all of it, and installs
// nothing else; with the shell of the host and with busybox.
func TestInstaller(t *testing.T) {
	testenv.Tools(t, "openssl", "curl", "wget")
	cases := []struct {
		name   string
		key    string
		change func(name string, b []byte) []byte // what the server sends of a file
		path   string                             // PATH, else the host's
		args   []string
		refuse string // empty: it installs
	}{
		{name: "good", key: key},
		{name: "wrong key", key: otherKey, refuse: "the signature of SHA256SUMS is wrong"},
		{name: "not a key", key: "abc", refuse: "the signature of SHA256SUMS is wrong"},
		{name: "other sums", key: key, change: at(sums, func(b []byte) []byte { return append(b, '\n') }), refuse: "the signature of SHA256SUMS is wrong"},
		{name: "no signature", key: key, change: at(signature, func([]byte) []byte { return nil }), refuse: "cannot download"},
		{name: "empty signature", key: key, change: at(signature, func([]byte) []byte { return []byte("\n") }), refuse: "the signature of SHA256SUMS is wrong"},
		{name: "truncated", key: key, change: at(".tar.gz", func(b []byte) []byte { return b[:len(b)-1] }), refuse: "is damaged"},
		{name: "unsigned", refuse: "this release is not signed"},
		{name: "unsigned, accepted", args: []string{"--insecure-skip-signature"}},
		{name: "unsigned, truncated", args: []string{"--insecure-skip-signature"}, change: at(".tar.gz", func(b []byte) []byte { return b[:9] }), refuse: "is damaged"},
		{name: "nothing verifies", key: key, path: programs(t, "curl"), refuse: "minisign and OpenSSL 3 are missing"},
		{name: "by wget", key: key, path: programs(t, "wget", "openssl")},
		{name: "wrong argument", key: key, args: []string{"--force"}, refuse: `unknown argument "--force"`},
	}
	shells := map[string][]string{"sh": {"sh"}, "busybox": {testenv.Busybox(t), "sh"}}
	for name, shell := range shells {
		for _, c := range cases {
			t.Run(name+"/"+c.name, func(t *testing.T) {
				server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					b, err := os.ReadFile(filepath.Join("testdata", path.Base(r.URL.Path)))
					if c.change != nil && err == nil {
						b = c.change(path.Base(r.URL.Path), b)
					}
					if b == nil {
						http.NotFound(w, r)
						return
					}
					w.Write(b)
				}))
				defer server.Close()
				prefix := t.TempDir()
				script := filled(t, c.key)
				run := func(args ...string) (string, error) {
					cmd := exec.Command(shell[0], append(append(shell[1:len(shell):len(shell)], script), args...)...)
					cmd.Env = append(os.Environ(), "PREFIX="+prefix, "WOLFFIA_URL="+server.URL, "TMPDIR="+t.TempDir())
					if c.path != "" {
						cmd.Env = append(cmd.Env, "PATH="+c.path)
					}
					out, err := cmd.CombinedOutput()
					return string(out), err
				}
				out, err := run(c.args...)
				if c.refuse != "" {
					if err == nil || !strings.Contains(out, c.refuse) {
						t.Errorf("got error %v and %q, want one with %q", err, out, c.refuse)
					}
					if left := files(t, prefix); len(left) > 0 {
						t.Errorf("it refused and left %q", left)
					}
					return
				}
				if err != nil || !strings.Contains(out, "wolffia 1.0.0") {
					t.Fatalf("got error %v and %q, want an installation of wolffia 1.0.0", err, out)
				}
				want := []string{"bin/wolffia", "share/man/man1/wolffia.1", "share/wolffia/installed"}
				if got := files(t, prefix); strings.Join(got, " ") != strings.Join(want, " ") {
					t.Errorf("installed are %q, want %q", got, want)
				}
				if out, err := run(c.args...); err != nil {
					t.Errorf("a second time: %v, %s", err, out)
				}
				if out, err := run("--remove"); err != nil {
					t.Errorf("--remove: %v, %s", err, out)
				}
				if left := files(t, prefix); len(left) > 0 {
					t.Errorf("--remove has left %q", left)
				}
			})
		}
	}
}

// at returns a change of the files whose names end with suffix.
func at(suffix string, change func([]byte) []byte) func(string, []byte) []byte {
	return func(name string, b []byte) []byte {
		if strings.HasSuffix(name, suffix) {
			return change(b)
		}
		return b
	}
}

// filled writes the installer as scripts/dist does, and returns its path.
func filled(t *testing.T, key string) string {
	t.Helper()
	text, err := os.ReadFile(installer)
	if err != nil {
		t.Fatal(err)
	}
	for mark, value := range map[string]string{"@VERSION@": "1.0.0", "@URL@": "", "@KEY@": key} {
		if bytes.Count(text, []byte(mark)) != 1 {
			t.Fatalf("%s: %s is not in it once", installer, mark)
		}
		text = bytes.ReplaceAll(text, []byte(mark), []byte(value))
	}
	script := filepath.Join(t.TempDir(), "install.sh")
	if err := os.WriteFile(script, text, 0o644); err != nil {
		t.Fatal(err)
	}
	return script
}

// programs returns a directory for PATH with what the installer needs of every system, and those programs.
func programs(t *testing.T, names ...string) string {
	t.Helper()
	dir := t.TempDir()
	always := []string{
		"sh", "id", "uname", "mktemp", "mkdir", "rm", "rmdir", "mv", "cp", "chmod", "cat", "find", "sed", "base64", "wc", "head", "tail", "grep", "sha256sum", "tar", "gzip",
	}
	for _, name := range append(always, names...) {
		program, err := exec.LookPath(name)
		if err == nil {
			err = os.Symlink(program, filepath.Join(dir, name))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// files returns the regular files below a directory, by their paths in it.
func files(t *testing.T, dir string) []string {
	t.Helper()
	var all []string
	err := filepath.WalkDir(dir, func(file string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			name, _ := filepath.Rel(dir, file)
			all = append(all, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
