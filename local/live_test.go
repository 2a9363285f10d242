package local_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/fusefs/audit"
	"wolffia/internal/host/boot"
	"wolffia/internal/host/statedir"
	"wolffia/internal/sys/rawsock"
	"wolffia/internal/test/shimtest"
	"wolffia/internal/test/testenv"
	"wolffia/internal/test/wait"
	"wolffia/local"
	"wolffia/perm"
	"wolffia/runtime"
	"wolffia/wire"
	"wolffia/wire/client"
)

// sh runs a script and returns what it prints, and its exit code.
func sh(t *testing.T, rt *local.Runtime, id, script string) (string, int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
	defer cancel()
	res, err := rt.Exec(ctx, id, &runtime.ExecRequest{Command: []string{"sh", "-c", script}})
	if err != nil {
		t.Fatalf("%s: %v", script, err)
	}
	return string(res.Stdout) + string(res.Stderr), res.ExitCode
}

func write(t *testing.T, dir, name, content string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func everything(level perm.Level) []perm.Rule { return []perm.Rule{{Pattern: "**", Level: level}} }

// Rules bind when SetPermissions returns, for what is open too, and from the
// next start on; those that are not valid change nothing.
func TestSetPermissions(t *testing.T) {
	rt, _, codebase := newRuntime(t)
	write(t, codebase, "a", "content\n")
	id := create(t, rt, codebase)
	hide := append(everything(perm.Write), perm.Rule{Pattern: "a", Level: perm.None})
	check := func(when, want string) {
		t.Helper()
		if out, _ := sh(t, rt, id, "cat a"); !strings.Contains(out, want) {
			t.Errorf("%s: %q, want %q", when, out, want)
		}
		d, err := rt.Inspect(t.Context(), id)
		if err != nil || d.Tree == nil || d.Tree.TreeStats == nil || !d.Tree.Current || len(d.Tree.Messages) == 0 {
			t.Errorf("%s: got d.Tree %+v, err %v; want err == nil and d.Tree != nil and d.Tree.TreeStats != nil and d.Tree.Current and len(d.Tree.Messages) != 0",
				when, d.Tree, err)
		}
	}
	set := func(rules []perm.Rule) {
		t.Helper()
		if err := rt.SetPermissions(t.Context(), id, rules); err != nil {
			t.Fatal(err)
		}
	}
	set(hide) // not started yet
	if err := rt.Start(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	check("set before the first start", "No such file")
	set(everything(perm.Read))
	check("shown", "content")
	p, err := rt.StartProcess(t.Context(), id, &runtime.Command{Command: []string{"sh", "-c", "exec 3<a; echo open; read x; cat <&3"}, OpenStdin: true})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if _, err := p.Stdout().Read(make([]byte, 5)); err != nil {
		t.Fatal(err)
	}
	set(hide)
	if _, err := p.Stdin().Write([]byte("\n")); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
	defer cancel()
	if exit, err := p.Wait(ctx); err != nil || exit.ExitCode == 0 {
		t.Errorf("a file that was open is read still: %+v, %v", exit, err)
	}
	check("hidden", "No such file")
	for _, bad := range [][]perm.Rule{{{Pattern: "[", Level: perm.Read}}, {{Pattern: "a//b", Level: perm.Read}}, make([]perm.Rule, 10_001)} {
		if err := rt.SetPermissions(t.Context(), id, bad); !errors.Is(err, runtime.ErrInvalid) {
			t.Errorf("%d bad rules: %v", len(bad), err)
		}
	}
	check("bad rules", "No such file")
	if err := rt.Stop(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if err := rt.Start(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	check("started again", "No such file")
	if err := rt.Stop(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	set(everything(perm.Read))
	if err := rt.Start(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	check("set while stopped", "content")
	set(nil)
	check("no rules", "No such file")
}

// A client that says too much, or does not wait for its answers, is cut off, and
// nobody else.
func TestClientThatBreaksTheProtocol(t *testing.T) {
	rt, state, codebase := newRuntime(t)
	id := started(t, rt, codebase)
	t.Chdir(filepath.Join(state, "sandboxes", id, "run")) // a socket's address has room for 107 bytes
	for name, say := range map[string]func(w *wire.Writer) error{
		"endless":    func(w *wire.Writer) error { return w.Send(wire.ControlMore, 0, make([]byte, wire.MaxPayload)) },
		"impatient":  func(w *wire.Writer) error { return w.WriteControl([]byte(`{"op":"stats"}`)) },
		"no JSON":    func(w *wire.Writer) error { return w.WriteControl([]byte(`{`)) },
		"deaf":       func(w *wire.Writer) error { return w.WriteControl([]byte(`{"op":"nonsense"}`)) },
		"other type": func(w *wire.Writer) error { return w.Send(wire.Ping, 0, nil) },
	} {
		sock, err := net.Dial("unix", "sock")
		if err != nil {
			t.Fatal(err)
		}
		w := wire.NewWriter(sock)
		cut := false
		for range 100_000 {
			if cut = say(w) != nil; cut {
				break
			}
		}
		if !cut {
			t.Errorf("%s: it may go on", name)
		}
		_ = sock.Close()
	}
	if d, err := rt.Inspect(t.Context(), id); err != nil || d.Tree == nil || !d.Tree.Current {
		t.Errorf("Inspect: got d %+v, err %v; want err == nil and d.Tree != nil and d.Tree.Current", d, err)
	}
}

// A shim that has no descriptors for a client takes it once there are.
func TestNoDescriptorsForAClient(t *testing.T) {
	starter, state, codebase := newRuntime(t)
	id := started(t, starter, codebase)
	// It has no connection yet.
	rt := another(t, state)
	dir, err := statedir.Open(state)
	if err != nil {
		t.Fatal(err)
	}
	pid := dir.Record(id).Processes().Shim().PID
	const most = 1 << 10
	if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 0, Max: most}, nil); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir.Record(id).Run())          // a socket's address has room for 107 bytes
	first, err := net.Dial("unix", "sock") // its descriptor is there: the shim waits for it in the kernel
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	asked := make(chan error, 1)
	go func() {
		_, err := rt.Exec(t.Context(), id, &runtime.ExecRequest{Command: []string{"true"}})
		asked <- err
	}()
	select {
	case err := <-asked:
		t.Errorf("without descriptors: %v", err)
	case <-time.After(200 * time.Millisecond):
	}
	if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: most, Max: most}, nil); err != nil {
		t.Fatal(err)
	}
	if err := wait.Receive(t, "the answer", asked); err != nil {
		t.Error(err)
	}
}

// Ten thousand rules are more than fits in any frame or packet.
func TestSetManyPermissions(t *testing.T) {
	rt, _, codebase := newRuntime(t)
	write(t, codebase, "name-9998", "content\n")
	id := started(t, rt, codebase)
	rules := everything(perm.Write)
	for i := range 9_999 {
		rules = append(rules, perm.Rule{Pattern: fmt.Sprintf("/name-%d", i), Level: perm.None, Source: strings.Repeat("s", 100)})
	}
	if err := rt.SetPermissions(t.Context(), id, rules); err != nil {
		t.Fatal(err)
	}
	if out, code := sh(t, rt, id, "cat name-9998"); code == 0 {
		t.Errorf(`sh "cat name-9998": got %q; want code != 0`, out)
	}
}

func TestSetPermissionsWithoutCodebase(t *testing.T) {
	rt, _, _ := newRuntime(t)
	s, err := rt.Create(t.Context(), &runtime.SandboxConfig{})
	if err != nil {
		t.Fatal(err)
	}
	for _, start := range []bool{false, true} {
		if start {
			if err := rt.Start(t.Context(), s.ID); err != nil {
				t.Fatal(err)
			}
		}
		if err := rt.SetPermissions(t.Context(), s.ID, everything(perm.Read)); !errors.Is(err, runtime.ErrInvalid) || !strings.Contains(err.Error(), "no codebase") {
			t.Errorf(`SetPermissions: got err %v; want err is runtime.ErrInvalid and err.Error() contains "no codebase"`, err)
		}
	}
	if d, err := rt.Inspect(t.Context(), s.ID); err != nil || d.Tree != nil {
		t.Errorf("Inspect: got d %+v, err %v; want err == nil and d.Tree == nil", d, err)
	}
	if err := rt.SetPermissions(t.Context(), "nobodysbox00", nil); !errors.Is(err, runtime.ErrNotFound) {
		t.Errorf(`SetPermissions "nobodysbox00": got %v, want runtime.ErrNotFound`, err)
	}
}

// Rules that were made from others replace those only.
func TestReplacePermissions(t *testing.T) {
	rt, _, codebase := newRuntime(t)
	was := everything(perm.Read)
	s, err := rt.Create(t.Context(), &runtime.SandboxConfig{CodebasePath: codebase, Permissions: was})
	if err != nil {
		t.Fatal(err)
	}
	now := everything(perm.View)
	if err := rt.ReplacePermissions(t.Context(), s.ID, was, now); err != nil {
		t.Fatal(err)
	}
	if err := rt.ReplacePermissions(t.Context(), s.ID, was, everything(perm.Write)); !errors.Is(err, local.ErrChanged) || !errors.Is(err, runtime.ErrConflict) {
		t.Errorf("ReplacePermissions: got err %v; want err is local.ErrChanged and err is runtime.ErrConflict", err)
	}
	if d, err := rt.Inspect(t.Context(), s.ID); err != nil || !slices.Equal(d.Config.Permissions, now) {
		t.Errorf("Inspect: got d %+v, err %v; want err == nil and d.Config.Permissions == %v", d, err, now)
	}
}

// A caller that sets rules at the same time as others set them, start, and stop the
// sandbox: in the end what is in force is what is recorded.
func TestSetPermissionsConcurrently(t *testing.T) {
	rt, _, codebase := newRuntime(t)
	id := create(t, rt, codebase)
	ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
	defer cancel()
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 10 {
				rules := append(everything(perm.Write), perm.Rule{Pattern: fmt.Sprintf("%d-%d", g, i), Level: perm.None})
				if err := rt.SetPermissions(ctx, id, rules); err != nil {
					t.Errorf("set: %v", err)
				}
			}
		})
	}
	wg.Go(func() {
		for range 5 {
			if err := rt.Start(ctx, id); err != nil && !errors.Is(err, runtime.ErrConflict) {
				t.Errorf("start: %v", err)
			}
			if err := rt.Stop(ctx, id); err != nil {
				t.Errorf("stop: %v", err)
			}
		}
		if err := rt.Start(ctx, id); err != nil {
			t.Errorf("the last start: %v", err)
		}
	})
	wg.Wait()
	d, err := rt.Inspect(ctx, id)
	if err != nil || d.Tree == nil || !d.Tree.Current {
		t.Fatalf("Inspect: got d %+v, err %v; want err == nil and d.Tree != nil and d.Tree.Current", d, err)
	}
	last := d.Config.Permissions[1].Pattern
	write(t, codebase, last, "")
	write(t, codebase, "other", "")
	if out, _ := sh(t, rt, id, "ls"); out != "other\n" {
		t.Errorf("%s is hidden, so it was recorded; inside there is %q", last, out)
	}
}

// A sandbox that is destroyed while its rules are set is gone.
func TestSetPermissionsOfOneThatGoes(t *testing.T) {
	rt, _, codebase := newRuntime(t)
	for range 5 {
		id := started(t, rt, codebase)
		var wg sync.WaitGroup
		wg.Go(func() {
			for {
				if err := rt.SetPermissions(t.Context(), id, everything(perm.Read)); err != nil {
					if !errors.Is(err, runtime.ErrNotFound) {
						t.Errorf("set: %v", err)
					}
					return
				}
			}
		})
		if err := rt.Destroy(t.Context(), id); err != nil {
			t.Error(err)
		}
		wg.Wait()
	} // newRuntime looks for what is left
}

// Rules that are recorded and not in force are not a secret, and setting them
// again puts it right.
func TestRulesThatAreNotInForce(t *testing.T) {
	rt, state, codebase := newRuntime(t)
	id := started(t, rt, codebase)
	dir, err := statedir.Open(state)
	if err != nil {
		t.Fatal(err)
	}
	rec := dir.Record(id)
	c, err := rec.Config()
	if err != nil {
		t.Fatal(err)
	}
	c.Permissions = everything(perm.View) // as who is killed just then does
	if err := rec.SetConfig(c); err != nil {
		t.Fatal(err)
	}
	for _, want := range []bool{false, true} {
		d, err := rt.Inspect(t.Context(), id)
		if err != nil || d.Tree == nil || d.Tree.TreeStats == nil || d.Tree.Current != want {
			t.Errorf("%+v, %v; want current %v", d.Tree, err, want)
		}
		if err := rt.SetPermissions(t.Context(), id, c.Permissions); err != nil {
			t.Fatal(err)
		}
	}
}

// signalPart sends a signal to one of a sandbox's processes.
func signalPart(t *testing.T, id, part string, sig syscall.Signal) {
	t.Helper()
	for _, line := range processes(t, id) {
		pid, cmdline, _ := strings.Cut(line, " ")
		if strings.HasPrefix(cmdline, part) {
			var n int
			if _, err := fmt.Sscan(pid, &n); err != nil {
				t.Fatal(err)
			}
			if sig == syscall.SIGSTOP {
				shimtest.Stop(t, n)
			} else if err := syscall.Kill(n, sig); err != nil {
				t.Fatal(err)
			}
			return
		}
	}
	t.Fatalf("no %s", part)
}

// A tree server that does not answer delays no caller that asks about it, nor
// anything that does not need the tree.
func TestTreeServerThatIsStopped(t *testing.T) {
	rt, _, codebase := newRuntime(t)
	id := started(t, rt, codebase)
	signalPart(t, id, "wolffia tree", syscall.SIGSTOP)
	ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
	defer cancel()
	inspected := make(chan error, 1)
	go func() {
		d, err := rt.Inspect(ctx, id)
		if err == nil && (d.Tree == nil || d.Tree.TreeStats != nil || !strings.Contains(d.Tree.Problem, "does not answer")) {
			err = fmt.Errorf("%+v", d.Tree)
		}
		inspected <- err
	}()
	res, err := rt.Exec(ctx, id, &runtime.ExecRequest{Command: []string{"echo", "here"}, Cwd: "/tmp"})
	if err != nil || string(res.Stdout) != "here\n" {
		t.Errorf("Exec: got res %+v, err %v; want err == nil and res.Stdout == %q", res, err, "here\n")
	}
	if err := <-inspected; err != nil {
		t.Error(err)
	}
	signalPart(t, id, "wolffia tree", syscall.SIGCONT)
	if d, err := rt.Inspect(ctx, id); err != nil || d.Tree == nil || !d.Tree.Current {
		t.Errorf("Inspect: got d %+v, err %v; want err == nil and d.Tree != nil and d.Tree.Current", d, err)
	}
}

// A shim that does not answer does not hang those who inspect.
func TestInspectWhenTheShimIsStopped(t *testing.T) {
	rt, _, codebase := newRuntime(t)
	id := started(t, rt, codebase)
	signalPart(t, id, "wolffia shim", syscall.SIGSTOP)
	ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
	defer cancel()
	if d, err := rt.Inspect(ctx, id); err != nil || d.Tree == nil || !strings.Contains(d.Tree.Problem, "the shim does not answer") {
		t.Errorf(`Inspect: got d %+v, err %v; want err == nil and d.Tree != nil and d.Tree.Problem contains "the shim does not answer"`,
			d, err)
	}
	signalPart(t, id, "wolffia shim", syscall.SIGCONT)
}

// Nor those who wait for work that takes its time.
func TestReviewWhenTheShimIsStopped(t *testing.T) {
	rt, _, codebase := newRuntime(t)
	s, err := rt.Create(t.Context(), &runtime.SandboxConfig{CodebasePath: codebase, CopyOnWrite: true, Permissions: everything(perm.Write)})
	if err == nil {
		err = rt.Start(t.Context(), s.ID)
	}
	if err != nil {
		t.Fatal(err)
	}
	id := s.ID
	signalPart(t, id, "wolffia shim", syscall.SIGSTOP)
	defer signalPart(t, id, "wolffia shim", syscall.SIGCONT)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if all, err := rt.Changes(ctx, id, runtime.ChangesOptions{}); err == nil || !strings.Contains(err.Error(), "the shim does not answer") {
		t.Errorf(`Changes: got all %v, err %v; want err != nil and err.Error() contains "the shim does not answer"`, all, err)
	}
}

// A process that controls the shim cannot have root's own codebase served by
// other rules than root has recorded.
func TestRootsTreeTakesRecordedRulesOnly(t *testing.T) {
	testenv.Root(t)
	rt, state, codebase := newRuntime(t)
	id := started(t, rt, codebase)
	if err := rt.SetPermissions(t.Context(), id, everything(perm.Read)); err != nil {
		t.Fatal(err)
	}
	t.Chdir(filepath.Join(state, "sandboxes", id, "run")) // a socket's path has 107 bytes at most
	dialled, err := net.Dial("unix", "sock")
	if err != nil {
		t.Fatal(err)
	}
	sock, err := rawsock.NewSocket(dialled.(*net.UnixConn))
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(everything(perm.Write))
	if err != nil {
		t.Fatal(err)
	}
	rules, err := boot.SealedFile(text)
	if err != nil {
		t.Fatal(err)
	}
	defer rules.Close()
	sock.Pass(rules)
	conn := client.New(sock)
	defer conn.Close()
	ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
	defer cancel()
	var answer struct{ Error, Class string }
	request := &boot.Request{Op: boot.OpRules, At: boot.DirAt(codebase)}
	if err := conn.Control(ctx, request, &answer); err != nil || answer.Class != runtime.ErrDenied.Error() {
		t.Errorf("Control: got answer %+v, err %v; want err == nil and answer.Class == runtime.ErrDenied.Error()", answer, err)
	}
	if out, code := sh(t, rt, id, "echo x > file"); code == 0 {
		t.Errorf(`sh "echo x > file": got %q; want code != 0`, out)
	}
}

// Root's sandbox over a user's codebase is served as that user, who cannot read
// what root has recorded, and takes other rules all the same; its audit log is
// the user's.
func TestRootChangesTheRulesOfAUsersCodebase(t *testing.T) {
	testenv.Root(t)
	rt, state, codebase := newRuntime(t)
	const uid = 2000
	if err := os.Chown(codebase, uid, uid); err != nil {
		t.Fatal(err)
	}
	write(t, codebase, "a", "content\n")
	id := started(t, rt, codebase)
	if err := rt.SetPermissions(t.Context(), id, append(everything(perm.Write), perm.Rule{Pattern: "a", Level: perm.None})); err != nil {
		t.Fatal(err)
	}
	if out, code := sh(t, rt, id, "cat a"); code == 0 {
		t.Errorf(`sh "cat a": got %q; want code != 0`, out)
	}
	if err := rt.Stop(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if got := all(t, rt, id); len(got) == 0 || got[0].Path != "a" || got[0].UID != uid {
		t.Errorf(`all: got %+v; want len(got) != 0 and got[0].Path == "a" and got[0].UID == uid`, got)
	}
	st, err := os.Stat(filepath.Join(state, "sandboxes", id, "run", "audit.log"))
	if err != nil || st.Mode() != 0o600 || st.Sys().(*syscall.Stat_t).Uid != uid {
		t.Errorf("os.Stat: got st %v, err %v; want err == nil and st.Mode() == 0o600 and st.Sys().(*syscall.Stat_t).Uid == uid", st, err)
	}
	st, err = os.Stat(filepath.Join(state, "sandboxes", id, "config.json"))
	if err != nil || st.Mode() != 0o600 || st.Sys().(*syscall.Stat_t).Uid != 0 {
		t.Errorf("os.Stat: got st %v, err %v; want err == nil and st.Mode() == 0o600 and st.Sys().(*syscall.Stat_t).Uid == 0", st, err)
	}
}

// What is denied is in the log by the time that its readers are told:
// with the rule, the remedy and who it was; it stays when the sandbox stops,
// and goes with it.
func TestAudit(t *testing.T) {
	rt, _, codebase := newRuntime(t)
	write(t, codebase, "secret", "content\n")
	s, err := rt.Create(t.Context(), &runtime.SandboxConfig{
		CodebasePath: codebase,
		Permissions: []perm.Rule{
			{Pattern: "**", Level: perm.Write, Source: "base"},
			{Pattern: "{secret,hidden*}", Level: perm.None, Priority: perm.PrioritySecret, Source: "test"},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := rt.Start(t.Context(), s.ID); err != nil {
		t.Fatal(err)
	}
	log, alive, err := rt.Audit(t.Context(), s.ID)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
	defer cancel()
	records, ended := make(chan audit.Record, 100), make(chan error, 1)
	go func() {
		ended <- log.Follow(ctx, alive, func(r audit.Record) error {
			records <- r
			return nil
		})
	}()
	nextRecord := func() audit.Record {
		t.Helper()
		select {
		case r := <-records:
			return r
		case <-ctx.Done():
			t.Fatal("no record comes")
			return audit.Record{}
		}
	}
	sh(t, rt, s.ID, "cat secret")
	r := nextRecord()
	if r.Op != "lookup" || r.Path != "secret" || r.Errno != "ENOENT" || r.Level != perm.None || r.Need != perm.View ||
		r.Rule == nil || r.Rule.Source != "test" || r.Remedy != "--reveal '/secret=read'" ||
		r.PID == 0 || r.Command != "cat" || int(r.UID) != s.UID || r.Count != 1 || r.Time.IsZero() {
		t.Errorf("the denial of the lookup of secret by cat: got %+v, want ENOENT, the rule, its remedy, who asked", r)
	}
	hostile := "hidden\x1b[2J\xff\n"
	if _, err := rt.Exec(ctx, s.ID, &runtime.ExecRequest{Command: []string{"touch", hostile}}); err != nil {
		t.Fatal(err)
	}
	for r = nextRecord(); r.Path != hostile; r = nextRecord() {
		t.Errorf("a denial: got %+v, want the one of %q", r, hostile)
	}
	before := all(t, rt, s.ID)
	if err := rt.Stop(ctx, s.ID); err != nil {
		t.Fatal(err)
	}
	if got := all(t, rt, s.ID); len(got) < len(before) {
		t.Errorf("%d records, %d after the stop", len(before), len(got))
	}
	if err := rt.Start(ctx, s.ID); err != nil {
		t.Fatal(err)
	}
	sh(t, rt, s.ID, "mkdir hidden-dir")
	for r = nextRecord(); r.Op != "mkdir"; r = nextRecord() {
		if r.Path == "secret" && r.Since.IsZero() {
			t.Errorf("told twice: %+v", r)
		}
	}
	if err := rt.Destroy(ctx, s.ID); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("who follows: %v", err)
	}
}

// all reads a sandbox's log.
func all(t *testing.T, rt *local.Runtime, id string) (records []audit.Record) {
	t.Helper()
	log, _, err := rt.Audit(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	for {
		r, err := log.Next()
		if err != nil {
			return records
		}
		records = append(records, r)
	}
}

// hiding starts a sandbox that hides what matches a pattern.
func hiding(t *testing.T, rt *local.Runtime, codebase, pattern string) *runtime.Sandbox {
	t.Helper()
	s, err := rt.Create(t.Context(), &runtime.SandboxConfig{
		CodebasePath: codebase,
		Permissions:  append(everything(perm.Write), perm.Rule{Pattern: pattern, Level: perm.None}),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := rt.Start(t.Context(), s.ID); err != nil {
		t.Fatal(err)
	}
	return s
}

// What a program was refused is in the log as soon as it has ended.
func TestAuditIsComplete(t *testing.T) {
	rt, _, codebase := newRuntime(t)
	s := hiding(t, rt, codebase, "new*")
	for i := range 20 {
		sh(t, rt, s.ID, fmt.Sprintf("mkdir new%d 2>/dev/null; true", i))
		last := audit.Record{}
		for _, r := range all(t, rt, s.ID) {
			if r.Op == "mkdir" {
				last = r
			}
		}
		if want := fmt.Sprint("new", i); last.Path != want {
			t.Fatalf("the last line is of %q, want %q", last.Path, want)
		}
	}
}

// A thousand denials of one kind, from as many processes, are a few lines that
// stand for all of them.
func TestAuditOfManyDenials(t *testing.T) {
	rt, _, codebase := newRuntime(t)
	s := hiding(t, rt, codebase, "new")
	sh(t, rt, s.ID, "i=0; while [ $i -lt 1000 ]; do mkdir new 2>/dev/null; i=$((i+1)); done")
	if err := rt.Stop(t.Context(), s.ID); err != nil {
		t.Fatal(err)
	}
	var lines int
	var n int64
	for _, r := range all(t, rt, s.ID) {
		if r.Op == "mkdir" || r.Dropped > 0 {
			lines++
			n += r.Count + r.Dropped
		}
	}
	if n != 1000 || lines > 500 { // fewer the faster it goes
		t.Errorf("%d lines for %d denials", lines, n)
	}
}
