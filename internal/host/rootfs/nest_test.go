package rootfs

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"wolffia/internal/host/boot"
	"wolffia/internal/test/testenv"
	"wolffia/runtime"
	"wolffia/runtime/launch"
)

func TestOutermost(t *testing.T) {
	around := outermost([]runtime.Mount{
		{Target: "/home/ann/src/x", Writable: true},
		{Target: "/home/ann", Writable: true},
		{Target: "/data"},
		{Target: "/data/rw", Writable: true},
	}, func(m *runtime.Mount) bool { return m.Writable })
	for target, want := range map[string]string{
		"/home/ann": "", "/home/anna": "", "/home/ann/src": "/home/ann", "/home/ann/src/x/y": "/home/ann",
		"/data/x": "", "/data/rw": "", "/data/rw/x": "/data/rw", "/": "",
	} {
		got := ""
		if m := around(target); m != nil {
			got = m.Target
		}
		if got != want {
			t.Errorf("around %s is %q; want %q", target, got, want)
		}
	}
}

// A nested is a home directory with things below, all in dir on the host.
func nested(t *testing.T, dir string) (*boot.Params, *launch.Spec) {
	t.Helper()
	for _, name := range []string{"home", "code/sub", "outside", "data"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{"code/file": "code", "data/file": "data", "single": "single"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	b := &boot.Params{Can: launch.ShimMounts}
	b.Config.Volumes = []runtime.VolumeMount{{Name: "home-dev", Target: "/home/ann"}}
	return b, &launch.Spec{
		Binds: []runtime.Mount{
			{Source: filepath.Join(dir, "data"), Target: "/home/ann/src/x/sub"},
			{Source: filepath.Join(dir, "code"), Target: "/home/ann/src/x", Writable: true},
			{Source: filepath.Join(dir, "home"), Target: "/home/ann", Writable: true},
			{Source: filepath.Join(dir, "single"), Target: "/home/ann/.config/tool/file"},
			{Source: filepath.Join(dir, "data"), Target: "/other"},
		},
		Scratch: []string{"/home/ann/scratch", "/workspace"},
	}
}

// What is below a directory that can be written is mounted in it, parents first, with its
// own access; the rest stays.
func TestNest(t *testing.T) {
	if !testenv.InNamespace(t) {
		return
	}
	dir := t.TempDir()
	b, spec := nested(t, dir)
	if err := Nest(b, spec); err != nil {
		t.Fatal(err)
	}
	defer unmount(t, dir, "home/src/x/sub", "home/src/x", "home/.config/tool/file")
	if len(spec.Binds) != 2 || spec.Binds[0].Target != "/other" || spec.Binds[1].Target != "/home/ann" {
		t.Error(spec.Binds)
	}
	if len(spec.Scratch) != 1 || spec.Scratch[0] != "/workspace" {
		t.Error(spec.Scratch)
	}
	for name, want := range map[string]string{"src/x/file": "code", "src/x/sub/file": "data", ".config/tool/file": "single"} {
		if got, err := os.ReadFile(filepath.Join(dir, "home", name)); err != nil || string(got) != want {
			t.Errorf("%s: got %q, %v; want %q, nil", name, got, err, want)
		}
	}
	if st, err := os.Stat(filepath.Join(dir, "home/scratch")); err != nil || !st.IsDir() {
		t.Error(err)
	}
	for name, want := range map[string]error{"src/x/new": nil, "src/x/sub/new": unix.EROFS, ".config/tool/file": unix.EROFS} {
		if err := os.WriteFile(filepath.Join(dir, "home", name), nil, 0o600); !errors.Is(err, want) {
			t.Errorf("write to %s: %v; want %v", name, err, want)
		}
	}
}

// With an engine there are only the places, each in what it will be mounted in.
func TestNestForEngine(t *testing.T) {
	dir := t.TempDir()
	b, spec := nested(t, dir)
	b.Can = 0
	b.Config.UID, b.Config.GID = 1234, 1235
	if os.Geteuid() == 0 { // root makes them as the sandbox's user
		for _, name := range []string{"home", "code"} {
			if err := os.Chown(filepath.Join(dir, name), 1234, 1235); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(os.Chmod(filepath.Dir(dir), 0o755), os.Chmod(dir, 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	spec.Binds = append(spec.Binds, runtime.Mount{Source: filepath.Join(dir, "data"), Target: "/home/ann/src/x/made/it"})
	if err := Nest(b, spec); err != nil {
		t.Fatal(err)
	}
	if len(spec.Binds) != 6 || len(spec.Scratch) != 1 {
		t.Error(spec.Binds, spec.Scratch)
	}
	for _, name := range []string{"home/src/x", "home/.config/tool/file", "home/scratch", "code/made/it"} {
		var st unix.Stat_t
		if err := unix.Lstat(filepath.Join(dir, name), &st); err != nil || os.Geteuid() == 0 && (st.Uid != 1234 || st.Gid != 1235) {
			t.Errorf("%s: got err %v, st.Uid %d, st.Gid %d; want err == nil and (os.Geteuid() != 0 or (st.Uid == 1234 and st.Gid == 1235))",
				name, err, st.Uid, st.Gid)
		}
	}
	if _, err := os.Lstat(filepath.Join(dir, "home/src/x/made")); err == nil {
		t.Error("a place in the codebase was made below the codebase's own")
	}
}

// With an engine, a link in a codebase, or in another directory that can be written, is an error too.
func TestNestForEngineHostile(t *testing.T) {
	for _, volume := range []bool{false, true} {
		dir := t.TempDir()
		b, spec := nested(t, dir)
		b.Can, b.Config.Volumes = 0, nil
		b.Config.UID, b.Config.GID = os.Geteuid(), os.Getegid()
		spec.Binds = []runtime.Mount{
			{Source: filepath.Join(dir, "code"), Target: "/workspace", Writable: true},
			{Source: filepath.Join(dir, "data"), Target: "/workspace/link/x", Writable: volume},
		}
		if volume {
			b.Config.Volumes = []runtime.VolumeMount{{Name: "data", Target: "/workspace/link/x"}}
		}
		if err := os.Symlink("../outside", filepath.Join(dir, "code/link")); err != nil {
			t.Fatal(err)
		}
		if err := Nest(b, spec); runtime.Class(err) != runtime.ErrInvalid || !strings.Contains(err.Error(), "links are not followed") {
			t.Errorf("volume %v: %v", volume, err)
		}
		if made, err := os.ReadDir(filepath.Join(dir, "outside")); err != nil || len(made) > 0 {
			t.Errorf("volume %v: made %v, %v", volume, made, err)
		}
	}
}

// Links and other things that a sandbox has put in the way are errors; nothing is made
// where they lead.
func TestNestHostile(t *testing.T) {
	for name, put := range map[string]func(dir string) error{
		"link out":         func(dir string) error { return os.Symlink("../outside", filepath.Join(dir, "home/src")) },
		"absolute link":    func(dir string) error { return os.Symlink(dir+"/outside", filepath.Join(dir, "home/src")) },
		"link in":          func(dir string) error { return os.Symlink(".", filepath.Join(dir, "home/src")) },
		"file":             func(dir string) error { return os.WriteFile(filepath.Join(dir, "home/src"), nil, 0o600) },
		"link to file":     func(dir string) error { return os.Symlink("../../../outside/made", dir+"/home/.config/tool/file") },
		"fifo for a file":  func(dir string) error { return unix.Mkfifo(dir+"/home/.config/tool/file", 0o600) },
		"directory for it": func(dir string) error { return os.Mkdir(dir+"/home/.config/tool/file", 0o700) },
	} {
		dir := t.TempDir()
		b, spec := nested(t, dir)
		b.Can = 0 // no mounts
		b.Config.UID, b.Config.GID = os.Geteuid(), os.Getegid()
		err := errors.Join(os.MkdirAll(filepath.Join(dir, "home/.config/tool"), 0o700), put(dir))
		if err != nil {
			t.Fatal(err)
		}
		if err := Nest(b, spec); runtime.Class(err) != runtime.ErrInvalid || !strings.Contains(err.Error(), "links are not followed") {
			t.Errorf(`%s: got err %v; want runtime.Class(err) == runtime.ErrInvalid and err.Error() contains "links are not followed"`,
				name, err)
		}
		if made, err := os.ReadDir(filepath.Join(dir, "outside")); err != nil || len(made) > 0 {
			t.Errorf("%s: made %v, %v", name, made, err)
		}
	}
}

// A process that puts a link there meanwhile does not win either.
func TestNestRace(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	nested(t, dir)
	if err := errors.Join(os.Mkdir(at("home/src"), 0o755), os.Symlink("../outside", at("home/link"))); err != nil {
		t.Fatal(err)
	}
	stop, swapped := make(chan struct{}), make(chan struct{})
	go func() { // ends with stop
		defer close(swapped)
		for {
			select {
			case <-stop:
				return
			default:
				_ = unix.Renameat2(unix.AT_FDCWD, at("home/src"), unix.AT_FDCWD, at("home/link"), unix.RENAME_EXCHANGE)
			}
		}
	}()
	made := 0
	for range 3000 {
		b, spec := nested(t, dir)
		b.Can = 0
		b.Config.UID, b.Config.GID = os.Geteuid(), os.Getegid()
		if Nest(b, spec) == nil {
			made++
		}
		for _, name := range []string{"src", "link"} {
			_ = os.Remove(at("home/" + name + "/x/sub"))
			_ = os.Remove(at("home/" + name + "/x"))
		}
	}
	close(stop)
	<-swapped
	if out, err := os.ReadDir(at("outside")); err != nil || len(out) > 0 {
		t.Error(out, err)
	}
	if made == 0 {
		t.Error("it never succeeded: the test shows nothing")
	}
}

// A volume that is read-only has no place for others.
func TestNestReadOnly(t *testing.T) {
	b, spec := nested(t, t.TempDir())
	spec.Binds[2].Writable = false
	if err := Nest(b, spec); runtime.Class(err) != runtime.ErrInvalid || !strings.Contains(err.Error(), "read-only") {
		t.Error(err)
	}
}

func unmount(t *testing.T, dir string, places ...string) {
	t.Helper()
	for _, place := range places {
		if err := unix.Unmount(filepath.Join(dir, place), unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	}
}
