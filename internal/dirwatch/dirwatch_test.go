package dirwatch

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// Events that nothing reads are lost at some number, and the reader learns it.
func TestLost(t *testing.T) {
	text, err := os.ReadFile("/proc/sys/fs/inotify/max_queued_events")
	if err != nil {
		t.Fatal(err)
	}
	most, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || most > 1<<17 {
		t.Skipf("the queue of inotify has room for %s events", text)
	}
	dir := t.TempDir()
	w, err := New(dir, false, false)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	names := [2]string{filepath.Join(dir, "a"), filepath.Join(dir, "b")}
	if err := os.WriteFile(names[0], nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for n := range most {
		if err := os.Rename(names[n%2], names[1-n%2]); err != nil {
			t.Fatal(err)
		}
	}
	seen := 0
	for err == nil {
		var events []Event
		events, err = w.Next()
		seen += len(events)
	}
	if !errors.Is(err, ErrLost) || seen < most/2 {
		t.Errorf("%d events, %v", seen, err)
	}
}

func TestRefusals(t *testing.T) {
	file := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var refused Refusal
	if _, err := New(file, false, false); !errors.As(err, &refused) {
		t.Error(err)
	}
	if _, err := New(file+".none", false, false); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}
