package audit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"wolffia/internal/test/wait"
)

func refusalOf(name string) Record {
	return Record{
		Time: noon, Op: "connect", Host: &Host{Name: name, Port: 443, Reason: "no rule allows it"}, Remedy: "--allow-host " + name + ":443",
		PID: 7, Command: "curl",
	}
}

// A refusal of the network is a line of its own form, and text that says what allows it.
func TestRefusal(t *testing.T) {
	path := logPath(t)
	l := NewLog(path, nil)
	for range 3 {
		l.Add(refusalOf("a.example"), nil)
	}
	long := refusalOf(strings.Repeat("x", 5000))
	l.Add(long, nil)
	l.Close(wait.Limit)
	all, skipped := readAll(t, path)
	if len(all) != 3 || skipped != 0 || count(all) != 4 {
		t.Fatalf("%d skipped of %+v", skipped, all)
	}
	if got := all[0].Text(time.UTC, "wolffia network allow box "); !strings.Contains(got, "connect   a.example:443             no rule allows it; to allow it: wolffia network allow box --allow-host a.example:443 (curl, pid 7)") {
		t.Errorf(`Text "wolffia network allow box ": got %s; want got contains %q`,
			got, "connect   a.example:443             no rule allows it; to allow it: wolffia network allow box --allow-host a.example:443 (curl, pid 7)")
	}
	if n := len(all[1].Host.Name); n != maxHost {
		t.Errorf("a name of %d bytes", n)
	}
	if line := string(all[0].Append(nil)); strings.Contains(line, "path") || strings.Contains(line, "level") {
		t.Errorf("Append: got line %s; want line does not contain path and line does not contain level", line)
	}
}

// Two logs are read in the order of time, and followed until the sandbox has ended.
func TestLogs(t *testing.T) {
	dir := t.TempDir()
	files, network, alive := filepath.Join(dir, "files"), filepath.Join(dir, "network"), filepath.Join(dir, "alive")
	if err := os.WriteFile(alive, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	logs := []*Log{NewLog(files, nil), NewLog(network, nil)}
	for n := range 3 {
		for i, l := range logs {
			r := denialOf(fmt.Sprint(2*n + i))
			if i == 1 {
				r = refusalOf(fmt.Sprint(2*n + i))
				r.Time = time.Now()
			}
			l.Add(r, nil)
		}
	}
	for _, l := range logs {
		l.Close(wait.Limit)
	}
	name := func(r Record) string {
		if r.Host != nil {
			return r.Host.Name
		}
		return r.Path
	}
	both, err := OpenAll(files, network, filepath.Join(dir, "missing"))
	if err != nil {
		t.Fatal(err)
	}
	defer both.Close()
	var got []string
	for {
		r, err := both.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, name(r))
	}
	if want := "0 1 2 3 4 5"; strings.Join(got, " ") != want {
		t.Errorf("%q, want %s", got, want)
	}

	followed, err := OpenAll(files, network)
	if err != nil {
		t.Fatal(err)
	}
	defer followed.Close()
	ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
	defer cancel()
	seen := 0
	if err := followed.Follow(ctx, alive, func(r Record) error {
		switch seen++; seen {
		case 6:
			l := NewLog(network, nil)
			l.Add(refusalOf("late"), nil)
			l.Close(wait.Limit)
		case 7:
			if name(r) != "late" {
				t.Errorf(`got r %+v; want name(r) == "late"`, r)
			}
			return os.Remove(alive)
		}
		return nil
	}); err != nil || seen != 7 {
		t.Errorf("%v after %d records", err, seen)
	}
	wrong := errors.New("wrong")
	again, err := OpenAll(files, network)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if err := again.Follow(ctx, dir, func(Record) error { return wrong }); !errors.Is(err, wrong) {
		t.Errorf("Follow: got %v, want %v", err, wrong)
	}
}
