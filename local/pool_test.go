package local_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/internal/sys/proc"
	"wolffia/internal/test/testbin"
	"wolffia/internal/test/testenv"
	"wolffia/internal/test/wait"
	"wolffia/local"
	"wolffia/perm"
	"wolffia/runtime"
)

// configOf is the configuration of sandboxes of the pools in tests.
func configOf(codebase string) *runtime.SandboxConfig {
	return &runtime.SandboxConfig{CodebasePath: codebase, Permissions: everything(perm.Write)}
}

// newPool starts a pool for sandboxes over any codebase, which ends with the test.
func newPool(t *testing.T, rt *local.Runtime, size int) *local.Pool {
	t.Helper()
	return poolOf(t, rt, &runtime.SandboxConfig{}, local.PoolOptions{Size: size})
}

// poolOf starts a pool, which ends with the test.
func poolOf(t *testing.T, rt *local.Runtime, config *runtime.SandboxConfig, opts local.PoolOptions) *local.Pool {
	t.Helper()
	testenv.Unprivileged(t)
	p, err := rt.StartPool(t.Context(), config, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := rt.StopPool(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return p
}

// awaitPool waits until a pool is as it should be.
func awaitPool(t *testing.T, rt *local.Runtime, shape string, what string, is func(*local.Pool) bool) *local.Pool {
	t.Helper()
	return wait.For(t, "pool "+shape+": "+what, func() *local.Pool {
		all, err := rt.Pools()
		if err != nil {
			t.Fatal(err)
		}
		if i := slices.IndexFunc(all, func(p *local.Pool) bool { return p.Shape == shape }); i >= 0 {
			return all[i]
		}
		return nil
	}, is)
}

// takeOne makes a sandbox, and destroys it.
func takeOne(t *testing.T, rt *local.Runtime, codebase string) {
	t.Helper()
	sb, err := runtime.Launch(t.Context(), rt, configOf(codebase))
	if err != nil {
		t.Fatal(err)
	}
	if out, code := sh(t, rt, sb.ID(), "cat a"); out != "content\n" || code != 0 {
		t.Errorf(`sh "cat a": got %q, %d; want %q, 0`, out, code, "content\n")
	}
	if err := sb.Destroy(t.Context()); err != nil {
		t.Error(err)
	}
}

// fillersOf returns the processes that fill a pool.
func fillersOf(t *testing.T, shape string) (pids []int) {
	t.Helper()
	for _, p := range processes(t, shape) {
		if pid, rest, _ := strings.Cut(p, " "); strings.Contains(rest, "pool fill") {
			n, err := strconv.Atoi(pid)
			if err != nil {
				t.Fatal(err)
			}
			pids = append(pids, n)
		}
	}
	return pids
}

// What is claimed is replaced, also after the filler was killed; there is one filler at a time.
func TestPoolIsRefilled(t *testing.T) {
	rt, _, codebase := newRuntime(t)
	write(t, codebase, "a", "content\n")
	p := newPool(t, rt, 2)
	if p.Ready != 2 || p.Claimed != 0 || p.IdleTimeout != local.DefaultPoolIdle {
		t.Errorf("newPool: got p %+v; want p.Ready == 2 and p.Taken == 0 and p.IdleTimeout == local.DefaultPoolIdle", p)
	}
	for round := range 3 {
		takeOne(t, rt, codebase)
		takeOne(t, rt, codebase)
		awaitPool(t, rt, p.Shape, "refilled", func(p *local.Pool) bool { return p.Ready == 2 && p.Claimed == int64(2*round+2) })
		fillers := fillersOf(t, p.Shape)
		if len(fillers) > 1 {
			t.Errorf("fillers: %v", fillers)
		}
		for _, pid := range fillers {
			// Once it is gone, so is its lock: a claimant must not take it for one that works.
			if err := proc.Kill(pid, time.Now().Add(wait.Limit), func() (bool, error) { return true, nil }); err != nil {
				t.Error(err)
			}
		}
	}
	if err := rt.StopPool(t.Context(), p.Shape); err != nil {
		t.Fatal(err)
	}
	if all, err := rt.PooledSandboxes(); err != nil || len(all) > 0 {
		t.Errorf("left: %v, %v", all, err)
	}
	allGone(t, p.Shape)
	takeOne(t, rt, codebase) // as without a pool
}

// The second of two fillers returns at once, and the first with the pool, or with its context.
func TestTwoFillers(t *testing.T) {
	rt, _, codebase := newRuntime(t)
	write(t, codebase, "a", "content\n")
	p := newPool(t, rt, 1)
	ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
	defer cancel()
	ended := make(chan error, 2)
	for range 2 {
		go func() { ended <- rt.FillPool(ctx, p.Shape) }() // ends with the pool
	}
	if err := <-ended; err != nil || ctx.Err() != nil {
		t.Errorf("the second filler: %v", err)
	}
	takeOne(t, rt, codebase)
	awaitPool(t, rt, p.Shape, "refilled", func(p *local.Pool) bool { return p.Ready == 1 && p.Claimed == 1 })
	if found := fillersOf(t, p.Shape); len(found) > 0 {
		t.Errorf("a claimant has started a filler although there is one: %v", found)
	}
	if err := rt.StopPool(t.Context(), p.Shape); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil || ctx.Err() != nil {
		t.Errorf("the first filler: %v, %v", err, ctx.Err())
	}
}

// A pool ends while its pooled sandboxes are claimed, and all claimants have sandboxes.
func TestStopPoolAgainstTakers(t *testing.T) {
	rt, _, codebase := newRuntime(t)
	write(t, codebase, "a", "content\n")
	const claimants = 6
	for range testenv.Some(10) {
		p := newPool(t, rt, claimants/2)
		var all sync.WaitGroup
		errs := make(chan error, claimants+1)
		for range claimants {
			all.Go(func() {
				sb, err := runtime.Launch(t.Context(), rt, configOf(codebase))
				if err != nil {
					errs <- err
					return
				}
				res, err := sb.Exec(t.Context(), "cat", "a")
				if err == nil && string(res.Stdout) != "content\n" {
					err = fmt.Errorf("%q %q", res.Stdout, res.Stderr)
				}
				errs <- errors.Join(err, sb.Destroy(t.Context()))
			})
		}
		all.Go(func() { errs <- rt.StopPool(t.Context(), p.Shape) })
		all.Wait()
		close(errs)
		for err := range errs {
			if err != nil {
				t.Error(err)
			}
		}
		if left, err := rt.PooledSandboxes(); err != nil || len(left) > 0 {
			t.Errorf("left: %v, %v", left, err)
		}
		if left, err := rt.Pools(); err != nil || len(left) > 0 {
			t.Errorf("left: %v, %v", left, err)
		}
	}
}

// A pool that is started again has the new options.
func TestPoolIsChanged(t *testing.T) {
	rt, _, _ := newRuntime(t)
	p := newPool(t, rt, 3)
	for _, size := range []int{1, 2} {
		q, err := rt.StartPool(t.Context(), &runtime.SandboxConfig{}, local.PoolOptions{Size: size, IdleTimeout: time.Hour})
		if err != nil || q.Shape != p.Shape || q.Ready != size || q.Size != size || q.IdleTimeout != time.Hour {
			t.Errorf("StartPool: got size %d, q %+v, err %v; want err == nil and q.Shape == %v and q.Ready == %v and q.Size == %v and q.IdleTimeout == time.Hour",
				size, q, err, p.Shape, size, size)
		}
	}
	old := pooledIDs(t, rt)
	if _, err := rt.StartPool(t.Context(), &runtime.SandboxConfig{}, local.PoolOptions{Size: 2, IdleTimeout: time.Hour}); err != nil {
		t.Error(err)
	}
	if same := pooledIDs(t, rt); !slices.Equal(same, old) {
		t.Errorf("pooled sandboxes with the same options: %v, before %v", same, old)
	}
	for _, opts := range []local.PoolOptions{{Size: 2, IdleTimeout: 2 * time.Hour}, {Size: 2, IdleTimeout: 2 * time.Hour, Shell: true}} {
		if _, err := rt.StartPool(t.Context(), &runtime.SandboxConfig{}, opts); err != nil {
			t.Error(err)
		}
		replaced := pooledIDs(t, rt)
		if len(replaced) != 2 || slices.ContainsFunc(replaced, func(id string) bool { return slices.Contains(old, id) }) {
			t.Errorf("%+v: pooled sandboxes %v, before %v", opts, replaced, old)
		}
		old = replaced
	}
	if shape, err := rt.FindPool(p.Shape[:3]); err != nil || shape != p.Shape {
		t.Errorf("FindPool: got %q, %v; want %q, nil", shape, err, p.Shape)
	}
	if _, err := rt.FindPool(""); !errors.Is(err, runtime.ErrNotFound) {
		t.Errorf("no name: %v", err)
	}
}

// pooledIDs returns the pooled sandboxes that there are, sorted.
func pooledIDs(t *testing.T, rt *local.Runtime) (ids []string) {
	t.Helper()
	all, err := rt.PooledSandboxes()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range all {
		ids = append(ids, s.ID)
	}
	slices.Sort(ids)
	return ids
}

// A pool whose pooled sandboxes have all ended is filled again by who finds none, unless it has just been tried.
func TestEmptyPoolIsFilled(t *testing.T) {
	rt, state, codebase := newRuntime(t)
	write(t, codebase, "a", "content\n")
	p := newPool(t, rt, 2)
	for _, id := range pooledIDs(t, rt) {
		if err := rt.TerminatePooled(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	takeOne(t, rt, codebase)
	if found := fillersOf(t, p.Shape); len(found) > 0 {
		t.Errorf("a filler for a pool that was started just now: %v", found)
	}
	record := filepath.Join(state, "pools", p.Shape+".json")
	if err := os.Chtimes(record, time.Time{}, time.Now().Add(-2*time.Minute)); err != nil {
		t.Fatal(err)
	}
	takeOne(t, rt, codebase)
	awaitPool(t, rt, p.Shape, "filled", func(p *local.Pool) bool { return p.Ready == 2 && p.Claimed == 0 })
}

// A sandbox from a pool has the limits and the niceness of its own caller: who has others gets none of the pool.
func TestPooledHasItsCallersLimits(t *testing.T) {
	rt, _, _ := newRuntime(t)
	testenv.Unprivileged(t)
	shape := func() string {
		t.Helper()
		shape, err := rt.PoolShape(t.Context(), &runtime.SandboxConfig{}, local.PoolOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return shape
	}
	before := shape()
	var stack unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_STACK, &stack); err != nil {
		t.Fatal(err)
	}
	less := stack
	less.Cur /= 2
	if err := unix.Setrlimit(unix.RLIMIT_STACK, &less); err != nil {
		t.Fatal(err)
	}
	limited := shape()
	if err := unix.Setrlimit(unix.RLIMIT_STACK, &stack); err != nil {
		t.Fatal(err)
	}
	if after := shape(); limited == before || after != before {
		t.Errorf("shape %s, with another limit %s, and then %s", before, limited, after)
	}
}

// KeepPool replaces pooled sandboxes that have ended by their idle timeout, and ends the pool with ctx.
func TestKeepPool(t *testing.T) {
	rt, _, _ := newRuntime(t)
	testenv.Unprivileged(t)
	shape, err := rt.PoolShape(t.Context(), &runtime.SandboxConfig{}, local.PoolOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { // ends with ctx
		ended <- rt.KeepPool(ctx, &runtime.SandboxConfig{}, local.PoolOptions{Size: 1, IdleTimeout: time.Second}, func(err error) { t.Error(err) })
	}()
	ready := func(p *local.Pool) bool { return p != nil && p.Ready == 1 }
	awaitPool(t, rt, shape, "kept", ready)
	awaitPool(t, rt, shape, "a pooled sandbox has ended", func(p *local.Pool) bool { return p == nil || p.Ready == 0 })
	awaitPool(t, rt, shape, "kept on", ready)
	cancel()
	if err := wait.Receive(t, "the end of KeepPool", ended); err != nil {
		t.Error(err)
	}
	if left, err := rt.PooledSandboxes(); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}

	// One from before ends too, if ctx ends before KeepPool has had its turn.
	if _, err := rt.StartPool(t.Context(), &runtime.SandboxConfig{}, local.PoolOptions{Size: 1}); err != nil {
		t.Fatal(err)
	}
	if err := rt.KeepPool(ctx, &runtime.SandboxConfig{}, local.PoolOptions{Size: 1}, nil); err != nil {
		t.Error(err)
	}
	if left, err := rt.PooledSandboxes(); err != nil || len(left) > 0 {
		t.Errorf("left of the pool from before: %v, %v", left, err)
	}
}

// What cannot be a pool is refused, and leaves nothing.
func TestPoolRefused(t *testing.T) {
	rt, state, codebase := newRuntime(t)
	for what, c := range map[string]struct {
		config runtime.SandboxConfig
		opts   local.PoolOptions
		class  error
	}{
		"none":      {runtime.SandboxConfig{}, local.PoolOptions{}, runtime.ErrInvalid},
		"too many":  {runtime.SandboxConfig{}, local.PoolOptions{Size: local.MaxPoolSize + 1}, runtime.ErrInvalid},
		"too short": {runtime.SandboxConfig{}, local.PoolOptions{Size: 1, IdleTimeout: time.Millisecond}, runtime.ErrInvalid},
		"negative":  {runtime.SandboxConfig{}, local.PoolOptions{Size: 1, IdleTimeout: -time.Hour}, runtime.ErrInvalid},
		"a copy":    {runtime.SandboxConfig{CodebasePath: codebase, CopyOnWrite: true}, local.PoolOptions{Size: 1}, runtime.ErrUnsupported},
	} {
		if _, err := rt.StartPool(t.Context(), &c.config, c.opts); !errors.Is(err, c.class) {
			t.Errorf("%s: got %v, want %v", what, err, c.class)
		}
	}
	if _, err := os.Lstat(state + "/pools"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("left: %v", err)
	}
}

// The example works, and leaves nothing.
func TestExample(t *testing.T) {
	rt, state, _ := newRuntime(t)
	testenv.Unprivileged(t)
	t.Setenv("PATH", testbin.Dir(t)+":"+os.Getenv("PATH"))
	t.Setenv("WOLFFIA_STATE_DIR", state)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	out := os.Stdout
	os.Stdout = w
	ExampleRuntime_StartPool()
	os.Stdout = out
	_ = w.Close()
	if text, err := io.ReadAll(r); err != nil || string(text) != "hello, Ann\n" {
		t.Errorf("io.ReadAll: got %q, %v; want %q, nil", text, err, "hello, Ann\n")
	}
	if left, err := rt.PooledSandboxes(); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}
