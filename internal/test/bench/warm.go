package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"wolffia/local"
	"wolffia/runtime"
)

const (
	warmPool  = 100
	warmTurns = 40 // takers of one filling: fewer than half of the pool, so that nothing is started beside them
	warmFills = 3
)

// coldMount is a mount point of which there is no pool.
const coldMount = "/cold"

// warm compares sandboxes that were started ahead with others, and with bare bubblewrap, turn by turn.
func (b *bench) warm() error {
	for _, part := range []func() error{
		func() error { return b.warmCalls(warmPool, warmTurns, "", "p50 1 ms, p99 5 ms") },
		b.warmAtOnce,
		b.warmRun,
	} {
		if err := part(); err != nil {
			return err
		}
		_ = b.table.Flush()
	}
	return b.inGvisor(func(g *bench, _ string) error { return g.warmCalls(20, 8, "gvisor: ", "12 ms") })
}

// refilled returns when a pool has all its spares.
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
		case all[i].Ready == all[i].Spares:
			return nil
		case time.Now().After(end):
			return fmt.Errorf("pool %s has %d of %d spares", shape, all[i].Ready, all[i].Spares)
		}
	}
}

// warmPool starts a pool for the sandboxes of the bench. end ends it.
func (b *bench) warmPool(spares int) (shape string, end func(), err error) {
	p, err := b.rt.StartPool(b.ctx, b.config(), local.PoolOptions{Spares: spares})
	if err != nil {
		return "", nil, err
	}
	return p.Shape, func() { _ = b.rt.StopPool(b.ctx, p.Shape) }, nil
}

func (b *bench) config() *runtime.SandboxConfig {
	return &runtime.SandboxConfig{CodebasePath: b.codebase, Permissions: b.rules}
}

// taken returns how many spares of a pool were taken.
func (b *bench) taken(shape string) (int64, error) {
	all, err := b.rt.Pools()
	for _, p := range all {
		if p.Shape == shape {
			return p.Taken, err
		}
	}
	return 0, errors.Join(err, fmt.Errorf("no pool %s", shape))
}

// createAs creates and starts a sandbox at a mount point.
func (b *bench) createAs(mountPoint string) (string, error) {
	c := b.config()
	c.MountPoint = mountPoint
	s, err := runtime.Launch(b.ctx, b.rt, c)
	if err != nil {
		return "", err
	}
	return s.ID(), nil
}

// warmCalls measures the calls of the Go library, and weighs a spare.
func (b *bench) warmCalls(spares, turns int, backend, bar string) error {
	shape, end, err := b.warmPool(spares)
	if err != nil {
		return err
	}
	defer end()
	all, err := b.rt.Spares()
	if err != nil || len(all) == 0 {
		return errors.Join(err, errors.New("no spares"))
	}
	weight, err := memory(all[0].ID)
	if err != nil {
		return err
	}
	var peer, cold, warm, builtin, destroy times
	for range warmFills {
		if err := b.refilled(shape); err != nil {
			return err
		}
		before, err := b.taken(shape)
		if err != nil {
			return err
		}
		for i := range turns {
			p, err := took(func() error { return bare().Run() })
			if err != nil {
				return fmt.Errorf("bare bwrap: %w", err)
			}
			c, coldEnd, err := b.life(coldMount, func(id string) error { return b.execIn(id, "true") })
			if err != nil {
				return err
			}
			first := func(id string) error { return b.execIn(id, "true") }
			if i%2 == 1 {
				first = func(id string) error {
					s, err := b.rt.CreateSession(b.ctx, id, nil)
					if err != nil {
						return err
					}
					return b.inSession(s.ID, ":")
				}
			}
			w, warmEnd, err := b.life("", first)
			if err != nil {
				return err
			}
			peer, cold, destroy = append(peer, p), append(cold, c), append(destroy, coldEnd, warmEnd)
			if i%2 == 1 {
				builtin = append(builtin, w)
			} else {
				warm = append(warm, w)
			}
		}
		after, err := b.taken(shape)
		if err != nil {
			return err
		}
		if after-before != int64(turns) {
			return fmt.Errorf("%d of %d sandboxes were taken from the pool", after-before, turns)
		}
	}
	slices.Sort(peer)
	slices.Sort(warm)
	slices.Sort(cold)
	b.row(backend+"bare bwrap --unshare-all bash -c :", peer, "")
	b.row(backend+"cold: create, mount the tree, true", cold, "")
	b.row(backend+"warm: create, mount the tree, true", warm, fmt.Sprintf("%s: %.2fx bare, %.2fx cold", bar,
		float64(warm.at(0.5))/float64(peer.at(0.5)), float64(warm.at(0.5))/float64(cold.at(0.5))))
	b.row(backend+"warm: create, mount the tree, a session's builtin", builtin, "")
	b.row(backend+"destroy, cold and warm", destroy, "")
	fmt.Fprintf(b.table, "%sa spare, all its processes\t\t%.1f MB PSS\t\t5 MB\t\n", backend, weight)
	return nil
}

// life measures a sandbox from its creation to the end of its first command, and its end.
func (b *bench) life(mountPoint string, first func(id string) error) (start, end time.Duration, err error) {
	var id string
	if start, err = took(func() error {
		if id, err = b.createAs(mountPoint); err != nil {
			return err
		}
		return first(id)
	}); err != nil {
		return 0, 0, err
	}
	end, err = took(func() error { return b.rt.Destroy(b.ctx, id) })
	return start, end, err
}

// warmAtOnce creates as many sandboxes at once as a pool has spares.
func (b *bench) warmAtOnce() error {
	shape, end, err := b.warmPool(warmPool)
	if err != nil {
		return err
	}
	defer end()
	ids := make([]string, warmPool)
	d, err := took(func() error {
		return atOnce(warmPool, func(i int) (err error) {
			ids[i], err = b.createAs("")
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
	fmt.Fprintf(b.table, "%d creates at once from a pool of %d\t\t%s\t\t150 ms: %d taken\t\n", warmPool, warmPool, ms(d), n)
	return atOnce(warmPool, func(i int) error { return b.rt.Destroy(b.ctx, ids[i]) })
}

// warmRun compares wolffia run as a whole process with bare bubblewrap.
func (b *bench) warmRun() error {
	command := func(args ...string) *exec.Cmd {
		cmd := exec.Command(b.wolffia, args...)
		cmd.Dir = b.codebase
		cmd.Env = append(os.Environ(), "WOLFFIA_STATE_DIR="+b.state)
		cmd.Stderr = os.Stderr
		return cmd
	}
	out, err := command("pool", "start", "-q", "-n", fmt.Sprint(warmPool), "--codebase", b.codebase).Output()
	if err != nil {
		return fmt.Errorf("wolffia pool start: %w", err)
	}
	shape := strings.TrimSpace(string(out))
	defer func() { _ = b.rt.StopPool(b.ctx, shape) }()
	srtPath, _ := exec.LookPath("srt") // another peer, where it is installed
	var peer, srt, cold, warm times
	for range warmFills {
		if err := b.refilled(shape); err != nil {
			return err
		}
		before, err := b.taken(shape)
		if err != nil {
			return err
		}
		for range warmTurns {
			for _, m := range []struct {
				to  *times
				run func() error
			}{
				{&peer, func() error { return bare().Run() }},
				{&cold, command("run", "-q", "--codebase", b.codebase, "--mount-point", coldMount, "--", "true").Run},
				{&warm, command("run", "-q", "--codebase", b.codebase, "--", "true").Run},
			} {
				d, err := took(m.run)
				if err != nil {
					return err
				}
				*m.to = append(*m.to, d)
			}
		}
		after, err := b.taken(shape)
		if err != nil {
			return err
		}
		if after-before != warmTurns {
			return fmt.Errorf("%d of %d commands were run in a sandbox of the pool", after-before, warmTurns)
		}
		for range 3 {
			if srtPath == "" {
				break
			}
			d, err := took((&exec.Cmd{Path: srtPath, Args: []string{"srt", "true"}, Dir: b.codebase}).Run)
			if err != nil {
				return fmt.Errorf("srt: %w", err)
			}
			srt = append(srt, d)
		}
	}
	slices.Sort(peer)
	slices.Sort(warm)
	b.row("bare bwrap --unshare-all bash -c :, whole process", peer, "")
	if len(srt) > 0 {
		b.row("srt true, whole process", srt, "")
	}
	b.row("cold: wolffia run -- true, whole process", cold, "")
	b.row("warm: wolffia run -- true, whole process", warm, fmt.Sprintf("<= 1.5x bare: %.2fx", float64(warm.at(0.5))/float64(peer.at(0.5))))
	return nil
}
