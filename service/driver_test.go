package service_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"wolffia/internal/filecall"
	"wolffia/internal/test/suite"
	"wolffia/internal/test/testenv"
	"wolffia/network"
	"wolffia/ops"
	"wolffia/perm"
	"wolffia/runtime"
	"wolffia/runtime/launch"
	"wolffia/service"
	"wolffia/service/registry"
)

func TestCreateScanDestroy(t *testing.T) {
	w := newWorld(t)
	d := w.driver()
	id := runtime.NewID()
	s, err := d.CreateSandbox(w.Ctx, &service.Params{SandboxID: id, Owner: zoe})
	w.OK(err)
	want := registry.Metadata{SandboxID: id, ContainerName: id, Owner: zoe, CreatedAt: s.CreatedAt.UnixMilli()}
	if s.SandboxID != id || s.ContainerName != id || d.Name() != on.backend.Name() {
		t.Errorf("%+v of %s", s, d.Name())
	}
	found, err := newDriver(w.open(), nil).ScanRunningSandboxes(w.Ctx) // as another process
	w.OK(err)
	if len(found) != 1 || found[0] != want {
		t.Errorf("found %+v, want %+v", found, want)
	}
	w.OK(d.Probe(w.Ctx, id))
	w.OK(d.DestroySandbox(w.Ctx, id))
	w.Wrong("destroyed", d.DestroySandbox(w.Ctx, id), runtime.ErrNotFound)
	w.Wrong("destroyed", d.Probe(w.Ctx, id), runtime.ErrNotFound)
	if found, err = d.ScanRunningSandboxes(w.Ctx); err != nil || len(found) > 0 {
		t.Errorf("found %+v, %v", found, err)
	}
}

func TestCreateThatFailsLeavesNothing(t *testing.T) {
	w := newWorld(t)
	none := func(what string, d driver, p *service.Params, class error) {
		t.Helper()
		_, err := d.CreateSandbox(w.Ctx, p)
		w.Wrong(what, err, class)
		if left, err := os.ReadDir(w.state + "/sandboxes"); err != nil || len(left) > 0 {
			t.Errorf("%s: left: %v, %v", what, left, err)
		}
	}
	d, id := w.driver(), runtime.NewID()
	none("an id that is none", d, &service.Params{SandboxID: "box", Owner: zoe}, runtime.ErrInvalid)
	none("no user", d, &service.Params{SandboxID: id, Owner: registry.Owner{OrganizationID: "a", ProjectID: "b"}}, runtime.ErrInvalid)
	none("no email", d, &service.Params{SandboxID: id, Owner: zoe, GitConfig: &service.GitConfig{Username: "zoe"}}, runtime.ErrInvalid)
	none("no root", newDriver(w.rt, &service.Options{Configure: func(context.Context, *service.Params) (*runtime.SandboxConfig, error) {
		return &runtime.SandboxConfig{Rootfs: "/nowhere"}, nil
	}}), &service.Params{SandboxID: id, Owner: zoe}, runtime.ErrInvalid)
	// It starts, and then there is no git, but a shell.
	w.OK(os.Mkdir(w.file("bin"), 0o755))
	w.OK(os.Symlink("/bin/sh", w.file("bin/sh")))
	none("no git", newDriver(w.rt, &service.Options{Configure: func(context.Context, *service.Params) (*runtime.SandboxConfig, error) {
		return &runtime.SandboxConfig{CodebasePath: w.codebase, Permissions: w.rules, Env: map[string]string{"PATH": "/workspace/bin"}}, nil
	}}), &service.Params{SandboxID: id, Owner: zoe, GitConfig: &service.GitConfig{Username: "z", Email: "z@x"}}, runtime.ErrUnavailable)
}

func TestExecuteBash(t *testing.T) {
	w := newWorld(t)
	d := w.driver()
	id := w.box(d, nil)
	w.run(d, id, "cd /tmp; A=1; f() { echo \"f $A\"; }")
	if got := w.run(d, id, "f; pwd"); got != "f 1\n/tmp\n" {
		t.Errorf("the shell does not keep its state: %q", got)
	}
	bash := func(cmd runtime.Command) (*runtime.Result, error) {
		return d.ExecuteBash(w.Ctx, id, &cmd)
	}
	r, err := bash(runtime.Command{Command: []string{"pwd; echo \\\\xff\\\\x00 >&2; exit 3"}, Cwd: "/usr"})
	w.OK(err)
	if string(r.Stdout) != "/usr\n" || r.ExitCode != 3 || !r.Session.Ended {
		t.Errorf("bash: got r %+v; want r.Stdout == %q and r.ExitCode == 3 and r.Session.Ended", r, "/usr\n")
	}
	if got := w.run(d, id, "f; pwd"); got != "f 1\n/tmp\n" {
		t.Errorf("after exit: %q", got)
	}
	r, err = bash(runtime.Command{Command: []string{`printf 'a\377\0b'; printf 'err' >&2`}})
	w.OK(err)
	if string(r.Stdout) != "a\xff\x00b" || string(r.Stderr) != "err" || r.Session.Cwd != "/tmp" || r.Session.Ended {
		t.Errorf(`bash: got r %+v; want r.Stdout == %q and r.Stderr == "err" and r.Session.Cwd == "/tmp" and not r.Session.Ended`,
			r, "a\xff\x00b")
	}

	// A program's own 124 is not the time-out.
	r, err = bash(runtime.Command{Command: []string{"sh -c 'exit 124'"}, Timeout: time.Minute})
	if err != nil || r.ExitCode != 124 {
		t.Errorf("bash: got r %+v, err %v; want err == nil and r.ExitCode == 124", r, err)
	}
	var late *service.TimeoutError
	suite.Timeouts(func(timeout time.Duration) (came bool) {
		_, err = bash(runtime.Command{Command: []string{"echo before; echo too >&2; sleep 1000; echo after"}, Timeout: timeout})
		if !errors.As(err, &late) || !errors.Is(err, context.DeadlineExceeded) || late.After != timeout {
			t.Fatalf("the error is %v", err)
		}
		return len(late.Result.Stderr) > 0
	})
	if string(late.Result.Stdout) != "before\n" || string(late.Result.Stderr) != "too\n" {
		t.Errorf("got late %+v, late.Result %+v; want late.Result.Stdout == %q and late.Result.Stderr == %q",
			late, late.Result, "before\n", "too\n")
	}
	if got := w.run(d, id, "f"); got != "f 1\n" {
		t.Errorf("after a time-out: %q", got)
	}

	_, err = bash(runtime.Command{Command: []string{":"}, Timeout: -1})
	w.Wrong("a negative timeout", err, runtime.ErrInvalid)
	for what, bad := range map[string]string{"unknown": runtime.NewID(), "a prefix": id[:11], "empty": "", "a path": id + "/other", "all": "*"} {
		_, err = d.ExecuteBash(w.Ctx, bad, &runtime.Command{Command: []string{":"}})
		w.Wrong(what, err, runtime.ErrNotFound)
	}
	w.OK(w.rt.Stop(w.Ctx, id))
	_, err = bash(runtime.Command{Command: []string{":"}})
	w.Wrong("stopped", err, runtime.ErrConflict)
}

func text(s string) service.File { return service.File{Content: s} }

func TestFiles(t *testing.T) {
	testenv.Both(t)
	w := newWorld(t)
	w.put("secret", "hidden", 0o666)
	w.put("run.sh", "old", 0o750)
	outside := w.state + "-outside"
	w.OK(os.WriteFile(outside, []byte("the host's"), 0o666))
	d := w.driver()
	id := w.box(d, nil)
	binary := make([]byte, 256)
	for i := range binary {
		binary[i] = byte(i)
	}
	w.run(d, id, "mkdir dir; echo target > target; ln -s target link; ln -s "+outside+" escape; ln -s dir dirlink; ln -s dir dirlink2; mkfifo fifo")
	n, err := d.WriteFiles(w.Ctx, id, map[string]service.File{
		"a.txt":         text("text ä\n"),
		"new/deep/file": {Encoding: "utf-8", Content: "deep"},
		"bin":           {Encoding: "base64", Content: base64.StdEncoding.EncodeToString(binary)},
		"run.sh":        text("#!/bin/sh\necho ran\n"),
		"/tmp/abs":      text("absolute"),
		"-n":            text("dash"),
		"$(touch x)'\"": text("quotes"),
		"empty":         text(""),
		"link":          text("not the target"),
		"escape":        text("not the host's"),
		"dirlink/in":    text("through a link"),
		"dirlink2":      text("not the directory"),
	})
	if n != 12 || err != nil {
		t.Fatalf("%d written, %v", n, err)
	}
	w.holds("a.txt", "text ä\n")
	w.holds("new/deep/file", "deep")
	w.holds("bin", string(binary))
	w.holds("-n", "dash")
	w.holds("$(touch x)'\"", "quotes")
	w.holds("empty", "")
	w.holds("target", "target\n")
	w.holds("dir/in", "through a link")
	w.holds("dirlink2", "not the directory")
	if got, err := os.ReadFile(outside); err != nil || string(got) != "the host's" {
		t.Errorf("what is outside holds %q, %v", got, err)
	}
	if got := w.run(d, id, "./run.sh; stat -c %a run.sh a.txt; cat /tmp/abs; [ -L link ] || echo replaced"); got != "ran\n750\n644\nabsolutereplaced\n" {
		t.Errorf("inside it is %q", got)
	}
	for name, want := range map[string]string{"a.txt": "text ä\n", "/workspace/bin": string(binary), "new/../-n": "dash", "empty": "", "/tmp/abs": "absolute"} {
		if got, err := d.ReadFile(w.Ctx, id, name); err != nil || string(got) != want {
			t.Errorf("%s reads as %q, %v", name, got, err)
		}
	}

	for name, class := range map[string]error{
		"none": runtime.ErrNotFound, "secret": runtime.ErrNotFound, "dir": runtime.ErrInvalid, "fifo": runtime.ErrInvalid,
		"": runtime.ErrInvalid, "/": runtime.ErrInvalid, ".": runtime.ErrInvalid, "dir/": runtime.ErrInvalid, "a\x00b": runtime.ErrInvalid, "/dev/zero": runtime.ErrInvalid,
		"a.txt/b": runtime.ErrNotFound,
	} {
		_, err := d.ReadFile(w.Ctx, id, name)
		w.Wrong("read "+name, err, class)
	}
	for name, class := range map[string]error{
		"secret": runtime.ErrDenied, "dir": runtime.ErrInvalid, "": runtime.ErrInvalid, "a\x00b": runtime.ErrInvalid, "dir/": runtime.ErrInvalid,
		"/etc/passwd": runtime.ErrDenied, "/usr/x": runtime.ErrDenied, "secret/x": runtime.ErrDenied,
	} {
		n, err := d.WriteFiles(w.Ctx, id, map[string]service.File{name: text("x"), "good": text(name)})
		w.Wrong("write "+name, err, class)
		if n != 1 {
			t.Errorf("%s: %d written", name, n)
		}
		w.holds("good", name)
	}
	w.holds("secret", "hidden")
	for what, f := range map[string]service.File{
		"not base64": {Encoding: "base64", Content: "!"}, "not UTF-8": text("\xff"), "another encoding": {Encoding: "latin1"}, "too large": text(strings.Repeat("x", ops.MaxFile+1)),
	} {
		_, err := d.WriteFiles(w.Ctx, id, map[string]service.File{"a.txt": f})
		w.Wrong(what, err, runtime.ErrInvalid)
	}
	w.holds("a.txt", "text ä\n")
	w.run(d, id, "truncate -s 100M big")
	_, err = d.ReadFile(w.Ctx, id, "big")
	w.Wrong("large", err, runtime.ErrInvalid)
	large := bytes.Repeat([]byte("0123456789abcdef"), ops.MaxFile/16)
	_, err = d.WriteFiles(w.Ctx, id, map[string]service.File{"large": {Content: string(large)}})
	w.OK(err)
	if got, err := d.ReadFile(w.Ctx, id, "large"); err != nil || !bytes.Equal(got, large) {
		t.Errorf("%d bytes of %d, %v", len(got), len(large), err)
	}
	if left := w.run(d, id, "find /workspace /tmp -name '.wolffia-*' -o -name 'tmp.*'"); left != "" {
		t.Errorf("left: %s", left)
	}
}

// Files go through the rules, also where only they may be written and nothing
// beside them.
func TestFilesByRule(t *testing.T) {
	w := newWorld(t)
	w.rules = []perm.Rule{
		{Pattern: "/only.txt", Level: perm.Write},
		{Pattern: "/new.txt", Level: perm.Write},
		{Pattern: "/read.txt", Level: perm.Read},
		{Pattern: "/view.txt", Level: perm.View},
	}
	for _, name := range []string{"only.txt", "read.txt", "view.txt", "none.txt"} {
		w.put(name, "old", 0o666)
	}
	d := w.driver()
	id := w.box(d, nil)
	for _, name := range []string{"only.txt", "new.txt"} {
		_, err := d.WriteFiles(w.Ctx, id, map[string]service.File{name: text("new")})
		w.OK(err)
		w.holds(name, "new")
	}
	for _, name := range []string{"read.txt", "view.txt", "none.txt", "other.txt", "dir/x"} {
		_, err := d.WriteFiles(w.Ctx, id, map[string]service.File{name: text("new")})
		w.Wrong("write "+name, err, runtime.ErrDenied)
	}
	for _, name := range []string{"read.txt", "view.txt", "none.txt"} {
		w.holds(name, "old")
	}
	if got, err := d.ReadFile(w.Ctx, id, "read.txt"); err != nil || string(got) != "old" {
		t.Errorf(`ReadFile "read.txt": got %q, %v; want "old", nil`, got, err)
	}
	_, err := d.ReadFile(w.Ctx, id, "view.txt")
	w.Wrong("read view.txt", err, runtime.ErrDenied)
	_, err = d.ReadFile(w.Ctx, id, "none.txt")
	w.Wrong("read none.txt", err, runtime.ErrNotFound)
}

// Files need no program of the sandbox's own: its root may be empty.
func TestFilesInAnEmptyRoot(t *testing.T) {
	w := newWorld(t)
	root := filepath.Join(filepath.Dir(w.state), "root")
	w.OK(os.Mkdir(root, 0o755))
	w.OK(os.Chmod(root, 0o755))
	d := newDriver(w.rt, &service.Options{Configure: func(context.Context, *service.Params) (*runtime.SandboxConfig, error) {
		return &runtime.SandboxConfig{CodebasePath: w.codebase, Permissions: w.rules, Rootfs: root}, nil
	}})
	id := w.box(d, nil)
	w.put("a.txt", "old", 0o666)
	n, err := d.WriteFiles(w.Ctx, id, map[string]service.File{"a.txt": text("new"), "b/c.txt": text("deep"), "/tmp/x": text("elsewhere"), "secret": text("x")})
	w.Wrong("write", err, runtime.ErrDenied)
	if n != 3 {
		t.Errorf("%d written", n)
	}
	w.holds("a.txt", "new")
	w.holds("b/c.txt", "deep")
	for name, want := range map[string]string{"a.txt": "new", "/tmp/x": "elsewhere"} {
		if got, err := d.ReadFile(w.Ctx, id, name); err != nil || string(got) != want {
			t.Errorf("%s reads as %q, %v", name, got, err)
		}
	}
	_, err = d.ReadFile(w.Ctx, id, "none")
	w.Wrong("read", err, runtime.ErrNotFound)
	w.Wrong("there is no shell", d.Probe(w.Ctx, id), runtime.ErrUnavailable)
}

// A sandbox whose working directory is gone, or which has as many processes as it may, is healthy, and its files are in reach.
func TestHealthyWithoutRoom(t *testing.T) {
	w := newWorld(t)
	d := newDriver(w.rt, &service.Options{Configure: func(context.Context, *service.Params) (*runtime.SandboxConfig, error) {
		return &runtime.SandboxConfig{
			CodebasePath: w.codebase, Permissions: w.rules, Cwd: "/workspace/build", Resources: runtime.Resources{PIDs: 40, BestEffort: true},
		}, nil
	}})
	w.put("a.txt", "content", 0o666)
	w.OK(os.Mkdir(w.file("build"), 0o777))
	id := w.box(d, nil)
	w.run(d, id, "VALUE=kept; cd /")
	w.OK(os.Remove(w.file("build")))
	w.OK(d.Probe(w.Ctx, id))
	if got, err := d.ReadFile(w.Ctx, id, "a.txt"); err != nil || string(got) != "content" {
		t.Errorf(`ReadFile "a.txt": got %q, %v; want "content", nil`, got, err)
	}
	_, err := d.WriteFiles(w.Ctx, id, map[string]service.File{"a.txt": text("new")})
	w.OK(err)
	for range 60 {
		p, err := w.rt.StartProcess(w.Ctx, id, &runtime.Command{Command: []string{"sleep", "600"}, Cwd: "/"})
		w.OK(err)
		defer p.Close()
	}
	info, err := w.rt.Inspect(w.Ctx, id)
	w.OK(err)
	if info.Limits.PIDs == runtime.ByCgroup { // else PID 1 itself has no such limit
		var full *runtime.StartError
		for n := 0; !errors.As(err, &full); n++ {
			if n == 1000 || err != nil {
				t.Fatalf("there is room for another process: %v", err)
			}
			_, err = w.rt.Exec(w.Ctx, id, &runtime.ExecRequest{Command: []string{"true"}, Cwd: "/"})
		}
	}
	w.OK(d.Probe(w.Ctx, id))
	if got := w.run(d, id, "echo $VALUE"); got != "kept\n" {
		t.Errorf("the shell has %q", got)
	}
}

// Whenever the caller goes, a file has its old content or its new, and nothing else is
// there.
func TestFilesGivenUp(t *testing.T) {
	for what, rules := range map[string][]perm.Rule{
		"beside":   {{Pattern: "**", Level: perm.Write}},
		"in place": {{Pattern: "/a.txt", Level: perm.Write}},
	} {
		t.Run(what, func(t *testing.T) {
			w := newWorld(t)
			w.rules = rules
			now := strings.Repeat("0", 2<<20)
			w.put("a.txt", now, 0o666)
			d := w.driver()
			id := w.box(d, nil)
			for i := range 30 {
				ctx, cancel := context.WithTimeout(w.Ctx, time.Duration(i)*time.Millisecond)
				next := strings.Repeat(string(rune('a'+i%26)), len(now)-i)
				n, err := d.WriteFiles(ctx, id, map[string]service.File{"a.txt": text(next)})
				cancel()
				if (n == 1) != (err == nil) {
					t.Errorf("%d files, %v", n, err)
				}
				if err == nil {
					now = next
				}
				w.holds("a.txt", now)
				if left, err := os.ReadDir(w.codebase); err != nil || len(left) != 1 {
					t.Fatalf("os.ReadDir: got left %v, err %v; want err == nil and len(left) == 1", left, err)
				}
			}
		})
	}
}

// A put that is asked to end leaves the file, and nothing beside it.
func TestFilesInterrupted(t *testing.T) {
	w := newWorld(t)
	w.put("a.txt", "old", 0o666)
	id := w.box(w.driver(), nil)
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT} {
		p, err := w.rt.StartProcess(w.Ctx, id, &runtime.Command{Command: []string{launch.GuestPath, filecall.Arg}, OpenStdin: true})
		w.OK(err)
		out := filecall.NewSender(p.Stdin())
		w.OK(out.JSON(&filecall.Request{Op: filecall.OpPut, Path: "/workspace/a.txt"}))
		_, err = out.Write([]byte("new"))
		w.OK(err)
		w.Until("it has begun", func() bool {
			all, err := os.ReadDir(w.codebase)
			return err == nil && len(all) == 2
		})
		w.OK(p.Signal(sig))
		exit, err := p.Wait(w.Ctx)
		if err != nil || exit.ExitCode == 0 {
			t.Errorf("%v: got exit %+v, err %v; want err == nil and exit.ExitCode != 0", sig, exit, err)
		}
		w.OK(p.Close())
		w.holds("a.txt", "old")
		if left, err := os.ReadDir(w.codebase); err != nil || len(left) != 1 {
			t.Errorf("%v: left: %v, %v", sig, left, err)
		}
	}
}

// Without room a file stays what it was.
func TestFilesWithoutRoom(t *testing.T) {
	for what, rules := range map[string][]perm.Rule{
		"beside":   {{Pattern: "**", Level: perm.Write}},
		"in place": {{Pattern: "/a.txt", Level: perm.Write}},
	} {
		t.Run(what, func(t *testing.T) {
			w := newWorld(t)
			w.put("a.txt", "old", 0o666)
			d := newDriver(w.rt, &service.Options{Configure: func(context.Context, *service.Params) (*runtime.SandboxConfig, error) {
				return &runtime.SandboxConfig{CodebasePath: w.codebase, Permissions: rules, Resources: runtime.Resources{Disk: 1 << 20}}, nil
			}})
			id := w.box(d, nil)
			_, err := d.WriteFiles(w.Ctx, id, map[string]service.File{"a.txt": text(strings.Repeat("new", 1<<20))})
			w.Wrong("too much", err, runtime.ErrUnavailable)
			w.holds("a.txt", "old")
			_, err = d.WriteFiles(w.Ctx, id, map[string]service.File{"a.txt": text("small")})
			w.OK(err)
			w.holds("a.txt", "small")
			left, err := os.ReadDir(w.codebase)
			w.OK(err)
			if len(left) != 1 {
				t.Errorf("left: %v", left)
			}
		})
	}
}

// A caller chooses a network only if the service lets it.
func TestCallersNetwork(t *testing.T) {
	w := newWorld(t)
	create := func(may func(*service.Params) error, o service.Params) (*runtime.Sandbox, error) {
		t.Helper()
		d := newDriver(w.rt, &service.Options{MayReach: may})
		o.SandboxID, o.Owner = runtime.NewID(), zoe
		s, err := d.CreateSandbox(w.Ctx, &o)
		if err != nil {
			return nil, err
		}
		made, err := w.rt.Get(w.Ctx, s.SandboxID)
		w.OK(err)
		w.OK(d.DestroySandbox(w.Ctx, s.SandboxID))
		return made, nil
	}
	names := &network.Policy{Allow: []string{"registry.example:443"}}
	_, err := create(nil, service.Params{Egress: names})
	w.Wrong("names without leave", err, runtime.ErrDenied)
	_, err = create(nil, service.Params{Network: runtime.NetworkHost})
	w.Wrong("the host's network without leave", err, runtime.ErrDenied)
	if s, err := create(nil, service.Params{Network: runtime.NetworkNone}); err != nil || s.Network != runtime.NetworkNone {
		t.Errorf("no network: %+v, %v", s, err)
	}
	var asked *service.Params
	may := func(p *service.Params) error { asked = p; return nil }
	_, err = create(may, service.Params{Egress: &network.Policy{Allow: []string{"no name"}}})
	w.Wrong("a name that is none", err, runtime.ErrInvalid)
	if on.backend.Place == launch.InEngine {
		return
	}
	s, err := create(may, service.Params{Egress: names})
	if err != nil || s.Network != runtime.NetworkFiltered || asked.Network != runtime.NetworkFiltered || asked.Egress != names {
		t.Errorf("names: %+v, %v; asked %+v", s, err, asked)
	}
}
