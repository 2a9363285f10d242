package registry_test

import (
	"bufio"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/runtime"
	"wolffia/service/registry"
)

// full fills a registry and returns its file and its sandboxes.
func full(t *testing.T, n int) (data []byte, all []registry.Metadata) {
	t.Helper()
	dir := t.TempDir()
	r := open(t, dir)
	for i := range n {
		all = append(all, box(i, owner(i)))
	}
	_, err := r.Reconcile(all)
	ok(t, err)
	for i := 0; i < n; i += 10 { // so that there are free pages
		ok(t, r.Unregister(all[i].SandboxID))
		ok(t, r.Register(all[i]))
	}
	ok(t, r.Close())
	data, err = os.ReadFile(filepath.Join(dir, "registry.db"))
	ok(t, err)
	return data, all
}

// damaged checks that a file is found to be damaged, and can be made anew.
func damaged(t *testing.T, what string, data []byte, all []registry.Metadata) {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "registry.db")
	ok(t, os.WriteFile(file, data, 0o600))
	_, err := registry.Open(dir)
	wrong(t, what, err, registry.ErrDamaged)
	wrong(t, what, err, runtime.ErrUnavailable)
	if err != nil && (!strings.Contains(err.Error(), file) || !strings.Contains(err.Error(), "state directory")) {
		t.Errorf("%s: the error does not say which file, or what to do: %v", what, err)
	}
	r, changes, err := registry.Rebuild(dir, all)
	ok(t, err)
	defer closeWhole(t, r)
	if len(changes.Added) != len(all) {
		t.Errorf("%s: rebuilt with %d sandboxes, want %d", what, len(changes.Added), len(all))
	}
	for _, m := range all {
		has(t, r, m)
	}
	if old, err := os.ReadFile(file + ".old"); err != nil || string(old) != string(data) {
		t.Errorf("%s: the damaged file is not kept: %v", what, err)
	}
}

func TestDamagedFiles(t *testing.T) {
	data, all := full(t, 30)
	page := os.Getpagesize()
	for what, change := range map[string]func(d []byte) []byte{
		"text":                func([]byte) []byte { return []byte("not a database\n") },
		"zeros":               func(d []byte) []byte { return make([]byte, len(d)) },
		"one page":            func(d []byte) []byte { return d[:page] },
		"the first pages":     func(d []byte) []byte { return d[:2*page] },
		"half":                func(d []byte) []byte { return d[:len(d)/2/page*page] },
		"no page but the two": func(d []byte) []byte { clear(d[2*page:]); return d },
		"both headers": func(d []byte) []byte {
			d[40] ^= 1
			d[page+40] ^= 1
			return d
		},
		"garbage": func(d []byte) []byte {
			for i := 2 * page; i < len(d); i++ {
				d[i] = 0xff
			}
			return d
		},
	} {
		t.Run(what, func(t *testing.T) { damaged(t, what, change(append([]byte(nil), data...)), all) })
	}
}

// Whatever bytes are changed: the file is found to be damaged, or it says of
// sandboxes and owners only what is whole. It never takes the service with it.
func TestRandomDamage(t *testing.T) {
	data, all := full(t, 30)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	dir := t.TempDir()
	file := filepath.Join(dir, "registry.db")
	found := 0
	for round := range 400 {
		d := append([]byte(nil), data...)
		for range 1 + rnd.IntN(20) {
			at := rnd.IntN(len(d))
			if rnd.IntN(2) == 0 { // the headers of pages have most to say
				at = at/os.Getpagesize()*os.Getpagesize() + rnd.IntN(32)
			}
			d[at] = byte(rnd.Uint32())
		}
		if rnd.IntN(4) == 0 {
			d = d[:rnd.IntN(len(d))+1]
		}
		ok(t, os.WriteFile(file, d, 0o600))
		r, err := registry.Open(dir)
		if err != nil {
			wrong(t, "Open", err, runtime.ErrUnavailable)
			if errors.Is(err, registry.ErrInUse) {
				t.Fatalf("round %d: the file that was opened before is still locked", round)
			}
			found++
			continue
		}
		listed, err := r.List()
		if err == nil {
			for _, m := range listed {
				if m.Validate() != nil {
					t.Errorf("round %d: partial metadata: %+v", round, m)
				}
			}
			for _, m := range all {
				if got, err := r.FindByOwner(m.Owner); err == nil && got.Owner != m.Owner {
					t.Errorf("round %d: owner %+v is given %+v", round, m.Owner, got)
				}
			}
			_, err = r.Reconcile(all)
		}
		if err != nil {
			wrong(t, "an operation", err, runtime.ErrUnavailable)
		}
		_ = r.Close()
	}
	if found < 50 {
		t.Errorf("damage was found in %d files only", found)
	}
}

func TestRebuildWithoutAFile(t *testing.T) {
	dir := t.TempDir()
	r, changes, err := registry.Rebuild(dir, []registry.Metadata{box(1, owner(1))})
	ok(t, err)
	defer closeWhole(t, r)
	has(t, r, box(1, owner(1)))
	if len(changes.Added) != 1 {
		t.Errorf("%+v", changes)
	}
}

// What is in the place of the file is not followed, not waited for, and not
// called damaged if it is nothing of ours.
func TestOddFiles(t *testing.T) {
	for what, put := range map[string]func(file string) error{
		"link":      func(file string) error { return os.Symlink("/dev/null", file) },
		"FIFO":      func(file string) error { return unix.Mkfifo(file, 0o600) },
		"directory": func(file string) error { return os.Mkdir(file, 0o700) },
	} {
		dir := t.TempDir()
		ok(t, put(filepath.Join(dir, "registry.db")))
		_, err := registry.Open(dir)
		wrong(t, what, err, runtime.ErrUnavailable)
	}
}

const crashDir = "WOLFFIA_TEST_CRASH_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(crashDir); dir != "" {
		writeUntilKilled(dir)
	}
	os.Exit(m.Run())
}

// writeUntilKilled changes a registry as fast as it can, and says what it is
// about to do and what was acknowledged.
func writeUntilKilled(dir string) {
	r, err := registry.Open(dir)
	for n := 0; err == nil; n++ {
		fmt.Printf("begin %d\n", n)
		if n%3 == 2 {
			err = r.Unregister(box(n-1, owner(0)).SandboxID)
		} else {
			err = r.Register(box(n, owner(n)))
		}
		if err == nil {
			fmt.Printf("done %d\n", n)
		}
	}
	fmt.Println(err)
	os.Exit(1)
}

// A process that is killed at any moment has done all that it acknowledged, and
// of what it was about to do all or nothing.
func TestKilledWriter(t *testing.T) {
	for round := range 12 {
		dir := t.TempDir()
		out, in, err := os.Pipe()
		ok(t, err)
		child := &exec.Cmd{Path: "/proc/self/exe", Args: os.Args[:1], Env: append(os.Environ(), crashDir+"="+dir), Stdout: in, Stderr: in}
		ok(t, child.Start())
		ok(t, in.Close())
		lines := bufio.NewScanner(out)
		begun, done := -1, -1
		kill := 3 + 4*round
		read := make(chan error, 1)
		go func() { // ends with the child
			for lines.Scan() {
				if n := 0; sscan(lines.Text(), "begin %d", &n) {
					begun = n
				} else if sscan(lines.Text(), "done %d", &n) {
					done = n
				} else {
					read <- errors.New(lines.Text())
					return
				}
				if begun == kill {
					_ = child.Process.Kill()
				}
			}
			read <- lines.Err()
		}()
		select {
		case err = <-read:
		case <-time.After(time.Minute):
			err = errors.New("the child hangs")
		}
		_ = child.Process.Kill()
		_ = child.Wait()
		_ = out.Close()
		ok(t, err)
		if begun < kill {
			t.Fatalf("it has begun %d only", begun)
		}
		r := open(t, dir) // its lock went with it
		ok(t, r.Check())
		for n := 0; n <= begun; n++ {
			if n%3 == 2 {
				continue
			}
			registered := true
			if n%3 == 1 && done >= n+1 {
				registered = false
			}
			_, err := r.GetMetadata(box(n, owner(n)).SandboxID)
			switch {
			case n == begun && done < n, n%3 == 1 && begun == n+1 && done < n+1:
				// About to be done: either way.
			case (err == nil) != registered:
				t.Errorf("killed at %d, acknowledged %d: sandbox %d: %v", begun, done, n, err)
			}
		}
		ok(t, r.Close())
	}
}

func sscan(line, format string, n *int) bool {
	got, err := fmt.Sscanf(line, format, n)
	return err == nil && got == 1
}
