package prefetch

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/fusefs"
	"wolffia/fusefs/fusemount"
	"wolffia/internal/host/probe"
	"wolffia/internal/test/mounttest"
	"wolffia/internal/test/testenv"
	"wolffia/perm"
)

// After warm, what the first git status does needs no message: it looks at all names, lists all
// directories, and looks for a .gitignore in those with others in them.
func TestWarm(t *testing.T) {
	const dirs, files, links, objects = 40, 10, 100, 300
	var args struct{ Dir, Host string }
	conn := mounttest.Inside(t, &args, func() (*os.File, error) { return fusemount.Mount(args.Dir, nil) })
	if conn != nil {
		start := messages(t, conn)
		w := New(args.Dir, func() int { return 25_000 })
		for stops := 0; !w.Done(); stops++ { // it stops at each third directory, and goes on
			asked := 0
			w.Run(func() bool { asked++; return asked%3 == 0 })
			if stops > 3*dirs {
				t.Fatal("it does not come to its end")
			}
		}
		warmed := messages(t, conn)
		for l := w.Linked(); !l.Done(); {
			l.Run(func() bool { return false })
		}
		linked := messages(t, conn)
		if n := linked["getattr"] - warmed["getattr"]; n < 2*links {
			t.Errorf("%d questions for the attributes of %d files with other names, want two for each", n, links)
		}
		t.Logf("warm: %v", warmed)
		// Each directory is listed, has an end, and its attributes are asked for once more; some
		// have no .gitignore.
		const listed = 2*dirs + 6           // with the root, links, .git, objects, refs and heads
		const pages = (dirs + objects) / 20 // an older kernel (6.1) asks for a page at a time, some 25 names
		if n := warmed["readdirplus"] + warmed["readdir"] - start["readdirplus"]; n > 2*listed+pages {
			t.Errorf("%d listings, want at most two for each of %d directories, and %d", n, listed, pages)
		}
		if n := warmed["lookup"] - start["lookup"]; n > listed {
			t.Errorf("%d lookups, want none of names that listings have", n)
		}
		status(t, args.Dir)
		done := messages(t, conn)
		for _, op := range []string{"lookup", "readdir", "readdirplus", "getattr"} {
			if n := done[op] - linked[op]; n > dirs/2 { // the kernel drops cached pages when it pleases
				t.Errorf("%d times %s after warm", n, op)
			}
		}
		return
	}
	testenv.Need(t, probe.Fuse, probe.UserNamespaces)
	group, err := unix.FanotifyInit(unix.FAN_CLASS_NOTIF|unix.FAN_REPORT_DFID_NAME|unix.FAN_REPORT_FID, 0)
	if err != nil {
		testenv.Lacks(t, "fanotify", err.Error())
	}
	unix.Close(group)
	base := t.TempDir()
	args.Dir, args.Host = filepath.Join(base, "mnt"), filepath.Join(base, "host")
	plant := func(name string) {
		name = filepath.Join(args.Host, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, nil, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	plant(".gitignore")
	plant(".git/refs/heads/main")
	for i := range objects {
		plant(fmt.Sprintf(".git/objects/%02x/object", i))
	}
	for i := range dirs {
		for j := range files {
			plant(fmt.Sprintf("dir%d/sub/file%d", i, j))
		}
	}
	for i := range links {
		name := fmt.Sprint("file", i)
		plant("links/" + name)
		if err := os.Link(filepath.Join(args.Host, "links", name), filepath.Join(base, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Mkdir(args.Dir, 0o755), os.Symlink("..", filepath.Join(args.Host, "link"))); err != nil {
		t.Fatal(err)
	}
	child := mounttest.Start(t, args)
	root, err := os.Open(args.Host)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	rules, err := perm.Compile([]perm.Rule{{Pattern: "**", Level: perm.Write}})
	if err != nil {
		t.Fatal(err)
	}
	srv, err := fusefs.Serve(child.Ctx, child.Device, &fusefs.Options{Root: int(root.Fd()), Rules: rules, Timeout: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	go func() { // ends when the child closes its end
		var ask string
		for in := json.NewDecoder(child.Conn); in.Decode(&ask) == nil; {
			_ = json.NewEncoder(child.Conn).Encode(srv.Stats().Messages)
		}
	}()
	child.Wait(t, srv.Wait)
}

// messages asks the server what it has answered so far.
func messages(t *testing.T, conn net.Conn) (n map[string]uint64) {
	t.Helper()
	if err := errors.Join(json.NewEncoder(conn).Encode("messages"), json.NewDecoder(conn).Decode(&n)); err != nil {
		t.Fatal(err)
	}
	return n
}

// status does what git status does with the names of a repository that has not changed.
func status(t *testing.T, root string) {
	t.Helper()
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.Name() == ".git" {
			return fs.SkipDir
		}
		if _, err := os.Lstat(p); err != nil {
			return err
		}
		if d.IsDir() && d.Name() != "sub" {
			_, _ = os.Lstat(filepath.Join(p, ".gitignore"))
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
