package audit

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/internal/test/wait"
	"wolffia/perm"
)

// readAll reads a whole log.
func readAll(t *testing.T, path string) (all []Record, skipped int64) {
	t.Helper()
	r, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for {
		rec, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all, r.Skipped()
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, rec)
	}
}

// count is how many denials records stand for.
func count(all []Record) (n int64) {
	for _, r := range all {
		n += r.Count + r.Dropped
	}
	return n
}

func logPath(t *testing.T) string { return filepath.Join(t.TempDir(), "audit.log") }

// From many goroutines at once, every denial is accounted for, in lines that
// are whole and in the order of their times as far as they have their own.
func TestLog(t *testing.T) {
	path := logPath(t)
	rules, err := perm.Compile([]perm.Rule{{Pattern: "**", Level: perm.View, Source: "test"}})
	if err != nil {
		t.Fatal(err)
	}
	l := NewLog(path, nil)
	var wg sync.WaitGroup
	const each = 500
	for g := range 8 {
		wg.Go(func() {
			for i := range each {
				r := denialOf(fmt.Sprintf("%d/%d", g, i%400))
				r.PID = uint32(os.Getpid())
				l.Add(r, rules)
			}
		})
	}
	wg.Wait()
	l.Close(wait.Limit)
	l.Close(wait.Limit)
	l.Add(denialOf("late"), rules)
	all, skipped := readAll(t, path)
	if skipped != 0 || count(all) != 8*each {
		t.Errorf("%d lines stand for %d denials, %d are damaged", len(all), count(all), skipped)
	}
	comm, err := os.ReadFile("/proc/self/comm")
	if err != nil {
		t.Fatal(err)
	}
	first := all[0]
	if first.Command != strings.TrimSpace(string(comm)) || first.Rule == nil || first.Rule.Source != "test" || first.Remedy == "" {
		t.Errorf(`got first %+v; want first.Command == strings.TrimSpace(string(comm)) and first.Rule != nil and first.Rule.Source == "test" and first.Remedy != ""`,
			first)
	}
	st, err := os.Stat(path)
	if err != nil || st.Mode() != 0o600 {
		t.Errorf("Mode: got %v, %v; want 0o600, nil", st.Mode(), err)
	}
}

// The count of repeats is written at the end of the window, without another denial.
func TestRepeatsAreToldInTime(t *testing.T) {
	path := logPath(t)
	synctest.Test(t, func(t *testing.T) {
		l := NewLog(path, nil)
		for range 5 {
			l.Add(denialOf("x"), nil)
		}
		time.Sleep(2 * window) // of the bubble's clock
		synctest.Wait()
		all, _ := readAll(t, path)
		if len(all) != 2 || all[0].Count != 1 || all[1].Count != 4 {
			t.Errorf("readAll: got all %+v; want len(all) == 2 and all[0].Count == 1 and all[1].Count == 4", all)
		}
		l.Close(wait.Limit)
	})
}

// Added records are in the file after a Flush, and after Close no write is left to wait for.
func TestFlush(t *testing.T) {
	path := logPath(t)
	l := NewLog(path, nil)
	const rounds, each = 50, 4
	for i := range rounds {
		for j := range each {
			l.Add(denialOf(fmt.Sprint(i, j)), nil)
		}
		l.Flush(wait.Limit)
		if all, _ := readAll(t, path); len(all) != each*(i+1) {
			t.Fatalf("%d lines of %d", len(all), each*(i+1))
		}
	}
	l.Close(wait.Limit)
	l.Flush(wait.Limit)
}

// Neither file is longer than it may be; what is left is the newest, whole.
func TestRotation(t *testing.T) {
	path := logPath(t)
	w := file{path: path, max: 1000}
	line := append((&Record{Time: noon, Dropped: 1}).Append(nil), '\n')
	n := 3 * 1000 / len(line)
	for i := range n {
		r := Record{Time: noon, Dropped: int64(100 + i)}
		if err := w.write(append(r.Append(nil), '\n')); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.close(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{path, old(path)} {
		st, err := os.Stat(name)
		if err != nil || st.Size() > 1000 || st.Size() == 0 {
			t.Errorf("%s: got st %v, err %v; want err == nil and st.Size() <= 1000 and st.Size() != 0", name, st, err)
		}
	}
	all, skipped := readAll(t, path)
	if skipped != 0 || len(all) < 1000/len(line) {
		t.Errorf("%d lines, %d damaged", len(all), skipped)
	}
	for i, r := range all {
		if want := int64(100 + n - len(all) + i); r.Dropped != want {
			t.Fatalf("line %d is %d, want %d", i, r.Dropped, want)
		}
	}
}

// A log continues where it ended, also in the middle of a line.
func TestLogGoesOn(t *testing.T) {
	path := logPath(t)
	for i, torn := range []string{"", `{"time":"2026-`, "\x00\x00"} {
		if f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600); err != nil {
			t.Fatal(err)
		} else if _, err := f.WriteString(torn); err != nil || f.Close() != nil {
			t.Fatal(err)
		}
		l := NewLog(path, nil)
		l.Add(denialOf("x"), nil)
		l.Close(wait.Limit)
		all, skipped := readAll(t, path)
		if len(all) != i+1 || skipped != int64(i) {
			t.Errorf("%d lines, %d damaged after %d starts", len(all), skipped, i+1)
		}
	}
}

// What a sandbox that has broken out puts in the log's place is neither
// followed nor waited for, by writer and reader.
func TestLogInTheWay(t *testing.T) {
	for name, put := range map[string]func(path, other string) error{
		"link":      func(path, other string) error { return os.Symlink(other, path) },
		"hard link": func(path, other string) error { return os.Link(other, path) },
		"FIFO":      func(path, _ string) error { return unix.Mkfifo(path, 0o600) },
		"directory": func(path, _ string) error { return os.Mkdir(path, 0o700) },
		"device":    func(path, _ string) error { return os.Symlink("/dev/zero", path) },
		"huge": func(path, other string) error {
			return errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, 1<<40))
		},
	} {
		for _, part := range []string{"", ".1"} {
			t.Run(name+part, func(t *testing.T) {
				path := logPath(t)
				other := path + ".other"
				if err := os.WriteFile(other, []byte("precious\n"), 0o600); err != nil {
					t.Fatal(err)
				}
				if err := put(path+part, other); err != nil {
					t.Fatal(err)
				}
				if r, err := Open(path); err == nil {
					t.Error("it was opened")
					_ = r.Close()
				}
				var said bytes.Buffer
				l := NewLog(path, slog.New(slog.NewTextHandler(&said, nil)))
				l.Add(denialOf("x"), nil)
				l.Close(wait.Limit)
				if part == "" && !strings.Contains(said.String(), "cannot be written") {
					t.Errorf("nothing was said: %q", said.String())
				}
				if got, err := os.ReadFile(other); err != nil || string(got) != "precious\n" {
					t.Errorf("os.ReadFile: got %q, %v; want %q, nil", got, err, "precious\n")
				}
			})
		}
	}
}

// While the disk does not answer, Add does not wait, and counts what does not fit into the queue.
func TestAddDoesNotWait(t *testing.T) {
	path := logPath(t)
	const room, n = 2, 10
	l := &Log{
		file: file{path: path, max: MaxSize}, logger: slog.New(slog.DiscardHandler),
		queue: make(chan *entry, room), wake: make(chan struct{}, 1), done: make(chan struct{}),
	}
	for i := range n {
		l.Add(denialOf(fmt.Sprint(i)), nil)
		l.Add(denialOf(fmt.Sprint(i)), nil)
	}
	go l.run() // it answers again
	l.Close(wait.Limit)
	all, _ := readAll(t, path)
	if len(all) < room || all[0].Path != "0" || all[1].Path != "1" || count(all) != 2*n {
		t.Errorf("%d denials in %+v", count(all), all)
	}
	var dropped int64
	for _, r := range all {
		dropped += r.Dropped
	}
	if dropped != n-room {
		t.Errorf("%d are dropped, want %d: %+v", dropped, n-room, all)
	}
}

// Denials that could not be written are counted; the count is written when possible.
func TestWhatCannotBeWritten(t *testing.T) {
	path := logPath(t)
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		l := NewLog(path, nil)
		for i := range 10 {
			l.Add(denialOf(fmt.Sprint(i)), nil)
			l.Add(denialOf(fmt.Sprint(i)), nil)
		}
		synctest.Wait()
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		l.Close(wait.Limit)
	})
	if all, _ := readAll(t, path); count(all) != 20 {
		t.Errorf("readAll: got all %+v; want count(all) == 20", all)
	}
}

// Invalid lines are skipped and counted.
func TestGarbage(t *testing.T) {
	good := string((&Record{Time: noon, Dropped: 1}).Append(nil)) + "\n"
	for name, tt := range map[string]struct {
		text    string
		records int
		skipped int64
	}{
		"empty":        {"", 0, 0},
		"empty lines":  {"\n\n" + good + "\n", 1, 0},
		"no JSON":      {"x\n" + good + "{\n", 1, 2},
		"other JSON":   {"[]\n1\nnull\n{}\n" + `{"time":"2026-03-01T12:00:00Z","op":"x","errno":"E","count":-1}` + "\n" + good, 1, 5},
		"no end":       {good + strings.TrimSuffix(good, "\n"), 1, 0},
		"too long":     {strings.Repeat("x", 3*maxLine) + "\n" + good, 1, 1},
		"zeros":        {strings.Repeat("\x00", maxLine) + "\n" + good, 1, 1},
		"long, no end": {good + strings.Repeat("x", 3*maxLine), 1, 0},
		"bad level":    {`{"time":"2026-03-01T12:00:00Z","op":"x","errno":"E","count":1,"level":"all","need":"read"}` + "\n", 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			path := logPath(t)
			if err := os.WriteFile(path, []byte(tt.text), 0o600); err != nil {
				t.Fatal(err)
			}
			all, skipped := readAll(t, path)
			if len(all) != tt.records || skipped != tt.skipped {
				t.Errorf("%d records and %d lines skipped, want %d and %d", len(all), skipped, tt.records, tt.skipped)
			}
			// As the older part its last line will not get an end.
			if err := os.Rename(path, old(path)); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(good), 0o600); err != nil {
				t.Fatal(err)
			}
			if all, _ := readAll(t, path); len(all) != tt.records+1 {
				t.Errorf("%d records in both parts", len(all))
			}
		})
	}
}

// A Reader survives whatever a file holds.
func FuzzReader(f *testing.F) {
	f.Add([]byte("x\n\n"), []byte("{}\n"))
	f.Add((&Record{Time: noon, Dropped: 1}).Append(nil), append((&Record{Time: noon, Dropped: 1}).Append(nil), '\n'))
	f.Fuzz(func(t *testing.T, older, newer []byte) {
		path := logPath(t)
		if err := errors.Join(os.WriteFile(old(path), older, 0o600), os.WriteFile(path, newer, 0o600)); err != nil {
			t.Fatal(err)
		}
		all, skipped := readAll(t, path)
		lines := bytes.Count(older, []byte("\n")) + bytes.Count(newer, []byte("\n")) + 1
		if len(all)+int(skipped) > lines {
			t.Errorf("%d records and %d skipped in %d lines", len(all), skipped, lines)
		}
	})
}
