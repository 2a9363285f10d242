package buildcontext

import (
	"archive/tar"
	"bytes"
	"errors"
	"os"
	"path/filepath"
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
		if err := Unpack(t.TempDir(), &archive); !errors.Is(err, runtime.ErrInvalid) {
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
