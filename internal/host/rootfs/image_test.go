package rootfs

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"wolffia/image/store"
	"wolffia/internal/host/boot"
	"wolffia/internal/test/testenv"
	"wolffia/runtime"
)

func TestWithID(t *testing.T) {
	const own = "root:x:0:0::/:/bin/sh\nann:x:1000:1000::/home/ann:/bin/sh\n"
	for text, want := range map[string]string{
		"":                            own,
		"\n":                          own,
		"root:x:0:0::/:/bin/sh\n":     "root:x:0:0::/:/bin/sh\nann:x:1000:1000::/home/ann:/bin/sh\n",
		"no end":                      "no end\nann:x:1000:1000::/home/ann:/bin/sh\n",
		"node:x:1000:5::/:/bin/sh":    "node:x:1000:5::/:/bin/sh",
		"staff:x:1000:":               "staff:x:1000:",
		"x:x:1000":                    "x:x:1000",
		"x:1000:x:1000:1000:1000\n":   "x:1000:x:1000:1000:1000\nann:x:1000:1000::/home/ann:/bin/sh\n",
		"a:x:10000::\nb:x: 1000:\n::": "a:x:10000::\nb:x: 1000:\n::\nann:x:1000:1000::/home/ann:/bin/sh\n",
	} {
		got, changed := withID(text, own, 1000)
		if got != want || changed != (got != text) {
			t.Errorf("%q: %q, %v; want %q", text, got, changed, want)
		}
		if again, changed := withID(got, own, 1000); changed || again != got {
			t.Errorf("%q: again it becomes %q", text, again)
		}
	}
}

// The caller that hands root's image over may be killed before it has.
func TestReceiveImage(t *testing.T) {
	for _, c := range []struct {
		name string
		send func(socket *os.File) error
		want string
	}{
		{"nothing", (*os.File).Close, "receive the image: the process that starts the sandbox has ended"},
		{"no descriptor", func(s *os.File) error { return boot.SendServing(s, nil) }, "receive the image: the message has no descriptor"},
	} {
		ours, theirs, err := boot.ControlPair()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.send(theirs); err != nil {
			t.Fatal(err)
		}
		if _, err := receiveImage(ours); err == nil || err.Error() != c.want {
			t.Errorf("%s: got err %v; want err != nil and err.Error() == %v", c.name, err, c.want)
		}
		_, _ = ours.Close(), theirs.Close()
	}
}

// Where the kernel cannot put changes over an image, that is an error, not a
// root that can only be read. Here the changes would be on another overlay.
func TestOverlay(t *testing.T) {
	if !testenv.InNamespace(t) {
		return
	}
	dir := t.TempDir()
	if err := unix.Mount("none", dir, "tmpfs", 0, ""); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Unmount(dir, unix.MNT_DETACH) }()
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{"lower,a:b\\c", "root", "root2"} {
		if err := os.Mkdir(at(name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	var lowers []string // many, the highest first; at most that many fit on a page
	for i := range store.MaxParents - 1 {
		layer := at("layer" + strconv.Itoa(i))
		if err := errors.Join(os.Mkdir(layer, 0o755), os.WriteFile(filepath.Join(layer, "of"), []byte(strconv.Itoa(i)), 0o644)); err != nil {
			t.Fatal(err)
		}
		lowers = append(lowers, layer)
	}
	if err := mountOver(append(lowers, at("lower,a:b\\c")), at("upper"), at("work"), at("root"), false); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(at("root/of")); string(b) != "0" {
		t.Errorf("of several layers: got %q, %v; want 0, the first", b, err)
	}
	if err := os.WriteFile(at("root/file"), nil, 0o600); err != nil {
		t.Error(err)
	}
	if err := unused(at("lower,a:b\\c"), at("upper")); runtime.Class(err) != runtime.ErrUnavailable {
		t.Errorf("a mount of the changes was not noticed: %v", err)
	}
	for _, name := range []string{"never", "before"} {
		if err := unused(at("lower,a:b\\c"), at(name)); err != nil {
			t.Errorf("%s used: %v", name, err)
		}
		if err := os.Mkdir(at("before"), 0o755); err != nil && name == "never" {
			t.Fatal(err)
		}
	}
	if mounts, err := os.ReadFile("/proc/self/mountinfo"); err != nil || bytes.Contains(mounts, []byte(at("before"))) {
		t.Errorf("it is mounted to look: %v, %s", err, mounts)
	}
	err := mountOver([]string{at("lower,a:b\\c")}, at("root/upper"), at("root/work"), at("root2"), false)
	if runtime.Class(err) != runtime.ErrUnsupported {
		t.Errorf("an overlay for the changes to an overlay: %v", err)
	}
	if err := os.Symlink(at("upper"), at("link")); err != nil {
		t.Fatal(err)
	}
	if err := mountOver([]string{at("lower,a:b\\c")}, at("link"), at("work2"), at("root2"), true); err == nil {
		t.Error("a link for the place of changes was followed")
	}
}
