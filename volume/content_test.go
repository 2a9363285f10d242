package volume

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"wolffia/runtime"
)

// newContent returns the content of a new volume, and its path on the host.
func newContent(t *testing.T) (*Content, string) {
	t.Helper()
	s, _ := newStore(t)
	if err := use(t, s, runtime.VolumeMount{Name: "v"}, me); err != nil {
		t.Fatal(err)
	}
	c, err := s.Content("v")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c, s.Data("v")
}

func write(c *Content, name, text string, parents bool) error {
	return c.Write(name, strings.NewReader(text), &NewFile{Parents: parents, Most: 10})
}

func TestContent(t *testing.T) {
	c, data := newContent(t)
	for name, test := range map[string]struct {
		err  error
		want error
	}{
		"a file":             {write(c, "/a", "one", false), nil},
		"again":              {write(c, "a", "two", false), nil},
		"no parent":          {write(c, "/x/y/b", "b", false), runtime.ErrNotFound},
		"with parents":       {write(c, "/d/e/b", "b", true), nil},
		"too large":          {write(c, "/big", "0123456789a", false), runtime.ErrInvalid},
		"onto a directory":   {write(c, "/d", "x", false), runtime.ErrInvalid},
		"below a file":       {write(c, "/a/b", "x", true), runtime.ErrNotFound},
		"the volume":         {write(c, "/", "x", false), runtime.ErrInvalid},
		"a long name":        {write(c, "/"+strings.Repeat("n", 300), "x", false), runtime.ErrInvalid},
		"a long path":        {write(c, strings.Repeat("/n", 3000), "x", true), runtime.ErrInvalid},
		"NUL":                {write(c, "/a\x00b", "x", false), runtime.ErrInvalid},
		"a directory":        {c.MakeDir("/new", 0o700, false), nil},
		"a directory twice":  {c.MakeDir("/new", 0, true), runtime.ErrExists},
		"the volume's dir":   {c.MakeDir("/", 0, true), runtime.ErrExists},
		"no parent of a dir": {c.MakeDir("/x/y", 0, false), runtime.ErrNotFound},
		"set-id":             {c.SetMode("/a", 0o4750), nil},
		"remove nothing":     {c.Remove("/absent"), runtime.ErrNotFound},
		"remove the volume":  {c.Remove("/"), runtime.ErrInvalid},
	} {
		if !errors.Is(test.err, test.want) {
			t.Errorf("%s: got %v, want %v", name, test.err, test.want)
		}
	}
	if text, err := os.ReadFile(data + "/a"); err != nil || string(text) != "two" {
		t.Errorf("a: %q, %v", text, err)
	}
	i, err := c.Info("a")
	if err != nil || i.Path != "/a" || i.Type != "file" || i.Size != 3 || i.Mode != 0o750 || i.UID != c.UID() {
		t.Errorf("a: %+v, %v", i, err)
	}
	for depth, want := range []string{"", "/a /d /new", "/a /d /d/e /new", "/a /d /d/e /d/e/b /new"} {
		if depth == 0 {
			continue
		}
		all, err := c.List("/", depth)
		var got []string
		for _, i := range all {
			got = append(got, i.Path)
		}
		if err != nil || len(got) != len(strings.Fields(want)) || !within(got, want) {
			t.Errorf("depth %d: %v, %v; want %s", depth, got, err, want)
		}
	}
	if err := c.Remove("/d"); err != nil {
		t.Error(err)
	}
	if _, err := c.Info("/d/e/b"); !errors.Is(err, runtime.ErrNotFound) {
		t.Errorf("after its removal: %v", err)
	}
	if left, err := os.ReadDir(data); err != nil || len(left) != 2 {
		t.Errorf("left: %v, %v", left, err)
	}
}

func within(got []string, want string) bool {
	for _, name := range got {
		if !strings.Contains(" "+want+" ", " "+name+" ") {
			return false
		}
	}
	return true
}

// What a sandbox has put into a volume leads nowhere else, and no reader waits for it.
func TestHostileContent(t *testing.T) {
	c, data := newContent(t)
	outside := t.TempDir()
	secret := filepath.Join(outside, "secret")
	err := errors.Join(
		os.WriteFile(secret, []byte("s"), 0o600), os.Symlink(outside, data+"/dir"), os.Symlink(secret, data+"/link"),
		unix.Mkfifo(data+"/fifo", 0o600), os.Mkdir(data+"/own", 0o700), os.Symlink("..", data+"/own/up"),
	)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"/dir/secret", "/link", "/own/up/own/up/link", "/../" + secret, "/own/up/../../secret"} {
		if f, err := c.Read(name); err == nil {
			t.Errorf("%s: it was read", name)
			_ = f.Close()
		}
	}
	if _, err := c.Read("/fifo"); !errors.Is(err, runtime.ErrInvalid) {
		t.Errorf("a FIFO: got %v, want %v", err, runtime.ErrInvalid)
	}
	for name, err := range map[string]error{
		"write": write(c, "/dir/new", "x", true), "directory": c.MakeDir("/dir/new", 0, true),
		"remove": c.Remove("/dir/secret"), "up": write(c, "/own/up/new", "x", true),
	} {
		if !errors.Is(err, runtime.ErrDenied) && !errors.Is(err, runtime.ErrNotFound) {
			t.Errorf("%s: got %v, want %v", name, err, runtime.ErrNotFound)
		}
	}
	if err := c.SetMode("/link", 0o777); !errors.Is(err, runtime.ErrInvalid) {
		t.Errorf("the mode of a link: %v", err)
	}
	if i, err := c.Info("/link"); err != nil || i.Type != "symlink" || i.Target != secret {
		t.Errorf("a link: %+v, %v", i, err)
	}
	if err := write(c, "/link", "mine", false); err != nil { // in its place
		t.Error(err)
	}
	if all, err := c.List("/", maxDepth); err != nil || len(all) != 5 {
		t.Errorf("a list: %v, %v", all, err)
	}
	if err := c.Remove("/dir"); err != nil {
		t.Error(err)
	}
	if made, err := os.ReadDir(outside); err != nil || len(made) != 1 {
		t.Errorf("outside: %v, %v", made, err)
	}
	if text, err := os.ReadFile(secret); err != nil || string(text) != "s" {
		t.Errorf("the file outside: %q, %v", text, err)
	}
}

// Content never outside the names of volumes.
func TestContentNames(t *testing.T) {
	s, _ := newStore(t)
	for _, name := range []string{"", "..", "a/b", "absent", ".lock"} {
		if _, err := s.Content(name); !errors.Is(err, runtime.ErrNotFound) {
			t.Errorf("%q: got %v, want %v", name, err, runtime.ErrNotFound)
		}
	}
}

// A file has no name before it is whole: nothing is left of it if the process is killed.
func TestPartHasNoName(t *testing.T) {
	c, data := newContent(t)
	if fd, err := unix.Open(data, unix.O_TMPFILE|unix.O_WRONLY, 0o600); err != nil {
		t.Skipf("the file system has no files without a name: %v; set TMPDIR to a directory of ext4 or tmpfs", err)
	} else {
		_ = unix.Close(fd)
	}
	looked := false
	body := readerFunc(func(b []byte) (int, error) {
		if looked {
			return 0, io.EOF
		}
		looked = true
		if left, err := os.ReadDir(data); err != nil || len(left) > 0 {
			t.Errorf("while it is written: %v, %v", left, err)
		}
		return copy(b, "all"), nil
	})
	if err := c.Write("f", body, &NewFile{Most: 10}); err != nil || !looked {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(data + "/f"); err != nil || string(text) != "all" {
		t.Errorf("got %q, %v", text, err)
	}
	if left, err := os.ReadDir(data); err != nil || len(left) != 1 {
		t.Errorf("left: %v, %v", left, err)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }

// The paths of a list are bounded: those of a deep directory are of 16 KiB each.
func TestListIsBounded(t *testing.T) {
	c, data := newContent(t)
	root, err := os.OpenRoot(data)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	deep := strings.Repeat(strings.Repeat("d", 250)+"/", maxDepth-2)
	if err := root.MkdirAll(deep, 0o700); err != nil {
		t.Fatal(err)
	}
	below, err := root.OpenRoot(deep)
	if err != nil {
		t.Fatal(err)
	}
	defer below.Close()
	for n := range 2 * maxText / len(deep) {
		if err := below.Symlink("x", strconv.Itoa(n)); err != nil {
			t.Fatal(err)
		}
	}
	all, err := c.List("/", 1<<30)
	size := 0
	for _, i := range all {
		size += len(i.Path)
	}
	if !errors.Is(err, runtime.ErrInvalid) || size < maxText/2 || size > 2*maxText {
		t.Errorf("%d bytes of %d files, %v", size, len(all), err)
	}
	if err := c.Remove("/" + deep[:250]); err != nil { // the test's own removal takes paths
		t.Error(err)
	}
}
