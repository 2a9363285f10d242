package fusefs

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

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
