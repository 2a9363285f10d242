package attacktest

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"wolffia/internal/test/attack"
	"wolffia/internal/test/shimtest"
	"wolffia/internal/test/testbin"
)

// marker is a variable of the caller's environment.
const marker = "WOLFFIA_ATTACK_MARKER"

// A host is what the attacks are made against.
type host struct {
	dir   string // readable by all
	world attack.World
}

func (h *host) path(name string) string { return filepath.Join(h.dir, name) }

// newHost makes files, links, sockets, and memory to be attacked.
func newHost(t *testing.T) *host {
	dir, err := filepath.EvalSymlinks(shimtest.PublicDir(t))
	if err != nil {
		t.Fatal(err)
	}
	h := &host{dir: dir}
	name, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	tag := fmt.Sprintf("attack-%d-%x", os.Getpid(), rand.Uint32())
	h.world = attack.World{Dir: dir, PID: os.Getpid(), Marker: os.Getenv(marker), Tag: tag, Hostname: name, Abstract: tag, Shm: tag}
	binary, err := os.ReadFile(filepath.Join(testbin.Attack(t), "inside"))
	if err != nil {
		t.Fatal(err)
	}
	h.file(t, "bin/inside", string(binary), 0o755)
	h.file(t, "outside/secret", "the host's secret", 0o644)
	h.file(t, "outside/linked", "the host's own", 0o666)
	h.file(t, "other/file", "other", 0o644)
	for _, d := range []string{"code", "code/box"} {
		for _, name := range []string{"file", "inner"} {
			h.file(t, d+"/"+name+".none", "hidden", 0o644)
		}
	}
	for _, name := range []string{"file.read", "file.view", "file.write", "dir.read/file", "dir.none/file", "box/dir.none/file", "moving/inner.none", "swapping/inner.none", "bare/file"} {
		h.file(t, "code/"+name, "content", 0o644)
	}
	h.file(t, "code/exec.none", "#!/bin/sh\n", 0o755)
	h.file(t, "shown/file", "shown", 0o666)
	h.file(t, "sockets/file", "shown", 0o666)
	h.do(t, os.Chmod(h.path("code/file.view"), 0o755))
	h.do(t, os.Link(h.path("outside/linked"), h.path("code/linked")))
	for name, to := range map[string]string{
		"code/link-out": h.path("outside/secret"), "code/link-up": "../outside/secret", "code/link-root": "/", "shown/link-out": h.path("outside/secret"),
	} {
		h.do(t, os.Symlink(to, h.path(name)))
	}
	h.listen(t)
	h.memory(t)
	return h
}

func (h *host) do(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// file makes a file, and its directories, whatever the umask.
func (h *host) file(t testing.TB, name, content string, mode fs.FileMode) {
	t.Helper()
	path := h.path(name)
	h.do(t, os.MkdirAll(filepath.Dir(path), 0o755))
	for d := filepath.Dir(path); len(d) > len(h.dir); d = filepath.Dir(d) {
		h.do(t, os.Chmod(d, 0o755))
	}
	h.do(t, os.WriteFile(path, []byte(content), mode))
	h.do(t, os.Chmod(path, mode))
}

// listen takes connections on the host's loopback and sockets.
func (h *host) listen(t testing.TB) {
	t.Helper()
	for _, a := range [][2]string{
		{"tcp", "127.0.0.1:0"}, {"unix", "@" + h.world.Abstract}, {"unix", h.path("code/host.sock")}, {"unix", h.path("sockets/host.sock")},
	} {
		l, err := net.Listen(a[0], a[1])
		h.do(t, err)
		t.Cleanup(func() { _ = l.Close() })
		if tcp, ok := l.Addr().(*net.TCPAddr); ok {
			h.world.Port = tcp.Port
		} else if filepath.IsAbs(a[1]) {
			h.do(t, os.Chmod(a[1], 0o777))
		}
		go func() { // ends with the listener
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				_ = c.Close()
			}
		}()
	}
}

// memory makes IPC objects of the host.
func (h *host) memory(t testing.TB) {
	t.Helper()
	shm := "/dev/shm/" + h.world.Shm
	h.do(t, os.WriteFile(shm, []byte("shared"), 0o666))
	t.Cleanup(func() { _ = os.Remove(shm) })
	h.world.Key = int(rand.Int32N(1<<30)) + 1
	id, err := unix.SysvShmGet(h.world.Key, 4096, 0o666|unix.IPC_CREAT|unix.IPC_EXCL)
	h.do(t, err)
	t.Cleanup(func() { _, _ = unix.SysvShmCtl(id, unix.IPC_RMID, nil) })
	name := append([]byte(h.world.Shm), 0)
	fd, _, errno := unix.Syscall6(unix.SYS_MQ_OPEN, uintptr(unsafe.Pointer(&name[0])), unix.O_RDWR|unix.O_CREAT|unix.O_CLOEXEC, 0o666, 0, 0, 0)
	if errno != 0 {
		t.Fatal(errno)
	}
	t.Cleanup(func() {
		_ = unix.Close(int(fd))
		_, _, _ = unix.Syscall(unix.SYS_MQ_UNLINK, uintptr(unsafe.Pointer(&name[0])), 0, 0)
	})
}

// protected describes what no attack may change, and all names that none may make.
func (h *host) protected(t testing.TB) string {
	t.Helper()
	var b strings.Builder
	h.do(t, filepath.WalkDir(h.path("code"), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(h.path("code"), path)
		if !strings.Contains(rel, ".none") && !strings.Contains(rel, ".read") && !strings.Contains(rel, ".view") {
			return nil
		}
		// Their parents are the attacker's to move.
		name := filepath.Base(path)
		if parent := filepath.Base(filepath.Dir(path)); strings.Contains(parent, ".") {
			name = parent + "/" + name
		}
		if strings.HasPrefix(name, "inner") {
			return nil
		}
		st, err := d.Info()
		if err != nil {
			return err
		}
		content := ""
		if st.Mode().IsRegular() {
			c, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			content = string(c)
		}
		fmt.Fprintln(&b, name, st.Mode(), st.Sys().(*syscall.Stat_t).Uid, st.ModTime().UnixNano(), content)
		return nil
	}))
	return b.String()
}

// afterwards are what the host sees of attacks that may say more, or less, than is true.
var afterwards = map[string]func(h *host, observation string) string{
	"tree.hardlink": func(h *host, observation string) string {
		switch b, err := os.ReadFile(h.path("outside/linked")); {
		case err != nil || string(b) != "the host's own":
			return "works: " + string(b)
		case observation == "works":
			return "own"
		}
		return observation
	},
	"tree.setuid": func(h *host, observation string) string {
		st, err := os.Lstat(h.path("code/setuid"))
		if err != nil || st.Mode()&(fs.ModeSetuid|fs.ModeSetgid) != 0 {
			return fmt.Sprint("works: ", st, err)
		}
		return observation
	},
	"hidden.fifo": func(h *host, observation string) string {
		if _, err := os.Lstat(h.path("code/fifo.none")); observation == "works" && errors.Is(err, fs.ErrNotExist) {
			return "own"
		}
		return observation
	},
	"readonly.in-fifo": func(h *host, observation string) string {
		if _, err := os.Lstat(h.path("code/dir.read/fifo")); observation == "works" && errors.Is(err, fs.ErrNotExist) {
			return "own"
		}
		return observation
	},
	"host.usr": func(_ *host, observation string) string {
		for _, dir := range []string{"/usr", "/usr/bin", "/usr/local/bin"} {
			if _, err := os.Lstat(dir + "/new-file"); err == nil {
				return "on the host: " + dir
			}
		}
		return observation
	},
	"readonly.chown":  unchanged,
	"readonly.chmod":  unchanged,
	"readonly.fchmod": unchanged,
}

// unchanged is own if an attack is said to have worked, and has not.
func unchanged(h *host, observation string) string {
	st, err := os.Lstat(h.path("code/file.read"))
	if observation == "works" && err == nil && st.Mode().Perm() == 0o644 {
		return "own"
	}
	return observation
}
