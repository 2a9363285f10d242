package crashtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"wolffia/fusefs/cow"
	"wolffia/internal/host/probe"
	"wolffia/internal/test/testenv"
	"wolffia/internal/test/wait"
	"wolffia/local"
	"wolffia/perm"
	"wolffia/runtime"
	"wolffia/runtime/bwrap"
	"wolffia/runtime/docker"
	"wolffia/runtime/gvisor"
	"wolffia/service"
)

// Acceptance tests 13 and 15 of copy-on-write: whatever is killed at whatever step of what is done with changes, no file
// of the host is half written, nothing acknowledged is lost, and the same command once more has the end that it has without.
func TestCrashCopied(t *testing.T) {
	testenv.Need(t, probe.UserNamespaces, probe.Bubblewrap, probe.Fuse)
	c := &copies{}
	crash(t, backend{name: bwrap.Name, shims: bwrap.Backend()}, c.operations(), 1)
}

// The same with gVisor: a part of it, where there is the time.
func TestCrashCopiedGVisor(t *testing.T) {
	onGVisor(t)
	c := &copies{}
	crash(t, backend{name: gvisor.Name, shims: gvisor.Backend()}, c.operations(), 8)
}

// The same with Docker.
func TestCrashCopiedDocker(t *testing.T) {
	onDocker(t)
	c := &copies{}
	crash(t, backend{name: docker.Name, shims: docker.Backend()}, c.operations(), 8)
}

// copies is a sandbox with a copied codebase, and what is in it.
type copies struct {
	dir          string // the codebase
	host, inside string // what the host had, and what the sandbox had, as copiedView prints it
	later        string // what the sandbox has after more changes
}

// copiedView prints all that is in a directory.
const copiedView = `cd "$1" && find . -printf '%P %y %m %l\n' | LC_ALL=C sort && find . -type f | LC_ALL=C sort | xargs -d '\n' md5sum`

// copiedChanges is what the sandbox does, each kind of change at least once.
const copiedChanges = `cd /workspace && echo inside > modified && chmod 600 mode && echo inside > added && rm deleted && mkdir -p new/dir && echo n > new/dir/file &&
	ln -s added link && rm -r gone && mv old moved && echo m >> moved/file && rm kind && mkdir kind && echo k > kind/file && mv one tmp && mv two one && mv tmp two`

const copiedLater = `cd /workspace && echo later > modified && rm added && mkdir again && echo l > again/file && rm -r moved`

// seed makes the host's directory.
func (c *copies) seed(w *world) {
	w.Helper()
	c.dir = filepath.Join(filepath.Dir(w.tmp), "copied")
	w.OK(os.RemoveAll(c.dir))
	for _, name := range []string{"modified", "mode", "deleted", "kind", "same", "gone/a", "gone/deep/b", "old/file", "old/same", "one/1", "two/2"} {
		w.OK(os.MkdirAll(filepath.Join(c.dir, filepath.Dir(name)), 0o755))
		c.hostWrites(w, name, "host "+name)
	}
	out, err := exec.Command("chmod", "-R", "a+rwX", c.dir).CombinedOutput()
	if err != nil {
		w.Fatalf("chmod: %v, %s", err, out)
	}
	c.host = c.onHost(w)
}

func (c *copies) hostWrites(w *world, name, text string) {
	w.Helper()
	w.OK(os.WriteFile(filepath.Join(c.dir, name), []byte(text+"\n"), 0o644))
}

func (c *copies) onHost(w *world) string {
	w.Helper()
	out, err := exec.Command("sh", "-c", copiedView, "view", c.dir).CombinedOutput()
	if err != nil {
		w.Fatalf("CombinedOutput: got err %v, out %s; want err == nil", err, out)
	}
	return string(out)
}

// sh runs a script in a sandbox, which must succeed.
func (c *copies) sh(w *world, rt *local.Runtime, id string, script ...string) string {
	w.Helper()
	r, err := rt.Exec(w.Ctx, id, &runtime.ExecRequest{Command: append([]string{"sh", "-c"}, script...)})
	w.OK(err)
	if r.ExitCode != 0 {
		w.Fatalf("%s: got r.ExitCode %d, r.Stdout %s, r.Stderr %s; want r.ExitCode == 0", script[0], r.ExitCode, r.Stdout, r.Stderr)
	}
	return string(r.Stdout)
}

// sees returns what a sandbox has. If it does not run, it is started.
func (c *copies) sees(w *world, rt *local.Runtime, id string) string {
	w.Helper()
	if w.settled(rt)[id] != runtime.StateRunning {
		w.OK(rt.Start(w.Ctx, id))
	}
	return c.sh(w, rt, id, copiedView, "view", "/workspace")
}

// create makes a sandbox, which was never started.
func (c *copies) create(w *world, rt *local.Runtime) string {
	w.Helper()
	config := &runtime.SandboxConfig{
		Runtime: w.backend.name, CodebasePath: c.dir, MountPoint: "/workspace", CopyOnWrite: true,
		Permissions: []perm.Rule{{Pattern: "**", Level: perm.Write}},
	}
	service.SetOwner(config, theOwner, false)
	s, err := rt.Create(w.Ctx, config)
	w.OK(err)
	return s.ID
}

// changed makes a sandbox that runs and has changes.
func (c *copies) changed(w *world) subject {
	w.Helper()
	c.seed(w)
	rt := w.open()
	defer rt.Close()
	id := c.create(w, rt)
	w.startHere(id)
	c.sh(w, rt, id, copiedChanges)
	c.inside = c.sees(w, rt, id)
	return subject{id: id, state: runtime.StateRunning}
}

// appliedAll is stopped, after all changes were applied.
func (c *copies) appliedAll(w *world) subject {
	w.Helper()
	s := c.stopped(w)
	rt := w.open()
	defer rt.Close()
	_, err := rt.Apply(w.Ctx, s.id, runtime.ApplyOptions{})
	w.OK(err)
	c.same(w, "the host", c.onHost(w), c.inside)
	return s
}

// startHere starts a sandbox by a command line, whose processes come to steps.
func (w *world) startHere(id string) {
	w.Helper()
	call := w.cli("start", id)
	w.ends("start", call.done)
	if !call.ok {
		w.Fatalf("start: %s", call.answer)
	}
}

// stopped is changed, and stops the sandbox.
func (c *copies) stopped(w *world) subject {
	w.Helper()
	s := c.changed(w)
	w.OK(w.open().Stop(w.Ctx, s.id))
	s.state = runtime.StateStopped
	return s
}

// snapshotted is changed with a snapshot called one, and later changes; it stops the sandbox.
func (c *copies) snapshotted(w *world) subject {
	w.Helper()
	s := c.changed(w)
	rt := w.open()
	defer rt.Close()
	_, err := rt.Snapshot(w.Ctx, s.id, "one", runtime.SnapshotOptions{})
	w.OK(err)
	c.sh(w, rt, s.id, copiedLater)
	c.later = c.sees(w, rt, s.id)
	w.OK(rt.Stop(w.Ctx, s.id))
	s.state = runtime.StateStopped
	return s
}

// line returns what begins a command line, in which ID is the subject's.
func line(args ...string) func(w *world, s *subject) *call {
	return func(w *world, s *subject) *call {
		all := slices.Clone(args)
		all[slices.Index(all, "ID")] = s.id
		return w.cli(all...)
	}
}

func (c *copies) operations() []operation {
	all := []operation{
		{name: "apply", prepare: c.changed, begin: line("apply", "ID"), judge: judged(c.applied)},
		{name: "apply, and then rm", prepare: c.changed, begin: line("apply", "ID"), judge: c.gone},
		{name: "apply to one that is stopped", prepare: c.stopped, begin: line("apply", "ID"), judge: judged(c.applied)},
		{name: "discard", prepare: c.changed, begin: line("discard", "ID"), judge: judged(c.discarded)},
		{name: "discard of one that is stopped", prepare: c.stopped, begin: line("discard", "ID"), judge: judged(c.discarded)},
		{name: "fork", prepare: c.changed, begin: line("fork", "ID"), judge: judged(c.forked)},
		{name: "snapshot create", prepare: c.changed, begin: line("snapshot", "create", "ID", "one"), judge: judged(c.snapshot)},
		{name: "snapshot restore", prepare: c.snapshotted, begin: line("snapshot", "restore", "ID", "one"), judge: judged(c.restored)},
		{name: "start after apply", prepare: c.appliedAll, begin: line("start", "ID"), steps: "compact: ", judge: judged(c.folded)},
		{name: "snapshot rm", prepare: c.snapshotted, begin: line("snapshot", "rm", "ID", "one"), judge: judged(c.removed)},
	}
	return all
}

// once does the command of an operation again, which has to succeed, after that of a caller that was killed. With an
// answer that has done in it, it has succeeded: what the killed caller asked for went on.
func (c *copies) once(w *world, e *end, done string, args ...string) {
	w.Helper()
	call := w.cli(args...)
	w.ends(args[0], call.done)
	if strings.Contains(call.answer, "another process works") {
		wait.Until(w, args[0]+" without another process that works", func() bool {
			call = w.cli(args...)
			w.ends(args[0], call.done)
			return !strings.Contains(call.answer, "another process works")
		})
	}
	if !call.ok && (done == "" || !strings.Contains(call.answer, done)) {
		w.Fatalf("%s again: %s; it was %v, %q", args[0], call.answer, e.ok, e.answer)
	}
}

// same compares two views.
func (c *copies) same(w *world, what, got, want string) {
	w.Helper()
	if got != want {
		w.Fatalf("%s has\n%s\nand should have\n%s", what, got, want)
	}
}

// unharmed checks that each file of the host has what it had, or what the sandbox made of it.
func (c *copies) unharmed(w *world) {
	w.Helper()
	for line := range strings.Lines(c.onHost(w)) {
		sum, name, isSum := strings.Cut(line, "  ./")
		if !isSum || strings.HasPrefix(filepath.Base(name), cow.TempPrefix) {
			continue
		}
		if !strings.Contains(c.host, sum) && !strings.Contains(c.inside, sum) { // a directory may have its new name
			w.Fatalf("half a file: %s", line)
		}
	}
}

// judged returns a judge that calls f with a Runtime of its own, and destroys the sandbox after it.
func judged(f func(w *world, rt *local.Runtime, e *end)) func(*world, *round, *end) {
	return func(w *world, _ *round, e *end) {
		w.Helper()
		rt := w.open()
		defer rt.Close()
		f(w, rt, e)
		w.OK(rt.Destroy(w.Ctx, e.id))
		w.nothing(rt)
	}
}

func (c *copies) applied(w *world, rt *local.Runtime, e *end) {
	w.Helper()
	if e.ok {
		c.same(w, "what was acknowledged", c.onHost(w), c.inside)
	}
	if !e.callerKilled { // else it may go on
		c.unharmed(w)
	}
	w.settled(rt)
	c.once(w, e, "", "apply", e.id)
	c.same(w, "the host", c.onHost(w), c.inside)
	c.once(w, e, "", "diff", "--exit-code", e.id)
	c.same(w, "the sandbox", c.sees(w, rt, e.id), c.inside)
}

// gone removes the sandbox, whatever the apply has done: nothing temporary stays on the host.
func (c *copies) gone(w *world, _ *round, e *end) {
	w.Helper()
	rt := w.open()
	defer rt.Close()
	w.settled(rt)
	w.OK(rt.Destroy(w.Ctx, e.id))
	w.nothing(rt)
	c.unharmed(w)
	if view := c.onHost(w); strings.Contains(view, cow.TempPrefix) {
		w.Fatalf("the host has\n%s", view)
	}
}

func (c *copies) discarded(w *world, rt *local.Runtime, e *end) {
	w.Helper()
	w.settled(rt)
	if e.ok {
		c.once(w, e, "", "diff", "--exit-code", e.id)
	}
	c.once(w, e, "", "discard", e.id)
	c.once(w, e, "", "diff", "--exit-code", e.id)
	c.same(w, "the host", c.onHost(w), c.host)
	c.same(w, "the sandbox", c.sees(w, rt, e.id), c.host)
}

func (c *copies) forked(w *world, rt *local.Runtime, e *end) {
	w.Helper()
	c.same(w, "the parent", c.sees(w, rt, e.id), c.inside)
	c.once(w, e, "", "fork", e.id)
	states := w.settled(rt)
	delete(states, w.bystander)
	delete(states, e.id)
	if len(states) == 0 || len(states) > 2 || e.ok && len(states) != 2 {
		w.Fatalf("the forks are %v", states)
	}
	for id := range states {
		c.same(w, "the fork", c.sees(w, rt, id), c.inside)
		w.OK(rt.Destroy(w.Ctx, id))
	}
	list, err := rt.Snapshots(w.Ctx, e.id)
	w.OK(err)
	if len(list) > 0 {
		w.Fatalf("the fork leaves the snapshots %v", list)
	}
	c.same(w, "the host", c.onHost(w), c.host)
}

// goesBack checks that the snapshot called one is whole. The sandbox does not run.
func (c *copies) goesBack(w *world, rt *local.Runtime, id string) {
	w.Helper()
	w.OK(rt.Restore(w.Ctx, id, "one"))
	c.same(w, "the snapshot", c.sees(w, rt, id), c.inside)
}

func (c *copies) snapshot(w *world, rt *local.Runtime, e *end) {
	w.Helper()
	w.settled(rt)
	list, err := rt.Snapshots(w.Ctx, e.id)
	w.OK(err)
	if len(list) > 1 || e.ok && len(list) != 1 {
		w.Fatalf("the snapshots are %v; the operation: %v, %q", list, e.ok, e.answer)
	}
	if len(list) == 0 {
		c.once(w, e, "already", "snapshot", "create", e.id, "one")
	}
	c.same(w, "the sandbox", c.sees(w, rt, e.id), c.inside)
	c.sh(w, rt, e.id, copiedLater)
	w.OK(rt.Stop(w.Ctx, e.id))
	c.goesBack(w, rt, e.id)
}

func (c *copies) restored(w *world, rt *local.Runtime, e *end) {
	w.Helper()
	has := c.sees(w, rt, e.id)
	if e.ok || has != c.later {
		c.same(w, "the sandbox", has, c.inside)
	}
	w.OK(rt.Stop(w.Ctx, e.id))
	c.once(w, e, "", "snapshot", "restore", e.id, "one")
	c.same(w, "the sandbox, restored again,", c.sees(w, rt, e.id), c.inside)
}

func (c *copies) removed(w *world, rt *local.Runtime, e *end) {
	w.Helper()
	w.settled(rt)
	list, err := rt.Snapshots(w.Ctx, e.id)
	w.OK(err)
	left, err := os.ReadDir(filepath.Join(w.state, "sandboxes", e.id, "cow", "snapshots"))
	w.OK(err)
	if len(list) != len(left) || len(left) > 1 || e.ok && len(left) > 0 {
		w.Fatalf("the snapshots are %v, and there are %v; the operation: %v, %q", list, left, e.ok, e.answer)
	}
	if len(list) == 1 {
		c.goesBack(w, rt, e.id)
	} else {
		c.same(w, "the sandbox", c.sees(w, rt, e.id), c.later)
	}
}

// folded checks that the sandbox follows the host in what was applied.
func (c *copies) folded(w *world, rt *local.Runtime, e *end) {
	w.Helper()
	c.same(w, "the sandbox", c.sees(w, rt, e.id), c.inside)
	c.once(w, e, "", "diff", "--exit-code", e.id)
	w.OK(rt.Stop(w.Ctx, e.id))
	for _, name := range []string{"modified", "added", "new/dir/file", "new/dir/more", "moved/file", "kind/file"} {
		c.hostWrites(w, name, "the host has gone on")
	}
	c.same(w, "the sandbox, after the host has gone on,", c.sees(w, rt, e.id), c.onHost(w))
	c.once(w, e, "", "diff", "--exit-code", e.id)
}
