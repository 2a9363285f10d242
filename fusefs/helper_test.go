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

// wantErrno checks that err, which op returned, has the errno want; 0 is success.
func wantErrno(t *testing.T, op string, err error, want syscall.Errno) {
	t.Helper()
	if got := errnoIn(err); got != want {
		t.Errorf("%s: got %v (%v), want %v", op, got, err, want)
	}
}

// ok checks that op returned no error.
func ok(t *testing.T, op string, err error) {
	t.Helper()
	if err != nil {
		t.Errorf("%s: got %v, want success", op, err)
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
