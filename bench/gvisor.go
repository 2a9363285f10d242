package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/opencontainers/runtime-spec/specs-go"

	"wolffia/internal/sys/runsc"
	"wolffia/local"
	"wolffia/runtime/gvisor"
)

// gvisor compares sandboxes in gVisor with runsc by itself, turn by turn.
func (b *bench) gvisor() error {
	return b.inGvisor(func(g *bench, runsc string) error {
		if err := g.gvisorStart(runsc); err != nil {
			return err
		}
		return g.gvisorExec(runsc)
	})
}

// inGvisor calls f with the runtime of gVisor, and its program.
func (b *bench) inGvisor(f func(g *bench, runsc string) error) error {
	found, err := runsc.Find(b.ctx, filepath.Dir(b.wolffia))
	if err != nil {
		return fmt.Errorf("%w; %s", err, runsc.Fix)
	}
	rt, err := local.New(&local.Options{StateDir: b.state, Binary: b.wolffia}, gvisor.Backend())
	if err != nil {
		return err
	}
	defer rt.Close()
	g := *b
	g.rt = rt
	return f(&g, found.Path)
}

var runscPeer = peer{backend: "gvisor", once: "runsc do true", exec: "runsc exec true", start: 1.5, faster: 3, destroy: "20 ms p99"}

// gvisorStart compares the life of a sandbox with runsc do.
func (b *bench) gvisorStart(runsc string) error {
	p, end, err := runscDo(runsc)
	if err != nil {
		return err
	}
	defer end()
	return b.lives(&runscPeer, 40, p.run)
}

// runscDo is runsc do as a peer of whole processes. end removes what it leaves.
func runscDo(runsc string) (p *program, end func(), err error) {
	p = &program{name: "runsc do true"}
	dir, err := os.MkdirTemp("", "wolffia-bench")
	if err != nil {
		return p, nil, err
	}
	p.command = func() *exec.Cmd {
		return exec.Command(runsc, "--rootless", "--network=none", "--ignore-cgroups", "--root="+filepath.Join(dir, "root"), "do", "true")
	}
	return p.tried(func() { _ = os.RemoveAll(dir) })
}

// A container is one of runsc by itself, for runsc exec.
type container struct {
	runsc, dir string
	// outer says that runsc gets its namespaces here, and does not make them itself (--rootless), in
	// which it cannot restore.
	outer bool
	cmd   *exec.Cmd
}

// command is a call of runsc.
func (c *container) command(args ...string) *exec.Cmd {
	cmd := exec.Command(c.runsc, slices.Concat([]string{
		fmt.Sprintf("--rootless=%t", !c.outer), "--network=none", "--ignore-cgroups", "--root=" + filepath.Join(c.dir, "state"),
	}, args)...)
	if c.outer {
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
			UidMappings: []syscall.SysProcIDMap{{HostID: os.Geteuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{HostID: os.Getegid(), Size: 1}},
		}
	}
	return cmd
}

// newContainer starts one on the host's own system directories, as runsc do
// has them.
func newContainer(ctx context.Context, runsc string, outer bool) (_ *container, err error) {
	dir, err := os.MkdirTemp("", "wolffia-bench")
	if err != nil {
		return nil, err
	}
	c := &container{runsc: runsc, dir: dir, outer: outer}
	defer func() {
		if err != nil {
			c.close()
		}
	}()
	root := filepath.Join(dir, "rootfs")
	if err := os.Mkdir(root, 0o755); err != nil {
		return nil, err
	}
	spec := &specs.Spec{
		Version:  specs.Version,
		Root:     &specs.Root{Path: root},
		Hostname: "bench",
		Process:  &specs.Process{Args: []string{"sleep", "3600"}, Env: []string{"PATH=/usr/bin:/bin"}, Cwd: "/"},
		Mounts: []specs.Mount{
			{Destination: "/usr", Type: "bind", Source: "/usr", Options: []string{"rbind", "ro"}},
			{Destination: "/tmp", Type: "tmpfs", Source: "tmpfs"},
		},
	}
	for _, name := range []string{"bin", "lib", "lib64", "sbin"} {
		if target, err := os.Readlink("/" + name); err == nil {
			if err := os.Symlink(target, filepath.Join(root, name)); err != nil {
				return nil, err
			}
		}
	}
	config, err := json.Marshal(spec)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "config.json"), config, 0o600)
	}
	if err != nil {
		return nil, err
	}
	c.cmd = c.command("run", "--bundle="+dir, "bench")
	var said bytes.Buffer
	c.cmd.Stderr = &said
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	for end := time.Now().Add(10 * time.Second); ; {
		if err = c.exec("true"); err == nil {
			return c, nil
		}
		if time.Now().After(end) || ctx.Err() != nil {
			return nil, fmt.Errorf("runsc run: %w: %s", err, said.String())
		}
	}
}

func (c *container) exec(command string) error { return c.do("exec", "bench", command) }

// do calls runsc about containers.
func (c *container) do(args ...string) error {
	out, err := c.command(args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("runsc %s: %w: %s", args[0], err, out)
	}
	return nil
}

func (c *container) close() {
	if c.cmd != nil && c.cmd.Process != nil {
		_ = c.do("delete", "--force", "bench")
		_ = c.cmd.Process.Kill()
		_ = c.cmd.Wait()
	}
	_ = os.RemoveAll(c.dir)
}

// gvisorExec compares commands in a live sandbox with runsc exec, and weighs
// the sandbox.
func (b *bench) gvisorExec(runsc string) error {
	id, err := b.create()
	if err != nil {
		return err
	}
	defer func() { _ = b.rt.Destroy(b.ctx, id) }()
	idle, parts, err := pssOfTree(id)
	if err != nil {
		return err
	}
	peer, err := newContainer(b.ctx, runsc, false)
	if err != nil {
		return err
	}
	defer peer.close()
	if err := b.beside(&runscPeer, id, func() error { return peer.exec("true") }); err != nil {
		return err
	}
	if err := b.gvisorPause(id, peer); err != nil {
		return err
	}
	fmt.Fprintf(b.table, "gvisor: idle sandbox, %d processes\t\t%.1f MB PSS\t\t\t\n", parts, idle)
	return nil
}

// gvisorPause compares a pause and its end with those of runsc, turn by turn.
func (b *bench) gvisorPause(id string, peer *container) error {
	const rounds, warm = 40, 3
	var theirs, ours times
	for i := range rounds + warm {
		for _, m := range []struct {
			to            *times
			pause, resume func() error
		}{
			{&theirs, func() error { return peer.do("pause", "bench") }, func() error { return peer.do("resume", "bench") }},
			{
				&ours, func() error { return b.rt.Pause(b.ctx, id) },
				func() error { return b.rt.Resume(b.ctx, id) },
			},
		} {
			d, err := took(func() error { return cmp.Or(m.pause(), m.resume()) })
			if err != nil {
				return err
			}
			if i >= warm {
				*m.to = append(*m.to, d)
			}
		}
	}
	slices.Sort(theirs)
	slices.Sort(ours)
	b.row("runsc pause, runsc resume", theirs, "")
	b.row("gvisor: pause, resume", ours, fmt.Sprintf("<= that: %.2fx", float64(ours.at(0.5))/float64(theirs.at(0.5))))
	return nil
}

// pssOfTree is the proportional set size of a sandbox's processes and of all
// that descend from them, in MB, and how many there are. Of those that are not
// dumpable, only root may read it.
func pssOfTree(id string) (mb float64, n int, err error) {
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return 0, 0, err
	}
	parent, ours := map[string]string{}, map[string]bool{}
	for _, file := range files {
		stat, err := os.ReadFile(file)
		i := bytes.LastIndexByte(stat, ')')
		if err != nil || i < 0 {
			continue
		}
		dir := filepath.Dir(file)
		pid := filepath.Base(dir)
		parent[pid] = strings.Fields(string(stat[i+1:]))[1]
		cmdline, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		ours[pid] = bytes.Contains(cmdline, []byte(id))
	}
	for more := true; more; {
		more = false
		for pid, of := range parent {
			if !ours[pid] && ours[of] {
				ours[pid], more = true, true
			}
		}
	}
	for pid, is := range ours {
		if !is {
			continue
		}
		n++
		rollup, err := os.ReadFile("/proc/" + pid + "/smaps_rollup")
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(rollup)) {
			var kb float64
			if _, err := fmt.Sscanf(line, "Pss: %f kB", &kb); err == nil {
				mb += kb / 1000
			}
		}
	}
	return mb, n, nil
}
