package buildcontext

import (
	"archive/tar"
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"wolffia/runtime"
)

// A build's context never leads out of its directory.
func TestUnpackHostile(t *testing.T) {
	outside := t.TempDir()
	for name, entries := range map[string][]tar.Header{
		"parent":    {{Name: "../x", Typeflag: tar.TypeReg, Size: 1}},
		"absolute":  {{Name: outside + "/x", Typeflag: tar.TypeReg, Size: 1}},
		"link":      {{Name: "l", Typeflag: tar.TypeSymlink, Linkname: outside}, {Name: "l/x", Typeflag: tar.TypeReg, Size: 1}},
		"hard link": {{Name: "l", Typeflag: tar.TypeLink, Linkname: "../../etc/passwd"}},
		"device":    {{Name: "d", Typeflag: tar.TypeChar}},
	} {
		var archive bytes.Buffer
		w := tar.NewWriter(&archive)
		for i := range entries {
			entries[i].Mode = 0o600
			if err := w.WriteHeader(&entries[i]); err != nil {
				t.Fatal(err)
			}
			_, _ = w.Write(make([]byte, entries[i].Size))
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if err := Unpack(t.TempDir(), &archive, NewBudget()); !errors.Is(err, runtime.ErrInvalid) {
			t.Errorf("%s: got %v, want runtime.ErrInvalid", name, err)
		}
	}
	if left, err := filepath.Glob(outside + "/*"); err != nil || len(left) > 0 {
		t.Errorf("outside: %v, %v", left, err)
	}
	if _, err := os.Stat(filepath.Join(filepath.Dir(outside), "x")); err == nil {
		t.Error("a file was written above the context")
	}
}

// What an archive takes of the disk is bounded: also the directories that only its names have.
func TestUnpackBounds(t *testing.T) {
	deep := strings.Repeat("d/", 1000)
	for name, c := range map[string]struct {
		has  int64
		file tar.Header
		want error
	}{
		"enough":         {perFile + 5, tar.Header{Name: "f", Size: 5}, nil},
		"a large file":   {perFile + 4, tar.Header{Name: "f", Size: 5}, runtime.ErrInvalid},
		"one more file":  {perFile - 1, tar.Header{Name: "f"}, runtime.ErrInvalid},
		"directories":    {1000 * perFile, tar.Header{Name: deep + "f"}, runtime.ErrInvalid},
		"those, allowed": {1001 * perFile, tar.Header{Name: deep + "f"}, nil},
		"a long name":    {maxContext, tar.Header{Name: strings.Repeat("d/", 3000) + "f"}, runtime.ErrInvalid},
	} {
		var archive bytes.Buffer
		w := tar.NewWriter(&archive)
		c.file.Typeflag, c.file.Mode = tar.TypeReg, 0o600
		if err := w.WriteHeader(&c.file); err != nil {
			t.Fatal(err)
		}
		_, _ = w.Write(make([]byte, c.file.Size))
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		within := new(Budget)
		within.left.Store(c.has)
		if err := Unpack(t.TempDir(), &archive, within); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
		if left := within.left.Load(); (left == c.has) != (c.want != nil) {
			t.Errorf("%s: %d bytes are left of %d", name, left, c.has)
		}
	}
}
