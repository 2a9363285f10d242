package local_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"path/filepath"
	goruntime "runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"wolffia/internal/host/boot"
	"wolffia/internal/host/probe"
	"wolffia/internal/host/statedir"
	"wolffia/internal/test/testbin"
	"wolffia/internal/test/testenv"
	"wolffia/internal/test/wait"
	"wolffia/local"
	"wolffia/perm"
	"wolffia/runtime"
	"wolffia/runtime/bwrap"
	"wolffia/runtime/gvisor"
	"wolffia/wire"
	"wolffia/wire/client"
)

// startedPool returns a runtime with n pooled sandboxes for the empty configuration.
// Two processes that start the sandbox of a pooled sandbox at once: one does, the other is told, and the sandbox runs on.
func TestPooledStartedTwice(t *testing.T) {
	rt, state, codebase, _ := startedPool(t, 0, time.Hour)
	other := another(t, state)
	for range 20 {
		if _, err := rt.StartPooled(t.Context(), &runtime.SandboxConfig{}, time.Hour); err != nil {
			t.Fatal(err)
		}
		s, err := rt.Create(t.Context(), given(codebase))
		if err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		var errs [2]error
		for i, r := range []*local.Runtime{rt, other} {
			all.Go(func() { errs[i] = r.Start(t.Context(), s.ID) })
		}
		all.Wait()
		if (errs[0] == nil) == (errs[1] == nil) || runtime.Class(errors.Join(errs[:]...)) != runtime.ErrConflict {
			t.Fatalf("got %v, %v; want (errs[0] == nil) != errs[1] == nil and runtime.Class(errors.Join(errs[:]...)) == runtime.ErrConflict",
				errs[0], errs[1])
		}
		if err := rt.Destroy(t.Context(), s.ID); err != nil {
			t.Fatal(err)
		}
	}
}

func startedPool(t *testing.T, n int, idle time.Duration) (rt *local.Runtime, state, codebase string, ids []string) {
	t.Helper()
	testenv.Unprivileged(t)
	rt, state, codebase = newRuntime(t)
	t.Cleanup(func() {
		left, err := rt.PooledSandboxes()
		for _, s := range left {
			err = errors.Join(err, rt.TerminatePooled(context.Background(), s.ID))
		}
		if err != nil {
			t.Error(err)
		}
	})
	for range n {
		id, err := rt.StartPooled(t.Context(), &runtime.SandboxConfig{}, idle)
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	return rt, state, codebase, ids
}

// A sandbox whose configuration matches is made of a pooled sandbox.
func TestPooledIsClaimed(t *testing.T) {
	rt, _, codebase, ids := startedPool(t, 1, time.Hour)
	write(t, codebase, "a", "content\n")
	write(t, codebase, "secret", "content\n")
	if all, err := rt.List(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("a pooled sandbox is listed: %v, %v", all, err)
	}
	s, err := rt.Create(t.Context(), &runtime.SandboxConfig{
		CodebasePath: codebase, Permissions: []perm.Rule{{Pattern: "**", Level: perm.Write}, {Pattern: "secret", Level: perm.None}},
		Labels: map[string]string{"k": "v"}, Env: map[string]string{"E": "e"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if s.ID != ids[0] || s.State != runtime.StateCreated {
		t.Fatalf("%+v, and the pooled sandbox is %v", s, ids)
	}
	if err := rt.Start(t.Context(), s.ID); err != nil {
		t.Fatal(err)
	}
	if !rt.Direct(s.ID) {
		t.Error("the pooled sandbox's answer came without a connection to PID 1: the first command has to ask for one")
	}
	if s, err = rt.Get(t.Context(), s.ID); err != nil || s.State != runtime.StateRunning {
		t.Fatalf("Get: got s %+v, err %v; want err == nil and s.State == runtime.StateRunning", s, err)
	}
	if out, code := sh(t, rt, s.ID, "ls; cat a; echo $E; pwd; hostname"); out != "a\ncontent\ne\n/workspace\n"+s.ID+"\n" || code != 0 {
		t.Errorf(`sh "ls; cat a; echo $E; pwd; hostname": got %q, %d; want %q, 0`, out, code, "a\ncontent\ne\n/workspace\n"+s.ID+"\n")
	}
}

// given returns a configuration of the empty one's shape.
func given(codebase string) *runtime.SandboxConfig {
	return &runtime.SandboxConfig{CodebasePath: codebase, Permissions: everything(perm.Write)}
}

// launched makes a sandbox and starts it.
func launched(t *testing.T, rt *local.Runtime, c *runtime.SandboxConfig) *runtime.Sandbox {
	t.Helper()
	s, err := rt.Create(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if err := rt.Start(t.Context(), s.ID); err != nil {
		t.Fatal(err)
	}
	return s
}

// A pooled sandbox is the sandbox of one of many who ask at once; the others start theirs. None fails.
func TestPooledIsUsedOnce(t *testing.T) {
	rt, _, codebase, ids := startedPool(t, 2, time.Hour)
	const claimants = 6
	got := make(chan string, claimants)
	var all sync.WaitGroup
	for range claimants {
		all.Go(func() {
			s, err := rt.Create(t.Context(), given(codebase))
			if err == nil {
				err = rt.Start(t.Context(), s.ID)
			}
			if err != nil {
				t.Error(err)
				return
			}
			got <- s.ID
		})
	}
	all.Wait()
	close(got)
	seen := map[string]int{}
	for id := range got {
		seen[id]++
		if out, code := sh(t, rt, id, "pwd"); out != "/workspace\n" || code != 0 {
			t.Errorf(`sh "pwd": got %q, %d; want %q, 0`, out, code, "/workspace\n")
		}
	}
	for _, id := range ids {
		if seen[id] != 1 {
			t.Errorf("pooled sandbox %s is %d sandboxes", id, seen[id])
		}
	}
	if len(seen) != claimants {
		t.Errorf("%d sandboxes of %d have ids of their own", len(seen), claimants)
	}
	if left, err := rt.PooledSandboxes(); err != nil || len(left) != 0 {
		t.Errorf("Pooled sandboxes: got left %v, err %v; want err == nil and len(left) == 0", left, err)
	}
}

// Configurations of another shape do not get a pooled sandbox, nor does one with an id of its own.
func TestPooledOfAnotherShape(t *testing.T) {
	t.Setenv("WOLFFIA_GIT_MONITOR", "1") // a configuration of git
	rt, _, codebase, ids := startedPool(t, 1, time.Hour)
	for name, change := range map[string]func(*runtime.SandboxConfig){
		"place": func(c *runtime.SandboxConfig) { c.MountPoint = "/elsewhere" },
		"git":   func(c *runtime.SandboxConfig) { c.NoGitMonitor = true }, // without a configuration
		"id":    func(c *runtime.SandboxConfig) { c.ID = runtime.NewID() },
		"cow":   func(c *runtime.SandboxConfig) { c.CopyOnWrite = true },
		"mount": func(c *runtime.SandboxConfig) {
			c.Mounts = []runtime.Mount{{Source: codebase, Target: "/mnt/x", Unfiltered: true}}
		},
		"limit": func(c *runtime.SandboxConfig) { c.Resources.Disk = 1 << 30 },
		"none":  func(c *runtime.SandboxConfig) { c.CodebasePath, c.Permissions = "", nil },
	} {
		c := given(codebase)
		change(c)
		s, err := rt.Create(t.Context(), c)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if s.ID == ids[0] {
			t.Errorf("%s: it got the pooled sandbox", name)
		}
	}
	if left, err := rt.PooledSandboxes(); err != nil || len(left) != 1 || left[0].ID != ids[0] || left[0].Runtime != "bwrap" || left[0].Left <= 0 {
		t.Errorf(`Pooled sandboxes: got left %v, err %v; want err == nil and len(left) == 1 and left[0].ID == ids[0] and left[0].Runtime == "bwrap" and left[0].Left > 0`,
			left, err)
	}
	if err := rt.TerminatePooled(t.Context(), ids[0]); err != nil {
		t.Error(err)
	}
}

// A create and a start from a pool allocate little: what they do is collected while others start theirs.
func TestPooledIsClaimedInLittleMemory(t *testing.T) {
	if info, ok := debug.ReadBuildInfo(); ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		t.Skip("the race detector has pools of buffers lose some")
	}
	rt, _, codebase, ids := startedPool(t, 6, time.Hour)
	least, rules := uint64(math.MaxUint64), manyRules()
	for range ids {
		var before, after goruntime.MemStats
		goruntime.ReadMemStats(&before)
		launched(t, rt, &runtime.SandboxConfig{CodebasePath: codebase, Permissions: rules})
		goruntime.ReadMemStats(&after)
		least = min(least, after.TotalAlloc-before.TotalAlloc) // the first makes buffers
	}
	if least > 100<<10 { // 51 kB; it was 158
		t.Errorf("%d bytes are allocated", least)
	}
}

// manyRules are about as many as those of a preset.
func manyRules() []perm.Rule {
	rules := everything(perm.Write)
	for i := range 180 {
		rules = append(rules, perm.Rule{Pattern: fmt.Sprintf("/some/directory/with/a/name/%d/**", i), Level: perm.Read, Source: "a source of this rule"})
	}
	return rules
}

// A pooled sandbox that cannot be looked at is neither claimed nor forgotten: it would live on, and no command would find it.
func TestUnreadablePooled(t *testing.T) {
	rt, _, codebase, ids := startedPool(t, 2, time.Hour)
	lock := rt.RecordFor(ids[0]).Lockfile()
	ok := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	ok("move the lock", os.Rename(lock, lock+".aside"))
	ok("a lock that cannot be opened", os.Symlink("nowhere", lock))
	if all, err := rt.PooledSandboxes(); err != nil || len(all) != 2 {
		t.Errorf("Pooled sandboxes: got all %v, err %v; want err == nil and len(all) == 2", all, err)
	}
	for i, want := range []bool{true, false} {
		s, err := rt.Create(t.Context(), given(codebase))
		ok("create", err)
		if got := s.ID == ids[1]; got != want || s.ID == ids[0] {
			t.Errorf("%d: it is %s; the pooled sandboxes are %v", i, s.ID, ids)
		}
	}
	if all, err := rt.PooledSandboxes(); err != nil || len(all) != 1 || all[0].ID != ids[0] {
		t.Errorf("then %v, %v", all, err)
	}
	ok("put the lock back", os.Rename(lock+".aside", lock))
	s, err := rt.Create(t.Context(), given(codebase))
	ok("create", err)
	if s.ID != ids[0] {
		t.Error("the pooled sandbox is not claimed")
	}
}

// What is claimed for a sandbox that cannot be recorded has ended.
func TestPooledOfUnrecordable(t *testing.T) {
	rt, _, codebase, ids := startedPool(t, 1, time.Hour)
	rec := rt.RecordFor(ids[0])
	if err := os.Mkdir(filepath.Join(filepath.Dir(rec.Lockfile()), "lifetime.json"), 0o700); err != nil { // no file can be renamed to it
		t.Fatal(err)
	}
	c := given(codebase)
	c.TTL = time.Hour
	if s, err := rt.Create(t.Context(), c); runtime.Class(err) != runtime.ErrUnavailable {
		t.Errorf("Create: got s %v, err %v; want runtime.Class(err) == runtime.ErrUnavailable", s, err)
	}
	if err := rec.WaitUnlocked(t.Context(), wait.Limit); err != nil {
		t.Error(err)
	}
	if all, err := rt.PooledSandboxes(); err != nil || len(all) != 0 {
		t.Errorf("Pooled sandboxes: got all %v, err %v; want err == nil and len(all) == 0", all, err)
	}
}

// The shim itself refuses to become a sandbox of another shape, and then ends.
func TestPooledRefusesAnotherShape(t *testing.T) {
	rt, _, codebase, ids := startedPool(t, 2, time.Hour)
	for i, change := range []func(*statedir.Config){
		func(c *statedir.Config) { c.Network = runtime.NetworkHost },
		func(c *statedir.Config) { c.ID = ids[0] }, // of the other
	} {
		rec := rt.RecordFor(ids[i])
		r, err := rec.Pooled().Record()
		if err != nil {
			t.Fatal(err)
		}
		c := r.Config
		c.CodebasePath = codebase
		change(&c)
		if err := local.RequestPooled(rec, &boot.PooledRequest{Op: boot.OpActivate, Config: &c}); runtime.Class(err) != runtime.ErrInvalid {
			t.Errorf("%d: got err %v; want runtime.Class(err) == runtime.ErrInvalid", i, err)
		}
		if err := rec.WaitUnlocked(t.Context(), wait.Limit); err != nil {
			t.Error(err)
		}
	}
	if all, err := rt.PooledSandboxes(); err != nil || len(all) != 0 {
		t.Errorf("Pooled sandboxes: got all %v, err %v; want err == nil and len(all) == 0", all, err)
	}
}

// Before it is given to someone, a pooled sandbox does nothing for those who find its socket.
func TestPooledRunsNothing(t *testing.T) {
	rt, _, _, ids := startedPool(t, 1, time.Hour)
	rec := rt.RecordFor(ids[0])
	l, err := net.Dial("unix", statedir.PooledSocket(rec.Run()))
	if err != nil {
		t.Fatal(err)
	}
	conn := client.New(l)
	defer conn.Close()
	p, err := conn.Start(&client.Request{StartRequest: wire.StartRequest{Args: []string{"true"}, Dir: "/"}})
	if err == nil {
		_, err = p.Wait(t.Context())
	}
	if err == nil {
		t.Error("a process has run in a pooled sandbox")
	}
	if _, err := rt.Exec(t.Context(), ids[0], &runtime.ExecRequest{Command: []string{"true"}}); runtime.Class(err) != runtime.ErrNotFound {
		t.Errorf("Exec: got err %v; want runtime.Class(err) == runtime.ErrNotFound", err)
	}
	if err := local.RequestPooled(rec, &boot.PooledRequest{Op: "nonsense"}); runtime.Class(err) != runtime.ErrUnsupported {
		t.Errorf("local.RequestPooled: got err %v; want runtime.Class(err) == runtime.ErrUnsupported", err)
	}
	if err := rt.TerminatePooled(t.Context(), ids[0]); err != nil {
		t.Error(err)
	}
}

// A sandbox whose pooled sandbox is gone before its start is started as others.
func TestPooledEndsBeforeStart(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, rec *statedir.Record) error{
		"killed": func(_ *testing.T, rec *statedir.Record) error { return rec.Processes().Shim().Kill(wait.Limit) },
		"ended": func(t *testing.T, rec *statedir.Record) error {
			return errors.Join(local.RequestPooled(rec, &boot.PooledRequest{Op: boot.OpEnd}), rec.WaitUnlocked(t.Context(), wait.Limit))
		},
	} {
		t.Run(name, func(t *testing.T) {
			rt, _, codebase, ids := startedPool(t, 1, time.Hour)
			s, err := rt.Create(t.Context(), given(codebase))
			if err != nil || s.ID != ids[0] {
				t.Fatalf("Create: got s %+v, err %v; want err == nil and s.ID == ids[0]", s, err)
			}
			if err := end(t, rt.RecordFor(s.ID)); err != nil {
				t.Fatal(err)
			}
			if s, err = rt.Get(t.Context(), s.ID); err != nil || s.State != runtime.StateCreated {
				t.Errorf("Get: got s %+v, err %v; want err == nil and s.State == runtime.StateCreated", s, err)
			}
			if err := rt.Start(t.Context(), s.ID); err != nil {
				t.Fatal(err)
			}
			if out, code := sh(t, rt, s.ID, "echo made > f"); code != 0 {
				t.Errorf(`sh "echo made > f": got %q; want code == 0`, out)
			}
		})
	}
}

// A pooled sandbox ends when its time is over, and nothing is left of it; one that was claimed leaves its sandbox as it is.
func TestPooledIdleTimeout(t *testing.T) {
	rt, state, codebase, ids := startedPool(t, 1, time.Second) // it is offered by then
	if err := rt.RecordFor(ids[0]).WaitUnlocked(t.Context(), wait.Limit); err != nil {
		t.Fatal(err)
	}
	left, err := os.ReadDir(filepath.Join(state, "sandboxes"))
	if err != nil || len(left) != 0 {
		t.Errorf("os.ReadDir: got left %v, err %v; want err == nil and len(left) == 0", left, err)
	}
	s, err := rt.Create(t.Context(), given(codebase))
	if err != nil || s.ID == ids[0] {
		t.Errorf("Create: got s %+v, err %v; want err == nil and s.ID != ids[0]", s, err)
	}

	id, err := rt.StartPooled(t.Context(), &runtime.SandboxConfig{}, 2*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	s, err = rt.Create(t.Context(), given(codebase))
	if err != nil || s.ID != id {
		t.Fatalf("Create: got s %+v, err %v; want err == nil and s.ID == %v", s, err, id)
	}
	if err := rt.RecordFor(id).WaitUnlocked(t.Context(), wait.Limit); err != nil {
		t.Fatal(err)
	}
	if s, err = rt.Get(t.Context(), id); err != nil || s.State != runtime.StateCreated {
		t.Errorf("Get: got s %+v, err %v; want err == nil and s.State == runtime.StateCreated", s, err)
	}
}

// What is done to a sandbox between Create and Start counts, though its pooled sandbox runs by then.
func TestPooledBeforeTheStart(t *testing.T) {
	rt, _, codebase, ids := startedPool(t, 3, time.Hour)
	write(t, codebase, "a", "content\n")
	var all []string
	for range ids {
		s, err := rt.Create(t.Context(), given(codebase))
		if err != nil || !slices.Contains(ids, s.ID) {
			t.Fatalf("Create: got s %+v, err %v; want err == nil and ids contains %v", s, err, s.ID)
		}
		all = append(all, s.ID)
	}
	if err := rt.SetPermissions(t.Context(), all[0], everything(perm.Read)); err != nil {
		t.Fatal(err)
	}
	if err := rt.Start(t.Context(), all[0]); err != nil {
		t.Fatal(err)
	}
	if out, code := sh(t, rt, all[0], "cat a; echo more >> a"); code == 0 || !strings.HasPrefix(out, "content\n") {
		t.Errorf(`sh "cat a; echo more >> a": got out %q, code %d; want code != 0 and out begins with %q`, out, code, "content\n")
	}
	if err := rt.Stop(t.Context(), all[1]); err != nil {
		t.Fatal(err)
	}
	if s, err := rt.Get(t.Context(), all[1]); err != nil || s.State != runtime.StateCreated {
		t.Errorf("Get: got s %+v, err %v; want err == nil and s.State == runtime.StateCreated", s, err)
	}
	if err := rt.Destroy(t.Context(), all[2]); err != nil {
		t.Fatal(err)
	}
	if _, err := rt.Get(t.Context(), all[2]); runtime.Class(err) != runtime.ErrNotFound {
		t.Error(err)
	}
}

// What is left of pooled sandboxes whose processes were killed is removed, those that live stay.
func TestDeadPooledAreRemoved(t *testing.T) {
	rt, state, codebase, ids := startedPool(t, 2, time.Hour)
	rec := rt.RecordFor(ids[0])
	if err := errors.Join(rec.Processes().Shim().Kill(wait.Limit), rec.WaitUnlocked(t.Context(), wait.Limit)); err != nil {
		t.Fatal(err)
	}
	if all, err := rt.PooledSandboxes(); err != nil || len(all) != 1 || all[0].ID != ids[1] {
		t.Errorf("Pooled sandboxes: got all %v, err %v; want err == nil and len(all) == 1 and all[0].ID == ids[1]", all, err)
	}
	rt.Tidy(t.Context())
	left, err := os.ReadDir(filepath.Join(state, "sandboxes"))
	if err != nil || len(left) != 1 || left[0].Name() != ids[1] {
		t.Errorf("os.ReadDir: got left %v, err %v; want err == nil and len(left) == 1 and left[0].Name() == ids[1]", left, err)
	}
	if s := launched(t, rt, given(codebase)); s.ID != ids[1] {
		t.Errorf("%s is not the pooled sandbox", s.ID)
	}
}

// A sandbox that was a pooled sandbox is as any other: what its processes see, and what is recorded of it.
func TestPooledIsAsOthers(t *testing.T) {
	rt, _, codebase, ids := startedPool(t, 0, time.Hour)
	write(t, codebase, "a", "content\n")
	write(t, codebase, "secret", "content\n")
	config := func(name string) *runtime.SandboxConfig {
		c := given(codebase)
		c.Name, c.Env, c.Cwd = name, map[string]string{"E": "e"}, "/tmp"
		c.Git = &runtime.GitConfig{Config: "[user]\n\tname = " + "Ann\n", Ignore: "*.o\n"}
		c.Permissions = append(c.Permissions, perm.Rule{Pattern: "secret", Level: perm.None}, perm.Rule{Pattern: "a", Level: perm.Read})
		c.TTL = time.Hour
		return c
	}
	template := &runtime.SandboxConfig{Git: &runtime.GitConfig{Config: "[user]\n\tname = Nobody\n", Ignore: "x\n"}}
	cold := launched(t, rt, config("cold"))
	id, err := rt.StartPooled(t.Context(), template, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	warm := launched(t, rt, config("warm"))
	if warm.ID != id {
		t.Fatalf("%s is not the pooled sandbox %s; %v", warm.ID, id, ids)
	}
	if _, err := rt.Create(t.Context(), config("warm")); runtime.Class(err) != runtime.ErrExists {
		t.Errorf("the name is not claimed: %v", err)
	}
	// Numbers of mounts, devices and processes are the kernel's.
	const look = `env | sort; pwd; hostname; cat /etc/hostname /etc/hosts /etc/passwd; id; ulimit -a
cat $GIT_CONFIG_SYSTEM /run/wolffia/git/ignore
cut -d' ' -f4- /proc/self/mountinfo | sed 's/fd=[0-9]*//; s/[0-9a-z]\{12\}//g; s/^[^ ]*TestPooled[^ ]* //'
stat -c '%N %A %U %G %t,%T' / /* /workspace/* /run/* /dev/* /etc/*
stat -c '%i %a %u %g %F' /workspace /workspace/a; stat -f -c '%T %s' /workspace
cat /workspace/secret; echo x >> /workspace/a; processes=$(ls /proc); echo "$processes" | grep -c '^[0-9]'; cat /proc/self/status | grep -E '^(Cap|Seccomp|NoNewPrivs|Uid|Gid|Umask)'
ls /proc/1/fd 2>&1 | wc -l; cat /proc/self/oom_score_adj /proc/self/cgroup; nice`
	var seen []string
	var denied [][]runtime.Denial
	for _, s := range []*runtime.Sandbox{cold, warm} {
		res, err := rt.Exec(t.Context(), s.ID, &runtime.ExecRequest{Command: []string{"sh", "-c", look}, Timeout: wait.Limit})
		if err != nil {
			t.Fatal(err)
		}
		seen = append(seen, strings.ReplaceAll(string(res.Stdout)+string(res.Stderr), s.Name, "NAME"))
		denied = append(denied, res.Denied)
	}
	if diff := cmp.Diff(denied[0], denied[1]); diff != "" || denied[0] == nil {
		t.Errorf("denied, -cold +warm: %s", diff)
	}
	if diff := cmp.Diff(seen[0], seen[1]); diff != "" {
		t.Errorf("inside, -cold +warm: %s", diff)
	}
	var details [2]*local.Details
	for i, s := range []*runtime.Sandbox{cold, warm} {
		if details[i], err = rt.Inspect(t.Context(), s.ID); err != nil {
			t.Fatal(err)
		}
		if d := details[i]; d.Tree == nil || !d.Tree.Current || d.Version == "" || d.ExpiresAt.Sub(d.CreatedAt).Round(time.Minute) != time.Hour {
			t.Errorf(`got d %+v; want d.Tree != nil and d.Tree.Current and d.Version != "" and d.ExpiresAt.Sub(d.CreatedAt).Round(time.Minute) == time.Hour`,
				d)
		}
		d := details[i]
		d.Tree, d.ID, d.Name, d.CreatedAt, d.ExpiresAt = nil, "", "", time.Time{}, time.Time{}
		d.Config.ID, d.Config.Name = "", ""
	}
	if diff := cmp.Diff(details[0], details[1]); diff != "" {
		t.Errorf("inspect, -cold +warm: %s", diff)
	}
	if err := rt.SetPermissions(t.Context(), warm.ID, everything(perm.Read)); err != nil {
		t.Error(err)
	}
	if out, code := sh(t, rt, warm.ID, "cat /workspace/secret; touch /workspace/new"); code == 0 || !strings.HasPrefix(out, "content\n") {
		t.Errorf("by new rules: %q", out)
	}
}

// A sandbox that was a pooled sandbox ends with the caller that it is bound to, and by its lifetime.
func TestPooledEndsWithItsCaller(t *testing.T) {
	rt, _, codebase, ids := startedPool(t, 2, time.Hour)
	c := given(codebase)
	c.BoundToCaller = true
	s := launched(t, rt, c)
	if !slices.Contains(ids, s.ID) {
		t.Fatal(s.ID)
	}
	c = given(codebase)
	c.IdleTimeout = runtime.MinLifetime
	idle := launched(t, rt, c)
	if err := rt.RecordFor(idle.ID).WaitUnlocked(t.Context(), wait.Limit); err != nil {
		t.Error(err)
	}
	if err := rt.Close(); err != nil {
		t.Fatal(err)
	}
	if err := rt.RecordFor(s.ID).WaitUnlocked(t.Context(), wait.Limit); err != nil {
		t.Error(err)
	}
	if all, err := rt.List(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("List: got all %v, err %v; want err == nil and len(all) == 0", all, err)
	}
}

// Root starts no sandbox ahead: what is in run/ is another user's.
func TestNoPoolForRoot(t *testing.T) {
	testenv.Root(t)
	rt, _, _ := newRuntime(t)
	if _, err := rt.StartPooled(t.Context(), &runtime.SandboxConfig{}, time.Hour); runtime.Class(err) != runtime.ErrUnsupported {
		t.Error(err)
	}
}

// A pooled sandbox of gVisor is as one of bubblewrap, but for names.
func TestPooledOfGVisor(t *testing.T) {
	testenv.Unprivileged(t)
	testenv.Need(t, probe.Runsc)
	_, state, codebase := newRuntime(t)
	rt, err := local.New(&local.Options{StateDir: state, Binary: filepath.Join(testbin.Dir(t), "wolffia")}, bwrap.Backend(), gvisor.Backend())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		all, err := rt.List(context.Background())
		for _, s := range all {
			err = errors.Join(err, rt.Destroy(context.Background(), s.ID))
		}
		if err = errors.Join(err, rt.Close()); err != nil {
			t.Error(err)
		}
	})
	write(t, codebase, "a", "content\n")
	write(t, codebase, "secret", "content\n")
	template := &runtime.SandboxConfig{Runtime: gvisor.Name, Git: &runtime.GitConfig{Config: "[user]\n\tname = Nobody\n"}}
	id, err := rt.StartPooled(t.Context(), template, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	config := func(name string) *runtime.SandboxConfig {
		c := given(codebase)
		c.Runtime, c.Name, c.Git = gvisor.Name, name, &runtime.GitConfig{Config: "[user]\n\tname = Ann\n"}
		c.Permissions = append(c.Permissions, perm.Rule{Pattern: "secret", Level: perm.None})
		return c
	}
	if s := launched(t, rt, config("named")); s.ID == id {
		t.Error("a named sandbox got the pooled sandbox, whose host has another name")
	} else if err := rt.Destroy(t.Context(), s.ID); err != nil {
		t.Error(err)
	}
	warm := launched(t, rt, config(""))
	if warm.ID != id {
		t.Fatalf("%s is not the pooled sandbox", warm.ID)
	}
	cold := launched(t, rt, config(""))
	const look = `ls -a /workspace; cat /workspace/a; echo more >> /workspace/a; mkdir /workspace/d; rmdir /workspace/d; hostname; pwd
cat $GIT_CONFIG_SYSTEM; stat -c '%i %a %F %u' /workspace /workspace/a; cat /workspace/secret; stat -f -c %T /workspace; ls -a /run /etc; id`
	var seen []string
	for _, s := range []*runtime.Sandbox{cold, warm} {
		out, _ := sh(t, rt, s.ID, look)
		seen = append(seen, strings.ReplaceAll(out, s.ID, "ID"))
		write(t, codebase, "a", "content\n")
	}
	if diff := cmp.Diff(seen[0], seen[1]); diff != "" || !strings.Contains(seen[1], "Ann") {
		t.Errorf("inside, -cold +warm: %s", diff)
	}
}
