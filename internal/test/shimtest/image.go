package shimtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"wolffia/image/store"
	"wolffia/internal/host/statedir"
	"wolffia/internal/test/testenv"
	"wolffia/internal/test/testimage"
	"wolffia/internal/test/wait"
	"wolffia/perm"
	"wolffia/runtime"
)

// Images tests sandboxes on images. What is called after / are names that the
// host's root directory has for whoever puts a sandbox together.
func Images(t *testing.T, backend Backend, hostRoots ...string) {
	im := &images{backend, hostRoots}
	for name, test := range map[string]func(*testing.T){
		"Changes": im.ownChanges, "ChangesGo": im.changesGo, "OfRoot": im.imageOfRoot, "Missing": im.imageMissing,
		"LinksInTheWay": im.linksInTheWay, "FilterInTheWay": im.filterInTheWay, "HostileRestart": im.hostileRestart,
		"Isolation": im.isolation, "RestartAtOnce": im.restartAtOnce,
	} {
		if name == "RestartAtOnce" && testenv.Second() {
			continue // the same for each user
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t)
		})
	}
}

// images is the suite of Images.
type images struct {
	backend   Backend
	hostRoots []string
}

// Busybox is an image with a real system in a runtime's image store.
func Busybox(t *testing.T, rt *Runtime) *store.Image {
	t.Helper()
	return busybox(t, rt, "busybox", store.Config{})
}

// busybox puts a real system into a runtime's image store.
func busybox(t *testing.T, rt *Runtime, name string, c store.Config, more ...testimage.File) *store.Image {
	t.Helper()
	src := testimage.Source(t, c, testimage.Layer(t, testimage.Busybox(t)...), testimage.Layer(t, more...))
	src.As = name
	img, err := store.Open(rt.State).Add(t.Context(), src, store.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return img
}

// on starts a sandbox, which is destroyed in the end.
func on(t *testing.T, rt *Runtime, c *runtime.SandboxConfig) *runtime.Sandbox {
	t.Helper()
	s, err := rt.Create(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := rt.Destroy(context.WithoutCancel(t.Context()), s.ID); err != nil && !errors.Is(err, runtime.ErrNotFound) {
			t.Error(err)
		}
	})
	if err := rt.Start(t.Context(), s.ID); err != nil {
		t.Fatal(err)
	}
	return s
}

// says runs a shell script and wants its output, and no error.
func says(t *testing.T, rt *Runtime, id, script, want string) {
	t.Helper()
	r, err := rt.Exec(t.Context(), id, &runtime.ExecRequest{Command: []string{"/bin/sh", "-c", script}})
	if err != nil {
		t.Fatal(err)
	}
	if got := string(r.Stdout); got != want || r.ExitCode != 0 {
		t.Errorf("%s: %d, %q, want %q; %s", script, r.ExitCode, got, want, r.Stderr)
	}
}

// A sandbox on an image may change all of it. What it changes is its own, is
// there after a stop, and goes with it.
func (im *images) ownChanges(t *testing.T) {
	rt := im.backend.Fresh(t)
	img := busybox(t, rt, "docker.io/library/bb:latest", store.Config{
		Env: []string{"PATH=/bin", "COLOUR=green", "not a variable=x", "SIZE=1"}, WorkingDir: "/root", User: "root",
	}, testimage.File{Name: "srv/"})
	a := on(t, rt, &runtime.SandboxConfig{Image: "bb", Env: map[string]string{"SIZE": "2"}})
	b := on(t, rt, &runtime.SandboxConfig{ImageID: img.ID})

	says(t, rt, a.ID, "cat /etc/os-release; pwd; echo $COLOUR $SIZE; ls -d /usr /lib64 2>/dev/null || true; ls /", func() string {
		out := "ID=testimage\n/root\ngreen 2\n"
		dirs, _ := os.ReadDir(store.Open(rt.State).Rootfs(img.ID))
		for _, d := range dirs {
			if d.Name() == "usr" || d.Name() == "lib64" {
				out += "/" + d.Name() + "\n"
			}
		}
		all := map[string]bool{"dev": true, "home": true, "proc": true, "run": true, "sys": true, "workspace": true}
		for _, d := range dirs {
			all[d.Name()] = true
		}
		return out + sorted(all)
	}())
	says(t, rt, a.ID, "id -u >/id && rm /etc/os-release && mkdir /new && echo x >/new/file && mv /srv /elsewhere && chmod 700 /bin && echo changed >>/etc/passwd; ls /new", "file\n")
	says(t, rt, b.ID, "cat /etc/os-release; ls -d /srv; ls /new 2>&1 || true", "ID=testimage\n/srv\nls: /new: No such file or directory\n")

	if err := rt.Stop(t.Context(), a.ID); err != nil {
		t.Fatal(err)
	}
	if err := rt.Start(t.Context(), a.ID); err != nil {
		t.Fatal(err)
	}
	says(t, rt, a.ID, "cat /new/file; ls -d /elsewhere; ls /etc/os-release /srv 2>/dev/null || echo gone", "x\n/elsewhere\ngone\n")
	r, err := rt.Exec(t.Context(), a.ID, &runtime.ExecRequest{Command: []string{"cat", "/etc/passwd"}})
	if err != nil || strings.Count(string(r.Stdout), "/home/") != 1 || !strings.Contains(string(r.Stdout), "daemon:") {
		t.Errorf(`Exec: got err %v, r.Stdout %s; want err == nil and strings.Count(string(r.Stdout), "/home/") == 1 and r.Stdout contains "daemon:"`,
			err, r.Stdout)
	}
	upper := filepath.Join(rt.State, "sandboxes", a.ID, "run", "upper")
	if _, err := os.Stat(filepath.Join(upper, "new", "file")); err != nil {
		t.Error(err)
	}
	if err := rt.Destroy(t.Context(), a.ID); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(rt.State, "sandboxes", a.ID)); err == nil {
		t.Error("something is left")
	}
}

func sorted(names map[string]bool) string {
	var b strings.Builder
	for _, n := range slices.Sorted(maps.Keys(names)) {
		b.WriteString(n + "\n")
	}
	return b.String()
}

// Root's images belong to root, and the user that its sandboxes run as cannot
// reach them; inside they are the sandbox's own.
func (im *images) imageOfRoot(t *testing.T) {
	testenv.Root(t)
	rt := im.backend.Fresh(t)
	img := busybox(t, rt, "x", store.Config{Env: []string{"PATH=/bin"}}, testimage.File{Name: "secret", Body: "of the image", Mode: 0o600})
	s := on(t, rt, &runtime.SandboxConfig{ImageID: img.ID})
	if s.UID == 0 {
		t.Fatal("it runs as root")
	}
	says(t, rt, s.ID, "stat -c %u:%g /secret /bin / | busybox uniq; cat /secret; echo more >>/secret; busybox tail -n 1 /secret", fmt.Sprintf("%d:%d\nof the imageof the imagemore\n", s.UID, s.GID))
	images := filepath.Join(rt.State, "images")
	st, err := os.Stat(images)
	if err != nil {
		t.Fatal(err)
	}
	if sys := st.Sys().(*syscall.Stat_t); sys.Uid != 0 || st.Mode().Perm() != 0o700 {
		t.Errorf("the store is %d's, %v", sys.Uid, st.Mode())
	}
	st, err = os.Stat(filepath.Join(store.Open(rt.State).Rootfs(img.ID), "secret"))
	if err != nil {
		t.Fatal(err)
	}
	if sys := st.Sys().(*syscall.Stat_t); sys.Uid != 0 || st.Size() != int64(len("of the image")) {
		t.Errorf("the image's file is %d's and has %d bytes", sys.Uid, st.Size())
	}
}

// An image that is not there is found out at Create; one that somebody has
// deleted by hand at Start, which leaves the sandbox as it is.
func (im *images) imageMissing(t *testing.T) {
	rt := im.backend.Fresh(t)
	img := busybox(t, rt, "docker.io/library/x:latest", store.Config{})
	for _, c := range []runtime.SandboxConfig{{Image: "y"}, {ImageID: img.ID[:20] + strings.Repeat("0", len(img.ID)-20)}} {
		_, err := rt.Create(t.Context(), &c)
		if runtime.Class(err) != runtime.ErrNotFound {
			t.Errorf("%+v: got err %v; want runtime.Class(err) == runtime.ErrNotFound", c, err)
		}
	}
	s, err := rt.Create(t.Context(), &runtime.SandboxConfig{Image: "x"})
	if err != nil || s.Image != "x" {
		t.Fatal(s, err)
	}
	defer func() {
		if err := rt.Destroy(context.WithoutCancel(t.Context()), s.ID); err != nil {
			t.Error(err)
		}
	}()
	dir := filepath.Dir(store.Open(rt.State).Rootfs(img.ID))
	if err := os.Rename(dir, dir+".away"); err != nil {
		t.Fatal(err)
	}
	if err := rt.Start(t.Context(), s.ID); runtime.Class(err) != runtime.ErrNotFound {
		t.Error(err)
	}
	if err := os.Rename(dir+".away", dir); err != nil {
		t.Fatal(err)
	}
	if err := rt.Start(t.Context(), s.ID); err != nil {
		t.Error(err)
	}
}

// A start waits until the mounts of a shim that was killed are gone: an overlay
// whose changes are mounted twice damages them. The kernel warns of that; only
// root can read it. Every change is there after each start.
func (im *images) restartAtOnce(t *testing.T) {
	rt := im.backend.Fresh(t)
	img := busybox(t, rt, "x", store.Config{Env: []string{"PATH=/bin"}})
	code := filepath.Join(PublicDir(t), "code")
	if err := os.Mkdir(code, 0o755); err != nil {
		t.Fatal(err)
	}
	kernel := kernelLog(t)
	s := on(t, rt, &runtime.SandboxConfig{ImageID: img.ID, CodebasePath: code, Permissions: []perm.Rule{{Pattern: "**", Level: perm.Write}}})
	const many = "i=0; while [ $i -lt 20 ]; do sleep 1000 >/dev/null 2>&1 & i=$((i+1)); done; " // which take a while to end
	want := ""
	for i := range testenv.Some(20) {
		says(t, rt, s.ID, many+fmt.Sprintf("echo %d >>/log; ls /workspace", i), "")
		want += fmt.Sprintln(i)
		startOnceKilled(t, rt, s.ID)
		says(t, rt, s.ID, "cat /log", want)
	}
	if n := strings.Count(kernel(), "upperdir is in-use as upperdir/workdir of another mount, accessing files from both"); n > 0 {
		t.Errorf("changes were mounted twice %d times", n)
	}
}

// startOnceKilled kills the shim of a sandbox and starts it again as soon as the
// shim's lock is free, which is before the shim is gone.
func startOnceKilled(t *testing.T, rt *Runtime, id string) {
	t.Helper()
	dir, err := statedir.Open(rt.State)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(dir.Record(id).Processes().Shim().PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	stillRuns := func(err error) bool { return errors.Is(err, runtime.ErrConflict) }
	if err := wait.For(t, "start "+id, func() error { return rt.Start(t.Context(), id) }, func(err error) bool { return !stillRuns(err) }); err != nil {
		t.Fatal(err)
	}
}

// kernelLog returns a function that returns what the kernel has logged since; ""
// for a user who may not read it.
func kernelLog(t *testing.T) func() string {
	t.Helper()
	log, err := os.OpenFile("/dev/kmsg", os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Log("the kernel's log cannot be read:", err)
		return func() string { return "" }
	}
	t.Cleanup(func() { _ = log.Close() })
	fd := int(log.Fd()) // each read is a line
	if _, err := syscall.Seek(fd, 0, io.SeekEnd); err != nil {
		t.Fatal(err)
	}
	return func() string {
		var all strings.Builder
		for line := make([]byte, 8192); ; {
			n, err := syscall.Read(fd, line)
			switch {
			case errors.Is(err, syscall.EPIPE): // lines were lost: the next read goes on behind them
			case err != nil || n == 0:
				return all.String()
			default:
				all.Write(line[:n])
			}
		}
	}
}

// What a sandbox has changed outlives its shim, and goes with the caller that
// it is bound to, however deep it is.
func (im *images) changesGo(t *testing.T) {
	rt := im.backend.Fresh(t)
	img := busybox(t, rt, "x", store.Config{Env: []string{"PATH=/bin"}})
	const deep = "d=/deep; mkdir $d; cd $d; i=0; while [ $i -lt 140 ]; do mkdir directory-with-a-long-name; cd directory-with-a-long-name || exit 1; i=$((i+1)); done; chmod 0 $d; echo x >/kept"
	s := on(t, rt, &runtime.SandboxConfig{ImageID: img.ID})
	says(t, rt, s.ID, deep, "")
	Crash(t, rt, s.ID)
	if err := rt.Start(t.Context(), s.ID); err != nil {
		t.Fatal(err)
	}
	says(t, rt, s.ID, "cat /kept", "x\n")
	if err := rt.Destroy(t.Context(), s.ID); err != nil {
		t.Error(err)
	}

	caller := im.backend.Open(t, rt.State)
	bound, err := caller.Create(t.Context(), &runtime.SandboxConfig{ImageID: img.ID, BoundToCaller: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := caller.Start(t.Context(), bound.ID); err != nil {
		t.Fatal(err)
	}
	says(t, caller, bound.ID, deep, "")
	for range 2 {
		if err := caller.Stop(t.Context(), bound.ID); err != nil {
			t.Fatal(err)
		}
		if err := caller.Start(t.Context(), bound.ID); err != nil {
			t.Fatal(err)
		}
		says(t, caller, bound.ID, "cat /kept", "x\n")
	}
	_ = caller.Close()
	wait.Until(t, "the removal of "+bound.ID, func() bool {
		all, err := rt.List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		_, err = os.Lstat(filepath.Join(rt.State, "sandboxes", bound.ID))
		return len(all) == 0 && errors.Is(err, os.ErrNotExist)
	})
}
