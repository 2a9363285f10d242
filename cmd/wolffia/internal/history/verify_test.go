package history

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

func verify(t *testing.T, state, head string) *Report {
	t.Helper()
	r, err := Verify(state, head)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// lines returns the lines of a file of the log.
func lines(t *testing.T, state, name string) [][]byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(state, "history", name))
	if err != nil {
		t.Fatal(err)
	}
	return slices.Collect(bytes.Lines(text))
}

// The first line that was changed, added, moved or taken out is named, in the file that has it, also
// across files; and what was cut off at the end is only seen by an older head.
func TestVerify(t *testing.T) {
	state := t.TempDir()
	if r := verify(t, state, ""); !r.OK || r.Lines != 0 || r.Head != "" {
		t.Errorf("no log: %+v", r)
	}
	for i := range 100 {
		e := Entry{Time: time.Now(), Sandbox: fmt.Sprint(i), Notes: []string{strings.Repeat("n", 30000)}}
		if i%3 == 0 {
			e.Kind, e.Changes, e.Paths = KindApply, 2, []string{"a", "b\xff"}
		}
		add(t, state, e)
	}
	good := verify(t, state, "")
	if !good.OK || good.Lines != 100 || good.First != 1 || good.Last != 100 || good.Torn+good.Unchained != 0 {
		t.Fatalf("an untouched log: %+v", good)
	}
	if _, err := os.Stat(filepath.Join(state, "history", "runs.2")); err != nil {
		t.Fatalf("the log has too few files for the test: %v", err)
	}
	if r := verify(t, state, good.Head); !r.OK {
		t.Errorf("with its head: %+v", r)
	}
	r := rand.New(rand.NewPCG(1, 2))
	for what, tamper := range map[string]func(all [][]byte, at int) [][]byte{
		"changed": func(all [][]byte, at int) [][]byte {
			return slices.Replace(all, at, at+1, bytes.Replace(all[at], []byte("nnn"), []byte("mnn"), 1))
		},
		"taken out": func(all [][]byte, at int) [][]byte { return slices.Delete(all, at, at+1) },
		"added": func(all [][]byte, at int) [][]byte {
			return slices.Insert(all, at, []byte("{\"seq\":1,\"sandbox\":\"x\",\"prev\":\"0\"}\n"))
		},
		"of old":  func(all [][]byte, at int) [][]byte { return slices.Insert(all, at, []byte("{\"sandbox\":\"x\"}\n")) },
		"no JSON": func(all [][]byte, at int) [][]byte { return slices.Insert(all, at, []byte("x\n")) },
		"doubled": func(all [][]byte, at int) [][]byte { return slices.Insert(all, at, all[at]) },
		"moved":   func(all [][]byte, at int) [][]byte { all[at], all[at+1] = all[at+1], all[at]; return all },
	} {
		for range 5 {
			name := []string{"runs.1", "runs.2"}[r.IntN(2)]
			all := lines(t, state, name)
			before := bytes.Join(all, nil)
			at := 1 + r.IntN(len(all)-3)
			path := filepath.Join(state, "history", name)
			if err := os.WriteFile(path, bytes.Join(tamper(slices.Clone(all), at), nil), 0o600); err != nil {
				t.Fatal(err)
			}
			got := verify(t, state, "")
			if got.OK || got.Broken == nil || got.Broken.File != name || got.Broken.Line < at+1 || got.Broken.Line > at+2 {
				t.Errorf("line %d of %s %s: got %+v, %+v", at+1, name, what, got, got.Broken)
			}
			if err := os.WriteFile(path, before, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := os.Rename(filepath.Join(state, "history", "runs.1"), filepath.Join(state, "away")); err != nil {
		t.Fatal(err)
	}
	if got := verify(t, state, ""); got.OK {
		t.Errorf("without a file: %+v", got)
	}
	if err := os.Rename(filepath.Join(state, "away"), filepath.Join(state, "history", "runs.1")); err != nil {
		t.Fatal(err)
	}
	newest := lines(t, state, "runs")
	if err := os.WriteFile(filepath.Join(state, "history", "runs"), bytes.Join(newest[:len(newest)-1], nil), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := verify(t, state, ""); !got.OK || got.Lines != 99 {
		t.Errorf("a log whose end was cut off: %+v", got)
	}
	if got := verify(t, state, good.Head); got.OK {
		t.Errorf("a log whose end was cut off, with its head: %+v", got)
	}
}

// The oldest file goes when there are too many, and the rest is a chain.
func TestOldestFileGoes(t *testing.T) {
	state := t.TempDir()
	const n = 20 * (maxFiles + 3) // a file has 18 or 19
	for range n {
		add(t, state, Entry{Notes: []string{strings.Repeat("n", 60000)}})
	}
	r := verify(t, state, "")
	if !r.OK || r.First == 1 || r.Last != n {
		t.Errorf("got %+v", r)
	}
	if all, err := os.ReadDir(filepath.Join(state, "history")); err != nil || len(all) != maxFiles {
		t.Errorf("there are %d files, %v", len(all), err)
	}
}

// A log of an older version goes on as a chain.
func TestOlderLog(t *testing.T) {
	state := t.TempDir()
	dir := filepath.Join(state, "history")
	old := `{"time":"2026-01-02T03:04:05Z","durationNs":5,"dir":"/","sandbox":"a","exitCode":1}` + "\n"
	if err := errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(filepath.Join(dir, "runs"), []byte(old+old), 0o600)); err != nil {
		t.Fatal(err)
	}
	add(t, state, Entry{Sandbox: "b"})
	if r := verify(t, state, ""); !r.OK || r.Unchained != 2 || r.First != 1 || r.Last != 1 {
		t.Errorf("got %+v, %+v", r, r.Broken)
	}
	changed := strings.Replace(old, `"a"`, `"c"`, 1)
	all := lines(t, state, "runs")
	all[1] = []byte(changed)
	if err := os.WriteFile(filepath.Join(dir, "runs"), bytes.Join(all, nil), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := verify(t, state, ""); r.OK { // the first entry of the chain names it
		t.Errorf("the last old line was changed: %+v", r)
	}
}

const writerState = "WOLFFIA_TEST_HISTORY_WRITER"

func TestMain(m *testing.M) {
	if state := os.Getenv(writerState); state != "" {
		for i := 0; ; i++ { // until it is killed
			if err := Add(state, Entry{Sandbox: strconv.Itoa(os.Getpid()), Notes: []string{strings.Repeat("n", 50000*(i%2))}}); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
		}
	}
	os.Exit(m.Run())
}

// Writers that are killed at any moment break no chain, and lose no line that was written.
func TestKilledWriters(t *testing.T) {
	state := t.TempDir()
	add(t, state, Entry{Sandbox: "first"})
	var all sync.WaitGroup
	for worker := range 3 {
		all.Go(func() {
			r := rand.New(rand.NewPCG(uint64(worker), 9))
			for range 8 {
				cmd := exec.CommandContext(t.Context(), os.Args[0])
				cmd.Env = append(os.Environ(), writerState+"="+state)
				if err := cmd.Start(); err != nil {
					t.Error(err)
					return
				}
				time.Sleep(time.Duration(20+r.IntN(60)) * time.Millisecond) // when it is killed
				_ = cmd.Process.Kill()
				_ = cmd.Wait()
				if r, err := Verify(state, ""); err != nil || !r.OK {
					t.Errorf("after a kill: %+v, %+v, %v", r, r.Broken, err)
				}
			}
		})
	}
	all.Wait()
	// A writer that is killed within its write leaves a part of a line.
	f, err := os.OpenFile(filepath.Join(state, "history", "runs"), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteString(`{"seq":12,"prev":"ab`)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	last := verify(t, state, "")
	add(t, state, Entry{Sandbox: "last"})
	r := verify(t, state, "")
	if !last.OK || !r.OK || r.Torn != last.Torn+1 || r.Last != last.Last+1 {
		t.Errorf("before %+v, after %+v, %+v", last, r, r.Broken)
	}
}
