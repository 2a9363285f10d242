package attacktest

import (
	"debug/buildinfo"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"wolffia/internal/test/attack"
	"wolffia/internal/test/suite"
	"wolffia/internal/test/testbin"
	"wolffia/internal/test/testenv"
	"wolffia/perm"
	"wolffia/runtime"
)

// A try is one attack that the host takes a part in.
type try struct {
	suite.T
	*bench
}

// outside are the rows of attack.Outside.
var outside = map[string]func(t *try) string{
	"tree.source":       func(t *try) string { return t.replaced(false) },
	"tree.codebase":     func(t *try) string { return t.replaced(true) },
	"tree.live":         func(t *try) string { return t.tightened("reader") },
	"tree.live-map":     func(t *try) string { return t.tightened("mapper") },
	"hidden.event":      hiddenEvents,
	"tree.repeater":     repeater,
	"net.mounted":       func(t *try) string { return t.mounted("") },
	"net.mounted-named": func(t *try) string { return t.mounted("/host.sock") },
	"limit.fork":        fork,
	"limit.memory":      func(t *try) string { return t.memory("memory") },
	"limit.files":       func(t *try) string { return t.memory("files") },
	"limit.disk":        func(t *try) string { return t.disk("disk") },
	"limit.disk-append": func(t *try) string { return t.disk("disk-append") },
	"limit.disk-sparse": func(t *try) string { return t.disk("disk-sparse") },
	"limit.tree-memory": treeMemory,
	"limit.output":      output,
	"limit.rlimits":     caught,
	"limit.zombies":     zombies,
	"limit.daemon":      daemon,
	"limit.timeout":     timeout,
	"limit.stopped":     stopped,
}

// codebase makes an empty directory on the host.
func (t *try) codebase() string {
	t.Helper()
	dir, err := os.MkdirTemp(t.dir, "codebase")
	t.OK(err)
	t.OK(os.Chmod(dir, 0o755))
	return dir
}

// role runs a part of the attacker's program, and returns what it says in the end.
func (t *try) role(id string, args ...string) string {
	t.Helper()
	r, err := t.rt.Exec(t.Ctx, id, &runtime.ExecRequest{Command: append([]string{program}, args...)})
	if err != nil {
		if s, err := t.rt.Get(t.Ctx, id); err == nil && s.State == runtime.StateDead && s.Reason != "" {
			return "ended: " + s.Reason
		}
		return "lost: " + err.Error()
	}
	said := strings.TrimSpace(string(r.Stdout))
	if r.OutOfMemory || r.Signal == syscall.SIGKILL {
		said = "bounded (it was killed)"
	} else if said == "" {
		said = fmt.Sprintf("fails: %d, %.300s", r.ExitCode, r.Stderr)
	}
	if err := t.alive(t.TB, id); err != nil {
		return "the sandbox does not live: " + err.Error()
	}
	return said
}

// replaced has a sandbox replace what another one is shown, between that one's
// making and its start.
func (t *try) replaced(codebase bool) string {
	dir := t.codebase()
	t.file(t.TB, filepath.Base(dir)+"/sub/file", "mine", 0o644)
	c := &runtime.SandboxConfig{CodebasePath: dir + "/sub"}
	where := "/workspace"
	if !codebase {
		where = "/data"
		c = &runtime.SandboxConfig{Mounts: []runtime.Mount{{Source: dir + "/sub", Target: where}}}
	}
	attacker := t.sandbox(t.TB, &runtime.SandboxConfig{CodebasePath: dir})
	victim, err := t.create(t.TB, c)
	t.OK(err)
	r, err := t.rt.Exec(t.Ctx, attacker.ID, &runtime.ExecRequest{Command: []string{"sh", "-c", "mv sub sub2 && ln -s ../outside sub"}})
	if err != nil || r.ExitCode != 0 {
		t.Fatal(err, r)
	}
	if err := t.rt.Start(t.Ctx, victim.ID); err != nil {
		t.Logf("the start says: %v", err)
		return "refused"
	}
	r, err = t.rt.Exec(t.Ctx, victim.ID, &runtime.ExecRequest{Command: []string{"cat", where + "/secret"}})
	if err != nil {
		return "lost: " + err.Error()
	}
	if r.ExitCode == 0 {
		return "works"
	}
	return "hidden"
}

// mounted connects to a socket in a mounted directory, or to one that is mounted.
func (t *try) mounted(file string) string {
	where := "/sockets"
	s, err := t.create(t.TB, &runtime.SandboxConfig{Mounts: []runtime.Mount{{Source: t.path("sockets") + file, Target: where + file}}})
	t.OK(err)
	if err := t.rt.Start(t.Ctx, s.ID); err != nil {
		t.Logf("the start says: %v", err)
		return "refused"
	}
	return t.role(s.ID, "dial", where+"/host.sock")
}

// tightened has a process go on with a file that is hidden meanwhile.
func (t *try) tightened(role string) string {
	dir := t.codebase()
	t.file(t.TB, filepath.Base(dir)+"/file", strings.Repeat("content\n", 4096), 0o644)
	s := t.sandbox(t.TB, &runtime.SandboxConfig{CodebasePath: dir})
	p := t.process(s.ID, role, "file")
	t.Expect(p.Stdout(), "ready\n")
	t.OK(t.rt.SetPermissions(t.Ctx, s.ID, append(rules("**=write"), perm.Rule{Pattern: "file", Level: perm.None, Priority: 9})))
	_, err := p.Stdin().Write([]byte("\n"))
	t.OK(err)
	return strings.TrimSpace(t.All(p.Stdout()))
}

// watching starts a part that watches a codebase whose names have the levels of attack.Rules. The
// function that it returns makes the last change, and returns what that part says.
func (t *try) watching(role string) (codebase string, end func() string) {
	dir := t.codebase()
	for _, name := range []string{"/file", "/old.none", "/box/file", "/box/old.none", "/dir.none/file"} {
		t.file(t.TB, filepath.Base(dir)+name, "1", 0o644)
	}
	s := t.sandbox(t.TB, &runtime.SandboxConfig{CodebasePath: dir, Permissions: rules(attack.Rules...)})
	p := t.process(s.ID, role)
	t.Expect(p.Stdout(), "ready\n")
	return dir, func() string {
		t.OK(os.Mkdir(dir+"/"+attack.LastEvent, 0o755))
		return strings.TrimSpace(t.All(p.Stdout()))
	}
}

// hiddenEvents changes hidden names only.
func hiddenEvents(t *try) string {
	dir, end := t.watching("events")
	for _, in := range []string{dir, dir + "/box", dir + "/dir.none"} {
		for _, content := range []string{"1", "2"} {
			t.OK(os.WriteFile(in+"/new.none", []byte(content), 0o644))
		}
		t.OK(os.Chmod(in+"/new.none", 0o600))
		t.OK(os.Rename(in+"/new.none", in+"/newer.none"))
		t.OK(os.Symlink("file", in+"/link.none"))
		t.OK(os.Remove(in + "/newer.none"))
	}
	t.OK(os.Remove(dir + "/box/old.none"))
	t.OK(os.Rename(dir+"/old.none", dir+"/box/old.none"))
	t.OK(os.Mkdir(dir+"/box/dir.none", 0o755))
	t.OK(os.Rename(dir+"/dir.none/file", dir+"/box/dir.none/file"))
	t.OK(os.Rename(dir+"/box/dir.none", dir+"/dir.none/dir.none"))
	return end()
}

// repeater changes visible names.
func repeater(t *try) string {
	dir, end := t.watching("repeater")
	for i := range 100 {
		name := fmt.Sprint(dir, "/edited", i)
		t.OK(os.WriteFile(name, []byte("1"), 0o644))
		if i%2 == 0 {
			t.OK(os.Remove(name))
		}
	}
	return end()
}

// process starts a part of the attacker's program that waits for input.
func (t *try) process(id string, args ...string) runtime.Process {
	t.Helper()
	p, err := t.rt.StartProcess(t.Ctx, id, &runtime.Command{Command: append([]string{program}, args...), OpenStdin: true, Merge: true})
	t.OK(err)
	t.Cleanup(func() { _ = p.Close() })
	return p
}

// limited makes a sandbox with limits, or, if best, with what the host has of them;
// it skips the test where that is nothing.
func (t *try) limited(r runtime.Resources, best bool) *runtime.Sandbox {
	t.Helper()
	s, err := t.create(t.TB, &runtime.SandboxConfig{Resources: r})
	if errors.Is(err, runtime.ErrUnsupported) {
		if !best {
			testenv.Cgroups(t)
		}
		r.BestEffort = true
		s, err = t.create(t.TB, &runtime.SandboxConfig{Resources: r})
	}
	t.OK(err)
	t.OK(t.rt.Start(t.Ctx, s.ID))
	return s
}

func fork(t *try) string {
	s := t.limited(runtime.Resources{PIDs: attack.LimitPIDs}, true)
	return t.role(s.ID, "forks")
}

func (t *try) memory(role string) string {
	return t.role(t.limited(runtime.Resources{Memory: attack.LimitMemory}, false).ID, role)
}

func (t *try) disk(role string) string {
	dir := t.codebase()
	s := t.sandbox(t.TB, &runtime.SandboxConfig{CodebasePath: dir, Resources: runtime.Resources{Disk: attack.LimitDisk}})
	said := t.role(s.ID, role)
	var used int64
	t.OK(filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		st, err := d.Info()
		if err == nil && st.Mode().IsRegular() {
			used += st.Sys().(*syscall.Stat_t).Blocks * 512 / int64(st.Sys().(*syscall.Stat_t).Nlink)
		}
		return err
	}))
	if used > 2*attack.LimitDisk {
		return fmt.Sprintf("works: %d bytes", used)
	}
	return said
}

// resident returns the memory of a sandbox's tree server.
func (t *try) resident(id string) int64 {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	t.OK(err)
	for _, f := range files {
		b, _ := os.ReadFile(f)
		if args := strings.Split(string(b), "\x00"); len(args) < 3 || args[1] != "tree" || !strings.HasPrefix(args[2], id+"-") {
			continue
		}
		status, err := os.ReadFile(filepath.Join(filepath.Dir(f), "status"))
		t.OK(err)
		for line := range strings.Lines(string(status)) {
			if f := strings.Fields(line); len(f) > 1 && f[0] == "VmRSS:" {
				n, err := strconv.ParseInt(f[1], 10, 64)
				t.OK(err)
				return n << 10
			}
		}
	}
	t.Fatal("there is no tree server")
	return 0
}

func treeMemory(t *try) string {
	s := t.sandbox(t.TB, &runtime.SandboxConfig{CodebasePath: t.codebase()})
	p := t.process(s.ID, "orphans")
	before := t.resident(s.ID)
	line := make([]byte, 100)
	n, err := p.Stdout().Read(line)
	t.OK(err)
	said := strings.TrimSpace(string(line[:n]))
	bound := int64(25 << 20)
	if info, err := buildinfo.ReadFile(filepath.Join(testbin.Dir(t.TB), "wolffia-box")); err == nil && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		bound *= 4 // the detector has memory of its own for all that is used
	}
	if more := t.resident(s.ID) - before; more > bound {
		return fmt.Sprintf("works: %d MiB more; %s", more>>20, said)
	}
	if !strings.HasPrefix(said, "works") {
		return said
	}
	return "bounded"
}

func output(t *try) string {
	s := t.sandbox(t.TB, &runtime.SandboxConfig{})
	r, err := t.rt.Exec(t.Ctx, s.ID, &runtime.ExecRequest{Command: []string{program, "flood"}, MaxOutput: 1 << 20})
	if err != nil {
		return "lost: " + err.Error()
	}
	if len(r.Stdout) > 1<<20 || !r.Truncated() || r.ExitCode != 0 {
		return fmt.Sprintf("works: %d bytes, %d dropped", len(r.Stdout), r.StdoutDropped)
	}
	return "bounded"
}

func caught(t *try) string {
	s := t.limited(runtime.Resources{PIDs: attack.LimitPIDs}, true)
	if by := t.rt.Limits(s.ID); by == nil || by.PIDs != runtime.ByRlimit {
		return "n/a"
	}
	p := t.process(s.ID, "catch")
	t.Expect(p.Stdout(), "ready\n")
	over := make(chan string, 1)
	go func() { over <- t.All(p.Stdout()) }() // ends with the process
	for {
		select {
		case said := <-over:
			return strings.TrimSpace(said)
		case <-t.Ctx.Done():
			return "hangs"
		default: // a command that was caught may not end
			_, _ = t.rt.Exec(t.Ctx, s.ID, &runtime.ExecRequest{Command: []string{program, "true"}, Timeout: time.Second})
		}
	}
}

func zombies(t *try) string {
	s := t.sandbox(t.TB, &runtime.SandboxConfig{})
	if said := t.role(s.ID, "zombies"); said != "works" {
		return said
	}
	t.Until("the end of the children", func() bool {
		r, err := t.rt.Exec(t.Ctx, s.ID, &runtime.ExecRequest{Command: []string{"sh", "-c", "ls -d /proc/[0-9]* | wc -l"}})
		t.OK(err)
		n, err := strconv.Atoi(strings.TrimSpace(string(r.Stdout)))
		t.OK(err)
		return n <= 4
	})
	return "bounded"
}

// sleepers counts the processes of the host, or of a sandbox, that sleep for a number of seconds.
func (t *try) sleepers(id, seconds string) int {
	t.Helper()
	if id == "" {
		n := 0
		files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
		for _, f := range files {
			if b, _ := os.ReadFile(f); string(b) == "sleep\x00"+seconds+"\x00" {
				n++
			}
		}
		return n
	}
	n, err := strconv.Atoi(t.role(id, "count", "sleep", seconds))
	t.OK(err)
	return n
}

// seconds is a number of seconds that no other process sleeps for.
func (t *try) seconds() string { return strconv.Itoa(100000 + int(time.Now().UnixNano()%800000)) }

func daemon(t *try) string {
	s, n := t.sandbox(t.TB, &runtime.SandboxConfig{}), t.seconds()
	r, err := t.rt.Exec(t.Ctx, s.ID, &runtime.ExecRequest{Command: []string{"sh", "-c", "(setsid sh -c 'trap \"\" TERM INT HUP; sleep " + n + " & wait' >/dev/null 2>&1 </dev/null &)"}})
	if err != nil || r.ExitCode != 0 {
		t.Fatal(err, r)
	}
	t.OK(t.rt.Destroy(t.Ctx, s.ID))
	if t.sleepers("", n) > 0 {
		return "works"
	}
	return "ended"
}

func timeout(t *try) string {
	s, n := t.sandbox(t.TB, &runtime.SandboxConfig{}), t.seconds()
	r, err := t.rt.Exec(t.Ctx, s.ID, &runtime.ExecRequest{
		Command: []string{"sh", "-c", "setsid sh -c 'trap \"\" TERM INT HUP; sleep " + n + " & wait' & trap '' TERM INT HUP; sleep " + n}, Timeout: 2 * time.Second,
	})
	if err != nil || !r.TimedOut {
		t.Fatal(err, r)
	}
	if t.sleepers(s.ID, n) > 0 {
		return "works"
	}
	return "ended"
}

func stopped(t *try) string {
	s, n := t.sandbox(t.TB, &runtime.SandboxConfig{}), t.seconds()
	p := t.process(s.ID, "stop", n)
	t.Expect(p.Stdout(), "ready\n")
	t.OK(t.rt.Destroy(t.Ctx, s.ID))
	if t.sleepers("", n) > 0 {
		return "works"
	}
	return "ended"
}
