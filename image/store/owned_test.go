package store_test

import (
	"archive/tar"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"wolffia/image/store"
	"wolffia/internal/test/testenv"
	"wolffia/internal/test/testimage"
)

// ownersOf returns lines with owner, mode and text of all below dir.
func ownersOf(t *testing.T, dir string) (lines string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil {
			return err
		}
		text := ""
		if st.Mode&unix.S_IFMT == unix.S_IFLNK {
			link, _ := os.Readlink(path)
			text = "-> " + link
		}
		caps := make([]byte, 100)
		n, _ := unix.Lgetxattr(path, "security.capability", caps)
		name, _ := filepath.Rel(dir, path)
		lines += strings.TrimSpace(fmt.Sprintf("%s %d:%d %o %d %s %x", name, st.Uid, st.Gid, st.Mode&0o7777, st.Mtim.Sec, text, caps[:max(n, 0)])) + "\n"
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

// An owned layer has the files that do not belong to root, and the directories above them, as the image has
// them. It is made once, and what an interrupted attempt has left is no hindrance.
func TestOwnedLayer(t *testing.T) {
	testenv.Root(t)
	s, _ := fresh(t)
	const caps = "\x01\x00\x00\x02\x00\x04\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
	layer := layerOf(t,
		tar.Header{Name: "plain", Typeflag: tar.TypeReg, Mode: 0o644},
		tar.Header{Name: "a/", Typeflag: tar.TypeDir, Mode: 0o750},
		tar.Header{Name: "a/su", Typeflag: tar.TypeReg, Mode: 0o4755},
		tar.Header{Name: "a/su2", Typeflag: tar.TypeLink, Linkname: "a/su"},
		tar.Header{Name: "db/", Typeflag: tar.TypeDir, Mode: 0o700, Uid: 999, Gid: 998},
		tar.Header{Name: "db/far", Typeflag: tar.TypeReg, Mode: 0o600, Uid: 70000},
		tar.Header{Name: "ping", Typeflag: tar.TypeReg, Mode: 0o755, PAXRecords: map[string]string{"SCHILY.xattr.security.capability": caps}},
		tar.Header{Name: "link", Typeflag: tar.TypeSymlink, Linkname: "/etc/shadow", Gid: 4, Mode: 0o777},
		tar.Header{Name: "fifo", Typeflag: tar.TypeFifo, Mode: 0o620, Uid: 3},
	)
	img, err := s.Add(t.Context(), testimage.Source(t, store.Config{}, layer), store.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	fail := errors.New("it fails")
	if _, err := s.OwnedLayer(t.Context(), img.ID, "0", func(_, _, _ *os.File) error { return fail }); !errors.Is(err, fail) {
		t.Fatalf("a layer that cannot be made: %v", err)
	}
	if err := os.MkdirAll(filepath.Join(filepath.Dir(s.Rootfs(img.ID)), "owned-0.new", "left"), 0o755); err != nil {
		t.Fatal(err)
	}
	made := 0
	for range 2 {
		dir, err := s.OwnedLayer(t.Context(), img.ID, "0", func(tree, owners, layer *os.File) error {
			made++
			return store.FillOwned(tree, owners, layer)
		})
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for line := range strings.Lines(ownersOf(t, dir)) {
			f := strings.Fields(line)
			got += strings.Join(append(f[:3:3], f[4:]...), " ") + "\n" // without the time
		}
		const want = ". 0:0 755\na 0:0 750\na/su 0:0 4755\na/su2 0:0 4755\ndb 999:998 700\ndb/far 65534:0 600\n" +
			"fifo 3:0 620\nlink 0:4 777 -> /etc/shadow\nping 0:0 755 0100000200040000000000000000000000000000\n"
		if got != want {
			t.Errorf("%s\nwant\n%s", got, want)
		}
	}
	if made != 1 {
		t.Errorf("made %d times", made)
	}
	plain, err := s.Add(t.Context(), testimage.Source(t, store.Config{}, layerOf(t, tar.Header{Name: "x", Typeflag: tar.TypeReg, Mode: 0o644})), store.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if dir, err := s.OwnedLayer(t.Context(), plain.ID, "0", store.FillOwned); dir != "" || err != nil {
		t.Errorf("without other owners: %q, %v", dir, err)
	}
}
