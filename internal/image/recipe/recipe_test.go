package recipe

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"wolffia/image/maker"
	"wolffia/internal/test/testenv"
	"wolffia/runtime"
)

// tree makes files: a name that ends in a slash is a directory, a text that begins with -> a link.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		err := os.MkdirAll(filepath.Dir(path), 0o755)
		switch to, link := strings.CutPrefix(text, "->"); {
		case err != nil:
		case strings.HasSuffix(name, "/"):
			err = os.MkdirAll(path, 0o755)
		case link:
			err = os.Symlink(to, path)
		default:
			err = os.WriteFile(path, []byte(text), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// names returns what is below a directory: links with their targets, directories with a slash.
func names(t *testing.T, dir string) (all []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		name := strings.TrimPrefix(strings.TrimPrefix(path, dir), "/")
		switch {
		case err != nil || name == "":
			return err
		case d.IsDir():
			name += "/"
		case d.Type() == fs.ModeSymlink:
			to, _ := os.Readlink(path)
			name += "->" + to
		}
		all = append(all, name)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// apply follows a recipe. Sources are taken from the directories context and image.
func apply(r *maker.Recipe, context, image, root string) error {
	s, err := Open(r, func(src *maker.Source) (string, error) {
		switch {
		case src.Image != "":
			return image, nil
		case src.Text != nil:
			return "", nil
		}
		return context, nil
	})
	if err != nil {
		return err
	}
	digest, err := s.Digest()
	if err == nil {
		err = s.Apply(root)
	}
	if err == nil && s.Copied() != digest {
		err = errors.New("the digest of what was copied is another one")
	}
	return errors.Join(err, s.Close())
}

// from are sources of the context.
func from(ignore []string, of ...string) (all []maker.Source) {
	for _, n := range of {
		all = append(all, maker.Source{Dir: "context", Name: n, Ignore: ignore})
	}
	return all
}

func TestCopy(t *testing.T) {
	testenv.Root(t) // it gives files to root
	context := map[string]string{
		"a.txt": "a", "b.txt": "b", "d/in": "in", "d/sub/deep": "x", "d/link": "->in", "outside": "->/etc/passwd", "up": "->../../../../etc/passwd",
		"to": "->d", "logs/one.log": "l", "logs/keep.log": "k", "logs/more/two.log": "l",
	}
	for _, c := range []struct {
		name  string
		r     maker.Recipe
		image map[string]string
		want  []string // below the image
		fails string
	}{
		{"a file", maker.Recipe{Sources: from(nil, "a.txt"), Dest: "/x/y"}, nil, []string{"x/", "x/y"}, ""},
		{"a file into a directory", maker.Recipe{Sources: from(nil, "a.txt"), Dest: "/x", IntoDir: true}, nil, []string{"x/", "x/a.txt"}, ""},
		{"a file into a directory that is there", maker.Recipe{Sources: from(nil, "a.txt"), Dest: "/x"}, map[string]string{"x/": ""}, []string{"x/", "x/a.txt"}, ""},
		{"a pattern", maker.Recipe{Sources: from(nil, "*.txt"), Dest: "/"}, nil, []string{"a.txt", "b.txt"}, ""},
		{"the content of a directory", maker.Recipe{Sources: from(nil, "d"), Dest: "/x"}, nil, []string{"x/", "x/in", "x/link->in", "x/sub/", "x/sub/deep"}, ""},
		{"a link, which is followed in the context", maker.Recipe{Sources: from(nil, "d/link"), Dest: "/x"}, nil, []string{"x"}, ""},
		{"a link to a directory", maker.Recipe{Sources: from(nil, "to"), Dest: "/x"}, nil, []string{"x/", "x/in", "x/link->in", "x/sub/", "x/sub/deep"}, ""},
		{"a link out of the context", maker.Recipe{Sources: from(nil, "outside"), Dest: "/x"}, nil, nil, "does not exist"},
		{"a link above the context", maker.Recipe{Sources: from(nil, "up"), Dest: "/x"}, nil, nil, "does not exist"},
		{"above the context", maker.Recipe{Sources: from(nil, "../../etc/passwd"), Dest: "/x"}, nil, nil, "does not exist"},
		{"nothing", maker.Recipe{Sources: from(nil, "none*"), Dest: "/x"}, nil, nil, "does not exist"},
		{"ignored", maker.Recipe{Sources: from([]string{"**/*.log", "!**/keep.log", "d"}, "."), Dest: "/"}, nil, []string{
			"a.txt", "b.txt", "logs/", "logs/keep.log", "logs/more/", "outside->/etc/passwd", "to->d", "up->../../../../etc/passwd",
		}, ""},
		{"all but", maker.Recipe{Sources: from([]string{"*", "!logs/keep.log"}, "."), Dest: "/"}, nil, []string{"logs/", "logs/keep.log"}, ""},
		{"ignored by name", maker.Recipe{Sources: from([]string{"d"}, "d/in"), Dest: "/"}, nil, nil, "since .dockerignore leaves it out"},
		{
			"over a link in the image, which stays inside",
			maker.Recipe{Sources: from(nil, "a.txt"), Dest: "/var/run/", IntoDir: true},
			map[string]string{"var/run": "->/run", "run/": ""},
			[]string{"run/", "run/a.txt", "var/", "var/run->/run"},
			"",
		},
		{"over a link out of the image", maker.Recipe{Sources: from(nil, "a.txt"), Dest: "/l/x"}, map[string]string{"l": "->../../../../../tmp/none"}, nil, "file exists"},
		{"a link in the place of a file", maker.Recipe{Sources: from(nil, "a.txt"), Dest: "/l"}, map[string]string{"l": "->/etc/passwd"}, []string{"l"}, ""},
		{"a directory in the place of a link", maker.Recipe{Sources: from(nil, "d"), Dest: "/"}, map[string]string{"sub": "->/etc"}, nil, "a directory in the source, and a file or a link in the image"},
		{"a text", maker.Recipe{Sources: []maker.Source{{Name: "EOF", Text: []byte("x")}}, Dest: "/f"}, nil, []string{"f"}, ""},
		{"a directory", maker.Recipe{Dest: "/a/b"}, nil, []string{"a/", "a/b/"}, ""},
		{"no user", maker.Recipe{Dest: "/a/b", Chown: "none"}, nil, nil, `has no user "none"`},
		{"a mode that is none", maker.Recipe{Dest: "/a/b", Chmod: "u+x"}, nil, nil, "octal"},
	} {
		context, image := tree(t, context), tree(t, c.image)
		err := apply(&c.r, context, "", image)
		if c.fails != "" {
			if err == nil || !strings.Contains(err.Error(), c.fails) {
				t.Errorf("%s: got %v; want one with %q", c.name, err, c.fails)
			}
			continue
		}
		if got := names(t, image); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, %v; want %q", c.name, got, err, c.want)
		}
	}
	if b, err := os.ReadFile("/etc/passwd"); err != nil || string(b) == "a" {
		t.Fatal("a file of the host was written")
	}
}

// Owners are names of the image, or numbers; modes are kept, or one for all.
func TestOwners(t *testing.T) {
	testenv.Root(t)
	context := tree(t, map[string]string{"f": "x", "d/g": "y"})
	if err := unix.Chmod(filepath.Join(context, "f"), 0o4711); err != nil {
		t.Fatal(err)
	}
	for chown, want := range map[string]string{"": "0:0 4711", "app": "7:8 4711", "app:staff": "7:50 4711", "9": "9:9 4711", "7:0": "7:0 4711", "7": "7:8 4711"} {
		image := tree(t, map[string]string{"etc/passwd": "root:x:0:0::/:\napp:x:7:8::/:\n", "etc/group": "staff:x:50:\nx:x:1:a\n"})
		if err := os.WriteFile(filepath.Join(image, "etc/group"), []byte("staff:x:50:\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := apply(&maker.Recipe{Sources: from(nil, "f"), Dest: "/made/f", Chown: chown}, context, "", image); err != nil {
			t.Error(chown, err)
			continue
		}
		var st, dir unix.Stat_t
		err := errors.Join(unix.Lstat(filepath.Join(image, "made/f"), &st), unix.Lstat(filepath.Join(image, "made"), &dir))
		if got := fmt.Sprintf("%d:%d %o", st.Uid, st.Gid, st.Mode&0o7777); err != nil || got != want || dir.Uid != st.Uid {
			t.Errorf("--chown=%s: got %s, %v, in a directory of %d; want %s", chown, got, err, dir.Uid, want)
		}
	}
}

// An archive is unpacked, and nothing of it lands elsewhere.
func TestUnpack(t *testing.T) {
	testenv.Root(t)
	pack := func(headers ...tar.Header) string {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		for _, h := range headers {
			h.Size = int64(len(h.Uname)) // here the content
			text := h.Uname
			h.Uname = ""
			if err := w.WriteHeader(&h); err != nil {
				t.Fatal(err)
			}
			if _, err := w.Write([]byte(text)); err != nil {
				t.Fatal(err)
			}
		}
		_ = w.Close()
		return b.String()
	}
	for _, c := range []struct {
		name, archive string
		want          []string
		fails         string
	}{
		{"files", pack(tar.Header{Name: "d/", Typeflag: tar.TypeDir, Mode: 0o700, Uid: 3}, tar.Header{Name: "d/f", Typeflag: tar.TypeReg, Mode: 0o600, Uname: "x"}, tar.Header{Name: "l", Typeflag: tar.TypeLink, Linkname: "d/f"}), []string{"x/", "x/d/", "x/d/f", "x/l"}, ""},
		{"above", pack(tar.Header{Name: "../f", Typeflag: tar.TypeReg}), nil, "leads out"},
		{"over its own link", pack(tar.Header{Name: "l", Typeflag: tar.TypeSymlink, Linkname: "/etc"}, tar.Header{Name: "l/f", Typeflag: tar.TypeReg}), nil, "too many levels"},
		{"a hard link out", pack(tar.Header{Name: "l", Typeflag: tar.TypeSymlink, Linkname: "/etc"}, tar.Header{Name: "h", Typeflag: tar.TypeLink, Linkname: "l/passwd"}), nil, "too many levels"},
		{"devices, which are left out", pack(tar.Header{Name: "n", Typeflag: tar.TypeChar}, tar.Header{Name: "b", Typeflag: tar.TypeBlock}, tar.Header{Name: "p", Typeflag: tar.TypeFifo}, tar.Header{Name: "f", Typeflag: tar.TypeReg}), []string{"x/", "x/f", "x/p"}, ""},
		{"an unknown kind", pack(tar.Header{Name: "n", Typeflag: '9'}), nil, "of a kind that no image has"},
		{"no archive", "text", []string{"x/", "x/a"}, ""},
		{"xz", "\xfd7zXZ\x00", nil, "xz"},
	} {
		context, image := tree(t, map[string]string{"a": c.archive}), tree(t, nil)
		err := apply(&maker.Recipe{Sources: from(nil, "a"), Dest: "/x", IntoDir: true, Unpacks: true}, context, "", image)
		if c.fails != "" {
			if err == nil || !strings.Contains(err.Error(), c.fails) {
				t.Errorf("%s: got %v; want one with %q", c.name, err, c.fails)
			}
			continue
		}
		if got := names(t, image); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, %v; want %q", c.name, got, err, c.want)
		}
	}
}

// A file that changes after its digest was taken changes that of what was copied.
func TestCopied(t *testing.T) {
	testenv.Root(t)
	context, image := tree(t, map[string]string{"d/f": "x"}), tree(t, nil)
	open := func() *Sources {
		t.Helper()
		s, err := Open(&maker.Recipe{Sources: from(nil, "d"), Dest: "/x"}, func(*maker.Source) (string, error) { return context, nil })
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return s
	}
	s := open()
	before, err := s.Digest()
	if err == nil {
		err = os.WriteFile(filepath.Join(context, "d/f"), []byte("changed"), 0o644)
	}
	if err == nil {
		err = s.Apply(image)
	}
	if err != nil {
		t.Fatal(err)
	}
	if now, err := open().Digest(); err != nil || s.Copied() == before || s.Copied() != now {
		t.Errorf("copied %s; %s before, now %s, %v", s.Copied(), before, now, err)
	}
}

// The digest is that of what is copied, and of nothing else.
func TestDigest(t *testing.T) {
	context := tree(t, map[string]string{"f": "x", "other": "y", "ignored": "z"})
	r := &maker.Recipe{Sources: from([]string{"ignored"}, "f", "ignore*", ".")[:1], Dest: "/"}
	digest := func(r maker.Recipe) string {
		t.Helper()
		s, err := Open(&r, func(*maker.Source) (string, error) { return context, nil })
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		d, err := s.Digest()
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	first := digest(*r)
	if err := os.WriteFile(filepath.Join(context, "other"), []byte("changed"), 0o644); err != nil {
		t.Fatal(err)
	}
	if digest(*r) != first {
		t.Error("another file changes it")
	}
	fresh := *r
	if fresh.Fresh = true; digest(fresh) != first {
		t.Error("Fresh changes it")
	}
	moved := *r
	if moved.Dest = "/x"; digest(moved) == first {
		t.Error("the destination does not change it")
	}
	if err := os.Chmod(filepath.Join(context, "f"), 0o600); err != nil {
		t.Fatal(err)
	}
	if digest(*r) == first {
		t.Error("the mode does not change it")
	}
	if _, err := Open(&maker.Recipe{Sources: from(nil, "[")}, func(*maker.Source) (string, error) { return context, nil }); runtime.Class(err) != runtime.ErrInvalid && runtime.Class(err) != runtime.ErrNotFound {
		t.Error(err)
	}
}
