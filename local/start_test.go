package local_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"wolffia/internal/host/probe"
	"wolffia/internal/test/leak"
	"wolffia/internal/test/testbin"
	"wolffia/internal/test/testenv"
	"wolffia/internal/test/wait"
	"wolffia/local"
	"wolffia/perm"
	"wolffia/runtime"
	"wolffia/runtime/bwrap"
	"wolffia/runtime/docker"
)

func TestMain(m *testing.M) {
	if path := os.Getenv(opensVariable); path != "" {
		os.Exit(openSignalled(path))
	}
	m.Run()
	testbin.Remove()
}

// newRuntime returns a runtime over an empty state, and a codebase.
func newRuntime(t *testing.T) (rt *local.Runtime, state, codebase string) {
	t.Helper()
	testenv.Need(t, probe.UserNamespaces, probe.Bubblewrap, probe.Fuse)
	leak.Check(t)
	dir := t.TempDir()
	for d := dir; d != os.TempDir() && d != "/"; d = filepath.Dir(d) { // as root, the user that is dropped to must get here
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	state, codebase = filepath.Join(dir, "state"), filepath.Join(dir, "codebase")
	if err := os.Mkdir(codebase, 0o755); err != nil {
		t.Fatal(err)
	}
	rt = another(t, state)
	t.Cleanup(func() {
		all, err := rt.List(context.Background())
		if err != nil {
			t.Error(err)
		}
		for _, s := range all {
			if err := rt.Destroy(context.Background(), s.ID); err != nil {
				t.Error(err)
			}
		}
		left, err := os.ReadDir(filepath.Join(state, "sandboxes"))
		if err != nil || len(left) > 0 {
			t.Errorf("left in the state directory: %v (%v)", left, err)
		}
	})
	return rt, state, codebase
}

// another returns a Runtime of a state directory, as another process has it, until the test ends.
func another(t *testing.T, state string) *local.Runtime {
	t.Helper()
	rt, err := local.New(&local.Options{StateDir: state, Binary: filepath.Join(testbin.Dir(t), "wolffia")}, bwrap.Backend())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = rt.Close() })
	return rt
}

func create(t *testing.T, rt *local.Runtime, codebase string) string {
	t.Helper()
	s, err := rt.Create(t.Context(), &runtime.SandboxConfig{
		CodebasePath: codebase,
		Permissions:  []perm.Rule{{Pattern: "**", Level: perm.Write}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return s.ID
}

// started is create, and starts the sandbox.
func started(t *testing.T, rt *local.Runtime, codebase string) string {
	t.Helper()
	id := create(t, rt, codebase)
	if err := rt.Start(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	return id
}

// processes lists those that name the sandbox on their command line.
func processes(t *testing.T, id string) (found []string) {
	t.Helper()
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range dirs {
		if cmdline, err := os.ReadFile(dir + "/cmdline"); err == nil && strings.Contains(string(cmdline), id) {
			found = append(found, filepath.Base(dir)+" "+strings.ReplaceAll(string(cmdline), "\x00", " "))
		}
	}
	return found
}

// allGone waits until no process of the sandbox is left.
func allGone(t *testing.T, id string) {
	t.Helper()
	wait.For(t, "processes of "+id, func() []string { return processes(t, id) }, func(left []string) bool { return len(left) == 0 })
}

// fakeBwrap puts a script in the place of bubblewrap.
func fakeBwrap(t *testing.T, script string) {
	t.Helper()
	dir := t.TempDir()
	for d := dir; d != os.TempDir() && d != "/"; d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "bwrap"), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
}

// startWithin starts a sandbox, and gives up in time.
func startWithin(t *testing.T, rt runtime.Runtime, id string, patience time.Duration) error {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	return rt.Start(ctx, id)
}

// A backend that fails or hangs gives one error that says so, and leaves
// nothing; the sandbox is as it was.
func TestStartThatFails(t *testing.T) {
	for name, tt := range map[string]struct {
		script string
		want   string
	}{
		"says why":        {"echo 'bwrap: out of luck' >&2; exit 1", "out of luck"},
		"says nothing":    {"exit 1", "PID 1 ended at once"},
		"is no guest":     {"echo hello, hello, hello; exec cat >/dev/null", "protocol error"},
		"other guest":     {`printf '\014\000\000\000\000\000\000\000\377'; exec cat >/dev/null`, "protocol error"},
		"hangs":           {"exec sleep 1000", "hung here: wait for PID 1"},
		"ignores signals": {"trap '' TERM INT HUP; exec sleep 1000", "hung here: wait for PID 1"},
	} {
		t.Run(name, func(t *testing.T) {
			rt, _, codebase := newRuntime(t)
			fakeBwrap(t, tt.script)
			id := create(t, rt, codebase)
			patience := wait.Limit
			if strings.HasPrefix(tt.want, "hung") {
				patience = 2 * time.Second
			}
			err := startWithin(t, rt, id, patience)
			if strings.HasPrefix(tt.want, "hung") && !strings.Contains(fmt.Sprint(err), tt.want) {
				err = startWithin(t, rt, id, 10*patience) // it had not come there: a slow machine
			}
			if !errors.Is(err, runtime.ErrUnavailable) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v: want one that says %q", err, tt.want)
			}
			allGone(t, id)
			if s, err := rt.Get(t.Context(), id); err != nil || s.State != runtime.StateCreated {
				t.Errorf("Get: got s %+v, err %v; want err == nil and s.State == runtime.StateCreated", s, err)
			}
		})
	}
}

// A caller that gives a start up is told that, and not that the sandbox has hung.
func TestStartCanceled(t *testing.T) {
	rt, _, codebase := newRuntime(t)
	fakeBwrap(t, "exec sleep 1000")
	ctx, cancel := context.WithCancel(t.Context())
	id := create(t, rt, codebase)
	time.AfterFunc(500*time.Millisecond, cancel)
	err := rt.Start(ctx, id)
	if !errors.Is(err, context.Canceled) || runtime.Class(err) != nil || strings.Contains(err.Error(), "hung") {
		t.Errorf("%v, of class %v", err, runtime.Class(err))
	}
}

// Whenever a start is given up, nothing is left of it.
func TestStartGivenUp(t *testing.T) {
	rt, _, codebase := newRuntime(t)
	id := create(t, rt, codebase)
	most := 30 * time.Millisecond
	for after := time.Duration(0); after < most; after += most / time.Duration(testenv.Some(120)) {
		ctx, cancel := context.WithTimeout(t.Context(), after)
		err := rt.Start(ctx, id)
		cancel()
		if err == nil {
			if err := rt.Stop(t.Context(), id); err != nil {
				t.Fatal(err)
			}
		}
		allGone(t, id)
	}
}

// The first command after a start asks the shim for nothing: the connection that the shim was started with is used.
func TestStartConnects(t *testing.T) {
	rt, state, codebase := newRuntime(t)
	id := started(t, rt, codebase)
	sock := filepath.Join(state, "sandboxes", id, "run", "sock")
	if err := os.Rename(sock, sock+".away"); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.Rename(sock+".away", sock) }()
	if out, code := sh(t, rt, id, "echo there"); out != "there\n" || code != 0 {
		t.Errorf("%q, exit code %d", out, code)
	}
}

func TestStartWithoutBubblewrap(t *testing.T) {
	rt, _, codebase := newRuntime(t)
	id := create(t, rt, codebase)
	t.Setenv("PATH", t.TempDir())
	if err := rt.Start(t.Context(), id); !errors.Is(err, runtime.ErrUnavailable) || !strings.Contains(err.Error(), "install the package bubblewrap") {
		t.Errorf(`Start: got err %v; want err is runtime.ErrUnavailable and err.Error() contains "install the package bubblewrap"`, err)
	}
	allGone(t, id)
}

// Whatever part of a sandbox is killed, all of it goes, it is listed as dead,
// and it can be started again.
func TestKillAnyPart(t *testing.T) {
	for _, part := range []string{"wolffia shim", "wolffia tree", "bwrap --", "/run/wolffia/guest"} {
		t.Run(strings.ReplaceAll(part, "/", "."), func(t *testing.T) {
			rt, _, codebase := newRuntime(t)
			id := started(t, rt, codebase)
			p, err := rt.StartProcess(t.Context(), id, &runtime.Command{Command: []string{"sleep", "1000"}})
			if err != nil {
				t.Fatal(err)
			}
			killed := 0
			for _, line := range processes(t, id) {
				pid, cmdline, _ := strings.Cut(line, " ")
				if strings.HasPrefix(cmdline, part) {
					// One that it is starting has its name, and ends with it.
					if out, err := exec.CommandContext(t.Context(), "kill", "-9", pid).CombinedOutput(); err != nil && (killed == 0 || !strings.Contains(string(out), "No such process")) {
						t.Fatalf(`CombinedOutput: got out %s; want err == nil or (killed != 0 and out contains "No such process")`, out)
					}
					killed++
				}
			}
			if killed == 0 {
				t.Fatalf("no such part: %q", processes(t, id))
			}
			ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
			defer cancel()
			// Where PID 1 had the time it says how the command ended.
			if exit, err := p.Wait(ctx); err == nil && exit.Signal == 0 || ctx.Err() != nil {
				t.Errorf("the command ended with %+v, %v", exit, err)
			}
			allGone(t, id)
			s, err := rt.Get(t.Context(), id)
			if err != nil || s.State != runtime.StateDead || s.Reason == "" {
				t.Errorf("%+v, %v; want dead and why", s, err)
			}
			if _, err := rt.Exec(t.Context(), id, &runtime.ExecRequest{Command: []string{"true"}}); !errors.Is(err, runtime.ErrConflict) {
				t.Errorf("exec in a dead sandbox: %v", err)
			}
			if err := rt.Start(t.Context(), id); err != nil {
				t.Fatal(err)
			}
			if res, err := rt.Exec(t.Context(), id, &runtime.ExecRequest{Command: []string{"true"}}); err != nil || res.ExitCode != 0 {
				t.Errorf("after another start: %+v, %v", res, err)
			}
		})
	}
}

// A shim that is stopped does not hang those who want to be rid of it.
func TestDestroyWhenTheShimIsStopped(t *testing.T) {
	rt, _, codebase := newRuntime(t)
	id := started(t, rt, codebase)
	signalPart(t, id, "wolffia shim", syscall.SIGSTOP)
	if err := rt.Destroy(t.Context(), id); err != nil {
		t.Error(err)
	}
	allGone(t, id)
}

// Nor does a tree server that is stopped, though processes wait for it that
// cannot be killed.
func TestDestroyWhenTheTreeServerIsStopped(t *testing.T) {
	rt, _, codebase := newRuntime(t)
	for i := range 2000 { // so that the shim is still listing them
		dir := filepath.Join(codebase, strconv.Itoa(i))
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	id := started(t, rt, codebase)
	signalPart(t, id, "wolffia tree", syscall.SIGSTOP)
	p, err := rt.StartProcess(t.Context(), id, &runtime.Command{
		Command: []string{"sh", "-c", "echo waiting; exec ls /workspace/absent"}, Cwd: "/tmp",
	})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if _, err := io.ReadFull(p.Stdout(), make([]byte, len("waiting\n"))); err != nil {
		t.Fatal(err)
	}
	if err := rt.Destroy(t.Context(), id); err != nil {
		t.Error(err)
	}
	allGone(t, id)
}

// The state directory's path may be longer than a socket's address.
func TestLongStateDirectory(t *testing.T) {
	testenv.Need(t, probe.UserNamespaces, probe.Bubblewrap)
	dir := t.TempDir()
	for d := dir; d != os.TempDir() && d != "/"; d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	long := filepath.Join(dir, strings.Repeat("x", 200))
	rt, err := local.New(&local.Options{StateDir: long, Binary: filepath.Join(testbin.Dir(t), "wolffia")}, bwrap.Backend())
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	s, err := rt.Create(t.Context(), &runtime.SandboxConfig{})
	if err != nil {
		t.Fatal(err)
	}
	if err := rt.Start(t.Context(), s.ID); err != nil {
		t.Fatal(err)
	}
	if res, err := rt.Exec(t.Context(), s.ID, &runtime.ExecRequest{Command: []string{"echo", "hi"}}); err != nil || string(res.Stdout) != "hi\n" {
		t.Errorf("Exec: got res %+v, err %v; want err == nil and res.Stdout == %q", res, err, "hi\n")
	}
	if err := rt.Destroy(t.Context(), s.ID); err != nil {
		t.Error(err)
	}
}

// Root's shim and backend have nothing of root; only the tree server of a
// codebase that root owns keeps its uid, with two capabilities.
func TestRootDrops(t *testing.T) {
	testenv.Root(t)
	rt, _, codebase := newRuntime(t)
	id := started(t, rt, codebase)
	seen := map[string]bool{}
	for _, line := range processes(t, id) {
		pid, cmdline, _ := strings.Cut(line, " ")
		status, err := os.ReadFile("/proc/" + pid + "/status")
		if err != nil {
			t.Fatal(err)
		}
		fields := map[string]string{}
		for l := range strings.Lines(string(status)) {
			k, v, _ := strings.Cut(l, ":")
			fields[k] = strings.Join(strings.Fields(v), " ")
		}
		uid := strings.Join([]string{fields["Uid"], fields["Gid"], fields["Groups"]}, "/")
		program := strings.Join(strings.Fields(cmdline)[:2], " ")
		seen[strings.Fields(program)[0]] = true
		if strings.HasPrefix(program, "wolffia tree") {
			if fields["CapEff"] != "000000000000000a" || fields["CapPrm"] != fields["CapEff"] || fields["CapBnd"] != fields["CapEff"] || fields["NoNewPrivs"] != "1" {
				t.Errorf("%s: capabilities %s, bounding set %s", program, fields["CapEff"], fields["CapBnd"])
			}
			continue
		}
		want := fmt.Sprintf("%[1]d %[1]d %[1]d %[1]d/%[1]d %[1]d %[1]d %[1]d/", 60990)
		if uid != want {
			t.Errorf("%s runs as %s, want %s", program, uid, want)
		}
	}
	if !seen["wolffia"] || !seen["bwrap"] {
		t.Errorf("not all parts were seen: %v", seen)
	}
}

// What PID 1 says of itself is in the log, up to a bound, whatever it has become: it
// does not fill the disk, and its end is still told.
func TestLogIsBounded(t *testing.T) {
	_, state, _ := newRuntime(t)
	dir := filepath.Dir(state)
	const flood = "#!/bin/sh\nhead -c 5000000 /dev/zero | tr '\\0' x >&2\necho the end >&2\n"
	if err := errors.Join(os.Symlink(filepath.Join(testbin.Dir(t), "wolffia"), filepath.Join(dir, "wolffia")),
		os.Symlink(filepath.Join(testbin.Dir(t), "wolffia-box"), filepath.Join(dir, "wolffia-box")),
		os.WriteFile(filepath.Join(dir, "wolffia-guest"), []byte(flood), 0o755)); err != nil {
		t.Fatal(err)
	}
	rt, err := local.New(&local.Options{StateDir: state, Binary: filepath.Join(dir, "wolffia")}, bwrap.Backend())
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	s, err := rt.Create(t.Context(), &runtime.SandboxConfig{})
	if err != nil {
		t.Fatal(err)
	}
	if err := rt.Start(t.Context(), s.ID); err == nil || !strings.Contains(err.Error(), "the end") {
		t.Errorf("started: %v", err)
	}
	log, err := os.ReadFile(filepath.Join(state, "sandboxes", s.ID, "run", "log"))
	if err != nil || len(log) < 1<<20 || len(log) > 1<<20+64<<10 || !strings.Contains(string(log), "the rest is left out") {
		t.Errorf("a log of %d bytes, %v", len(log), err)
	}
}

// A user's sandbox for an engine is refused before anything is made of it where
// its codebase, once mounted for the engine, could not be unmounted again.
func TestCreateWhereNothingUnmounts(t *testing.T) {
	dir := testenv.Without(t, "/etc/mtab", "umount")
	if dir == "" {
		return
	}
	state, codebase, guest := filepath.Join(dir, "state"), filepath.Join(dir, "codebase"), filepath.Join(dir, "wolffia-guest")
	if err := errors.Join(os.Mkdir(codebase, 0o755), os.WriteFile(guest, nil, 0o755), os.WriteFile(filepath.Join(dir, "wolffia-box"), nil, 0o755), os.WriteFile(filepath.Join(dir, "wolffia-tree"), nil, 0o755)); err != nil {
		t.Fatal(err)
	}
	rt, err := local.New(&local.Options{StateDir: state, Binary: filepath.Join(dir, "wolffia")}, docker.Backend())
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	_, err = rt.Create(t.Context(), &runtime.SandboxConfig{CodebasePath: codebase})
	if !errors.Is(err, runtime.ErrUnavailable) || !strings.Contains(err.Error(), "as root: ln -s ../proc/self/mounts /etc/mtab") {
		t.Errorf(`Create: got err %v; want err is runtime.ErrUnavailable and err.Error() contains "as root: ln -s ../proc/self/mounts /etc/mtab"`,
			err)
	}
	if left, err := os.ReadDir(filepath.Join(state, "sandboxes")); len(left) > 0 || err != nil {
		t.Errorf("left in the state directory: %v (%v)", left, err)
	}
}

// The log is in a directory that the sandbox's user may write to. No process appends to what
// has been put in its place.
func TestLogOfSomebodyElse(t *testing.T) {
	rt, state, codebase := newRuntime(t)
	s, err := rt.Create(t.Context(), &runtime.SandboxConfig{CodebasePath: codebase})
	if err != nil {
		t.Fatal(err)
	}
	log, other := filepath.Join(state, "sandboxes", s.ID, "run", "log"), filepath.Join(state, "other")
	if err := os.WriteFile(other, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	for what, replace := range map[string]func() error{
		"second name":              func() error { return os.Link(other, log) },
		"no such device":           func() error { return syscall.Mkfifo(log, 0o600) }, // without a reader
		"levels of symbolic links": func() error { return os.Symlink(other, log) },
		"is a directory":           func() error { return os.Mkdir(log, 0o700) },
	} {
		if err := errors.Join(os.Remove(log), replace()); err != nil {
			t.Fatal(err)
		}
		if err := rt.Start(t.Context(), s.ID); runtime.Class(err) != runtime.ErrUnavailable || !strings.Contains(err.Error(), what) {
			t.Errorf("Start: got what %s, err %v; want runtime.Class(err) == runtime.ErrUnavailable and err.Error() contains %v",
				what, err, what)
		}
	}
	if content, err := os.ReadFile(other); err != nil || string(content) != "mine" {
		t.Errorf("the other file has %q, %v", content, err)
	}
	// One that was deleted is made anew.
	if err := os.Remove(log); err != nil {
		t.Fatal(err)
	}
	if _, err := rt.Log(s.ID); runtime.Class(err) != runtime.ErrNotFound {
		t.Errorf("without a log: %v", err)
	}
	if err := rt.Start(t.Context(), s.ID); err != nil {
		t.Fatal(err)
	}
	f, err := rt.Log(s.ID)
	if err != nil {
		t.Fatal(err)
	}
	_ = f.Close()
}

// A sandbox that another process starts while it is destroyed is gone all the same.
func TestDestroyWhileOthersStart(t *testing.T) {
	rt, state, codebase := newRuntime(t)
	other := another(t, state)
	for range 10 {
		id := started(t, rt, codebase)
		ended := make(chan error)
		go func() { // ends with the sandbox
			for {
				if err := other.Start(context.Background(), id); runtime.Class(err) == runtime.ErrNotFound {
					close(ended)
					return
				}
			}
		}()
		if err := rt.Destroy(t.Context(), id); err != nil {
			t.Error(err)
		}
		if _, err := rt.Get(t.Context(), id); runtime.Class(err) != runtime.ErrNotFound {
			t.Fatalf("after Destroy: %v", err)
		}
		<-ended
	}
}

// A start that is canceled, at whatever moment, leaves the sandbox as it was.
func TestCanceledStarts(t *testing.T) {
	rt, _, codebase := newRuntime(t)
	for i := range 60 {
		id := create(t, rt, codebase)
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*500*time.Microsecond)
		err := rt.Start(ctx, id)
		cancel()
		want := runtime.StateCreated
		if err == nil {
			want = runtime.StateRunning
		}
		if s, gerr := rt.Get(t.Context(), id); gerr != nil || s.State != want {
			t.Errorf("after %v: %+v, %v; want %s", err, s, gerr, want)
		}
		if err := rt.Destroy(t.Context(), id); err != nil {
			t.Error(err)
		}
	}
}

// A shim's program that only root may execute is named, and not the host's user namespaces.
func TestShimIsRootsOnly(t *testing.T) {
	testenv.Root(t)
	rt, state, codebase := newRuntime(t)
	if err := os.Chown(codebase, 1234, 1234); err != nil {
		t.Fatal(err)
	}
	_ = rt.Close()
	programs := filepath.Join(filepath.Dir(state), "programs")
	if out, err := exec.Command("cp", "-r", testbin.Dir(t), programs).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	box := filepath.Join(programs, "wolffia-box")
	if err := os.Chmod(box, 0o700); err != nil {
		t.Fatal(err)
	}
	rt, err := local.New(&local.Options{StateDir: state, Binary: filepath.Join(programs, "wolffia")}, bwrap.Backend())
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	id := create(t, rt, codebase)
	defer func() { _ = rt.Destroy(context.Background(), id) }()
	if err := rt.Start(t.Context(), id); err == nil || !strings.Contains(err.Error(), "uid 1234 may not execute "+box) {
		t.Errorf("Start: got %v, want an error that names %s", err, box)
	}
}
