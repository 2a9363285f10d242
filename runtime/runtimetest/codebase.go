package runtimetest

import (
	"os"
	"strconv"
	"strings"

	"wolffia/internal/test/suite"
	"wolffia/runtime"
)

var codebaseTests = []test{
	{"CodebaseEdits", nil, codebaseEdits},
	{"CodebaseSharedBySandboxes", nil, codebaseShared},
	{"CodebaseGitIndex", nil, codebaseGitIndex},
	{"NoCodebase", nil, noCodebase},
	{"MountPoint", []Feature{Isolation}, mountPoint},
	{"Mounts", []Feature{Mounts}, mounts},
	{"Disk", []Feature{Disk}, disk},
}

// Both sides see what the other one does.
func codebaseEdits(e *env) {
	dir := e.dir()
	e.write(dir+"/file", "host\n")
	s := e.start(e.open(dir))
	e.prints(s.ID, "cat file; echo inside >file; mkdir -p a/b; echo new >a/b/c; chmod 750 a/b/c; ln -s b a/link; rm -f gone; cat a/link/c", "host\nnew\n")
	if got := e.read(dir+"/file") + e.read(dir+"/a/b/c"); got != "inside\nnew\n" {
		e.Errorf("the host reads %q", got)
	}
	if st, err := os.Stat(dir + "/a/b/c"); err != nil || st.Mode() != 0o750 {
		e.Errorf("os.Stat: got st %v, err %v; want err == nil and st.Mode() == 0o750", st, err)
	}
	e.write(dir+"/a/later", "later\n")
	e.Until("a file made on the host", func() bool { return string(e.sh(s.ID, "cat a/later").Stdout) == "later\n" })
	e.write(dir+"/file", "host again, and longer\n")
	e.Until("a change on the host", func() bool { return string(e.sh(s.ID, "cat file").Stdout) == "host again, and longer\n" })
	e.OK(os.Remove(dir + "/file"))
	e.Until("a removal on the host", func() bool { return e.sh(s.ID, "cat file").ExitCode != 0 })
}

// Git inside believes the index that git on the host has written, and the reverse: neither reads
// files that have not changed.
func codebaseGitIndex(e *env) {
	dir := e.dir()
	e.write(dir+"/file", "content\n")
	e.write(dir+"/other", "content\n")
	for _, args := range [][]string{{"init", "-q"}, {"add", "."}, {"commit", "-qm", "first"}} {
		suite.Git(e, dir, args...)
	}
	s := e.start(e.open(dir))
	if e.sh(s.ID, "command -v git").ExitCode != 0 {
		e.Skip("there is no git inside")
	}
	// it compares with the index, and opens no file
	e.prints(s.ID, "git diff-files --name-only", "")
	e.prints(s.ID, "git status --porcelain; echo more >>file; git status --porcelain", " M file\n")
	if got := suite.Git(e, dir, "diff-files", "--name-only"); got != "file\n" {
		e.Errorf("the host takes for changed: %q", got)
	}
}

func codebaseShared(e *env) {
	dir := e.dir()
	a, b := e.start(e.open(dir)), e.start(e.open(dir))
	e.prints(a.ID, "echo from a >file", "")
	e.Until("the other sandbox's file", func() bool { return string(e.sh(b.ID, "cat file").Stdout) == "from a\n" })
}

// Without a codebase the mount point is empty and writable, and never where
// the caller is.
func noCodebase(e *env) {
	s := e.start(nil)
	e.prints(s.ID, "ls -A; echo x >file; mkdir dir; cat file; ls", "x\ndir\nfile\n")
	other := e.start(nil)
	e.prints(other.ID, "ls -A", "")
	if _, err := os.Stat("file"); err == nil {
		e.Error("it was written where the test runs")
	}
}

func mountPoint(e *env) {
	dir := e.dir()
	e.write(dir+"/file", "host\n")
	for _, at := range []string{"", "/srv/code", "/home/somebody/project", "/mnt", "/opt/a/b/c"} {
		c := e.open(dir)
		c.MountPoint = at
		s := e.start(c)
		if at == "" {
			at = runtime.DefaultMountPoint
		}
		e.prints(s.ID, "pwd; cat "+at+"/file", at+"\nhost\n")

		s = e.start(&runtime.SandboxConfig{MountPoint: at})
		e.prints(s.ID, "pwd; ls -A; echo x >x; cat x", at+"\nx\n")
	}
}

// What is added to the codebase is bounded, also by many processes at once,
// and what is deleted makes room.
func disk(e *env) {
	s := e.start(&runtime.SandboxConfig{
		CodebasePath: e.dir(), Permissions: rules("**=write"), Resources: runtime.Resources{Disk: 8 << 20},
	})
	res := e.sh(s.ID, `for i in 1 2 3 4; do head -c 4M /dev/zero > $i 2>>/tmp/err & done; wait
cat /tmp/err; du -sm . | cut -f1; rm -f [1-4]; head -c 4M /dev/zero > again && echo again`)
	out := string(res.Stdout)
	if !strings.Contains(out, "quota") || !strings.HasSuffix(out, "\nagain\n") {
		e.Errorf("got %q, %q: want messages about the quota, a size, and again", out, res.Stderr)
	}
	lines := strings.Split(strings.TrimSuffix(out, "\nagain\n"), "\n")
	if size, err := strconv.Atoi(lines[len(lines)-1]); err != nil || size > 9 {
		e.Errorf("%s MB were written, of 8 (%v)", lines[len(lines)-1], err)
	}
}

// Mounts show directories and files, read-only unless said otherwise.
func mounts(e *env) {
	dir := e.dir()
	e.write(dir+"/ro/file", "ro\n")
	e.write(dir+"/rw/file", "rw\n")
	e.write(dir+"/single", "single\n")
	// The host lets every user write, so also the one that the sandbox runs as.
	for _, p := range []string{"/ro", "/ro/file", "/rw", "/rw/file", "/single"} {
		e.OK(os.Chmod(dir+p, 0o777))
	}
	e.OK(os.Symlink("rw", dir+"/link"))
	s := e.start(&runtime.SandboxConfig{Mounts: []runtime.Mount{
		{Source: dir + "/ro", Target: "/data/ro"},
		{Source: dir + "/link", Target: "/data/rw", Writable: true},
		{Source: dir + "/single", Target: "/etc-single"},
	}})
	e.prints(s.ID, "cat /data/ro/file /data/rw/file /etc-single", "ro\nrw\nsingle\n")
	e.prints(s.ID, "echo changed >/data/rw/file; echo new >/data/rw/new", "")
	if got := e.read(dir+"/rw/file") + e.read(dir+"/rw/new"); got != "changed\nnew\n" {
		e.Errorf("the host reads %q", got)
	}
	for _, script := range []string{"echo x >/data/ro/file", "echo x >/data/ro/new", "rm /data/ro/file", "echo x >/etc-single"} {
		if r := e.sh(s.ID, script); r.ExitCode == 0 || !strings.Contains(string(r.Stderr), "Read-only") {
			e.Errorf("%s: exit code %d, %q", script, r.ExitCode, r.Stderr)
		}
	}
}
