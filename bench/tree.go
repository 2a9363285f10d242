package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"wolffia/local"
	"wolffia/perm"
	"wolffia/runtime"
)

// A workload is something that people do in a source tree, as a script that
// runs in its root. host and prepare run before each round, unmeasured: host on the host. $round is the number of
// the round, from 0.
type workload struct {
	name, host, prepare, script string
	bar                         float64 // times the plain directory
	tool                        string  // skipped if it is not installed
	makes                       bool    // makes or removes many files: see making
}

var workloads = []workload{
	{name: "git status, warm", script: "git status --porcelain", bar: 1},
	{name: "git diff of one change", prepare: "echo x >>net/net.go", script: "git diff", bar: 1.5},
	{name: "git add -A of one change", prepare: "echo x >>net/net.go", script: "git add -A", bar: 1.5},
	{name: "git checkout of one file", prepare: "git reset -q; echo x >>net/net.go", script: "git checkout net/net.go", bar: 1.5},
	{name: "find -type f", script: "find . -type f", bar: 1.1},
	{name: "find -size, which looks at each", script: "find . -size +100k", bar: 1.1},
	{name: "ripgrep, all content", script: "rg -c --no-ignore ParseQuery . || true", bar: 1.2, tool: "rg"},
	{name: "tar c", script: "tar c . | cat", bar: 1.15},
	{name: "go list -e ./net/...", script: "go list -e ./net/...", bar: 1.2, tool: "go"},
	{name: "untar 500 files", prepare: "rm -rf new; mkdir new", script: "tar x -C new -f /tmp/500.tar", bar: 5, makes: true},
	{name: "cp -r of 500 files", prepare: "rm -rf new", script: "cp -r net new", bar: 5, makes: true},
	{name: "rm -r of 500 files", prepare: "rm -rf new; cp -r net new", script: "rm -r new", bar: 2.5, makes: true},
	{name: "write 256 MB", prepare: "rm -f big", script: "dd if=/dev/zero of=big bs=1M count=256 conv=fdatasync"},
	{name: "read 256 MB, cached by the host only", host: "rm -f big*; dd if=/dev/zero of=big$round bs=1M count=256", script: "dd if=big$round of=/dev/null bs=1M"},
}

// tree compares the filtered tree with the same files bound as they are, in
// one sandbox, turn by turn.
func (b *bench) tree() error {
	base, err := os.MkdirTemp("", "wolffia-bench-tree")
	if err != nil {
		return err
	}
	defer os.RemoveAll(base)
	filtered, plain := filepath.Join(base, "filtered"), filepath.Join(base, "plain")
	for _, dir := range []string{filtered, plain} {
		if err := sourceTree(dir); err != nil {
			return err
		}
	}
	// The configuration inside names a monitor, and a plain directory has none.
	if err := outputError(exec.Command("git", "-C", plain, "config", "core.fsmonitor", "false")); err != nil {
		return err
	}
	fmt.Fprintln(b.table, "Go's source tree as a git repository\tplain p50\tfiltered p50\tratio\tbar\t")
	if err := b.firstStatus(filtered, plain); err != nil {
		return err
	}
	id, err := b.createOver(filtered, plain, b.rules)
	if err != nil {
		return err
	}
	defer func() { _ = b.rt.Destroy(b.ctx, id) }()
	for _, w := range workloads {
		if w.makes {
			continue
		}
		if _, err := exec.LookPath(w.tool); w.tool != "" && err != nil {
			fmt.Fprintf(b.table, "%s\t\t\t%s is not installed\t\t\n", w.name, w.tool)
			continue
		}
		if err := b.compare(&w, 15, w.bar, place{id, "/plain", plain}, place{id, "/workspace", filtered}); err != nil {
			return err
		}
	}
	if err := b.hostEdits(id, filtered); err != nil {
		return err
	}
	if err := b.treeMemory(id); err != nil {
		return err
	}
	if err := b.manyRules(filtered, plain); err != nil {
		return err
	}
	if err := b.linked(base, filtered, plain); err != nil {
		return err
	}
	return b.making()
}

// making measures what makes and removes many files, in memory. An ext4 without a journal looks for each new file at all that were deleted
// in its block group within minutes, so two directories of one disk differ ten times by chance.
func (b *bench) making() error {
	base, err := os.MkdirTemp("/dev/shm", "wolffia-bench-tree")
	if err != nil {
		b.notMeasured("untar, cp -r and rm -r", err)
		return nil
	}
	defer os.RemoveAll(base)
	script := `mkdir filtered plain; for d in filtered plain; do cp -r "$(go env GOROOT)/src/net" $d/net; done`
	if err := hostScript(base, script); err != nil {
		return err
	}
	filtered, plain := filepath.Join(base, "filtered"), filepath.Join(base, "plain")
	id, err := b.createOver(filtered, plain, b.rules)
	if err != nil {
		return err
	}
	defer func() { _ = b.rt.Destroy(b.ctx, id) }()
	if err := b.execIn(id, "sh", "-c", "cd /plain && tar cf /tmp/500.tar net"); err != nil {
		return err
	}
	for _, w := range workloads {
		if !w.makes {
			continue
		}
		if err := b.compare(&w, 15, w.bar, place{id, "/plain", plain}, place{id, "/workspace", filtered}); err != nil {
			return err
		}
	}
	return nil
}

// linked measures a tree whose files have other names outside of it, as package managers link them from a cache. What is known of them
// must count for longer than the second of what cannot be watched.
func (b *bench) linked(base, filtered, plain string) error {
	if err := hostScript(base, "cp -al filtered cache"); err != nil {
		return err
	}
	id, err := b.createOver(filtered, plain, b.rules)
	if err != nil {
		return err
	}
	defer func() { _ = b.rt.Destroy(b.ctx, id) }()
	w := workload{name: "git status of linked files, a second after the last", prepare: "sleep 1.1", script: "git status --porcelain"}
	return b.compare(&w, 5, 1.2, place{id, "/plain", plain}, place{id, "/workspace", filtered})
}

// sourceTree makes a git repository of Go's own sources in dir.
func sourceTree(dir string) error {
	script := `set -e
cp -r "$(go env GOROOT)/src" "$1"; cd "$1"; echo '*.o' >.gitignore; git init -q -b main .; git add -A
git -c gc.auto=0 -c user.name=b -c user.email=b@localhost commit -qm source; git status >/dev/null`
	return outputError(exec.Command("sh", "-c", script, "sh", dir))
}

// createOver starts a sandbox with one directory filtered at /workspace and
// the other bound at /plain.
func (b *bench) createOver(filtered, plain string, rules []perm.Rule) (string, error) {
	s, err := runtime.Launch(b.ctx, b.rt, over(filtered, plain, rules))
	if err != nil {
		return "", err
	}
	return s.ID(), nil
}

// over is the configuration of createOver.
func over(filtered, plain string, rules []perm.Rule) *runtime.SandboxConfig {
	return &runtime.SandboxConfig{
		CodebasePath: filtered, Permissions: rules,
		Mounts: []runtime.Mount{{Source: plain, Target: "/plain", Writable: true, Unfiltered: plain == filtered}},
		Env:    map[string]string{"GOFLAGS": "-mod=vendor", "GOTOOLCHAIN": "local", "PATH": os.Getenv("PATH"), "GOCACHE": "/tmp/gocache"},
	}
}

// A place is a directory in a sandbox in which a workload runs, and what it is on the host.
type place struct{ id, dir, host string }

// ready prepares a round of w in the directory dir of the host, in which in runs a script inside.
func (w *workload) ready(round int, dir string, in func(script string) error) error {
	if w.host != "" {
		if err := hostScript(dir, fmt.Sprintf("round=%d; %s", round, w.host)); err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
	}
	if w.prepare != "" {
		if err := in(w.prepare); err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
	}
	return nil
}

// changes reports whether w changes the tree.
func (w *workload) changes() bool { return w.host != "" || w.prepare != "" }

// compare measures w in the places turn by turn, and prints each, and the last as a multiple of the one before.
func (b *bench) compare(w *workload, rounds int, bar float64, places ...place) error {
	t := make([]times, len(places))
	for i := range rounds + 2 {
		for j, at := range places {
			in := func(script string) error {
				return b.execIn(at.id, "sh", "-c", fmt.Sprintf("round=%d; cd %s && { %s; } >/dev/null", i, at.dir, script))
			}
			if err := w.ready(i, at.host, in); err != nil {
				return err
			}
			d, err := took(func() error { return in(w.script) })
			if err != nil {
				return fmt.Errorf("%s: %w", w.name, err)
			}
			if i >= 2 {
				t[j] = append(t[j], d)
			}
		}
	}
	if w.changes() {
		for _, at := range places {
			_ = b.execIn(at.id, "sh", "-c", "cd "+at.dir+" && rm -rf new big*")
		}
	}
	b.ratio(w.name, bar, t...)
	return nil
}

// ratio prints the median of each of t, and the last as a multiple of the one before.
func (b *bench) ratio(name string, bar float64, t ...times) {
	fmt.Fprintf(b.table, "%s\t", name)
	for i := range t {
		slices.Sort(t[i])
		fmt.Fprintf(b.table, "%s\t", ms(t[i].at(0.5)))
	}
	limit := ""
	if bar != 0 {
		limit = fmt.Sprintf("<= %.2fx", bar)
	}
	last := len(t) - 1
	fmt.Fprintf(b.table, "%.2fx\t%s\t\n", float64(t[last].at(0.5))/float64(t[last-1].at(0.5)), limit)
	if os.Getenv("WOLFFIA_BENCH_FLUSH") != "" {
		_ = b.table.Flush()
	}
}

// statusRounds is how many sandboxes firstStatus takes for a row.
const statusRounds = 5

// firstStatus measures the first git status of a new sandbox, at once and
// after the time in which it lists its tree by itself, and at once from a pool whose pooled sandboxes have it listed. The host has the files
// in its caches, in all cases.
func (b *bench) firstStatus(filtered, plain string) error {
	for _, wait := range []time.Duration{0, time.Second} {
		if err := b.statusAfter(filtered, plain, wait, fmt.Sprintf("%v after create", wait)); err != nil {
			return err
		}
	}
	if os.Geteuid() == 0 {
		b.notMeasured("git status, first, from a pool", errNotRoot)
		return nil
	}
	p, err := b.rt.StartPool(b.ctx, over(filtered, plain, b.rules), local.PoolOptions{Size: 2*statusRounds + 2, Tree: true})
	if err != nil {
		return err
	}
	defer func() { _ = b.rt.StopPool(b.ctx, p.Shape) }()
	return b.allTaken(p.Shape, statusRounds, func() error {
		return b.statusAfter(filtered, plain, 0, "at once after create from a pool with the tree")
	})
}

// statusAfter measures the first git status of new sandboxes, and prints a row.
func (b *bench) statusAfter(filtered, plain string, wait time.Duration, when string) error {
	var t [2]times
	for range statusRounds {
		id, err := b.createOver(filtered, plain, b.rules)
		if err != nil {
			return err
		}
		time.Sleep(wait)
		for _, j := range []int{1, 0} { // the plain directory would give the listing time
			dir := []string{"/plain", "/workspace"}[j]
			d, err := took(func() error {
				return b.execIn(id, "sh", "-c", "cd "+dir+" && git status >/dev/null")
			})
			if err != nil {
				return err
			}
			t[j] = append(t[j], d)
		}
		if err := b.rt.Destroy(b.ctx, id); err != nil {
			return err
		}
	}
	b.ratio("git status, first, "+when, 1, t[:]...)
	return nil
}

// hostEdits measures from a change on the host until a shell inside, which
// reads the file all the time, sees it.
func (b *bench) hostEdits(id, dir string) error {
	var t times
	for i := range 50 {
		if err := os.WriteFile(filepath.Join(dir, "edited"), fmt.Appendf(nil, "%d\n", i), 0o644); err != nil {
			return err
		}
		p, err := b.rt.StartProcess(b.ctx, id, &runtime.Command{Command: []string{"bash", "-c", fmt.Sprintf(
			`until read -r x < edited && [ "$x" = %d ]; do :; done; echo ready; while read -r x < edited && [ "$x" = %d ]; do :; done`, i, i)}})
		if err != nil {
			return err
		}
		if _, err := io.ReadFull(p.Stdout(), make([]byte, len("ready\n"))); err != nil {
			return err
		}
		d, err := took(func() error {
			if err := os.WriteFile(filepath.Join(dir, "edited"), []byte("new\n"), 0o644); err != nil {
				return err
			}
			_, err := io.Copy(io.Discard, p.Stdout())
			return err
		})
		_ = p.Close()
		if err != nil {
			return err
		}
		t = append(t, d)
	}
	slices.Sort(t)
	fmt.Fprintf(b.table, "an edit on the host is seen inside, p50, p99\t%s\t%s\t\t100 ms\t\n", ms(t.at(0.5)), ms(t.at(0.99)))
	return nil
}

// treeMemory weighs the tree server.
func (b *bench) treeMemory(id string) error {
	if err := b.execIn(id, "sh", "-c", "find /workspace -size +100k >/dev/null"); err != nil {
		return err
	}
	m, err := memoryOf("tree", id)
	if err != nil {
		return err
	}
	out, err := b.rt.Exec(b.ctx, id, &runtime.ExecRequest{Command: []string{"sh", "-c", "find /workspace | wc -l"}})
	if err != nil {
		return err
	}
	files := 0
	if _, err := fmt.Sscan(strings.TrimSpace(string(out.Stdout)), &files); err != nil {
		return err
	}
	fmt.Fprintf(b.table, "tree server with %d names\t\t%.1f MB PSS\t%.1f MB per 10,000\t\t\n", files, m, m/float64(files)*10000)
	return nil
}

// manyRules measures what rules cost: first use, when each name is judged.
func (b *bench) manyRules(filtered, plain string) error {
	var t [2]times
	few := rulesOf(10)
	many := rulesOf(1000)
	for range 5 {
		for j, rules := range [][]perm.Rule{few, many} {
			id, err := b.createOver(filtered, plain, rules)
			if err != nil {
				return err
			}
			d, err := took(func() error {
				return b.execIn(id, "sh", "-c", "cd /workspace && find . -size +100k >/dev/null")
			})
			if err != nil {
				return err
			}
			t[j] = append(t[j], d)
			if err := b.rt.Destroy(b.ctx, id); err != nil {
				return err
			}
		}
	}
	b.ratio("first find -size, 10 rules (left) and 1000 rules (right)", 1.1, t[:]...)
	return nil
}

// rulesOf returns n rules of all kinds; the first makes everything writable.
func rulesOf(n int) []perm.Rule {
	rules := []perm.Rule{{Pattern: "**", Level: perm.Write}}
	for i := 1; i < n; i++ {
		p := []string{"/dir%d/*.go", "secret%d", "*.key%d", "/a/**/b%d/", "pre%d*", "x/{y,z}%d/w?"}[i%6]
		rules = append(rules, perm.Rule{Pattern: fmt.Sprintf(p, i), Level: perm.Level(i % 3)})
	}
	return rules
}
