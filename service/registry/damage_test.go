package registry_test

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"wolffia/internal/test/suite"
	"wolffia/internal/test/wait"
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
	ok(t, r.Close())
	data, err = os.ReadFile(filepath.Join(dir, "registry.db"))
	ok(t, err)
	return data, all
}

// damaged checks that Open sets a file aside, says so once, and that the registry
// can be filled again.
func damaged(t *testing.T, what string, data []byte, all []registry.Metadata) {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "registry.db")
	ok(t, os.WriteFile(file, data, 0o600))
	ok(t, os.WriteFile(file+".damaged", []byte("an older one"), 0o600))
	log := new(suite.Buffer)
	r, err := registry.Open(dir, slog.New(slog.NewTextHandler(log, nil)))
	ok(t, err)
	defer closeWhole(t, r)
	if strings.Count(log.String(), "is damaged") != 1 || !strings.Contains(log.String(), file) {
		t.Errorf("%s: the log is %s", what, log)
	}
	if listed, err := r.List(); err != nil || len(listed) > 0 {
		t.Errorf("%s: got listed %+v, err %v; want err == nil and len(listed) <= 0", what, listed, err)
	}
	changes, err := r.Reconcile(all)
	ok(t, err)
	if len(changes.Added) != len(all) {
		t.Errorf("%s: rebuilt with %d sandboxes, want %d", what, len(changes.Added), len(all))
	}
	for _, m := range all {
		has(t, r, m)
	}
	if kept, err := os.ReadFile(file + ".damaged"); err != nil || string(kept) != string(data) {
		t.Errorf("%s: the damaged file is not kept: %v", what, err)
	}
}

// written returns a file with the given records.
func written(t *testing.T, version uint64, registered, reserved map[string]string) []byte {
	t.Helper()
	data, err := registry.Encode(version, registered, reserved)
	ok(t, err)
	return data
}

func TestDamagedFiles(t *testing.T) {
	data, all := full(t, 30)
	one := func(id, user string) string {
		return fmt.Sprintf(`{"sandboxId":%q,"containerName":"n","organizationId":"o","projectId":"p","userId":%q,"createdAt":1,"gitConfigured":false}`, id, user)
	}
	none := map[string]string{}
	for what, content := range map[string][]byte{
		"text":                []byte("not a registry\n"),
		"zeros":               make([]byte, len(data)),
		"half":                data[:len(data)/2],
		"a page":              data[:4096],
		"no bucket":           written(t, 2, nil, nil),
		"not JSON":            written(t, 2, map[string]string{"a": "not JSON"}, none),
		"deep":                written(t, 2, map[string]string{"a": strings.Repeat("[", 1<<20)}, none),
		"a list":              written(t, 2, map[string]string{"a": "[]"}, none),
		"another's id":        written(t, 2, map[string]string{"a": one("b", "u")}, none),
		"two of one owner":    written(t, 2, map[string]string{"a": one("a", "u")}, map[string]string{"b": one("b", "u")}),
		"one of two owners":   written(t, 2, map[string]string{"a": one("a", "u")}, map[string]string{"a": one("a", "v")}),
		"an owner in part":    written(t, 2, map[string]string{"a": one("a", "")}, none),
		"a control character": written(t, 2, map[string]string{"a": one("a", "\x1b[2J")}, none),
		"empty":               {},
		"no checksum":         data[:len(data)-32],
		"a byte less":         data[1:],
		"a byte more":         append(slices.Clone(data), 0),
		"circle":              circle(data),
		"summed text":         registry.Summed([]byte("not a registry\n")),
		"summed nothing":      registry.Summed(nil),
	} {
		t.Run(what, func(t *testing.T) { damaged(t, what, content, all) })
	}
}

// circle returns a file in which leaf pages have become branch pages that lead to
// themselves: bbolt, if it saw them, would recurse until the process ends. The
// header of a page is its id, flags (1 is a branch, 2 a leaf), the count of its
// elements and its overflow; an element of a branch has pos, key size and page id.
func circle(data []byte) []byte {
	d := slices.Clone(data)
	const size, branch, leaf = 4096, 1, 2
	for page := 2; page < len(d)/size; page++ {
		p := d[page*size : (page+1)*size]
		if binary.LittleEndian.Uint16(p[8:]) == leaf {
			binary.LittleEndian.PutUint16(p[8:], branch)
			binary.LittleEndian.PutUint16(p[10:], 1)
			binary.LittleEndian.PutUint64(p[24:], uint64(page))
		}
	}
	return d
}

// A file, record by record: later versions must be able to read it.
func TestVersion2(t *testing.T) {
	dir := t.TempDir()
	ok(t, os.WriteFile(filepath.Join(dir, "registry.db"), written(t, 2,
		map[string]string{"a": `{"sandboxId":"a","containerName":"n","organizationId":"o","projectId":"p","userId":"u","createdAt":5,"gitConfigured":true}`},
		map[string]string{"b": `{"sandboxId":"b","containerName":"b","organizationId":"o","projectId":"p","userId":"v","createdAt":6,"gitConfigured":false}`}), 0o600))
	r := open(t, dir)
	has(t, r, registry.Metadata{SandboxID: "a", ContainerName: "n", Owner: registry.Owner{OrganizationID: "o", ProjectID: "p", UserID: "u"}, CreatedAt: 5, GitConfigured: true})
	if all, err := r.Reserved(); err != nil || len(all) != 1 || all[0].SandboxID != "b" {
		t.Errorf("Reserved is %+v, %v", all, err)
	}
}

// A file that a newer wolffia has written is neither read nor set aside.
func TestNewerVersion(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "registry.db")
	content := written(t, 3, map[string]string{}, map[string]string{})
	ok(t, os.WriteFile(file, content, 0o600))
	_, err := registry.Open(dir, quiet)
	wrong(t, "Open", err, runtime.ErrUnavailable)
	if err == nil || !strings.Contains(err.Error(), "newer") {
		t.Errorf("the error is %v", err)
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != string(content) {
		t.Errorf("the file has changed, %v", err)
	}
}

// Whatever bytes of a file are changed, it is known to be damaged: no sandbox is
// found by what it says.
func TestRandomDamage(t *testing.T) {
	data, all := full(t, 30)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	for round := range 100 {
		d := slices.Clone(data)
		for range 1 + rnd.IntN(20) {
			d[rnd.IntN(len(d))] ^= byte(1 + rnd.IntN(255))
		}
		if rnd.IntN(4) == 0 {
			d = d[:rnd.IntN(len(d))]
		}
		if string(d) != string(data) {
			damaged(t, fmt.Sprint("round ", round), d, all)
		}
	}
}

// What is in the place of the file is neither followed, nor waited for, nor
// removed.
func TestOddFiles(t *testing.T) {
	for what, put := range map[string]func(file string) error{
		"link":      func(file string) error { return os.Symlink("/dev/null", file) },
		"FIFO":      func(file string) error { return unix.Mkfifo(file, 0o600) },
		"directory": func(file string) error { return os.Mkdir(file, 0o700) },
	} {
		dir := t.TempDir()
		ok(t, put(filepath.Join(dir, "registry.db")))
		_, err := registry.Open(dir, quiet)
		wrong(t, what, err, runtime.ErrUnavailable)
		if _, err := os.Lstat(filepath.Join(dir, "registry.db")); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// A change that cannot be written is not made, and the next one can be.
func TestWriteThatFails(t *testing.T) {
	dir := t.TempDir()
	r := open(t, dir)
	ok(t, r.Register(box(1, owner(1))))
	ok(t, os.Mkdir(filepath.Join(dir, "registry.db.new"), 0o700))
	wrong(t, "Register", r.Register(box(2, owner(2))), runtime.ErrUnavailable)
	hasNot(t, r, box(2, owner(2)))
	has(t, r, box(1, owner(1)))
	ok(t, os.Remove(filepath.Join(dir, "registry.db.new")))
	ok(t, r.Register(box(2, owner(2))))
	has(t, r, box(2, owner(2)))
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
	r, err := registry.Open(dir, quiet)
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
		err = wait.Receive(t, "the end of what the child writes", read)
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
