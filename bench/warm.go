package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"wolffia/local"
	"wolffia/runtime"
)

const (
	warmPool  = 100
	warmTurns = 40 // claimants of one filling: fewer than half of the pool, so that nothing is started beside them
	warmFills = 3
)

var errNotRoot = errors.New("root has no pools: run it as a user")

// coldMount is a mount point of which there is no pool.
const coldMount = "/cold"

// warm compares sandboxes that were started ahead with others, and with bare bubblewrap, turn by turn.
func (b *bench) warm() error {
	if os.Geteuid() == 0 {
		b.notMeasured("warm", errNotRoot)
		return nil
	}
	for _, part := range []func() error{
		func() error { return b.warmCalls(warmPool, warmTurns, false, "", "p50 1 ms, p99 5 ms") },
		func() error { return b.warmCalls(warmPool, warmTurns, true, "", "p50 1 ms, p99 5 ms") },
		func() error { return b.warmAtOnce(b.codebase, "") },
		b.warmAtOnceOverGo,
		b.warmRun,
	} {
		if err := part(); err != nil {
			return err
		}
		_ = b.table.Flush()
	}
	return b.inGvisor(func(g *bench, _ string) error { return g.warmCalls(20, 8, false, "gvisor: ", "12 ms") })
}

// refilled returns when a pool has all its pooled sandboxes.
func (b *bench) refilled(shape string) error {
	for end := time.Now().Add(5 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		all, err := b.rt.Pools()
		if err != nil {
			return err
		}
		i := slices.IndexFunc(all, func(p *local.Pool) bool { return p.Shape == shape })
		switch {
		case i < 0:
			return fmt.Errorf("pool %s has ended", shape)
		case all[i].Problem != "":
			return errors.New(all[i].Problem)
		case all[i].Ready == all[i].Size:
			return nil
		case time.Now().After(end):
			return fmt.Errorf("pool %s has %d of %d pooled sandboxes", shape, all[i].Ready, all[i].Size)
		}
	}
}

// warmPool starts a pool for the sandboxes of the bench. end ends it.
func (b *bench) warmPool(size int, shell bool) (shape string, end func(), err error) {
	p, err := b.rt.StartPool(b.ctx, b.config(), local.PoolOptions{Size: size, Shell: shell})
	if err != nil {
		return "", nil, err
	}
	return p.Shape, func() { _ = b.rt.StopPool(b.ctx, p.Shape) }, nil
}

func (b *bench) config() *runtime.SandboxConfig {
	return &runtime.SandboxConfig{CodebasePath: b.codebase, Permissions: b.rules}
}

// taken returns how many pooled sandboxes of a pool were claimed.
func (b *bench) taken(shape string) (int64, error) {
	all, err := b.rt.Pools()
	for _, p := range all {
		if p.Shape == shape {
			return p.Claimed, err
		}
	}
	return 0, errors.Join(err, fmt.Errorf("no pool %s", shape))
}

// warmCalls measures the calls of the Go library, and weighs a pooled sandbox. With shell the first command is one in a
// session.
func (b *bench) warmCalls(size, turns int, shell bool, backend, bar string) error {
	var peer, host, cold, warm, destroy times
	command, what := func(id string) error { return b.execIn(id, "true") }, "create, mount the tree, true"
	if shell {
		what = "create, mount the tree, a session's builtin"
		command = func(id string) error {
			s, err := b.rt.CreateSession(b.ctx, id, nil)
			if err != nil {
				return err
			}
			return b.inSession(s.ID, ":")
		}
	}
	// Before there is a pool, which is refilled beside them; and not between the warm ones, since the kernel
	// takes down a cold sandbox's namespaces for a while after its end.
	for range turns {
		c, end, err := b.life(coldMount, command)
		if err != nil {
			return err
		}
		cold, destroy = append(cold, c), append(destroy, end)
	}
	shape, end, err := b.warmPool(size, shell)
	if err != nil {
		return err
	}
	defer end()
	all, err := b.rt.PooledSandboxes()
	if err != nil || len(all) == 0 {
		return errors.Join(err, errors.New("no pooled sandboxes"))
	}
	weight, err := memory(all[0].ID)
	if err != nil {
		return err
	}
	inTurns := func() error {
		for range turns {
			p, err := took(func() error { return bare().Run() })
			if err != nil {
				return fmt.Errorf("bare bwrap: %w", err)
			}
			h, err := took(func() error { return exec.Command("true").Run() })
			if err != nil {
				return err
			}
			w, end, err := b.life("", command)
			if err != nil {
				return err
			}
			peer, host, warm, destroy = append(peer, p), append(host, h), append(warm, w), append(destroy, end)
		}
		return nil
	}
	for range warmFills {
		if err := b.allTaken(shape, int64(turns), inTurns); err != nil {
			return err
		}
	}
	slices.Sort(peer)
	slices.Sort(warm)
	slices.Sort(cold)
	b.row(backend+"bare bwrap --unshare-all bash -c :", peer, "")
	b.row(backend+"fork and exec of true on the host", host, "")
	b.row(backend+"cold: "+what, cold, "")
	b.row(backend+"warm: "+what, warm, fmt.Sprintf("%s: %.2fx bare, %.2fx cold", bar,
		float64(warm.at(0.5))/float64(peer.at(0.5)), float64(warm.at(0.5))/float64(cold.at(0.5))))
	b.row(backend+"destroy, cold and warm", destroy, "")
	fmt.Fprintf(b.table, "%sa pooled sandbox, all its processes\t\t%.1f MB PSS\t\t5 MB\t\n", backend, weight)
	return nil
}

// life measures a sandbox at a mount point from its creation to the end of its first command, and its end.
func (b *bench) life(mountPoint string, first func(id string) error) (start, end time.Duration, err error) {
	c := b.config()
	c.MountPoint = mountPoint
	return b.lifeOf(c, first)
}

// lifeOf is life of a sandbox with a configuration.
func (b *bench) lifeOf(c *runtime.SandboxConfig, first func(id string) error) (start, end time.Duration, err error) {
	var id string
	if start, err = took(func() error {
		s, err := runtime.Launch(b.ctx, b.rt, c)
		if err != nil {
			return err
		}
		id = s.ID()
		return first(id)
	}); err != nil {
		return 0, 0, err
	}
	end, err = took(func() error { return b.rt.Destroy(b.ctx, id) })
	return start, end, err
}

// warmAtOnce creates as many sandboxes at once as a pool has pooled sandboxes, each over the codebase.
func (b *bench) warmAtOnce(codebase, what string) error {
	shape, end, err := b.warmPool(warmPool, false)
	if err != nil {
		return err
	}
	defer end()
	ids := make([]string, warmPool)
	d, err := took(func() error {
		return atOnce(warmPool, func(i int) (err error) {
			c := b.config()
			c.CodebasePath = codebase
			s, err := runtime.Launch(b.ctx, b.rt, c)
			if err == nil {
				ids[i] = s.ID()
			}
			return err
		})
	})
	if err != nil {
		return err
	}
	n, err := b.taken(shape)
	if err != nil {
		return err
	}
	fmt.Fprintf(b.table, "%d creates at once from a pool of %d%s\t\t%s\t\t150 ms: %d taken\t\n", warmPool, warmPool, what, ms(d), n)
	return atOnce(warmPool, func(i int) error { return b.rt.Destroy(b.ctx, ids[i]) })
}

// warmAtOnceOverGo is warmAtOnce over a large codebase: what is listed of each ahead must not hold the others up.
func (b *bench) warmAtOnceOverGo() error {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return fmt.Errorf("go env GOROOT: %w", err)
	}
	return b.warmAtOnce(filepath.Join(strings.TrimSpace(string(root)), "src"), ", each over Go's source tree")
}

// command is one of wolffia's command line, in the codebase.
func (b *bench) command(args ...string) *exec.Cmd {
	cmd := exec.Command(b.wolffia, args...)
	cmd.Dir = b.codebase
	cmd.Env = append(os.Environ(), "WOLFFIA_STATE_DIR="+b.state)
	cmd.Stderr = os.Stderr
	return cmd
}

// runPool starts a pool for wolffia run. end ends it.
func (b *bench) runPool(size int) (shape string, end func(), err error) {
	out, err := b.command("pool", "start", "-q", "-n", fmt.Sprint(size), "--codebase", b.codebase).Output()
	if err != nil {
		return "", nil, fmt.Errorf("wolffia pool start: %w", err)
	}
	shape = strings.TrimSpace(string(out))
	return shape, func() { _ = b.rt.StopPool(b.ctx, shape) }, nil
}

// allTaken calls f once a pool is full. f takes n of its pooled sandboxes.
func (b *bench) allTaken(shape string, n int64, f func() error) error {
	if err := b.refilled(shape); err != nil {
		return err
	}
	before, err := b.taken(shape)
	if err == nil {
		err = f()
	}
	if err != nil {
		return err
	}
	after, err := b.taken(shape)
	if err == nil && after-before != n {
		err = fmt.Errorf("%d of %d sandboxes were claimed from the pool", after-before, n)
	}
	return err
}

// warmRun compares wolffia run as a whole process with bare bubblewrap.
func (b *bench) warmRun() error {
	var peer, cold, warm times
	measure := func(to *times, run func() error) error {
		d, err := took(run)
		*to = append(*to, d)
		return err
	}
	for range warmTurns { // before there is a pool, as in warmCalls
		if err := measure(&cold, b.command("run", "-q", "--codebase", b.codebase, "--mount-point", coldMount, "--", "true").Run); err != nil {
			return err
		}
	}
	shape, end, err := b.runPool(warmPool)
	if err != nil {
		return err
	}
	defer end()
	turns := func() error {
		for range warmTurns {
			if err := errors.Join(measure(&peer, bare().Run),
				measure(&warm, b.command("run", "-q", "--codebase", b.codebase, "--", "true").Run)); err != nil {
				return err
			}
		}
		return nil
	}
	for range warmFills {
		if err := b.allTaken(shape, warmTurns, turns); err != nil {
			return err
		}
	}
	slices.Sort(peer)
	slices.Sort(warm)
	b.row("bare bwrap --unshare-all bash -c :, whole process", peer, "")
	b.row("cold: wolffia run -- true, whole process", cold, "")
	b.row("warm: wolffia run -- true, whole process", warm, fmt.Sprintf("<= 1.5x bare: %.2fx", float64(warm.at(0.5))/float64(peer.at(0.5))))
	return nil
}
