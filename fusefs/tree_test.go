package fusefs

import (
	"context"
	"errors"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// lookup asks tr as the kernel would. A negative entry is ENOENT.
func lookup(tr *tree, dir uint64, name string, out *fuse.EntryOut) syscall.Errno {
	if out == nil {
		out = &fuse.EntryOut{}
	}
	s := tr.Lookup(nil, &fuse.InHeader{NodeId: dir}, name, out)
	if s == fuse.OK && out.NodeId == 0 {
		return syscall.ENOENT
	}
	return syscall.Errno(s)
}

// For a descriptor that is not mounted, or a silent kernel, Serve returns an error and does not
// hang.
func TestServeDoesNotHang(t *testing.T) {
	root, err := os.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	opts := &Options{Root: int(root.Fd()), Rules: newFakeRules(nil)}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if _, err := Serve(ctx, r, opts); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a silent descriptor: %v, want the deadline", err)
	}
	if dev, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0); err == nil {
		if _, err := Serve(t.Context(), dev, opts); err == nil {
			t.Error("a descriptor of no mount is served")
		}
	}
	if _, err := Serve(t.Context(), root, &Options{Root: int(root.Fd())}); err == nil {
		t.Error("a tree without rules is served")
	}
}
