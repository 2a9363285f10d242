package rootfs

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"wolffia/internal/host/boot"
	"wolffia/runtime"
	"wolffia/runtime/launch"
)

func TestBoundPaths(t *testing.T) {
	const table = `Num       RefCount Protocol Flags    Type St Inode Path
0000000000000000: 00000003 00000000 00000000 0001 03 12345
0000000000000000: 00000002 00000000 00010000 0001 01 12346 /run/a b
0000000000000000: 00000002 00000000 00010000 0001 01 12346 /run/a b
0000000000000000: 00000002 00000000 00010000 0001 01 12347 @/run/abstract
0000000000000000: 00000002 00000000 00010000 0001 01 12348 relative/sock
0000000000000000: 00000002 00000000 00000000 0002 01 12349 /var//run/../log
0000000000000000: 00000002 00000000 00010000 0001 01 1234A /x
/usr/bin/claimed
nothing /at all`
	if diff := cmp.Diff([]string{"/run/a b", "/var/log", "/x"}, boundPaths([]byte(table))); diff != "" {
		t.Error("-want +got", diff)
	}
}

// bind makes a socket that listens until the test is over.
func bind(t *testing.T, network, path string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	switch network {
	case "unixgram":
		c, err := net.ListenUnixgram(network, &net.UnixAddr{Name: path, Net: network})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
	default:
		l, err := net.ListenUnix(network, &net.UnixAddr{Name: path, Net: network})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
	}
}

// socketDir is a directory whose path is short enough for sockets.
func socketDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "s")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestListens(t *testing.T) {
	dir := socketDir(t)
	for _, network := range []string{"unix", "unixgram", "unixpacket"} {
		bind(t, network, dir+"/"+network)
		if !(bound{dir, network}).listens() {
			t.Errorf("%s: it does not listen", network)
		}
	}
	// What listens has not noticed.
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: dir + "/unnoticed", Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	b := bound{dir, "unnoticed"}
	if !b.listens() {
		t.Error("it does not listen")
	}
	poll := []unix.PollFd{{Events: unix.POLLIN}}
	raw, err := l.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var n int
	if err := raw.Control(func(fd uintptr) { poll[0].Fd = int32(fd); n, err = unix.Poll(poll, 0) }); err != nil || n != 0 {
		t.Errorf("%d connections, %v", n, err)
	}
	l.SetUnlinkOnClose(false)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir+"/file", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"unnoticed", "file", "absent"} {
		if (bound{dir, name}).listens() {
			t.Errorf("%s listens", name)
		}
	}
	if (bound{dir + "/absent", "x"}).listens() {
		t.Error("what is not there listens")
	}
}

// A directory of the host's with a socket in it is empty inside, and what is below it.
func TestCoverBound(t *testing.T) {
	dir := socketDir(t)
	for _, name := range []string{"usr/local/var/run/a.sock", "usr/local/var/run/b.sock", "usr/local/var/run/deep/c.sock", "usr2/d.sock", "etc/certs/x/e.sock"} {
		bind(t, "unix", filepath.Join(dir, name))
	}
	if err := os.Symlink("local/var/run", dir+"/usr/link"); err != nil {
		t.Fatal(err)
	}
	sockets, err := listBound()
	if err != nil {
		t.Fatal(err)
	}
	shown := []runtime.Mount{{Source: dir + "/usr", Target: "/usr"}, {Source: dir + "/etc/certs", Target: "/etc/ssl/certs"}}
	covers, err := coverBound(shown, sockets, "/empty")
	want := []runtime.Mount{{Source: "/empty", Target: "/etc/ssl/certs/x"}, {Source: "/empty", Target: "/usr/local/var/run"}}
	if diff := cmp.Diff(want, covers); diff != "" || err != nil {
		t.Error("-want +got", diff, err)
	}
	bind(t, "unix", dir+"/usr/f.sock")
	if sockets, err = listBound(); err != nil {
		t.Fatal(err)
	}
	if covers, err := coverBound(shown, sockets, "/empty"); runtime.Class(err) != runtime.ErrUnavailable || !strings.Contains(err.Error(), dir+"/usr/f.sock") {
		t.Errorf(`coverBound "/empty": got covers %v, err %v; want runtime.Class(err) == runtime.ErrUnavailable and err.Error() contains %q`,
			covers, err, dir+"/usr/f.sock")
	}
}

// A mount of the user's is refused for what listens in it, by whatever path, at any
// depth; or in its topmost levels, if the kernel's table does not have its path.
func TestCheckBound(t *testing.T) {
	for _, tt := range []struct {
		name   string
		bind   string // below the mount
		alias  bool   // bound by a path through a symbolic link
		table  bool   // the table has it
		mounts []string
		ok     bool
	}{
		{name: "in it", bind: "a.sock", table: true},
		{name: "by a link", bind: "a.sock", alias: true, table: true},
		{name: "deep", bind: "1/2/3/4/5/a.sock", table: true},
		{name: "not in the table", bind: "a.sock"},
		{name: "not in the table, third level", bind: "1/2/a.sock"},
		{name: "not in the table, deep", bind: "1/2/3/a.sock", ok: true},
		{name: "allowed", bind: "1/a.sock", table: true, mounts: []string{"1/a.sock"}, ok: true},
		{name: "another allowed", bind: "1/a.sock", table: true, mounts: []string{"1/b.sock"}},
		{name: "beside it", bind: "../a.sock", table: true, ok: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := socketDir(t)
			path := filepath.Join(dir, "m", tt.bind)
			if tt.alias {
				if err := os.Symlink("m", dir+"/link"); err != nil {
					t.Fatal(err)
				}
				if err := os.Mkdir(dir+"/m", 0o755); err != nil {
					t.Fatal(err)
				}
				bind(t, "unix", filepath.Join(dir, "link", tt.bind))
			} else {
				bind(t, "unix", path)
			}
			var sockets []bound
			if tt.table {
				var err error
				if sockets, err = listBound(); err != nil {
					t.Fatal(err)
				}
				if !slices.ContainsFunc(sockets, func(s bound) bool { return s.path() == path }) {
					t.Fatalf("the table does not have %s", path)
				}
			}
			mounts := []runtime.Mount{{Source: dir + "/m", Target: "/m"}}
			for _, m := range tt.mounts {
				mounts = append(mounts, runtime.Mount{Source: filepath.Join(dir, "m", m), Target: "/x"})
			}
			err := checkBound(mounts, sockets)
			if tt.ok && err != nil || !tt.ok && (runtime.Class(err) != runtime.ErrInvalid || !strings.Contains(err.Error(), path)) {
				t.Error(err)
			}
		})
	}
}

// Without a free descriptor nothing is found out, which does not prove that no process listens.
func TestCheckBoundWithoutDescriptors(t *testing.T) {
	dir := socketDir(t)
	bind(t, "unix", dir+"/m/a.sock")
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 0, Max: old.Max}); err != nil {
		t.Fatal(err)
	}
	err := checkBound([]runtime.Mount{{Source: dir + "/m", Target: "/m"}}, nil)
	listens := bound{dir + "/m", "a.sock"}.listens()
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	if runtime.Class(err) != runtime.ErrUnavailable || !listens {
		t.Errorf("the mount: %v; a program listens: %v", err, listens)
	}
}

// A directory of a toolchain in which a program listens is empty inside, and no error; what
// the user mounts comes after it.
func TestToolchainSockets(t *testing.T) {
	dir := socketDir(t)
	for _, name := range []string{"a/lib/z.sock", "a/lib/deep/c.sock", "b/d.sock", "b/x/e.sock", "c/f.sock"} {
		bind(t, "unix", filepath.Join(dir, name))
	}
	b := &boot.Params{Mnt: "/mnt"}
	for _, name := range []string{"a", "b"} {
		b.Config.Mounts = append(b.Config.Mounts, runtime.Mount{Source: dir + "/" + name, Target: "/t/" + name, Toolchain: true})
	}
	spec := &launch.Spec{Binds: []runtime.Mount{
		{Source: "/mnt/tree", Target: "/code"},
		{Source: "/mnt/mount0", Target: "/t/a", Toolchain: true},
		{Source: "/mnt/mount1", Target: "/t/b", Toolchain: true},
		{Source: "/mnt/mount2", Target: "/t/a/lib"},
	}}
	if err := KeepSockets(b, spec, <-ListSockets(b)); err != nil {
		t.Fatal(err)
	}
	empty := EmptyDir(b)
	want := []runtime.Mount{
		{Source: "/mnt/tree", Target: "/code"},
		{Source: "/mnt/mount0", Target: "/t/a", Toolchain: true},
		{Source: empty, Target: "/t/b", Toolchain: true},
		{Source: empty, Target: "/t/a/lib"},
		{Source: "/mnt/mount2", Target: "/t/a/lib"},
	}
	if diff := cmp.Diff(want, spec.Binds); diff != "" {
		t.Error("-want +got", diff)
	}
}
