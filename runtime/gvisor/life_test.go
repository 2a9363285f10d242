package gvisor_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/internal/sys/proc"
	"wolffia/internal/sys/runsc"
	"wolffia/internal/test/shimtest"
	"wolffia/internal/test/suite"
	"wolffia/internal/test/testbin"
	"wolffia/internal/test/testenv"
	"wolffia/local"
	"wolffia/perm"
	"wolffia/runtime"
	"wolffia/runtime/gvisor"
)

// limit is less than the 40 s after which a start without PID 1 is given up.
const limit = 30 * time.Second

// A process is one that the host sees.
type process struct{ pid, parent, start, name string }

// processes lists the host's, by process number.
func processes(t testing.TB) map[string]process {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]process{}
	for _, file := range files {
		b, err := os.ReadFile(file)
		i := bytes.LastIndexByte(b, ')')
		if err != nil || i < 0 {
			continue // gone since
		}
		f := strings.Fields(string(b[i+1:]))
		pid := strconv.Itoa(atoi(t, filepath.Base(filepath.Dir(file))))
		all[pid] = process{pid, f[1], f[19], string(b[bytes.IndexByte(b, '(') : i+1])}
	}
	return all
}

func atoi(t testing.TB, s string) int {
	t.Helper()
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// partsOf are the processes that have the sandbox's id as their last argument,
// and all that descend from them.
func partsOf(t testing.TB, id string) map[string]process {
	t.Helper()
	all, parts := processes(t), map[string]process{}
	for pid, p := range all {
		cmdline, err := os.ReadFile("/proc/" + pid + "/cmdline")
		if err == nil && strings.Contains(string(cmdline), "\x00"+id+"-") {
			parts[pid] = p
		}
	}
	for more := true; more; {
		more = false
		for pid, p := range all {
			if _, known := parts[pid]; !known && parts[p.parent].pid != "" {
				parts[pid], more = p, true
			}
		}
	}
	return parts
}

// gone waits until none of the processes is left.
func gone(t testing.TB, parts map[string]process) {
	t.Helper()
	for end := time.Now().Add(limit); ; {
		left, now := []process{}, processes(t)
		for pid, p := range parts {
			if now[pid].start == p.start {
				left = append(left, p)
			}
		}
		if len(left) == 0 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("processes are left: %v", left)
		}
	}
}

// What gVisor's processes may do on the host, with each of their threads, and that no execution gives them more.
func TestCapabilities(t *testing.T) {
	testenv.Both(t)
	need(t)
	rt := backend.Fresh(t)
	defer shimtest.DestroyAll(t, rt)
	s, err := runtime.Launch(t.Context(), rt, &runtime.SandboxConfig{})
	if err != nil {
		t.Fatal(err)
	}
	const none, ofFiles = "0000000000000000", "000000000004001f" // the gofer's, for files of the only user that its namespace has
	want := map[string]string{"runsc-sandbox": none, "runsc-gofer": ofFiles}
	seen := map[string]bool{}
	for pid := range partsOf(t, s.ID()) {
		cmdline, err := os.ReadFile("/proc/" + pid + "/cmdline")
		if err != nil {
			t.Fatal(err)
		}
		name, _, _ := strings.Cut(string(cmdline), "\x00")
		if want[name] == "" {
			continue
		}
		seen[name] = true
		threads, err := filepath.Glob("/proc/" + pid + "/task/*")
		if err != nil {
			t.Fatal(err)
		}
		for _, thread := range threads {
			may(t, name, atoi(t, filepath.Base(thread)), want[name])
		}
	}
	if len(seen) != len(want) {
		t.Errorf("only these are seen: %v", seen)
	}
}

// may checks the sets of capabilities of a thread but for the bounding set, and that it has no_new_privs, without which that set would count.
func may(t *testing.T, name string, thread int, capabilities string) {
	t.Helper()
	for key, want := range map[string]string{"CapInh": capabilities, "CapPrm": capabilities, "CapEff": capabilities, "CapAmb": capabilities, "NoNewPrivs": "1"} {
		got, err := proc.Status(thread, key)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
			return // it has ended
		}
		if err != nil || !slices.Equal(got, []string{want}) {
			t.Errorf("%s, thread %d: %s is %v (%v), want %s", name, thread, key, got, err, want)
		}
	}
}

// When the shim is killed, nothing of the sandbox is left: not runsc, its
// sandbox and its gofer, nor those that run the sandbox's programs, nor what
// runsc has written down.
func TestKilledShimTakesAllAlong(t *testing.T) {
	testenv.Both(t)
	need(t)
	rt := backend.Fresh(t)
	code := shimtest.PublicDir(t)
	s, err := rt.Create(t.Context(), &runtime.SandboxConfig{
		CodebasePath: code, Permissions: []perm.Rule{{Pattern: "**", Level: perm.Write}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for round := range 3 {
		if err := rt.Start(t.Context(), s.ID); err != nil {
			t.Fatal(err)
		}
		if r, err := rt.Exec(t.Context(), s.ID, &runtime.ExecRequest{Command: []string{"sh", "-c", "trap '' TERM; (setsid sleep 1000 &) >/dev/null 2>&1; echo started"}}); err != nil || string(r.Stdout) != "started\n" {
			t.Fatal(r, err)
		}
		parts := partsOf(t, s.ID)
		var names []string
		for _, p := range parts {
			names = append(names, p.name)
		}
		if len(parts) < 6 { // shim, tree server, runsc, sandbox, gofer, and who runs the programs
			t.Fatalf("only %q are seen", names)
		}
		shimtest.Crash(t, rt, s.ID)
		gone(t, parts)
		mnt := filepath.Join(rt.State, "mnt")
		if left, err := os.ReadDir(mnt); os.Geteuid() != 0 && (len(left) > 0 || err != nil) {
			t.Errorf("round %d: in %s: %v (%v)", round, mnt, left, err)
		}
		mounts, err := os.ReadFile("/proc/self/mounts")
		if err != nil || strings.Contains(string(mounts), rt.State) {
			t.Errorf("round %d: mounts (%v):\n%s", round, err, mounts)
		}
	}
	if err := rt.Destroy(t.Context(), s.ID); err != nil {
		t.Error(err)
	}
}

// If any of runsc's parts is killed the sandbox is dead, and nothing is left.
func TestKilledPartEndsTheSandbox(t *testing.T) {
	need(t)
	rt := backend.Fresh(t)
	for _, part := range []string{"runsc", "runsc-sandbox", "runsc-gofer"} {
		s, err := rt.Create(t.Context(), &runtime.SandboxConfig{})
		if err != nil {
			t.Fatal(err)
		}
		if err := rt.Start(t.Context(), s.ID); err != nil {
			t.Fatal(err)
		}
		parts := partsOf(t, s.ID)
		killed := false
		for pid := range parts {
			cmdline, _ := os.ReadFile("/proc/" + pid + "/cmdline")
			if name, _, _ := strings.Cut(string(cmdline), "\x00"); name == part {
				killed = true
				if p, err := os.FindProcess(atoi(t, pid)); err == nil {
					_ = p.Kill()
				}
			}
		}
		if !killed {
			t.Fatalf("there is no %s", part)
		}
		if part != "runsc-gofer" { // without it no new file can be reached; what is open works
			gone(t, parts)
			if got, err := rt.Get(t.Context(), s.ID); err != nil || got.State != runtime.StateDead {
				t.Errorf("%s was killed: %+v, %v", part, got, err)
			}
		}
		if err := rt.Destroy(t.Context(), s.ID); err != nil {
			t.Error(err)
		}
		gone(t, parts)
	}
}

// The reason that gVisor's kernel gives for its end is the reason of the sandbox's end, in one line, and in the log with its stack.
func TestKernelSaysWhy(t *testing.T) {
	testenv.Root(t) // who may write to the kernel's standard error
	need(t)
	rt := backend.Fresh(t)
	s, err := runtime.Launch(t.Context(), rt, &runtime.SandboxConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer shimtest.DestroyAll(t, rt)
	parts := partsOf(t, s.ID())
	const why, stack = "panic: it does not go on", "goroutine 1 [running]:"
	for pid := range parts {
		cmdline, _ := os.ReadFile("/proc/" + pid + "/cmdline")
		if name, _, _ := strings.Cut(string(cmdline), "\x00"); name == "runsc-sandbox" {
			// As Go's runtime does. What no signal does: gVisor passes them to PID 1.
			if err := errors.Join(os.WriteFile("/proc/"+pid+"/fd/2", []byte(why+"\n\n"+stack+"\n"), 0), syscall.Kill(atoi(t, pid), syscall.SIGKILL)); err != nil {
				t.Error(err)
			}
		}
	}
	gone(t, parts)
	if got, err := rt.Get(t.Context(), s.ID()); err != nil || got.State != runtime.StateDead || got.Reason != "PID 1 has ended: "+why {
		t.Errorf("Get: got %+v, err %v; want err == nil and got.State == runtime.StateDead and got.Reason == %q",
			got, err, "PID 1 has ended: "+why)
	}
	log, err := rt.Log(s.ID())
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	if text, err := io.ReadAll(log); err != nil || !strings.Contains(string(text), why+"\n\n"+stack+"\n") {
		t.Errorf("the log is %q, %v", text, err)
	}
}

// fake returns a runtime whose runsc is a script.
func fake(t *testing.T, script string) *shimtest.Runtime {
	t.Helper()
	bin := shimtest.PublicDir(t)
	for _, name := range []string{"wolffia", "wolffia-box", "wolffia-tree", "wolffia-guest"} {
		if err := os.Symlink(filepath.Join(testbin.Dir(t), name), filepath.Join(bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	head := "#!/bin/sh\ncase $1 in --version) echo runsc version release-20991231.0+wolffia." + runsc.Patches + "; exit;; esac\n"
	file := filepath.Join(bin, "runsc")
	if err := errors.Join(os.WriteFile(file, []byte(head+script+"\n"), 0o755), os.Chmod(file, 0o755)); err != nil { // whatever the umask
		t.Fatal(err)
	}
	// What this process has had open for writing, each program that another test starts has too until it executes: meanwhile
	// the file is busy, and the runsc of the host would be taken.
	suite.New(t).Until("the file is not busy", func() bool { return !errors.Is(exec.Command(file, "--version").Run(), syscall.ETXTBSY) })
	var b shimtest.Backend = func(opts *local.Options) (*local.Runtime, error) {
		opts.Binary = filepath.Join(bin, "wolffia")
		return shimtest.Of(gvisor.Backend())(opts) // one that has not found another runsc yet
	}
	return b.Fresh(t)
}

// A start that the limit of memory ends names the limit; one that cannot be enough is refused.
func TestStartOutOfMemory(t *testing.T) {
	testenv.Both(t)
	need(t)
	testenv.Cgroups(t)
	rt := fake(t, "exec python3 -c 'bytearray(500 << 20)'")
	s, err := rt.Create(t.Context(), &runtime.SandboxConfig{Resources: runtime.Resources{Memory: 64 << 20}})
	if err != nil {
		t.Fatal(err)
	}
	if err := rt.Start(t.Context(), s.ID); runtime.Class(err) != runtime.ErrUnavailable || !strings.Contains(err.Error(), "limit of memory, 67108864 bytes, was reached") {
		t.Error(err)
	}
	if err := rt.Destroy(t.Context(), s.ID); err != nil {
		t.Error(err)
	}
	if s, err := rt.Create(t.Context(), &runtime.SandboxConfig{Resources: runtime.Resources{Memory: 16 << 20}}); runtime.Class(err) != runtime.ErrInvalid {
		t.Errorf("Create: got s %+v, err %v; want runtime.Class(err) == runtime.ErrInvalid", s, err)
	}
}

// A start that hangs, or fails, ends in time, says why, and leaves nothing.
func TestStartThatFails(t *testing.T) {
	need(t)
	for script, want := range map[string]string{
		"exec sleep 1000": "hung here: wait for PID 1",
		"trap '' TERM INT HUP; while :; do sleep 1000; done": "hung here: wait for PID 1",
		"echo no way >&2; exit 3":                            "no way",
		"exit 0":                                             "PID 1 ended at once",
		"echo nonsense; exec sleep 1000":                     "gvisor could not start the sandbox",
	} {
		t.Run(script, func(t *testing.T) {
			t.Parallel()
			rt := fake(t, script)
			s, err := rt.Create(t.Context(), &runtime.SandboxConfig{})
			if err != nil {
				t.Fatal(err)
			}
			begin := time.Now()
			start := func(patience time.Duration) (came bool) {
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				begin = time.Now()
				err = rt.Start(ctx, s.ID)
				return err == nil || strings.Contains(err.Error(), want)
			}
			if strings.HasPrefix(want, "hung") {
				suite.Timeouts(start)
			} else {
				start(limit)
			}
			if err == nil || !strings.Contains(err.Error(), want) || runtime.Class(err) != runtime.ErrUnavailable {
				t.Errorf("%s: %v, want %q", script, err, want)
			}
			if took := time.Since(begin); took > limit {
				t.Errorf("%s: it took %v", script, took)
			}
			gone(t, partsOf(t, s.ID)) // this runsc is a shell by name: what kills it does not wait for it
			if err := rt.Destroy(t.Context(), s.ID); err != nil {
				t.Error(err)
			}
		})
	}
}

// A runsc whose shim ends before the kernel was asked to end both together does not start.
func TestOrphanedStage(t *testing.T) {
	need(t)
	for _, alive := range []bool{false, true} {
		input, shim, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer input.Close()
		defer shim.Close()
		if alive {
			_, err = shim.Write([]byte{0})
		} else {
			err = shim.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
		program, err := os.Open("/bin/echo")
		if err != nil {
			t.Fatal(err)
		}
		defer program.Close()
		var stdout, stderr bytes.Buffer
		stage := exec.Command(filepath.Join(testbin.Dir(t), "wolffia-box"), "runsc", "it", "started")
		stage.Args[0] = "wolffia"
		stage.Stdin, stage.Stdout, stage.Stderr, stage.ExtraFiles = input, &stdout, &stderr, []*os.File{program}
		stage.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID,
			UidMappings: []syscall.SysProcIDMap{{HostID: os.Geteuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{HostID: os.Getegid(), Size: 1}},
		}
		err = stage.Run()
		if started := err == nil && stdout.String() == "it started\n"; started != alive || !alive && !strings.Contains(stderr.String(), "the shim has ended") {
			t.Errorf("the shim lives: %v: %v, %q, %q", alive, err, stdout.String(), stderr.String())
		}
	}
}

// Without a runsc that can be used, the error says what to do.
func TestNoRunsc(t *testing.T) {
	bin := shimtest.PublicDir(t)
	for _, name := range []string{"wolffia", "wolffia-box", "wolffia-tree", "wolffia-guest"} {
		if err := os.Symlink(filepath.Join(testbin.Dir(t), name), filepath.Join(bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", bin)
	t.Setenv("XDG_CACHE_HOME", bin)
	for script, want := range map[string]string{
		"":                                            "neither beside wolffia",
		"echo runsc version release-20200101.0":       "too old",
		"echo runsc version release-20991231.0":       "without wolffia's patches",
		"echo I am not even the program; exit 0":      "not runsc",
		"echo runsc version release-20991231; exit 1": "--version fails",
	} {
		if script != "" {
			if err := os.WriteFile(filepath.Join(bin, "runsc"), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		rt, err := local.New(&local.Options{StateDir: filepath.Join(shimtest.PublicDir(t), "state"), Binary: filepath.Join(bin, "wolffia")}, gvisor.Backend())
		if err != nil {
			t.Fatal(err)
		}
		s, err := rt.Create(t.Context(), &runtime.SandboxConfig{})
		if err != nil {
			t.Fatal(err)
		}
		err = rt.Start(t.Context(), s.ID)
		if runtime.Class(err) != runtime.ErrUnavailable || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "make runsc") {
			t.Errorf(`%q: got err %v; want runtime.Class(err) == runtime.ErrUnavailable and err.Error() contains %v and err.Error() contains "make runsc"`,
				script, err, want)
		}
		if err := errors.Join(rt.Destroy(t.Context(), s.ID), rt.Close()); err != nil {
			t.Error(err)
		}
		_ = os.Remove(filepath.Join(bin, "runsc"))
	}
}

func TestUnknownPlatform(t *testing.T) {
	rt := backend.Fresh(t)
	s, err := rt.Create(t.Context(), &runtime.SandboxConfig{Platform: "ptrace"})
	if runtime.Class(err) != runtime.ErrUnsupported || !strings.Contains(err.Error(), "systrap, kvm") {
		t.Errorf(`Create: got s %+v, err %v; want runtime.Class(err) == runtime.ErrUnsupported and err.Error() contains "systrap, kvm"`,
			s, err)
	}
}

func TestRootDropsToOwner(t *testing.T) {
	testenv.Root(t)
	need(t)
	shimtest.RootDropsToOwner(t, backend)
}
