package filelock

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// However many wait for a lock, and give up, one thread goes on waiting, and what is
// free is seen by all.
func TestFree(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	open := func() (*os.File, error) { return os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600) }
	if err := WaitFree(t.Context(), open, 2); err != nil {
		t.Fatal(err)
	}
	holder, err := open()
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Close()
	if err := Set(holder, unix.F_OFD_SETLK, unix.F_WRLCK, 1, 1); err != nil {
		t.Fatal(err)
	}
	if err := WaitFree(t.Context(), open, 1); err != nil {
		t.Errorf("another part: %v", err)
	}
	late := errors.New("late")
	before := runtime.NumGoroutine()
	for range 100 {
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Millisecond, late)
		if err := WaitFree(ctx, open, 2); !errors.Is(err, late) {
			t.Fatalf("%v, want %v", err, late)
		}
		cancel()
	}
	if after := runtime.NumGoroutine(); after > before+50 { // the last may not have ended yet
		t.Errorf("%d goroutines, then %d", before, after)
	}
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if err := WaitFree(ctx, open, 2); err != nil {
				t.Error(err)
			}
		})
	}
	if err := Set(holder, unix.F_OFD_SETLK, unix.F_UNLCK, 1, 1); err != nil {
		t.Fatal(err)
	}
	all.Wait()
	_, err = os.Stat(path + "x")
	if err := WaitFree(t.Context(), func() (*os.File, error) { return nil, err }, 2); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what is gone: %v", err)
	}
}
