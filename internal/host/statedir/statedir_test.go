package statedir_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"wolffia/internal/host/statedir"
	"wolffia/internal/sys/filelock"
	"wolffia/perm"
	"wolffia/runtime"
)

const id = "abcdefghijkl"

func open(t *testing.T) *statedir.Dir {
	t.Helper()
	d, err := statedir.Open(filepath.Join(t.TempDir(), "state"))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func create(t *testing.T, d *statedir.Dir, id, name string) *statedir.Record {
	t.Helper()
	c := &statedir.Config{CreatedAt: 1}
	c.ID, c.Name, c.Labels = id, name, map[string]string{"a": "b"}
	rec, _, err := d.Create(statedir.Draft{Config: c}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

func TestCreateAndRemove(t *testing.T) {
	d := open(t)
	rec := create(t, d, id, "name")
	c, err := rec.Config()
	if err != nil || c.ID != id || c.Labels["a"] != "b" {
		t.Errorf(`Config: got c %+v, err %v; want err == nil and c.ID == id and c.Labels["a"] == "b"`, c, err)
	}
	for what, c := range map[string]*statedir.Config{
		"id":   {SandboxConfig: runtime.SandboxConfig{ID: id}},
		"name": {SandboxConfig: runtime.SandboxConfig{ID: "bbbbbbbbbbbb", Name: "name"}},
	} {
		if _, _, err := d.Create(statedir.Draft{Config: c}, nil); !errors.Is(err, runtime.ErrExists) {
			t.Errorf("a second sandbox of the same %s: %v", what, err)
		}
	}
	if err := rec.Remove(); err != nil {
		t.Fatal(err)
	}
	if err := rec.Remove(); err != nil {
		t.Errorf("the second time: %v", err)
	}
	left, err := os.ReadDir(filepath.Join(d.Path(), "sandboxes"))
	if err != nil || len(left) > 0 {
		t.Errorf("left: %v (%v)", left, err)
	}
}

// A configuration is recorded alike, whether the caller has the text of its rules or not.
func TestDraft(t *testing.T) {
	d := open(t)
	for name, rules := range map[string][]perm.Rule{
		"no rules": nil,
		"rules":    {{Pattern: "<a>&\u2028\"", Level: perm.Read}, {Pattern: "b", AtMost: true, Source: "x.yaml:1"}},
	} {
		text, err := json.Marshal(rules)
		if err != nil {
			t.Fatal(err)
		}
		var got []*statedir.Config
		for _, known := range [][]byte{nil, text} {
			c := &statedir.Config{CreatedAt: 1, User: "user"}
			c.ID, c.Permissions = id, rules
			rec, _, err := d.Create(statedir.Draft{Config: c, Rules: known}, nil)
			if err != nil {
				t.Fatal(err)
			}
			read, err := rec.Config()
			if err != nil {
				t.Fatal(err)
			}
			if got = append(got, read); !slices.Equal(read.Permissions, rules) {
				t.Errorf("%s: got %v, want %v", name, read.Permissions, rules)
			}
			if err := rec.Remove(); err != nil {
				t.Fatal(err)
			}
		}
		if diff := cmp.Diff(got[0], got[1]); diff != "" {
			t.Errorf("%s, -without +with their text: %s", name, diff)
		}
	}
}

// What is not ours, or a mount, is never deleted with the rest.
func TestRemoveStopsAtWhatIsNotOurs(t *testing.T) {
	rec := create(t, open(t), id, "")
	precious := filepath.Join(rec.Run(), "precious")
	if err := os.WriteFile(precious, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := rec.Remove(); err == nil {
		t.Error("no error")
	}
	if _, err := os.Stat(precious); err != nil {
		t.Errorf("it is gone: %v", err)
	}
}

// NFS keeps a deleted file that is open under another name: the directory goes once it is closed.
func TestRemoveSilly(t *testing.T) {
	d := open(t)
	rec := create(t, d, id, "")
	kept := filepath.Join(d.Path(), "sandboxes", id, ".nfs000000000012")
	if err := errors.Join(os.WriteFile(kept, nil, 0o600), rec.Remove(), os.Remove(kept)); err != nil {
		t.Fatal(err)
	}
	removed, err := d.RemoveIncomplete(id, func(*statedir.Record) error { return nil })
	if err != nil || !removed {
		t.Errorf("removed: %v (%v), want true", removed, err)
	}
}

// What is in the place of run/ is deleted itself: nothing that it leads to, and no process waits for its other end.
func TestRemoveOddRun(t *testing.T) {
	for what, put := range map[string]func(run, elsewhere string) error{
		"link": func(run, elsewhere string) error { return os.Symlink(elsewhere, run) },
		"FIFO": func(run, _ string) error { return unix.Mkfifo(run, 0o600) },
		"file": func(run, _ string) error { return os.WriteFile(run, nil, 0o600) },
	} {
		rec, elsewhere := create(t, open(t), id, ""), t.TempDir()
		kept := []string{filepath.Join(elsewhere, "log"), filepath.Join(elsewhere, "upper", "file")}
		err := errors.Join(os.Mkdir(filepath.Dir(kept[1]), 0o700), os.WriteFile(kept[0], nil, 0o600), os.WriteFile(kept[1], nil, 0o600),
			os.Rename(rec.Run(), filepath.Join(elsewhere, "run")), put(rec.Run(), elsewhere))
		if err != nil {
			t.Fatal(err)
		}
		if err := rec.Remove(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if _, err := os.Lstat(filepath.Dir(rec.Run())); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: the directory: %v", what, err)
		}
		for _, file := range kept {
			if _, err := os.Stat(file); err != nil {
				t.Errorf("%s: %v", what, err)
			}
		}
	}
}

// A hostile shim fills run/: Remove deletes the names that it knows, and the directory once the others are gone.
func TestRemoveAmongMany(t *testing.T) {
	rec := create(t, open(t), id, "")
	var names []string
	for i := range 300 {
		names = append(names, filepath.Join(rec.Run(), fmt.Sprint("more", i)))
		if err := os.WriteFile(names[i], nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(rec.Run(), "mnt"), 0o700); err != nil { // of older versions
		t.Fatal(err)
	}
	if err := rec.Remove(); err == nil {
		t.Error("no error")
	}
	left, err := os.ReadDir(rec.Run())
	if err != nil || len(left) != len(names) {
		t.Errorf("%d names are left of %d (%v)", len(left), len(names), err)
	}
	for _, name := range names {
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	if err := rec.Remove(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Dir(rec.Run())); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the directory: %v", err)
	}
}

func TestFind(t *testing.T) {
	d := open(t)
	create(t, d, "aaaaaaaaaaaa", "one")
	create(t, d, "aaaabbbbbbbb", "two")
	for _, tt := range []struct {
		ref, want string
		class     error
	}{
		{"aaaaaaaaaaaa", "aaaaaaaaaaaa", nil},
		{"one", "aaaaaaaaaaaa", nil},
		{"aaaab", "aaaabbbbbbbb", nil},
		{"aaaa", "", runtime.ErrInvalid},
		{"zzz", "", runtime.ErrNotFound},
		{"cccccccccccc", "", runtime.ErrNotFound},
		{"", "", runtime.ErrNotFound},
		{"../sandboxes", "", runtime.ErrNotFound},
	} {
		rec, err := d.Find(tt.ref)
		if !errors.Is(err, tt.class) || err == nil && rec.ID() != tt.want {
			t.Errorf("%q: got b %v, err %v; want err is %v and (err != nil or b.ID() == %v)", tt.ref, rec, err, tt.class, tt.want)
		}
	}
}

// To find a sandbox by its name decodes no configuration but its own.
func TestFindDecodesOne(t *testing.T) {
	const boxes = 20
	d := open(t)
	rules := make([]perm.Rule, 500)
	for i := range boxes {
		c := &statedir.Config{SandboxConfig: runtime.SandboxConfig{ID: fmt.Sprintf("aaaaaaaaaa%02d", i), Name: fmt.Sprintf("box%02d", i), Permissions: rules}}
		if _, _, err := d.Create(statedir.Draft{Config: c}, nil); err != nil {
			t.Fatal(err)
		}
	}
	one := testing.AllocsPerRun(5, func() { _, _ = d.Record("aaaaaaaaaa07").Config() })
	if all := testing.AllocsPerRun(5, func() {
		if rec, err := d.Find("box07"); err != nil || rec.ID() != "aaaaaaaaaa07" {
			t.Errorf(`Find "box07": got b %v, err %v; want err == nil and b.ID() == "aaaaaaaaaa07"`, rec, err)
		}
	}); all > one+50*boxes {
		t.Errorf("%.0f allocations, and %.0f to decode one of %d", all, one, boxes)
	}
}

func TestState(t *testing.T) {
	rec := create(t, open(t), id, "")
	want := func(state runtime.State) {
		t.Helper()
		if got, _, err := rec.State(); got != state || err != nil {
			t.Errorf("%v, %v; want %v", got, err, state)
		}
	}
	want(runtime.StateCreated)
	lock, err := rec.TryLock()
	if err != nil {
		t.Fatal(err)
	}
	want(runtime.StateCreated) // on its way
	if err := os.WriteFile(statedir.Socket(rec.Run()), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	want(runtime.StateRunning)
	if _, err := rec.TryLock(); !errors.Is(err, runtime.ErrConflict) {
		t.Errorf("a second lock: %v", err)
	}
	if err := rec.WaitUnlocked(t.Context(), 10*time.Millisecond); err == nil {
		t.Error("it is taken for unlocked")
	}
	_ = lock.Shim.Close()
	want(runtime.StateDead) // it is gone, and did not say so
	if locked, err := rec.Locked(); !locked || err != nil {
		t.Errorf("the tree server is there, and it is not locked (%v)", err)
	}
	if _, err := rec.TryLock(); !errors.Is(err, runtime.ErrConflict) {
		t.Errorf("a lock while the tree server is there: %v", err)
	}
	_ = lock.Tree.Close()
	if err := rec.WaitUnlocked(t.Context(), time.Minute); err != nil {
		t.Error(err)
	}
	if err := statedir.PrepareRun(rec.Run()); err != nil {
		t.Fatal(err)
	}
	want(runtime.StateDead) // also when the next start has swept up
	if err := statedir.SetStatus(rec.Run(), &statedir.Status{State: runtime.StateStopped}); err != nil {
		t.Fatal(err)
	}
	want(runtime.StateStopped)
	if err := errors.Join(os.Remove(rec.ConfigFile()), os.Remove(rec.Run()+"/status.json")); err != nil {
		t.Fatal(err)
	}
	if state, _, err := rec.State(); !errors.Is(err, runtime.ErrNotFound) {
		t.Errorf("one that is being removed is %q, %v", state, err)
	}
}

// Somebody who waits in vain for a lock does not keep it when it comes.
func TestLockConfigGivesUp(t *testing.T) {
	rec := create(t, open(t), id, "")
	unlock, err := rec.TryLockConfig()
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		if _, err := rec.LockConfig(t.Context(), time.Millisecond); err == nil {
			t.Fatal("two have the lock")
		}
	}
	unlock()
	release, err := rec.LockConfig(t.Context(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	release()
}

// One process changes the configuration at a time, whether the sandbox runs or starts;
// what is removed meanwhile is not there.
func TestLockConfig(t *testing.T) {
	rec := create(t, open(t), id, "")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	release, err := rec.LockConfig(ctx, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	lock, err := rec.TryLock()
	if err != nil {
		t.Fatalf("it keeps others from starting: %v", err)
	}
	if err := errors.Join(lock.Unlock(), lock.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := rec.LockConfig(ctx, time.Millisecond); !errors.Is(err, runtime.ErrUnavailable) || !strings.Contains(err.Error(), "another process is changing it") {
		t.Errorf("a second one: %v", err)
	}
	c, err := rec.Config()
	if err != nil {
		t.Fatal(err)
	}
	before := rec.Stamp()
	c.Labels = map[string]string{"new": "label"}
	if err := rec.SetConfig(c); err != nil {
		t.Fatal(err)
	}
	if got, err := rec.Config(); err != nil || got.Labels["new"] != "label" || rec.Stamp() == before {
		t.Errorf(`Config: got %+v, err %v; want err == nil and got.Labels["new"] == "label" and b.Stamp() != %v`, got, err, before)
	}
	if got, err := statedir.ConfigFrom(rec.Run()); err != nil || got.Labels["new"] != "label" {
		t.Errorf(`statedir.ConfigFrom: got %+v, err %v; want err == nil and got.Labels["new"] == "label"`, got, err)
	}
	waited := make(chan error, 1)
	go func() {
		release, err := rec.LockConfig(ctx, time.Minute)
		if err == nil {
			_, err = rec.Config()
			release()
		}
		waited <- err
	}()
	if err := rec.Remove(); err != nil {
		t.Fatal(err)
	}
	release()
	if err := <-waited; !errors.Is(err, runtime.ErrNotFound) {
		t.Errorf("who waited: %v", err)
	}
}

// What is in run/ may be written by what has broken out: it must not make us
// follow links, wait, or conclude that something runs.
func TestHostileRunDirectory(t *testing.T) {
	for name, make := range map[string]func(path string) error{
		"garbage":        func(p string) error { return os.WriteFile(p, []byte("{{{"), 0o600) },
		"link":           func(p string) error { return os.Symlink("/etc/passwd", p) },
		"fifo":           func(p string) error { return exec.Command("mkfifo", p).Run() },
		"directory":      func(p string) error { return os.Mkdir(p, 0o700) },
		"says it runs":   func(p string) error { return os.WriteFile(p, []byte(`{"state":"running"}`), 0o600) },
		"unknown fields": func(p string) error { return os.WriteFile(p, []byte(`{"state":"dead","reason":"x","pid":1}`), 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			rec := create(t, open(t), id, "")
			if err := make(filepath.Join(rec.Run(), "status.json")); err != nil {
				t.Fatal(err)
			}
			if state, _, err := rec.State(); state != runtime.StateDead || err != nil {
				t.Errorf("%v, %v; want dead", state, err)
			}
		})
	}
}

func TestDamagedConfig(t *testing.T) {
	d := open(t)
	rec := create(t, d, id, "")
	if err := os.WriteFile(filepath.Join(d.Path(), "sandboxes", id, "config.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := rec.Config(); !errors.Is(err, runtime.ErrUnavailable) || !strings.Contains(err.Error(), "rm -f "+id) {
		t.Errorf("%v: want an error that says what to do", err)
	}
}

// A damaged file that could be opened is named as what it is.
func TestDamageIsNamed(t *testing.T) {
	rec := create(t, open(t), "damaged", "")
	if err := errors.Join(os.Remove(rec.ConfigFile()), os.Mkdir(rec.ConfigFile(), 0o700)); err != nil {
		t.Fatal(err)
	}
	_, err := rec.Config()
	if want := rec.ConfigFile() + " is not a regular file; remove it with wolffia rm -f"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
}

// A process without a free descriptor takes no sandbox for a damaged one, and names none to be removed.
func TestNoDescriptors(t *testing.T) {
	rec := create(t, open(t), "lacking", "")
	c, err := rec.Config()
	if err != nil {
		t.Fatal(err)
	}
	calls := map[string]func() error{
		"configuration": func() error { _, err := rec.Config(); return err },
		"brief":         func() error { _, err := rec.LoadHeader(); return err },
		"state":         func() error { _, _, err := rec.State(); return err },
		"rest":          func() error { _, _, err := rec.StateLocked(); return err },
		"lock":          func() error { _, err := rec.TryLock(); return err },
		"lifetime":      func() error { _, err := rec.Lifetime(c); return err },
	}
	got := map[string]error{}
	var were unix.Rlimit
	if err := unix.Prlimit(0, unix.RLIMIT_NOFILE, nil, &were); err != nil {
		t.Fatal(err)
	}
	if err := unix.Prlimit(0, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 0, Max: were.Max}, nil); err != nil {
		t.Fatal(err)
	}
	for what, call := range calls {
		got[what] = call()
	}
	if err := unix.Prlimit(0, unix.RLIMIT_NOFILE, &were, nil); err != nil {
		t.Fatal(err)
	}
	for what, err := range got {
		if !errors.Is(err, runtime.ErrUnavailable) || !runtime.Exhausted(err) || strings.Contains(err.Error(), "damaged") || strings.Contains(err.Error(), "rm -f") {
			t.Errorf(`%s: got err %v; want err is runtime.ErrUnavailable and runtime.Exhausted(err) and err.Error() does not contain "damaged" and err.Error() does not contain "rm -f"`,
				what, err)
		}
	}
}

// The files of a sandbox are for its user, whatever the umask.
func TestUmask(t *testing.T) {
	d := open(t)
	was := unix.Umask(0o777)
	rec, _, err := d.Create(statedir.Draft{Config: &statedir.Config{SandboxConfig: runtime.SandboxConfig{ID: id}}}, nil)
	unix.Umask(was)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]fs.FileMode{
		filepath.Join(d.Path(), "lock"): 0o600, rec.Lockfile(): 0o600, rec.Run(): fs.ModeDir | 0o700, rec.Log(): 0o600, rec.ConfigFile(): 0o600,
	} {
		if st, err := os.Lstat(path); err != nil || st.Mode() != want {
			t.Errorf("%s: %v, %v; want %v", path, st.Mode(), err, want)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	shared := filepath.Join(dir, "shared")
	if err := os.Mkdir(shared, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(shared, 0o777); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{file, filepath.Join(file, "below"), shared, "/proc/state", filepath.Join(dir, "not\xffUTF-8")} {
		if _, err := statedir.Open(path); !errors.Is(err, runtime.ErrUnavailable) {
			t.Errorf("%s: got %v, want runtime.ErrUnavailable", path, err)
		}
	}
}

// By whatever name it is opened, a state directory has one path.
func TestOpenByLink(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "real"), 0o700), os.Symlink("real", filepath.Join(dir, "link"))); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"real/state", "link/state"} {
		d, err := statedir.Open(filepath.Join(dir, path))
		if err != nil || d.Path() != filepath.Join(dir, "real/state") {
			t.Errorf(`%s: got d %v, err %v; want err == nil and d.Path() == filepath.Join(dir, "real/state")`, path, d, err)
		}
	}
}

func TestDefault(t *testing.T) {
	for _, tt := range []struct {
		env  map[string]string
		uid  int
		want string
	}{
		{map[string]string{"WOLFFIA_STATE_DIR": "/x", "HOME": "/home/ann"}, 1000, "/x"},
		{map[string]string{"XDG_STATE_HOME": "/s", "HOME": "/home/ann"}, 1000, "/s/wolffia"},
		{map[string]string{"XDG_STATE_HOME": "relative", "HOME": "/home/ann"}, 1000, "/home/ann/.local/state/wolffia"},
		{map[string]string{"HOME": "/root"}, 0, "/var/lib/wolffia"},
		{nil, 1000, ""},
	} {
		got, err := statedir.Default(func(k string) string { return tt.env[k] }, tt.uid)
		if got != tt.want || (err != nil) != (tt.want == "") {
			t.Errorf(`%v: got %q, err %v; want got == %q and (err != nil) == tt.want == ""`, tt.env, got, err, tt.want)
		}
	}
}

// A process that has another's number, but is another, is left alone.
func TestKillChecksWhoItIs(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p, err := statedir.ProcessOf(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	for _, other := range []statedir.Process{
		{PID: p.PID, Start: "1", BootID: p.BootID},
		{PID: p.PID, Start: p.Start, BootID: "another boot"},
		{},
	} {
		if err := other.Kill(time.Minute); err != nil {
			t.Errorf("%+v: %v", other, err)
		}
	}
	if now, err := statedir.ProcessOf(p.PID); err != nil || now != p {
		t.Fatalf("it is gone: %v", err)
	}
	gone := make(chan error, 1)
	go func() { gone <- cmd.Wait() }()
	if err := p.Kill(time.Minute); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	select {
	case <-gone:
	case <-ctx.Done():
		t.Error("it lives")
	}
	if err := p.Kill(time.Minute); err != nil {
		t.Errorf("the second time: %v", err)
	}
}

// Only the sandbox's own keeper is told to end, not that of an equal id in a copy of the state directory.
func TestEndKeeper(t *testing.T) {
	script := "trap 'echo told; exit' TERM; echo up; read x"
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "keep"), []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	keeper := func(id string) *bufio.Reader {
		cmd := &exec.Cmd{Path: "/bin/sh", Args: []string{"wolffia-test", "keep", id}, Dir: dir}
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = in.Close()
			_ = cmd.Wait()
		})
		said := bufio.NewReader(out)
		if line, err := said.ReadString('\n'); err != nil || line != "up\n" {
			t.Fatalf("ReadString: got %q, %v; want %q, nil", line, err, "up\n")
		}
		return said
	}
	d, copied := open(t), open(t)
	tag := func(d *statedir.Dir, id string) string {
		text, err := d.Record(id).Processes().Tag()
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	ours, others := keeper(tag(d, "aaaaaaaaaaaa")), keeper(tag(d, "bbbbbbbbbbbb"))
	older := keeper("aaaaaaaaaaaa")
	elsewhere := keeper(tag(copied, "aaaaaaaaaaaa"))
	if err := d.Record("aaaaaaaaaaaa").Processes().EndKeeper(); err != nil {
		t.Error(err)
	}
	for _, told := range []*bufio.Reader{ours, older} {
		if line, err := told.ReadString('\n'); err != nil || line != "told\n" {
			t.Errorf("ReadString: got %q, %v; want %q, nil", line, err, "told\n")
		}
	}
	for _, rec := range []*statedir.Record{d.Record("bbbbbbbbbbbb"), copied.Record("aaaaaaaaaaaa")} {
		if err := rec.Processes().KillKeeper(time.Minute); err != nil {
			t.Error(err)
		}
	}
	for _, killed := range []*bufio.Reader{others, elsewhere} {
		if line, err := killed.ReadString('\n'); err == nil {
			t.Errorf("another one was told: %q", line)
		}
	}
}

// What a process leaves that is killed while it makes or removes a place.
func TestRemoveHalf(t *testing.T) {
	d := open(t)
	path := filepath.Join(d.Path(), "sandboxes", id)
	there := func() bool {
		_, err := os.Lstat(path)
		return err == nil
	}
	must := func(errs ...error) {
		t.Helper()
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
	}
	removeIncomplete := func(want bool) {
		t.Helper()
		if removed, err := d.RemoveIncomplete(id, func(*statedir.Record) error { return nil }); err != nil || removed != want {
			t.Fatalf("removed: %v (%v), want %v", removed, err, want)
		}
	}
	removeIncomplete(false)
	for what, half := range map[string]func(){
		"a directory":        func() { must(os.Mkdir(path, 0o700)) },
		"one with a lock":    func() { must(os.Mkdir(path, 0o700), os.WriteFile(path+"/lock", nil, 0o600)) },
		"all but the config": func() { create(t, d, id, ""); must(os.Remove(path + "/config.json")) },
		"a config on its way": func() {
			create(t, d, id, "")
			must(os.Rename(path+"/config.json", path+"/config.json.new"))
		},
		"a config that never came to the disk": func() { create(t, d, id, ""); must(os.Truncate(path+"/config.json", 0)) },
		"no run directory": func() {
			create(t, d, id, "")
			must(os.Remove(path+"/config.json"), os.Remove(path+"/run/log"), os.Remove(path+"/run"))
		},
	} {
		half()
		removeIncomplete(true)
		if there() {
			t.Errorf("%s: it is still there", what)
		}
	}
	rec := create(t, d, id, "")
	removeIncomplete(false)
	if _, err := rec.Config(); err != nil {
		t.Errorf("a whole one: %v", err)
	}
	changes := path + "/cow/upper/file"
	must(os.MkdirAll(filepath.Dir(changes), 0o700), os.WriteFile(changes, nil, 0o600), os.Truncate(rec.ConfigFile(), 0))
	removeIncomplete(false)
	if !there() {
		t.Error("the changes of one without a configuration are removed")
	}
	must(os.RemoveAll(path + "/cow"))
	lock, err := rec.TryLock()
	must(err, os.Remove(rec.ConfigFile()))
	removeIncomplete(false)
	if !there() {
		t.Error("somebody is at it, and it is removed")
	}
	must(lock.Unlock(), lock.Close())
	// What a sandbox has left of an image, with whatever rights, goes too.
	must(os.MkdirAll(rec.Run()+"/upper/etc/closed", 0o700), os.WriteFile(rec.Run()+"/upper/etc/closed/file", nil, 0), os.Chmod(rec.Run()+"/upper/etc/closed", 0))
	removeIncomplete(true)
	if there() {
		t.Error("no process holds it any more, and it exists")
	}
	must(os.Mkdir(path, 0o700), os.WriteFile(path+"/not-ours", nil, 0o600))
	if _, err := d.RemoveIncomplete(id, func(*statedir.Record) error { return nil }); err == nil || !there() {
		t.Errorf("with a file of somebody else: %v", err)
	}
}

// Who waits for the lock, and gets it for a moment, is not taken for who has it.
func TestWaiterIsNoHolder(t *testing.T) {
	rec := create(t, open(t), id, "")
	if err := os.WriteFile(statedir.Socket(rec.Run()), nil, 0o600); err != nil { // a shim that was killed
		t.Fatal(err)
	}
	f, err := os.OpenFile(rec.Lockfile(), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	release, err := filelock.Wait(t.Context(), f, unix.F_RDLCK, 0, 0) // as WaitUnlocked does
	if err != nil {
		t.Fatal(err)
	}
	if err := rec.WaitUnlocked(t.Context(), time.Minute); err != nil {
		t.Errorf("another that waits: %v", err)
	}
	if held, err := rec.Locked(); held || err != nil {
		t.Errorf("locked: %v, %v", held, err)
	}
	if state, _, err := rec.State(); state != runtime.StateDead || err != nil {
		t.Errorf("it is %v, %v", state, err)
	}
	if _, err := rec.TryLock(); !errors.Is(err, runtime.ErrConflict) { // it never goes
		t.Errorf("both have the lock: %v", err)
	}
	time.AfterFunc(time.Millisecond, release)
	lock, err := rec.TryLock()
	if err != nil {
		t.Fatalf("it is gone in a moment: %v", err)
	}
	if held, err := rec.Locked(); !held || err != nil {
		t.Errorf("locked: %v, %v", held, err)
	}
	if err := errors.Join(lock.Unlock(), lock.Close()); err != nil {
		t.Error(err)
	}
	if f, err = os.OpenFile(rec.Lockfile(), os.O_RDWR, 0); err != nil {
		t.Fatal(err)
	}
	if release, err = filelock.Wait(t.Context(), f, unix.F_RDLCK, 0, 0); err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(time.Millisecond, release)
	all, err := rec.TryLockAll()
	if err != nil {
		t.Fatalf("all of it, gone in a moment: %v", err)
	}
	all()
}
