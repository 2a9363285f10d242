package store

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/runtime"
)

// An item is an entry of a test's layer. Mode 0 means 0644, for directories
// 0755.
type item struct {
	name string
	typ  byte // 0: a file, a directory if name ends in a slash, a link if link is set
	link string
	body string
	mode int64
}

// archive makes a layer.
func archive(t testing.TB, items ...item) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, i := range items {
		h := &tar.Header{Name: i.name, Typeflag: i.typ, Linkname: i.link, Mode: i.mode, Size: int64(len(i.body)), ModTime: time.Unix(1e9, 0)}
		if h.Typeflag == 0 {
			switch h.Typeflag = tar.TypeReg; {
			case i.link != "":
				h.Typeflag = tar.TypeSymlink
			case strings.HasSuffix(i.name, "/"):
				h.Typeflag = tar.TypeDir
			}
		}
		if h.Mode == 0 {
			h.Mode = 0o644
			if h.Typeflag == tar.TypeDir {
				h.Mode = 0o755
			}
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatalf("%+v: %v", i, err)
		}
		if _, err := io.WriteString(w, i.body); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// A place is a directory to unpack in, with things around it that must stay as
// they are.
type place struct{ dir, root string }

func newPlace(t testing.TB) *place {
	t.Helper()
	p := &place{dir: t.TempDir()}
	p.root = filepath.Join(p.dir, "root")
	for _, err := range []error{
		os.Mkdir(p.root, 0o755), os.Mkdir(filepath.Join(p.dir, "outside"), 0o700),
		os.WriteFile(filepath.Join(p.dir, "outside", "file"), []byte("host"), 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// untouched fails the test if anything around the root has changed.
func (p *place) untouched(t testing.TB) {
	t.Helper()
	var got []string
	err := filepath.WalkDir(p.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if path == p.root {
			return fs.SkipDir
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		nlink := uint64(0)
		if !d.IsDir() {
			nlink = uint64(info.Sys().(*syscall.Stat_t).Nlink)
		}
		got = append(got, fmt.Sprintf("%s %v %d", strings.TrimPrefix(path, p.dir), info.Mode().Perm()&0o700, nlink))
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	want := []string{" -rwx------ 0", "/outside -rwx------ 0", "/outside/file -rw------- 1"}
	if !slices.Equal(got, want) {
		t.Errorf("outside of the tree: %q, want %q", got, want)
	}
	if b, err := os.ReadFile(filepath.Join(p.dir, "outside", "file")); string(b) != "host" {
		t.Errorf("the host's file is %q, %v", b, err)
	}
}

// apply unpacks layers.
func (p *place) apply(t testing.TB, lim Limits, layers ...[]byte) (*unpacker, error) {
	t.Helper()
	tr, err := openTree(p.root)
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	u := newUnpacker(tr, lim.withDefaults())
	for _, l := range layers {
		if err := u.layer(bytes.NewReader(l)); err != nil {
			return u, err
		}
	}
	return u, nil
}

// shape is what a tree looks like: a line for each name, sorted.
func (p *place) shape(t testing.TB) string {
	t.Helper()
	var lines []string
	inodes := map[uint64]string{}
	err := filepath.WalkDir(p.root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == p.root {
			return err
		}
		name := strings.TrimPrefix(path, p.root+"/")
		info, err := d.Info()
		if err != nil {
			return err
		}
		st := info.Sys().(*syscall.Stat_t)
		line := fmt.Sprintf("%s %o", name, st.Mode&0o7777)
		switch st.Mode & syscall.S_IFMT {
		case syscall.S_IFDIR:
			line = name + "/" + strings.TrimPrefix(line, name)
		case syscall.S_IFLNK:
			to, err := os.Readlink(path)
			if err != nil {
				return err
			}
			line = name + " -> " + to
		case syscall.S_IFIFO:
			line += " fifo"
		case syscall.S_IFREG:
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			line += " " + string(b[:min(len(b), 40)])
		default:
			line += " device"
		}
		if st.Mode&syscall.S_IFMT != syscall.S_IFDIR {
			if first, ok := inodes[st.Ino]; ok {
				line += " = " + first
			} else {
				inodes[st.Ino] = name
			}
		}
		lines = append(lines, line)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(lines, "\n")
}

// Layers that are as they should be, and what comes of them.
func TestUnpack(t *testing.T) {
	syscall.Umask(0o077) // nothing must depend on a friendlier one
	base := archive(t, item{name: "./"}, item{name: "a/"}, item{name: "a/x", body: "1"}, item{name: "a/y", body: "2"}, item{name: "b/c/d", body: "3"}, item{name: "l", link: "a"})
	for name, c := range map[string]struct {
		layers [][]byte
		want   string
	}{
		"plain":              {[][]byte{base}, "a/ 755\na/x 644 1\na/y 644 2\nb/ 755\nb/c/ 755\nb/c/d 644 3\nl -> a"},
		"absolute names":     {[][]byte{archive(t, item{name: "/etc/passwd", body: "p"}, item{name: "//x//y", body: "q"}, item{name: "h", typ: tar.TypeLink, link: "/x/y"})}, "etc/ 755\netc/passwd 644 p\nh 644 q\nx/ 755\nx/y 644 q = h"},
		"set-id and sticky":  {[][]byte{archive(t, item{name: "s", body: "s", mode: 0o6755}, item{name: "d/", mode: 0o7777}, item{name: "t/", mode: 0o1777})}, "d/ 1777\ns 755 s\nt/ 1777"},
		"unreadable":         {[][]byte{archive(t, item{name: "f", body: "f", mode: 0o1000}, item{name: "d/", mode: 0o1000}, item{name: "d/f", body: "g", mode: 0o200})}, "d/ 1700\nd/f 600 g\nf 400 f"},
		"whiteout":           {[][]byte{base, archive(t, item{name: "a/.wh.x"}, item{name: ".wh.l"}, item{name: "b/.wh.c"})}, "a/ 755\na/y 644 2\nb/ 755"},
		"whiteout of none":   {[][]byte{base, archive(t, item{name: "no/.wh.x"}, item{name: "l/.wh.x"}, item{name: "a/x/.wh.y"})}, "a/ 755\na/x 644 1\na/y 644 2\nb/ 755\nb/c/ 755\nb/c/d 644 3\nl -> a"},
		"whiteout and again": {[][]byte{base, archive(t, item{name: "b/e", body: "4"}, item{name: ".wh.b"}, item{name: ".wh.a"}, item{name: "a/z", body: "5"})}, "a/ 755\na/z 644 5\nb/ 755\nb/e 644 4\nl -> a"},
		"opaque first":       {[][]byte{base, archive(t, item{name: "a/.wh..wh..opq"}, item{name: "a/z", body: "5"})}, "a/ 755\na/z 644 5\nb/ 755\nb/c/ 755\nb/c/d 644 3\nl -> a"},
		"opaque last":        {[][]byte{base, archive(t, item{name: "b/c/e", body: "5"}, item{name: "b/.wh..wh..opq"})}, "a/ 755\na/x 644 1\na/y 644 2\nb/ 755\nb/c/ 755\nb/c/e 644 5\nl -> a"},
		"opaque root":        {[][]byte{base, archive(t, item{name: ".wh..wh..opq"}, item{name: "n", body: "6"})}, "n 644 6"},
		"aufs":               {[][]byte{base, archive(t, item{name: ".wh..wh.plnk/"}, item{name: ".wh..wh.aufs"}, item{name: ".wh..wh..opq"})}, ""},
		"file to directory":  {[][]byte{base, archive(t, item{name: "a/x/"}, item{name: "a/x/y", body: "7"}, item{name: "l/"})}, "a/ 755\na/x/ 755\na/x/y 644 7\na/y 644 2\nb/ 755\nb/c/ 755\nb/c/d 644 3\nl/ 755"},
		"directory to file":  {[][]byte{base, archive(t, item{name: "b", body: "8"}, item{name: "a", link: "b"})}, "a -> b\nb 644 8\nl -> a"},
		"directory stays":    {[][]byte{base, archive(t, item{name: "a/", mode: 0o700})}, "a/ 700\na/x 644 1\na/y 644 2\nb/ 755\nb/c/ 755\nb/c/d 644 3\nl -> a"},
		"link below is hid":  {[][]byte{base, archive(t, item{name: "l/n", body: "9"})}, "a/ 755\na/x 644 1\na/y 644 2\nb/ 755\nb/c/ 755\nb/c/d 644 3\nl/ 755\nl/n 644 9"},
		"hard links":         {[][]byte{base, archive(t, item{name: "h", typ: tar.TypeLink, link: "a/x"}, item{name: "a/y", typ: tar.TypeLink, link: "./b/c/d"}, item{name: "hl", typ: tar.TypeLink, link: "l"})}, "a/ 755\na/x 644 1\na/y 644 3\nb/ 755\nb/c/ 755\nb/c/d 644 3 = a/y\nh 644 1 = a/x\nhl -> a\nl -> a = hl"},
		"over a hard link":   {[][]byte{archive(t, item{name: "a", body: "1"}, item{name: "b", typ: tar.TypeLink, link: "a"}, item{name: "b", body: "2"})}, "a 644 1\nb 644 2"},
		"links lead out":     {[][]byte{archive(t, item{name: "l", link: "../../../outside/file"}, item{name: "m", link: "/etc/passwd"})}, "l -> ../../../outside/file\nm -> /etc/passwd"},
		"devices":            {[][]byte{base, archive(t, item{name: "a/x", typ: tar.TypeChar}, item{name: "dev/sda", typ: tar.TypeBlock}, item{name: "p", typ: tar.TypeFifo})}, "a/ 755\na/y 644 2\nb/ 755\nb/c/ 755\nb/c/d 644 3\ndev/ 755\nl -> a\np 644 fifo"},
		"empty":              {[][]byte{archive(t)}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			if _, err := p.apply(t, Limits{}, c.layers...); err != nil {
				t.Fatal(err)
			}
			if got := p.shape(t); got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
			p.untouched(t)
		})
	}
}

// What only an attacker makes. Each is an error of the right class, and
// nothing outside of the tree is touched.
func TestUnpackHostile(t *testing.T) {
	out := item{name: "out", link: "../outside"}
	for name, c := range map[string]struct {
		layers [][]byte
		say    string
	}{
		"dot dot":                    {[][]byte{archive(t, item{name: "../outside/file", body: "x"})}, "out of the image"},
		"dot dot within":             {[][]byte{archive(t, item{name: "a/../../outside/file", body: "x"})}, "out of the image"},
		"dot dot at the end":         {[][]byte{archive(t, item{name: "a/..", typ: tar.TypeDir})}, "out of the image"},
		"absolute dot dot":           {[][]byte{archive(t, item{name: "/../outside/file", body: "x"})}, "out of the image"},
		"whiteout of dot dot":        {[][]byte{archive(t, item{name: "a/.wh..."}, item{name: "a/.wh..", body: ""})}, "whiteout without a name"},
		"whiteout with dot dot":      {[][]byte{archive(t, item{name: "../.wh.outside"})}, "out of the image"},
		"whiteout without a name":    {[][]byte{archive(t, item{name: "a/.wh."})}, "whiteout without a name"},
		"link, then below it":        {[][]byte{archive(t, out, item{name: "out/file", body: "x"})}, "same layer"},
		"link, then directory in it": {[][]byte{archive(t, out, item{name: "out/d/"})}, "same layer"},
		"file, then below it":        {[][]byte{archive(t, item{name: "f", body: "x"}, item{name: "f/g", body: "x"})}, "same layer"},
		"hard link out":              {[][]byte{archive(t, item{name: "h", typ: tar.TypeLink, link: "../outside/file"})}, "not in the image"},
		"hard link out absolutely":   {[][]byte{archive(t, item{name: "h", typ: tar.TypeLink, link: "/etc/passwd"})}, "hard link to"},
		"hard link through a link":   {[][]byte{archive(t, out), archive(t, item{name: "h", typ: tar.TypeLink, link: "out/file"})}, "hard link to"},
		"hard link to a directory":   {[][]byte{archive(t, item{name: "d/"}, item{name: "h", typ: tar.TypeLink, link: "d"})}, "hard link to"},
		"hard link to itself":        {[][]byte{archive(t, item{name: "f", body: "x"}, item{name: "f", typ: tar.TypeLink, link: "f"})}, "itself"},
		"hard link to the root":      {[][]byte{archive(t, item{name: "h", typ: tar.TypeLink, link: "/"})}, "not in the image"},
		"hard link to nothing":       {[][]byte{archive(t, item{name: "h", typ: tar.TypeLink, link: "no"})}, "hard link to"},
		"root is a link":             {[][]byte{archive(t, item{name: ".", typ: tar.TypeSymlink, link: "../outside"})}, "root must be a directory"},
		"name too long":              {[][]byte{archive(t, item{name: strings.Repeat("a/", 2100) + "f", body: "x"})}, "too long"},
		"unknown type":               {[][]byte{archive(t, item{name: "f", typ: 'Q'})}, "unknown type"},
		"no archive":                 {[][]byte{bytes.Repeat([]byte("no"), 600)}, "header"},
		"cut":                        {[][]byte{archive(t, item{name: "f", body: strings.Repeat("x", 5000)})[:3000]}, "EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			_, err := p.apply(t, Limits{}, c.layers...)
			if err == nil || runtime.Class(err) != runtime.ErrInvalid || !strings.Contains(err.Error(), c.say) {
				t.Errorf("%v, want one that says %q", err, c.say)
			}
			p.untouched(t)
		})
	}
}

// A symbolic link of a lower layer that leads out, or in, is hidden by a
// directory of an upper one, in whatever way that comes.
func TestUnpackBelowLinkOfLowerLayer(t *testing.T) {
	for _, to := range []string{"../outside", "/etc", "real"} {
		for name, upper := range map[string][]item{
			"file":      {{name: "l/file", body: "x"}},
			"directory": {{name: "l/"}, {name: "l/file", body: "x"}},
			"deep":      {{name: "l/a/b/file", body: "x"}},
			"hard link": {{name: "f", body: "x"}, {name: "l/file", typ: tar.TypeLink, link: "f"}},
			"whiteout":  {{name: "l/.wh.file"}, {name: "l/.wh..wh..opq"}},
		} {
			p := newPlace(t)
			if _, err := p.apply(t, Limits{}, archive(t, item{name: "l", link: to}, item{name: "real/file", body: "real"}), archive(t, upper...)); err != nil {
				t.Errorf("%s %s: %v", to, name, err)
			}
			st, err := os.Lstat(filepath.Join(p.root, "l"))
			if err != nil || st.IsDir() == (name == "whiteout") {
				t.Errorf(`os.Lstat: got to %s, name %s, st %v, err %v; want err == nil and st.IsDir() != name == "whiteout"`, to, name, st, err)
			}
			if b, err := os.ReadFile(filepath.Join(p.root, "real", "file")); string(b) != "real" {
				t.Errorf(`%s %s: got b %q, err %v; want b == "real"`, to, name, b, err)
			}
			p.untouched(t)
		}
	}
}

// Every limit is one, exactly, and the error says which.
func TestUnpackLimits(t *testing.T) {
	many := []item{{name: "d/"}}
	for i := range 9 {
		many = append(many, item{name: fmt.Sprintf("d/%d", i), body: "xx"})
	}
	for name, c := range map[string]struct {
		lim    Limits
		layers [][]byte
		say    string // empty: it fits
	}{
		"files fit":      {Limits{Files: 10}, [][]byte{archive(t, many...)}, ""},
		"files":          {Limits{Files: 9}, [][]byte{archive(t, many...)}, "more than 9 files"},
		"files, layers":  {Limits{Files: 15}, [][]byte{archive(t, many...), archive(t, many...)}, "more than 15 files"},
		"whiteouts":      {Limits{Files: 2}, [][]byte{archive(t, item{name: ".wh.a"}, item{name: ".wh.b"}, item{name: ".wh.c"})}, "more than 2 files"},
		"implied fit":    {Limits{Files: 4}, [][]byte{archive(t, item{name: "a/b/c/d"})}, ""},
		"implied":        {Limits{Files: 3}, [][]byte{archive(t, item{name: "a/b/c/d"})}, "more than 3 files"},
		"size fits":      {Limits{Size: 18}, [][]byte{archive(t, many...)}, ""},
		"size":           {Limits{Size: 17}, [][]byte{archive(t, many...)}, "more than 17 bytes"},
		"size of sparse": {Limits{Size: 1 << 30}, [][]byte{sparse(t, 1<<32)}, "more than 1073741824 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			_, err := p.apply(t, c.lim, c.layers...)
			if c.say == "" && err != nil || c.say != "" && (err == nil || !strings.Contains(err.Error(), c.say) || runtime.Class(err) != runtime.ErrInvalid) {
				t.Errorf("%v, want %q", err, c.say)
			}
		})
	}
}

// The work of a layer is proportional to the names in it: a few KB of repeated entries are
// not unpacked for hours.
func TestUnpackWork(t *testing.T) {
	const n = 300
	deep := strings.Repeat("a/", n)
	each := func(name func(int) string) (all []item) {
		for i := range n {
			all = append(all, item{name: name(i)})
		}
		return all
	}
	always := func(name string) []item { return each(func(int) string { return name }) }
	files := each(func(i int) string { return fmt.Sprintf("d/%d", i) })
	dirs := each(func(i int) string { return fmt.Sprintf("d/%d/", i) })
	var links []item
	for _, f := range files {
		links = append(links, item{name: f.name, typ: tar.TypeLink, link: "f"})
	}
	tree := archive(t, slices.Concat(files, []item{{name: deep + "f"}})...)
	for name, c := range map[string]struct {
		lower []byte // the same as a layer below
		items []item
	}{
		"opaque":                {nil, slices.Concat(files, always("d/.wh..wh..opq"))},
		"opaque root":           {nil, slices.Concat(files, always(".wh..wh..opq"))},
		"opaque by turns":       {nil, slices.Concat(dirs, dirs[:1], each(func(i int) string { return []string{"d/.wh..wh..opq", ".wh..wh..opq"}[i%2] }))},
		"opaque, each":          {nil, slices.Concat(dirs, each(func(i int) string { return fmt.Sprintf("d/%d/.wh..wh..opq", i) }), always("d/.wh..wh..opq"))},
		"opaque, of lower":      {tree, always("d/.wh..wh..opq")},
		"opaque, with new":      {nil, slices.Concat(files, each(func(i int) string { return []string{"d/.wh..wh..opq", fmt.Sprintf("d/n%d", i)}[i%2] }))},
		"whiteout of directory": {nil, slices.Concat(files, always(".wh.d"))},
		"whiteout of file":      {nil, slices.Concat(files, always("d/.wh.7"))},
		"whiteout of parents":   {tree, slices.Concat([]item{{name: deep + "f"}}, each(func(i int) string { return strings.Repeat("a/", n-1-i) + ".wh.a" }))},
		"opaque parents":        {tree, slices.Concat([]item{{name: deep + "f"}}, each(func(i int) string { return strings.Repeat("a/", n-i) + ".wh..wh..opq" }))},
		"whiteout of deep":      {tree, []item{{name: deep + "f"}, {name: ".wh.a"}}},
		"deep":                  {nil, []item{{name: deep + "f"}}},
		"same name":             {nil, always("d/f")},
		"hard links":            {nil, slices.Concat([]item{{name: "f"}}, links)},
	} {
		t.Run(name, func(t *testing.T) {
			var layers [][]byte
			if c.lower != nil {
				layers = append(layers, c.lower)
			}
			u, err := newPlace(t).apply(t, Limits{}, append(layers, archive(t, c.items...))...)
			if err != nil {
				t.Fatal(err)
			}
			parts := 0
			for _, i := range c.items {
				parts += 1 + strings.Count(i.name, "/")
			}
			if c.lower != nil {
				parts += 2*n + n + 1
			}
			if u.tree.steps > 4*parts {
				t.Errorf("%d steps for %d parts of names", u.tree.steps, parts)
			}
		})
	}
}

// sparse is an archive with a file that has no data, but a size (old GNU form).
func sparse(t testing.TB, size int64) []byte {
	t.Helper()
	b := archive(t, item{name: "sparse"})
	h := b[:512]
	h[156] = tar.TypeGNUSparse
	copy(h[257:], "ustar  \x00")
	copy(h[483:], fmt.Sprintf("%011o\x00", size)) // realsize
	copy(h[386:], fmt.Sprintf("%011o\x00%011o\x00", size, 0))
	copy(h[148:], "        ")
	sum := 0
	for _, c := range h {
		sum += int(c)
	}
	copy(h[148:], fmt.Sprintf("%06o\x00 ", sum))
	return b
}

// A sparse file takes no room, and one of zeros neither; what is in it is
// exact, also where blocks of data and zeros meet.
func TestUnpackSparse(t *testing.T) {
	p := newPlace(t)
	body := make([]byte, 3<<20)
	body[len(body)-1], body[1<<20] = 1, 2
	if _, err := p.apply(t, Limits{}, sparse(t, 1<<32), archive(t, item{name: "f", body: string(body)}, item{name: "z", body: string(make([]byte, 1<<20))})); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(p.root, "f"))
	if err != nil || !bytes.Equal(got, body) {
		t.Error("the file is not what it was", err)
	}
	for name, size := range map[string]int64{"sparse": 1 << 32, "z": 1 << 20} {
		st, err := os.Stat(filepath.Join(p.root, name))
		if err != nil {
			t.Fatal(err)
		}
		if blocks := st.Sys().(*syscall.Stat_t).Blocks; st.Size() != size || blocks*512 > 1<<20 {
			t.Errorf("%s has %d bytes in %d blocks", name, st.Size(), blocks)
		}
	}
}

// Names that need the PAX form, and bytes that are no UTF-8.
func TestUnpackNames(t *testing.T) {
	p := newPlace(t)
	long := strings.Repeat("long-name-", 25) // 250 bytes
	deep := strings.Repeat(long+"/", 10) + "file"
	if _, err := p.apply(t, Limits{}, archive(t, item{name: deep, body: "x"}, item{name: "b\xffad", body: "y"}, item{name: "line\nend \x1b[2J", body: "z"}, item{name: "h", typ: tar.TypeLink, link: deep})); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{deep: "x", "b\xffad": "y", "line\nend \x1b[2J": "z", "h": "x"} {
		if b, err := os.ReadFile(filepath.Join(p.root, name)); string(b) != want {
			t.Errorf("%.20q: got b %q, err %v; want b == %v", name, b, err, want)
		}
	}
	_, err := p.apply(t, Limits{}, archive(t, item{name: strings.Repeat("n", 256), body: "x"}))
	if !errors.Is(err, unix.ENAMETOOLONG) {
		t.Error(err)
	}
}

// Times are kept where the file system can.
func TestUnpackTimes(t *testing.T) {
	p := newPlace(t)
	if _, err := p.apply(t, Limits{}, archive(t, item{name: "f", body: "x"})); err != nil {
		t.Fatal(err)
	}
	if st, err := os.Stat(filepath.Join(p.root, "f")); err != nil || !st.ModTime().Equal(time.Unix(1e9, 0)) {
		t.Errorf("ModTime: got %v, err %v; want err == nil and st.ModTime().Equal(time.Unix(1e9, 0))", st.ModTime(), err)
	}
}
