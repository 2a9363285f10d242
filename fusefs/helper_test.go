package fusefs

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// requireFuse skips the test, or fails it where that was asked for, if
// mounting cannot work here.
func requireFuse(t *testing.T) {
	t.Helper()
	reason := noFuse()
	if reason == "" {
		return
	}
	for _, must := range strings.Split(os.Getenv("WOLFFIA_REQUIRE"), ",") {
		if must == "fuse" || must == "all" {
			t.Fatal(reason)
		}
	}
	t.Skip(reason)
}

// noFuse returns why no tree can be mounted here, empty if one can.
var noFuse = sync.OnceValue(func() string {
	f, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		return err.Error()
	}
	f.Close()
	cmd := exec.Command("/proc/self/exe", "-test.run=^$")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
	}
	if err := cmd.Run(); err != nil {
		return "no user namespace: " + err.Error()
	}
	return ""
})

// write makes a file with its directories on the host.
func write(t *testing.T, dir, name, content string) {
	t.Helper()
	p := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(p, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// fails reports an error that is not want; want 0 is success.
func fails(t *testing.T, what string, err error, want syscall.Errno) {
	t.Helper()
	got := errnoIn(err)
	if got != want {
		t.Errorf("%s: got %v (%v), want %v", what, got, err, want)
	}
}

func errnoIn(err error) syscall.Errno {
	for e := err; e != nil; {
		if errno, ok := e.(syscall.Errno); ok {
			return errno
		}
		u, ok := e.(interface{ Unwrap() error })
		if !ok {
			return syscall.EIO
		}
		e = u.Unwrap()
	}
	return 0
}
