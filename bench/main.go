// Bench measures wolffia beside its peers: in the same run, on the same machine. Absolute
// times mean little elsewhere; the ratios do.
//
//	bench BIN [PART...]      BIN has wolffia and the programs that it starts
package main

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"wolffia/local"
	"wolffia/perm"
	"wolffia/runtime"
	"wolffia/runtime/bwrap"
)

func main() {
	_ = os.Setenv("WOLFFIA_GIT_MONITOR", "1") // it is measured whatever git is here
	if len(os.Args) > 2 && os.Args[1] == insideCommand {
		if err := inside(os.Args[2:]); err != nil {
			log.Fatal(err)
		}
		return
	}
	if len(os.Args) == 2 && os.Args[1] == echoCommand {
		if err := echo(); err != nil {
			log.Fatal(err)
		}
		return
	}
	if len(os.Args) < 2 {
		log.Fatal("usage: bench BIN [PART...]")
	}
	if err := run(os.Args[1], os.Args[2:]); err != nil {
		log.Fatal(err)
	}
}

// A bench is the state of a run.
type bench struct {
	ctx      context.Context
	rt       *local.Runtime
	wolffia  string
	state    string
	codebase string
	rules    []perm.Rule
	table    *tabwriter.Writer
}

// A part is what one argument measures.
type part struct {
	name string
	run  func() error
}

// named returns the names of parts, with a space before each.
func named(parts []part) (names string) {
	for _, p := range parts {
		names += " " + p.name
	}
	return names
}

// run measures the named parts; without names, all of them.
func run(bin string, names []string) (err error) {
	bin, err = filepath.Abs(bin)
	if err != nil {
		return err
	}
	state, err := os.MkdirTemp("", "wolffia-bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(state)
	codebase, err := os.MkdirTemp("", "wolffia-bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(codebase)
	if err := os.WriteFile(filepath.Join(codebase, "README"), []byte("hello\n"), 0o644); err != nil {
		return err
	}
	rules, err := perm.Assemble(&perm.Request{})
	if err != nil {
		return err
	}
	for _, d := range []string{state, codebase} {
		if err := os.Chmod(d, 0o711); err != nil {
			return err
		}
	}
	rt, err := local.New(&local.Options{StateDir: filepath.Join(state, "s"), Binary: filepath.Join(bin, "wolffia")}, bwrap.Backend())
	if err != nil {
		return err
	}
	defer rt.Close()
	b := &bench{
		ctx: context.Background(), rt: rt, wolffia: filepath.Join(bin, "wolffia"), state: filepath.Join(state, "s"),
		codebase: codebase, rules: rules, table: tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0),
	}
	fmt.Fprintln(b.table, "what\tmin\tp50\tp99\tbar\t")
	parts := []part{
		{"start", b.start}, {"peers", b.peers}, {"projects", b.projects}, {"warm", b.warm}, {"exec", b.exec}, {"commands", b.commands}, {"sessions", b.sessions}, {"flood", b.flood}, {"many", b.many}, {"restart", b.restart}, {"sdk", b.sdk}, {"e2b", b.e2b}, {"clients", b.clients}, {"tree", b.tree}, {"fuse", b.fuse}, {"cow", b.cow}, {"git", b.git}, {"gvisor", b.gvisor}, {"memory", b.memory}, {"hibernated", b.hibernated}, {"docker", b.docker}, {"kubernetes", b.kubernetes}, {"root", b.root}, {"mcp", b.mcp}, {"network", b.network}, {"ci", b.ci},
	}
	for _, name := range names {
		if !slices.ContainsFunc(parts, func(p part) bool { return p.name == name }) {
			return fmt.Errorf("%s: is not a part; the parts are%s", name, named(parts))
		}
	}
	for _, p := range parts {
		if len(names) > 0 && !slices.Contains(names, p.name) {
			continue
		}
		if err := p.run(); err != nil {
			return err
		}
		_ = b.table.Flush()
	}
	return nil
}

// times are sorted durations.
type times []time.Duration

func (t times) at(q float64) time.Duration { return t[min(len(t)-1, int(q*float64(len(t))))] }

func (b *bench) row(name string, t times, bar string) {
	slices.Sort(t)
	fmt.Fprintf(b.table, "%s\t%s\t%s\t%s\t%s\t\n", name, ms(t[0]), ms(t.at(0.5)), ms(t.at(0.99)), bar)
}

func ms(d time.Duration) string { return fmt.Sprintf("%.2f ms", float64(d.Microseconds())/1000) }

// took measures one call.
func took(f func() error) (time.Duration, error) {
	begin := time.Now()
	err := f()
	return time.Since(begin), err
}

// bare is what a careful user would type instead of us.
func bare() *exec.Cmd {
	return exec.Command("bwrap", "--unshare-all", "--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin",
		"--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64", "--proc", "/proc", "--dev", "/dev",
		"--tmpfs", "/tmp", "bash", "-c", ":")
}

func (b *bench) create() (string, error) {
	s, err := b.rt.Create(b.ctx, &runtime.SandboxConfig{CodebasePath: b.codebase, Permissions: b.rules})
	if err != nil {
		return "", err
	}
	return s.ID, b.rt.Start(b.ctx, s.ID)
}

func (b *bench) execIn(id string, command ...string) error {
	res, err := b.rt.Exec(b.ctx, id, &runtime.ExecRequest{Command: command})
	if err == nil && res.ExitCode != 0 {
		err = fmt.Errorf("%q: exit code %d: %s", command, res.ExitCode, res.Stderr)
	}
	return err
}

// start compares the life of a sandbox with bare bubblewrap, turn by turn.
func (b *bench) start() error {
	const rounds = 100
	var peer, first, destroy times
	for i := range rounds + 5 {
		p, err := took(func() error { return bare().Run() })
		if err != nil {
			return fmt.Errorf("bare bwrap: %w", err)
		}
		var id string
		f, err := took(func() error {
			var err error
			if id, err = b.create(); err != nil {
				return err
			}
			return b.execIn(id, "bash", "-c", ":")
		})
		if err != nil {
			return err
		}
		d, err := took(func() error { return b.rt.Destroy(b.ctx, id) })
		if err != nil {
			return err
		}
		if i >= 5 { // warm
			peer, first, destroy = append(peer, p), append(first, f), append(destroy, d)
		}
	}
	slices.Sort(first)
	b.row("bare bwrap --unshare-all bash -c :", peer, "")
	b.row("create, mount the tree, bash -c :", first, fmt.Sprintf("<= 3x bare, 15 ms p50, 30 ms p99: %.2fx", float64(first.at(0.5))/float64(peer.at(0.5))))
	b.row("destroy", destroy, "20 ms p99")
	return nil
}

// exec measures commands in a live sandbox.
func (b *bench) exec() error {
	id, err := b.create()
	if err != nil {
		return err
	}
	defer func() { _ = b.rt.Destroy(b.ctx, id) }()
	var local, inside times
	for i := range 505 {
		l, err := took(func() error { return exec.Command("/bin/true").Run() })
		if err != nil {
			return err
		}
		e, err := took(func() error { return b.execIn(id, "/bin/true") })
		if err != nil {
			return err
		}
		if i >= 5 {
			local, inside = append(local, l), append(inside, e)
		}
	}
	b.row("local fork and exec of true", local, "")
	b.row("exec of true, Go API", inside, "2 ms p50")
	return nil
}

// commands measures the program as a whole.
func (b *bench) commands() error {
	id, err := b.create()
	if err != nil {
		return err
	}
	defer func() { _ = b.rt.Destroy(b.ctx, id) }()
	for _, c := range []struct {
		name string
		args []string
		bar  string
	}{
		{"wolffia version", []string{"version"}, "5 ms"},
		{"wolffia exec -- true", []string{"exec", id, "--", "true"}, "10 ms"},
		{"wolffia run --codebase -- true", []string{"run", "--codebase", b.codebase, "--", "true"}, ""},
	} {
		var t times
		for i := range 55 {
			cmd := exec.Command(b.wolffia, c.args...)
			cmd.Env = append(os.Environ(), "WOLFFIA_STATE_DIR="+b.state)
			d, err := took(cmd.Run)
			if err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			if i >= 5 {
				t = append(t, d)
			}
		}
		b.row(c.name, t, c.bar)
	}
	return nil
}

// many creates 100 sandboxes at once and weighs them.
func (b *bench) many() error {
	const n = 100
	ids := make([]string, n)
	errs := make([]error, n)
	d, _ := took(func() error {
		var all sync.WaitGroup
		for i := range n {
			all.Go(func() { ids[i], errs[i] = b.create() })
		}
		all.Wait()
		return nil
	})
	failed := 0
	total := 0.0
	for i, id := range ids {
		if errs[i] != nil {
			failed++
			log.Print(errs[i])
			continue
		}
		m, err := memory(id)
		if err != nil {
			return err
		}
		total += m
	}
	fmt.Fprintf(b.table, "100 creates at once\t\t%s\t\t2 s, none failed: %d failed\t\n", ms(d), failed)
	fmt.Fprintf(b.table, "idle sandbox, one of 100\t\t%.1f MB PSS\t\t20 MB\t\n", total/float64(n-failed))
	var gone sync.WaitGroup
	for _, id := range ids {
		gone.Go(func() { _ = b.rt.Destroy(b.ctx, id) })
	}
	gone.Wait()
	return nil
}

// memory is the proportional set size of a sandbox's processes, in MB.
func memory(id string) (float64, error) { return memoryOf("", id) }

// memoryOf is memory of those processes that have kind and id on their
// command line.
func memoryOf(kind, id string) (float64, error) {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return 0, err
	}
	total := 0.0
	for _, dir := range dirs {
		cmdline, err := os.ReadFile(dir + "/cmdline")
		if err != nil || !bytes.Contains(cmdline, []byte(id)) || !bytes.Contains(cmdline, []byte(kind)) {
			continue
		}
		rollup, err := os.ReadFile(dir + "/smaps_rollup")
		if err != nil {
			continue // the guest is not dumpable, except for root
		}
		for line := range strings.Lines(string(rollup)) {
			var kb float64
			if _, err := fmt.Sscanf(line, "Pss: %f kB", &kb); err == nil {
				total += kb / 1000
			}
		}
	}
	return total, nil
}
