package history

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"wolffia/internal/test/testenv"
	"wolffia/runtime"
)

func add(t *testing.T, state string, e Entry) {
	t.Helper()
	if err := Add(state, e); err != nil {
		t.Error(err)
	}
}

func read(t *testing.T, state string, since time.Time) []Entry {
	t.Helper()
	all, err := Read(state, since)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestHistory(t *testing.T) {
	state, begin := t.TempDir(), time.Now()
	if all := read(t, state, time.Time{}); len(all) != 0 {
		t.Errorf("a missing history has %v", all)
	}
	add(t, state, Entry{Time: begin.Add(-time.Hour), Sandbox: "a", Command: []string{"true"}})
	add(t, state, Entry{Time: begin, Sandbox: "b", ExitCode: 1, Command: []string{"x", strings.Repeat("y", 4000)}})
	f, err := os.OpenFile(filepath.Join(state, "history", "runs"), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = f.WriteString("{\"time\":\n") // torn
	_ = f.Close()
	huge := Entry{Time: begin, Sandbox: "c"}
	for range 10 {
		huge.Denied = append(huge.Denied, runtime.Denial{Path: strings.Repeat("z", 10<<10)})
	}
	add(t, state, huge)
	all := read(t, state, begin)
	if len(all) != 2 || all[0].Sandbox != "b" || len(all[0].Command[1]) > maxCommand+3 || all[1].DeniedMore != 10 {
		t.Errorf("entries since %v: %+v", begin, all)
	}
	st, err := os.Stat(filepath.Join(state, "history", "runs"))
	if err != nil || st.Mode() != 0o600 {
		t.Errorf("runs: %v, %v, want mode 0600", st, err)
	}
	t.Setenv("WOLFFIA_HISTORY", "off")
	add(t, state, Entry{Sandbox: "d"})
	if n := len(read(t, state, time.Time{})); n != 3 {
		t.Errorf("with the history off there are %d entries, want 3", n)
	}
}

// Several processes that write at once, here goroutines, lose no entry but with the older file.
func TestBounded(t *testing.T) {
	state := t.TempDir()
	const writers, each = 8, 60
	var all sync.WaitGroup
	for range writers {
		all.Go(func() {
			for range each {
				add(t, state, Entry{Time: time.Now(), Notes: []string{strings.Repeat("n", 3000)}})
			}
		})
	}
	all.Wait()
	if n := len(read(t, state, time.Time{})); n != writers*each {
		t.Errorf("%d entries, want %d", n, writers*each)
	}
	for range 200 {
		add(t, state, Entry{Time: time.Now(), Notes: []string{strings.Repeat("n", 30000)}})
	}
	var size int64
	for _, name := range []string{"runs", "runs.1"} {
		st, err := os.Stat(filepath.Join(state, "history", name))
		if err != nil {
			t.Fatal(err)
		}
		size += st.Size()
	}
	if size > 2*(maxFile+maxEntry) {
		t.Errorf("the history has %d bytes", size)
	}
}

// A directory that others could use is repaired, and a file that another user has put there gets no
// entry.
func TestOthersHistory(t *testing.T) {
	testenv.Both(t)
	state := t.TempDir()
	dir := filepath.Join(state, "history")
	if err := errors.Join(os.Mkdir(dir, 0o700), os.Chmod(dir, 0o777), os.WriteFile(filepath.Join(dir, "runs"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		if err := os.Chown(filepath.Join(dir, "runs"), 65534, 65534); err != nil {
			t.Fatal(err)
		}
	}
	add(t, state, Entry{Sandbox: "a"})
	if st, err := os.Stat(dir); err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("the directory: %v, %v, want mode 0700", st, err)
	}
	if st, err := os.Stat(filepath.Join(dir, "runs")); err != nil || st.Size() == 0 || !owns(st) {
		t.Errorf("runs: %v, %v, want an own file with an entry", st, err)
	}
}
