package statedir

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"wolffia/runtime"
)

// The size of a sandbox is counted as far as its limits allow, and never that of what a link leads to.
func TestDiskUsage(t *testing.T) {
	d, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	rec := d.Record("aaaaaaaaaaaa")
	if _, _, err := rec.DiskUsage(t.Context()); !errors.Is(err, runtime.ErrNotFound) {
		t.Errorf("no sandbox: got %v", err)
	}
	outside := filepath.Join(t.TempDir(), "large")
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	ok(os.WriteFile(outside, make([]byte, 8<<20), 0o600))
	home := filepath.Join(rec.path, "home")
	ok(os.MkdirAll(home, 0o700))
	ok(os.WriteFile(filepath.Join(home, "file"), make([]byte, 1<<20), 0o600))
	ok(os.Symlink(outside, filepath.Join(home, "link")))
	ok(os.Symlink(filepath.Dir(outside), filepath.Join(home, "directory")))
	got, all, err := rec.DiskUsage(t.Context())
	if got < 1<<20 || got > 2<<20 || !all || err != nil {
		t.Errorf("got %d, %v, %v; want about 1 MiB, all of it", got, all, err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if got, all, err := rec.DiskUsage(ended); all || err != nil {
		t.Errorf("no time: got %d, %v, %v; want not all", got, all, err)
	}
	ok(os.MkdirAll(filepath.Join(home, strings.Repeat("d/", deepest+10)), 0o700))
	if deep, all, err := rec.DiskUsage(t.Context()); deep < got || all || err != nil {
		t.Errorf("too deep: got %d, %v, %v; want %d and more, not all", deep, all, err, got)
	}
}
