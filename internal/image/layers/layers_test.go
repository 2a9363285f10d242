package layers

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/image/store"
	"wolffia/internal/test/testenv"
)

// made makes a layer with a file of each kind.
func made(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "layer")
	at := func(name string) string { return filepath.Join(dir, name) }
	when := time.Unix(1_700_000_000, 999).Round(0)
	err := errors.Join(
		os.MkdirAll(at("d/opaque"), 0o755), os.Chmod(at("d"), 0o1700), unix.Setxattr(at("d/opaque"), opaqueXattr, []byte("y"), 0),
		os.WriteFile(at("d/file"), []byte("content"), 0o640), os.Link(at("d/file"), at("a-link")),
		os.Chmod(at("d/file"), 0o640|os.ModeSetuid), os.Symlink("/nowhere", at("sym")), unix.Mkfifo(at("fifo"), 0o600),
		unix.Mknod(at("gone"), unix.S_IFCHR, 0), unix.Mknod(at("d/gone"), unix.S_IFCHR, 0),
		unix.Mknod(at("socket"), unix.S_IFSOCK|0o600, 0),
		os.WriteFile(at("skipped"), nil, 0o600),
	)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"d/file", "d/opaque", "d", "fifo"} {
		if err := os.Chtimes(at(name), when, when); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// list returns a line for each entry of an archive.
func list(t *testing.T, archive []byte) (lines []string) {
	t.Helper()
	for r := tar.NewReader(bytes.NewReader(archive)); ; {
		h, err := r.Next()
		if err == io.EOF {
			return lines
		}
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(r)
		lines = append(lines, strings.TrimSpace(fmt.Sprintf("%c %s %o %d:%d %s%s", h.Typeflag, h.Name, h.Mode, h.Uid, h.Gid, h.Linkname, body)))
	}
}

// A layer is written as an OCI layer, and a copy of it is written as the same bytes.
func TestWriteAndCopy(t *testing.T) {
	testenv.Both(t)
	dir := made(t)
	uid, gid := os.Geteuid(), os.Getegid()
	var first bytes.Buffer
	owners := []store.Owned{{Path: "d", UID: 5, GID: 6, Mode: 0o750}, {Path: "sym", UID: 7, Mode: 0o777}}
	if err := Write(&first, dir, owners); err != nil {
		t.Fatal(err)
	}
	own := fmt.Sprintf("%d:%d", uid, gid)
	want := []string{
		"0 a-link 4640 " + own + " content", "5 d/ 750 5:6", "1 d/file 4640 " + own + " a-link", "0 d/.wh.gone 600 0:0",
		"5 d/opaque/ 755 " + own, "0 d/opaque/.wh..wh..opq 600 0:0", "6 fifo 600 " + own, "0 .wh.gone 600 0:0",
		"0 skipped 600 " + own, "2 sym 777 7:0 /nowhere",
	}
	if got := list(t, first.Bytes()); !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if uid != 0 {
		return // only root gives files away
	}
	to := filepath.Join(t.TempDir(), "copy")
	if err := Copy(dir, to, nil, func(name string) bool { return name == "skipped" }); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "skipped")); err != nil {
		t.Fatal(err)
	}
	var a, b bytes.Buffer
	if err := errors.Join(Write(&a, dir, nil), Write(&b, to, nil)); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(a.Bytes(), b.Bytes()) {
		t.Errorf("a copy differs:\n%s\nwant\n%s", list(t, b.Bytes()), list(t, a.Bytes()))
	}
}

// Owners of another user's range become those inside.
func TestCopyIDs(t *testing.T) {
	testenv.Root(t)
	dir := filepath.Join(t.TempDir(), "layer")
	for name, uid := range map[string]int{"": 990, "own": 990, "first": 100000, "last": 165534, "beyond": 165535, "foreign": 7} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(path, 0o755), os.Chown(path, uid, uid)); err != nil {
			t.Fatal(err)
		}
	}
	to := filepath.Join(t.TempDir(), "copy")
	if err := Copy(dir, to, &store.IDs{Owner: 990, UID: 100000, GID: 100000, Count: 65535}, nil); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]uint32{"": 0, "own": 0, "first": 1, "last": 65535, "beyond": 0, "foreign": 0} {
		var st unix.Stat_t
		if err := unix.Lstat(filepath.Join(to, name), &st); err != nil || st.Uid != want || st.Gid != want {
			t.Errorf("%q is %d:%d's, %v; want %d's", name, st.Uid, st.Gid, err, want)
		}
	}
}

// Capabilities of a user namespace are written as those of an image.
func TestPlainCaps(t *testing.T) {
	v3 := append([]byte{1, 0, 0, 3}, make([]byte, 20)...)
	if got := plainCaps(v3); len(got) != 20 || got[3] != 2 || v3[3] != 3 {
		t.Errorf("got %v", got)
	}
	if v2 := v3[:20]; !bytes.Equal(plainCaps(v2), v2) || plainCaps(nil) != nil {
		t.Error("another value changes")
	}
}

// Remove follows no link of a hostile layer.
func TestRemove(t *testing.T) {
	dir, outside := filepath.Join(t.TempDir(), "layer"), t.TempDir()
	err := errors.Join(
		os.MkdirAll(filepath.Join(dir, "etc"), 0o755), os.WriteFile(filepath.Join(dir, "etc/hosts"), nil, 0o644),
		os.WriteFile(filepath.Join(outside, "hosts"), nil, 0o644), os.Symlink(outside, filepath.Join(dir, "link")),
	)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"etc/hosts", "etc/none", "none/x", "link/hosts"} {
		if err := Remove(dir, name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "etc/hosts")); err == nil {
		t.Error("it is still there")
	}
	if _, err := os.Stat(filepath.Join(outside, "hosts")); err != nil {
		t.Error(err)
	}
}

// What was made for a mount goes, what an image below or the layer itself has stays, and no link is followed.
func TestRemoveEmptyParents(t *testing.T) {
	top := t.TempDir()
	layer, below := filepath.Join(top, "layer"), filepath.Join(top, "below")
	for _, dir := range []string{"layer/var/cache/deep", "layer/srv/a", "layer/srv/b", "layer/opt", "below/opt", "outside/a"} {
		if err := os.MkdirAll(filepath.Join(top, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("../outside", filepath.Join(layer, "link")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"var/cache/deep/x", "srv/a/x", "opt/x", "link/a/x", "none/x", "top"} {
		if err := RemoveEmptyParents(layer, []string{below}, name); err != nil {
			t.Error(name, err)
		}
	}
	for name, stays := range map[string]bool{"var": false, "srv/a": false, "srv/b": true, "opt": true, "link": true, "../outside/a": true} {
		if _, err := os.Lstat(filepath.Join(layer, name)); (err == nil) != stays {
			t.Errorf("%s: %v; want that it stays: %t", name, err, stays)
		}
	}
}
