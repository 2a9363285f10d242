package archive

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// A stream is made of entries as a hostile sender would make them.
func stream(t testing.TB, entries ...*tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range entries {
		if h.Mode == 0 && h.Typeflag != tar.TypeXGlobalHeader {
			h.Mode = 0o644
		}
		if h.Typeflag == tar.TypeReg && h.Size == 0 {
			h.Size = 4
		}
		must(t, w.WriteHeader(h))
		if h.Typeflag == tar.TypeReg {
			_, err := io.WriteString(w, strings.Repeat("evil", int(h.Size+3)/4)[:h.Size])
			must(t, err)
		}
	}
	must(t, w.Close())
	return b.Bytes()
}

func file(name string) *tar.Header { return &tar.Header{Typeflag: tar.TypeReg, Name: name} }

func directory(name string) *tar.Header {
	return &tar.Header{Typeflag: tar.TypeDir, Name: name, Mode: 0o755}
}

func link(name, target string) *tar.Header {
	return &tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: target}
}

func typed(typ byte, name string) *tar.Header {
	return &tar.Header{Typeflag: typ, Name: name, Linkname: "top/a", Format: tar.FormatGNU}
}

// TestAttacks: every stream is refused, and nothing but what came before the
// attack is created, below the destination.
func TestAttacks(t *testing.T) {
	top := directory("top/")
	for _, tt := range []struct {
		name string
		data []byte
		want error
	}{
		{"nothing", nil, ErrInvalid},
		{"only the end", make([]byte, 1024), ErrInvalid},
		{"no tar", bytes.Repeat([]byte("evil"), 1000), ErrInvalid},
		{"absolute name", stream(t, file("/tmp/evil")), ErrInvalid},
		{"absolute name below", stream(t, top, file("/top/evil")), ErrInvalid},
		{"parent", stream(t, file("../evil")), ErrInvalid},
		{"parent as top", stream(t, directory("../")), ErrInvalid},
		{"parent inside", stream(t, top, file("top/../evil")), ErrInvalid},
		{"parent at the end", stream(t, top, directory("top/../")), ErrInvalid},
		{"dot", stream(t, directory("./"), file("./evil")), ErrInvalid},
		{"dot inside", stream(t, top, file("top/./evil")), ErrInvalid},
		{"empty component", stream(t, top, file("top//evil")), ErrInvalid},
		{"double slash at the end", stream(t, directory("top//")), ErrInvalid},
		{"long name", stream(t, top, file("top/"+strings.Repeat("x", 256))), ErrInvalid},
		{"too deep", stream(t, top, file("top/"+strings.Repeat("x/", 600)+"x")), ErrInvalid},
		{"other top", stream(t, top, file("evil")), ErrInvalid},
		{"other tree", stream(t, top, directory("evil/"), file("evil/x")), ErrInvalid},
		{"not its child", stream(t, top, file("evil/x")), ErrInvalid},
		{"child first", stream(t, file("top/x")), ErrInvalid},
		{"parent missing", stream(t, top, file("top/a/x")), ErrInvalid},
		{"through a link", stream(t, top, link("top/l", "../out"), file("top/l/evil")), ErrInvalid},
		{"through a link made a directory", stream(t, top, link("top/l", "../out"), directory("top/l/")), ErrInvalid},
		{"through the top link", stream(t, link("top", "out"), file("top/evil")), ErrInvalid},
		{"the top link twice", stream(t, link("top", "out"), directory("top/")), ErrInvalid},
		{"over a link", stream(t, top, link("top/l", "../out/precious"), file("top/l")), ErrInvalid},
		{"twice", stream(t, top, file("top/a"), file("top/a")), ErrInvalid},
		{"directory twice", stream(t, top, directory("top/a/"), directory("top/a/")), ErrInvalid},
		{"top twice", stream(t, top, directory("top/")), ErrInvalid},
		{"back into a directory", stream(t, top, directory("top/a/"), file("top/b"), file("top/a/x")), ErrInvalid},
		{"out of order", stream(t, top, file("top/b"), file("top/a")), ErrInvalid},
		{"below a file", stream(t, top, file("top/a"), file("top/a/b")), ErrInvalid},
		{"hard link", stream(t, top, file("top/a"), typed(tar.TypeLink, "top/b")), ErrKind},
		{"hard link first", stream(t, typed(tar.TypeLink, "top")), ErrKind},
		{"character device", stream(t, top, typed(tar.TypeChar, "top/d")), ErrKind},
		{"block device", stream(t, top, typed(tar.TypeBlock, "top/d")), ErrKind},
		{"fifo", stream(t, top, typed(tar.TypeFifo, "top/d")), ErrKind},
		{"contiguous", stream(t, top, typed(tar.TypeCont, "top/d")), ErrKind},
		{"GNU sparse", stream(t, top, typed(tar.TypeGNUSparse, "top/d")), ErrInvalid},
		{"unknown type", stream(t, top, typed('Z', "top/d")), ErrKind},
		{"global header", stream(t, &tar.Header{
			Typeflag: tar.TypeXGlobalHeader, PAXRecords: map[string]string{"path": "x"},
		}), ErrKind},
		{"PAX sparse", sparse(t), ErrInvalid},
		{"negative size", patch(t, stream(t, file("top")), 124, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xf0"), ErrInvalid},
		{"enormous size", patch(t, stream(t, file("top")), 124, "\x80\x00\x00\x00\x7f\xff\xff\xff\xff\xff\xff\xff"), ErrTooLarge},
		{"big size", patch(t, stream(t, file("top")), 124, "77777777777\x00"), ErrTooLarge},
		{"too many bytes", stream(t, top, &tar.Header{Typeflag: tar.TypeReg, Name: "top/a", Size: 600}, &tar.Header{Typeflag: tar.TypeReg, Name: "top/b", Size: 600}), ErrTooLarge},
		{"too many entries", stream(t, top, file("top/a"), file("top/b"), file("top/c"), file("top/d"), file("top/e")), ErrTooLarge},
		{"directory with a size", patch(t, stream(t, directory("top/"), file("top/a")), 124, "00000001000\x00"), nil},
		{"file with a slash", patch(t, stream(t, file("top")), 3, "/"), ErrInvalid},
		{"no end", stream(t, file("top"))[:1024], ErrInvalid},
		{"half an end", stream(t, file("top"))[:1536], ErrInvalid},
		{"empty target", patch(t, stream(t, link("top", "x")), 157, "\x00"), ErrInvalid},
		{"long target", stream(t, link("top", strings.Repeat("x", 5000))), ErrInvalid},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, dir+"/out/precious", "precious")
			write(t, dir+"/dst/precious", "precious")
			err := Unpack(bytes.NewReader(tt.data), dir+"/dst", &Options{MaxBytes: 1000, MaxEntries: 5})
			if !errors.Is(err, tt.want) {
				t.Errorf("error %v, want %v", err, tt.want)
			}
			if d := cmp.Diff([]string{`"." drwxr-xr-x`, `"precious" -rw-r--r-- "precious"`}, list(t, dir+"/out", false)); d != "" {
				t.Errorf("outside: %s", d)
			}
			if text, _ := os.ReadFile(dir + "/dst/precious"); string(text) != "precious" {
				t.Errorf("precious is %q", text)
			}
			for _, line := range append(list(t, dir, false), list(t, dir+"/dst", false)...) {
				if strings.Contains(line, "evil/") || strings.HasPrefix(line, `"evil`) || strings.Contains(line, ".wolffia-") {
					t.Errorf("left %s", line)
				}
			}
		})
	}
}

// patch changes the first header of a stream, and its checksum.
func patch(t testing.TB, data []byte, at int, text string) []byte {
	t.Helper()
	copy(data[at:], text)
	copy(data[148:156], "        ")
	sum := 0
	for _, c := range data[:512] {
		sum += int(c)
	}
	copy(data[148:156], fmt.Sprintf("%06o\x00 ", sum))
	return data
}

// sparse is a file that says it is much larger than the stream, in the form
// that the tar reader understands and its writer refuses.
func sparse(t testing.TB) []byte {
	t.Helper()
	data := stream(t, &tar.Header{
		Typeflag: tar.TypeReg, Name: "top", Format: tar.FormatPAX,
		PAXRecords: map[string]string{"GNUxsparse.major": "1", "GNUxsparse.minor": "0", "GNUxsparse.realsize": "1000000"},
		Size:       512,
	})
	data = bytes.ReplaceAll(data, []byte("GNUxsparse"), []byte("GNU.sparse"))
	copy(data[len(data)-1024-512:], "1\n0\n512\n"+strings.Repeat("\x00", 504))
	return data
}

// TestExistingLinks: links where the stream goes are replaced, not followed.
func TestExistingLinks(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/out/precious", "precious")
	must(t, os.MkdirAll(dir+"/dst/top", 0o755))
	for _, name := range []string{"file", "dir", "link"} {
		must(t, os.Symlink("../../out", dir+"/dst/top/"+name))
	}
	data := stream(t, directory("top/"), directory("top/dir/"), file("top/dir/x"), file("top/file"), link("top/link", "t"))
	must(t, Unpack(bytes.NewReader(data), dir+"/dst", nil))
	want := []string{
		`"." drwxr-xr-x`, `"dir" drwxr-xr-x`, `"dir/x" -rw-r--r-- "evil"`, `"file" -rw-r--r-- "evil"`, `"link" Lrwxrwxrwx -> "t"`,
	}
	if d := cmp.Diff(want, list(t, dir+"/dst/top", false)); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{`"." drwxr-xr-x`, `"precious" -rw-r--r-- "precious"`}, list(t, dir+"/out", false)); d != "" {
		t.Error(d)
	}
	// The top entry too.
	must(t, os.RemoveAll(dir+"/dst/top"))
	must(t, os.Symlink("../out", dir+"/dst/top"))
	must(t, Unpack(bytes.NewReader(data), dir+"/dst", nil))
	if d := cmp.Diff(want, list(t, dir+"/dst/top", false)); d != "" {
		t.Error(d)
	}
}

// TestName: the reader says what the tree is called, not who writes the stream.
func TestName(t *testing.T) {
	for _, data := range [][]byte{stream(t, file(".bashrc")), stream(t, directory(".bashrc/"), file(".bashrc/x"))} {
		dir := t.TempDir()
		write(t, dir+"/.bashrc", "precious")
		must(t, Unpack(bytes.NewReader(data), dir, &Options{Name: "asked"}))
		if _, err := os.Lstat(dir + "/asked"); err != nil {
			t.Error(err)
		}
		if b, err := os.ReadFile(dir + "/.bashrc"); err != nil || string(b) != "precious" {
			t.Errorf(`os.ReadFile: got %q, %v; want "precious", nil`, b, err)
		}
		for _, name := range []string{".", "..", "a/b", "/"} {
			if err := Unpack(bytes.NewReader(data), dir, &Options{Name: name}); !errors.Is(err, os.ErrInvalid) {
				t.Errorf("%q: got %v, want os.ErrInvalid", name, err)
			}
		}
	}
}

func TestHostileModes(t *testing.T) {
	dir := t.TempDir()
	a, b, c := directory("top/"), file("top/a"), file("top/b")
	a.Mode, b.Mode, c.Mode = 0o7777, 0o6755, 0o104755
	c.ModTime = time.Unix(1<<40, 0)
	must(t, Unpack(bytes.NewReader(stream(t, a, b, c)), dir, nil))
	want := []string{`"." drwxrwxrwx`, `"a" -rwxr-xr-x "evil"`, `"b" -rwxr-xr-x "evil"`}
	if d := cmp.Diff(want, list(t, dir+"/top", false)); d != "" {
		t.Error(d)
	}
}

// TestFull: an error of the local side is not blamed on the stream, and leaves
// nothing.
func TestFull(t *testing.T) {
	dir := t.TempDir()
	must(t, os.MkdirAll(dir+"/dst/top/a", 0o755))
	err := Unpack(bytes.NewReader(stream(t, directory("top/"), file("top/a"))), dir+"/dst", nil)
	if err == nil || errors.Is(err, ErrInvalid) {
		t.Error(err)
	}
	failed := errors.New("the line is cut")
	data := stream(t, &tar.Header{Typeflag: tar.TypeReg, Name: "top", Size: 5000})
	err = Unpack(io.MultiReader(bytes.NewReader(data[:3000]), errorReader{failed}), dir+"/dst/top/a/f", nil)
	if !errors.Is(err, failed) {
		t.Error(err)
	}
	if left, _ := os.ReadDir(dir + "/dst/top/a"); len(left) > 0 {
		t.Errorf("left %v", left)
	}
}

func FuzzUnpack(f *testing.F) {
	f.Add(stream(f, directory("top/"), directory("top/a/"), file("top/a/x"), link("top/l", "../out")))
	f.Add(stream(f, directory("top/"), link("top/l", "../out"), file("top/l/evil")))
	f.Add(stream(f, directory("top/"), file("top/../../out/evil")))
	f.Add(sparse(f))
	f.Fuzz(func(t *testing.T, data []byte) {
		dir := t.TempDir()
		write(t, dir+"/out/precious", "precious")
		must(t, os.Mkdir(dir+"/dst", 0o755))
		must(t, os.Symlink("../out", dir+"/dst/link"))
		before := list(t, dir+"/out", true)
		err := Unpack(bytes.NewReader(data), dir+"/dst", &Options{MaxBytes: 1 << 20, MaxEntries: 100})
		if d := cmp.Diff(before, list(t, dir+"/out", true)); d != "" {
			t.Errorf("outside: %s", d)
		}
		if all, _ := os.ReadDir(dir); len(all) != 2 {
			t.Errorf("beside: %v", all)
		}
		all, _ := os.ReadDir(dir + "/dst")
		if len(all) > 2 {
			t.Errorf("two trees: %v", all)
		}
		_ = filepath.WalkDir(dir+"/dst", func(path string, d os.DirEntry, _ error) error {
			if d.IsDir() {
				_ = os.Chmod(path, 0o755) // or t.TempDir cannot be removed
			}
			if err == nil && strings.HasPrefix(d.Name(), ".wolffia-") {
				t.Errorf("left %s", path)
			}
			return nil
		})
	})
}
