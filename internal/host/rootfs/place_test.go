package rootfs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"wolffia/internal/host/boot"
	"wolffia/internal/host/statedir"
	"wolffia/runtime"
	"wolffia/runtime/launch"
)

// Wherever a symbolic link of an image's is, and wherever it leads, furnish follows it
// neither out of the root directory nor inside: it makes directories and files instead.
func TestFurnishFollowsNoLink(t *testing.T) {
	for _, at := range []string{
		"run", "run/wolffia", "run/wolffia/guest", "run/wolffia/seccomp", "run/.w", "home", "home/ann", "proc", "dev", "sys", "tmp",
		"etc", "etc/passwd", "etc/group", "etc/hosts", "etc/hostname", "etc/resolv.conf",
		"workspace", "workspace/deep", "workspace/deep/er", "data", "data/file",
	} {
		dir := t.TempDir()
		outside, root := filepath.Join(dir, "outside"), filepath.Join(dir, "root")
		source := filepath.Join(dir, "file")
		if err := errors.Join(os.MkdirAll(outside, 0o755), os.MkdirAll(filepath.Join(root, "inside"), 0o755), os.WriteFile(source, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
		secret := filepath.Join(outside, "secret")
		for what, to := range map[string]string{
			"absolute": outside, "relative": strings.Repeat("../", strings.Count(at, "/")+1) + "outside", "many dots": strings.Repeat("../", 40) + outside,
			"by /proc": "/proc/self/cwd/../../../../.." + outside, "a file": secret, "nowhere": "/none", "inside": "/inside", "itself": filepath.Base(at), "magic": "/proc/self/root" + outside,
		} {
			place := filepath.Join(root, at)
			if err := errors.Join(os.WriteFile(secret, []byte("x"), 0o600), os.RemoveAll(place), os.MkdirAll(filepath.Dir(place), 0o755), os.Symlink(to, place)); err != nil {
				t.Fatal(err)
			}
			spec := &launch.Spec{
				RootDir: root, Home: "/home/ann", Guest: source,
				Scratch: []string{"/workspace/deep/er"}, Binds: []runtime.Mount{{Source: source, Target: "/data/file"}},
			}
			c := statedir.Config{SandboxConfig: runtime.SandboxConfig{ID: "abcdefghijkl", Network: runtime.NetworkHost}, User: "ann", UID: 1000, GID: 1000}
			if err := furnish(&boot.Params{Config: c}, spec); err != nil {
				t.Fatalf("%s, %s: %v", at, what, err)
			}
			if left, err := os.ReadDir(outside); err != nil || len(left) != 1 {
				t.Errorf("%s, %s: made outside: %v, %v", at, what, left, err)
			}
			if b, err := os.ReadFile(secret); string(b) != "x" {
				t.Errorf("%s, %s: changed outside: %q, %v", at, what, b, err)
			}
			if left, err := os.ReadDir(filepath.Join(root, "inside")); err != nil || len(left) > 0 {
				t.Errorf("%s, %s: made inside: %v, %v", at, what, left, err)
			}
			files := []string{"data/file", "run/wolffia/guest", "run/wolffia/seccomp", "etc/passwd", "etc/group", "etc/hosts", "etc/hostname", "etc/resolv.conf"}
			dirs := []string{"workspace/deep/er", "home/ann", "proc", "dev", "sys", "tmp", "run/.w"}
			for i, name := range append(files, dirs...) {
				for p := name; p != "."; p = filepath.Dir(p) {
					st, err := os.Lstat(filepath.Join(root, p))
					if err != nil || st.Mode()&fs.ModeSymlink != 0 || st.IsDir() == (p == name && i < len(files)) {
						t.Errorf("%s, %s: %s is %v, %v", at, what, p, st, err)
					}
				}
			}
			if b, err := os.ReadFile(filepath.Join(root, "etc/passwd")); !strings.Contains(string(b), "ann:x:1000:1000:") || err != nil {
				t.Errorf("%s, %s: passwd is %q, %v", at, what, b, err)
			}
		}
	}
}

// Anything but a symbolic link is replaced too, and a directory that its owner may not
// use is opened up.
func TestFurnishReplaces(t *testing.T) {
	defer unix.Umask(unix.Umask(0o022)) // as the shim's
	root := t.TempDir()
	at := func(name string) string { return filepath.Join(root, name) }
	if err := errors.Join(os.MkdirAll(at("etc/hosts/a/b"), 0o755), os.MkdirAll(at("run/wolffia/guest/full"), 0o755), os.MkdirAll(at("home/ann"), 0o755),
		unix.Mkfifo(at("etc/passwd"), 0o600), unix.Mkfifo(at("sys"), 0o600), os.WriteFile(at("tmp"), []byte("x"), 0o600),
		os.Chmod(at("home"), 0), os.Chmod(at("run/wolffia"), 0o500)); err != nil {
		t.Fatal(err)
	}
	c := statedir.Config{SandboxConfig: runtime.SandboxConfig{ID: "abcdefghijkl"}, User: "ann", UID: 1000, GID: 1000}
	if err := furnish(&boot.Params{Config: c}, &launch.Spec{RootDir: root, Home: "/home/ann", Guest: "/proc/self/exe"}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]fs.FileMode{
		"home": fs.ModeDir | 0o700, "run/wolffia": fs.ModeDir | 0o700, "sys": fs.ModeDir | 0o755, "tmp": fs.ModeDir | 0o755, "etc/passwd": 0o644, "etc/hosts": 0o644, "run/wolffia/guest": 0o644,
	} {
		if st, err := os.Lstat(at(name)); err != nil || st.Mode() != want {
			t.Errorf("%s: %v, %v; want %v", name, st, err, want)
		}
	}
}
