package runtimetest

import (
	"fmt"
	"os"
	"os/exec"
	"strings"

	"wolffia/runtime"
)

var copiedTests = []test{
	{"CopiedUntilApplied", []Feature{CopyOnWrite}, copiedUntilApplied},
	{"CopiedHostEdits", []Feature{CopyOnWrite}, copiedHostEdits},
	{"CopiedRules", []Feature{CopyOnWrite, Filter}, copiedRules},
	{"CopiedSurvivesDeath", []Feature{CopyOnWrite, Death}, copiedSurvivesDeath},
}

// copied starts a sandbox with a copied codebase.
func (e *env) copied(dir string) string {
	e.Helper()
	c := e.open(dir)
	c.CopyOnWrite = true
	return e.start(c).ID
}

// workspace returns the runtime as a Workspace.
func (e *env) workspace() runtime.Workspace {
	e.Helper()
	r, is := e.rt.(runtime.Workspace)
	if !is {
		e.Fatalf("%T is not a Workspace", e.rt)
	}
	return r
}

// copiedSource fills a directory of the host's.
func (e *env) copiedSource() (dir string) {
	e.Helper()
	dir = e.dir()
	for _, name := range []string{"changed", "appended", "cut", "deleted", "replaced", "moved", "mode", "mapped", "tree/a/f", "tree/g", "gone/f", "gone/deep/g", "again/old"} {
		e.write(dir+"/"+name, "the host's "+name+"\n")
	}
	e.OK(os.Symlink("changed", dir+"/link"))
	for _, d := range []string{"/tree", "/gone", "/again"} {
		e.OK(os.Chmod(dir+d, 0o755))
	}
	return dir
}

// showTree prints all that is below the current directory, with content, but times.
const showTree = `find . ! -type d -printf '%P %y %m %l\n' -o -printf '%P %y %m\n' | sort; find . -type f | sort | while read -r f; do echo "$f: $(cat "$f")"; done`

// changeAll changes each name of copiedSource in another way.
const changeAll = `set -e
echo inside >changed; echo more >>appended; truncate -s 4 cut; rm deleted; echo new >t; mv t replaced; mv moved moved2; chmod 751 mode
mv tree wood; echo in >>wood/a/f; mv wood/g wood/a/h; rm -r gone; rm -r again; mkdir again; echo x >again/new
ln -sf mode link; mkdir -p n/e/w; echo n >n/e/w/f; ln n/e/w/f n/hard
exec 3<mapped; echo after >>mapped; cat <&3; exec 3<&-`

// What is changed inside stays inside, through stop and start, until it is applied; then the host
// has what the sandbox has.
func copiedUntilApplied(e *env) {
	dir := e.copiedSource()
	before := e.hostTree(dir)
	id := e.copied(dir)
	e.prints(id, showTree, before)
	if got, want := e.out(id, changeAll), "the host's mapped\nafter\n"; got != want {
		e.Errorf("a descriptor that was open at the first change reads %q, want %q", got, want)
	}
	inside := e.out(id, showTree)
	if inside == before {
		e.Fatalf("nothing has changed inside:\n%s", inside)
	}
	if got := e.hostTree(dir); got != before {
		e.Errorf("the host has\n%s\nwant\n%s", got, before)
	}
	e.OK(e.rt.Stop(e.Ctx, id))
	e.OK(e.rt.Start(e.Ctx, id))
	e.prints(id, showTree, inside)

	r := e.workspace()
	if n, err := r.Discard(e.Ctx, id, []string{"changed"}); n != 1 || err != nil {
		e.Errorf("discard: %d, %v", n, err)
	}
	e.prints(id, "cat changed", "the host's changed\n")
	inside = e.out(id, showTree)
	res, err := r.Apply(e.Ctx, id, runtime.ApplyOptions{})
	if err != nil {
		e.Fatalf("apply: %v: %+v", err, res)
	}
	if got := e.hostTree(dir); got != inside {
		e.Errorf("applied, the host has\n%s\nwant\n%s", got, inside)
	}
	e.prints(id, showTree, inside)
	if left, err := r.Changes(e.Ctx, id, runtime.ChangesOptions{}); len(left) > 0 || err != nil {
		e.Errorf("left: %+v, %v", left, err)
	}
}

// What the host changes in other files is seen, also by rename, and nothing is stale.
func copiedHostEdits(e *env) {
	dir := e.copiedSource()
	id := e.copied(dir)
	e.out(id, "cat changed replaced tree/a/f; ! cat new 2>&1; echo own >>appended; echo own >tree/own; mv again moved-dir")
	e.write(dir+"/changed", "edited in place\n")
	for i := range 20 {
		e.write(dir+"/temp", fmt.Sprintf("saved %d\n", i))
		e.OK(os.Rename(dir+"/temp", dir+"/replaced"))
	}
	e.write(dir+"/new", "made\n")
	e.OK(os.Remove(dir + "/deleted"))
	e.OK(os.RemoveAll(dir + "/tree/a"))
	e.write(dir+"/tree/a/f", "made again\n")
	e.write(dir+"/appended", "not seen\n")
	e.write(dir+"/again/old", "seen by its new name\n")
	want := "edited in place\nsaved 19\nmade\nmade again\nown\nthe host's appended\nown\nseen by its new name\n"
	e.Until("the host's edits", func() bool {
		res := e.sh(id, "cat changed replaced new tree/a/f tree/own appended moved-dir/old; ! test -e deleted || echo deleted")
		if strings.Contains(string(res.Stderr), "Stale") {
			e.Errorf("stale: %s", res.Stderr)
		}
		return string(res.Stdout) == want
	})
}

// The rules hold in a copied codebase, and nothing that they forbid comes out of it.
func copiedRules(e *env) {
	dir := e.copiedSource()
	e.write(dir+"/secret/key", "KEY\n")
	c := e.open(dir)
	c.CopyOnWrite = true
	c.Permissions = rules("**=write", "/secret=none", "/tree/=read", "/mode=view")
	id := e.start(c).ID
	for _, script := range []string{
		"cat secret/key", "mkdir secret", "echo x >tree/g", "chmod 777 tree/g", "mv tree wood", "ln tree/g g", "rm tree/g", "mv changed tree/g",
		"cat mode", "mv mode m", "cp mode m", "ln mode m", "mv changed mode", "rm -rf tree", "mknod w c 0 0",
	} {
		if res := e.sh(id, script); res.ExitCode == 0 {
			e.Errorf("%s: it works, and prints %q", script, res.Stdout)
		}
	}
	if all, err := e.workspace().Changes(e.Ctx, id, runtime.ChangesOptions{}); len(all) > 0 || err != nil {
		e.Errorf("changes: %+v, %v", all, err)
	}
}

// What a sandbox has written and synced is there after the death of its host processes.
func copiedSurvivesDeath(e *env) {
	dir := e.copiedSource()
	before := e.hostTree(dir)
	id := e.copied(dir)
	e.out(id, changeAll+"; sync")
	inside := e.out(id, showTree)
	for range 2 {
		e.Crash(e.TB, e.rt, id)
		e.OK(e.rt.Start(e.Ctx, id))
		e.prints(id, showTree, inside)
	}
	e.Crash(e.TB, e.rt, id)
	if got := e.hostTree(dir); got != before {
		e.Errorf("the host has\n%s\nwant\n%s", got, before)
	}
	// of the dead one
	if res, err := e.workspace().Apply(e.Ctx, id, runtime.ApplyOptions{}); err != nil {
		e.Fatalf("apply: %v: %+v", err, res)
	}
	if got := e.hostTree(dir); got != inside {
		e.Errorf("applied, the host has\n%s\nwant\n%s", got, inside)
	}
}

// hostTree returns what showTree prints on the host, in a directory.
func (e *env) hostTree(dir string) string {
	e.Helper()
	cmd := exec.CommandContext(e.Ctx, "sh", "-c", showTree)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		e.Fatalf("%s: got err %v, out %s; want err == nil", dir, err, out)
	}
	return string(out)
}
