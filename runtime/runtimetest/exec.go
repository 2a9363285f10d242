package runtimetest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing/iotest"

	"wolffia/internal/test/suite"
	"wolffia/runtime"
)

var execTests = []test{
	{"ExecExitCodes", nil, execExitCodes},
	{"ExecSignals", nil, execSignals},
	{"ExecOutput", nil, execOutput},
	{"ExecArguments", nil, execArguments},
	{"ExecArgumentBytes", nil, execArgumentBytes},
	{"ExecCleanEnvironment", nil, execCleanEnvironment},
	{"ExecEnv", nil, execEnv},
	{"ExecCwd", nil, execCwd},
	{"ExecStdin", nil, execStdin},
	{"ExecStdinNobodyReads", nil, execStdinNobodyReads},
	{"ExecStdinFails", nil, execStdinFails},
	{"ExecStartErrors", nil, execStartErrors},
	{"ExecInvalid", nil, execInvalid},
	{"ExecBackground", nil, execBackground},
	{"ExecConcurrent", nil, execConcurrent},
}

// The codes that wolffia itself has a use for are a program's own as well.
func execExitCodes(e *env) {
	s := e.common()
	for _, code := range []int{0, 1, 2, 42, 124, 125, 126, 127, 128, 137, 255} {
		r := e.sh(s.ID, fmt.Sprintf("echo %d; exit %d", code, code))
		if r.ExitCode != code || r.Signal != 0 || r.TimedOut || r.Truncated() || string(r.Stdout) != fmt.Sprintf("%d\n", code) {
			e.Errorf("exit %d: %+v", code, r)
		}
		if r.Duration <= 0 || r.Duration > suite.Limit {
			e.Errorf("it took %v", r.Duration)
		}
	}
}

func execSignals(e *env) {
	s := e.common()
	for _, sig := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGKILL, syscall.SIGUSR1, syscall.SIGSEGV, syscall.SIGTERM} {
		r := e.sh(s.ID, fmt.Sprintf("echo before; kill -%d $$", sig))
		if r.ExitCode != 128+int(sig) || r.Signal != sig || r.TimedOut || string(r.Stdout) != "before\n" {
			e.Errorf("sh: got sig %v, r %+v; want r.ExitCode == 128+int(sig) and r.Signal == %v and not r.TimedOut and r.Stdout == %q",
				sig, r, sig, "before\n")
		}
	}
}

// Output comes byte for byte, and each stream by itself.
func execOutput(e *env) {
	s := e.common()
	for _, tt := range []struct{ script, stdout, stderr string }{
		{"true", "", ""},
		{"echo out; echo err >&2", "out\n", "err\n"},
		{`printf 'no newline'; printf 'nor here' >&2`, "no newline", "nor here"},
		{`printf '\0\1\377\376\r\n\r\n\033[31m'`, "\x00\x01\xff\xfe\r\n\r\n\x1b[31m", ""},
		{`printf '\n\n'`, "\n\n", ""},
		{"exec >&-; exec 2>&-", "", ""},
		{"for i in 1 2 3; do echo o$i; echo e$i >&2; done", "o1\no2\no3\n", "e1\ne2\ne3\n"},
	} {
		r := e.sh(s.ID, tt.script)
		if string(r.Stdout) != tt.stdout || string(r.Stderr) != tt.stderr || r.ExitCode != 0 {
			e.Errorf("%s\n got %q and %q, exit code %d\nwant %q and %q", tt.script, r.Stdout, r.Stderr, r.ExitCode, tt.stdout, tt.stderr)
		}
	}
}

// Arguments are what the program gets: no shell has seen them.
func execArguments(e *env) {
	s := e.common()
	args := []string{"", " ", "a b", "$HOME", "*", "`id`", "'", `"`, "\\", "-n", "--", "é", "new\nline", strings.Repeat("x", 100_000)}
	r := e.exec(s.ID, &runtime.ExecRequest{Command: sh(`for a; do printf '%s\n' "$a"; done`, args...)})
	if want := strings.Join(args, "\n") + "\n"; string(r.Stdout) != want {
		e.Errorf("got %.300q\nwant %.300q", r.Stdout, want)
	}
	many := slices.Repeat([]string{"x"}, 20_000)
	if r := e.exec(s.ID, &runtime.ExecRequest{Command: sh("echo $#", many...)}); string(r.Stdout) != "20000\n" {
		e.Errorf("of 20000 arguments came %.100q", r.Stdout)
	}
}

// Bytes are bytes: names of files need not be UTF-8.
func execArgumentBytes(e *env) {
	s := e.start(nil)
	const odd = "\x01\x7f\x80\xff\xc3 \xed\xa0\x80"
	r := e.exec(s.ID, &runtime.ExecRequest{Command: sh(`printf '%s|%s' "$1" "$ODD"`, odd), Env: map[string]string{"ODD": odd}})
	if want := odd + "|" + odd; string(r.Stdout) != want {
		e.Errorf("got %q\nwant %q", r.Stdout, want)
	}
	e.prints(s.ID, `mkdir "$(printf '\377')"`, "")
	if r := e.exec(s.ID, &runtime.ExecRequest{Command: []string{"ls", ".."}, Cwd: "\xff"}); r.ExitCode != 0 {
		e.Errorf("exec: got r %+v; want r.ExitCode == 0", r)
	}
}

// Nothing of the caller's environment is inside.
func execCleanEnvironment(e *env) {
	if os.Getenv(SecretVariable) != secretValue {
		e.Fatal("the test's own variable is not set")
	}
	s := e.start(nil)
	got := map[string]string{}
	for v := range strings.SplitSeq(e.out(s.ID, "cat /proc/self/environ"), "\x00") {
		name, value, _ := strings.Cut(v, "=")
		got[name] = value
	}
	// What every process has, what a shell sets, and what one without a terminal has.
	own := []string{"DEBIAN_FRONTEND", "EDITOR", "GIT_CONFIG_SYSTEM", "GIT_TERMINAL_PROMPT", "PAGER", "PATH", "HOME", "USER", "LOGNAME", "LANG", "SHELL", "TERM", "HOSTNAME", "PWD", "OLDPWD", "SHLVL", "_"}
	for _, v := range os.Environ() {
		name, _, _ := strings.Cut(v, "=")
		if _, there := got[name]; there && !slices.Contains(own, name) {
			e.Errorf("the caller's %s is there: %q", name, got[name])
		}
	}
	if v, there := got["GOMAXPROCS"]; there {
		e.Errorf("PID 1's GOMAXPROCS is there: %q", v)
	}
	for _, name := range []string{"PATH", "HOME", "USER", "LANG"} {
		if got[name] == "" {
			e.Errorf("%s is not set", name)
		}
	}
	if got["PATH"] != "/usr/local/bin:/usr/bin:/bin" {
		e.Errorf("PATH is %q", got["PATH"])
	}
	e.prints(s.ID, `cd && pwd >/dev/null && echo x >f && cat f`, "x\n")
}

func execEnv(e *env) {
	s := e.start(&runtime.SandboxConfig{Env: map[string]string{"FROM": "sandbox", "BOTH": "sandbox", "LANG": "C"}})
	odd := " a=b\n'\"$x<&>é "
	r := e.exec(s.ID, &runtime.ExecRequest{
		Command: sh(`printf '%s|' "$FROM" "$BOTH" "$LANG" "$ODD" "${EMPTY-unset}" "$PATH"`),
		Env:     map[string]string{"BOTH": "command", "ODD": odd, "EMPTY": "", "PATH": "/usr/bin:/bin:/nowhere"},
	})
	if want := "sandbox|command|C|" + odd + "||/usr/bin:/bin:/nowhere|"; string(r.Stdout) != want {
		e.Errorf("got %q (%q)\nwant %q", r.Stdout, r.Stderr, want)
	}
	// that was for one call
	e.prints(s.ID, `printf '%s|' "$BOTH" "${ODD-unset}"`, "sandbox|unset|")
}

func execCwd(e *env) {
	dir := e.dir()
	e.write(dir+"/sub/deep/here", "")
	c := e.open(dir)
	s := e.start(c)
	for cwd, want := range map[string]string{"": "sub\n", "sub": "deep\n", "./sub/../sub/deep/": "here\n", "/": ""} {
		r := e.exec(s.ID, &runtime.ExecRequest{Command: []string{"ls"}, Cwd: cwd})
		if cwd == "/" {
			want = e.out(s.ID, "ls /")
		}
		if string(r.Stdout) != want {
			e.Errorf("in %q is %q, want %q", cwd, r.Stdout, want)
		}
	}
	for _, cwd := range []string{"missing", "/missing", "sub/deep/here"} {
		_, err := e.rt.Exec(e.Ctx, s.ID, &runtime.ExecRequest{Command: []string{"ls"}, Cwd: cwd})
		e.startError("working directory "+cwd, err, 125, runtime.ErrInvalid)
	}
	if !e.has(Isolation) {
		return // its paths are the host's
	}
	e.prints(s.ID, "pwd", runtime.DefaultMountPoint+"\n")
	c.Cwd, c.MountPoint = "/srv/code/sub", "/srv/code"
	s = e.start(c)
	e.prints(s.ID, "pwd; ls", "/srv/code/sub\ndeep\n")
	r := e.exec(s.ID, &runtime.ExecRequest{Command: []string{"pwd"}, Cwd: "deep"})
	if string(r.Stdout) != "/srv/code/sub/deep\n" {
		e.Errorf("deep is %q", r.Stdout)
	}
}

func execStdin(e *env) {
	s := e.common()
	e.prints(s.ID, "cat; echo end", "end\n") // none: it is empty
	for _, n := range []int{0, 1, 100_000, 5 << 20} {
		in := bytes.Repeat([]byte("0123456\x00"), n/8+1)[:n]
		r := e.exec(s.ID, &runtime.ExecRequest{Command: []string{"cat"}, Stdin: bytes.NewReader(in)})
		if !bytes.Equal(r.Stdout, in) || r.ExitCode != 0 {
			e.Errorf("of %d bytes %d came back, exit code %d", n, len(r.Stdout), r.ExitCode)
		}
	}
}

// zeros never ends.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

// The end of the program is the end, whatever there is left to read, and
// though the reader itself may hang.
func execStdinNobodyReads(e *env) {
	s := e.common()
	hangs, w := io.Pipe()
	defer w.Close()
	for what, in := range map[string]io.Reader{"endless input": zeros{}, "input that hangs": hangs} {
		for _, script := range []string{"exit 3", "exec <&-; exit 3", "head -c 10 >/dev/null & exit 3"} {
			r := e.exec(s.ID, &runtime.ExecRequest{Command: sh(script), Stdin: in})
			if r.ExitCode != 3 {
				e.Errorf("%s, %s: got r %+v; want r.ExitCode == 3", what, script, r)
			}
		}
	}
}

// A command whose input cannot be read to its end is ended: it must not succeed with
// half of it.
func execStdinFails(e *env) {
	s := e.common()
	broken := errors.New("the disk is gone")
	for _, script := range []string{"cat >/dev/null; echo over", "sleep 1000", "trap '' HUP INT TERM; sleep 1000; sleep 1000"} {
		req := func() *runtime.ExecRequest {
			return &runtime.ExecRequest{Command: sh(script), Stdin: io.MultiReader(strings.NewReader("half"), iotest.ErrReader(broken))}
		}
		if res, err := e.rt.Exec(e.Ctx, s.ID, req()); !errors.Is(err, broken) || res != nil {
			e.Fatalf("%s: got %+v, %v; want nil, %v", script, res, err, broken)
		}
		output := make(chan []byte, 10)
		if err := e.rt.ExecStream(e.Ctx, s.ID, req(), output); !errors.Is(err, broken) {
			e.Fatalf("%s, streamed: %v", script, err)
		}
		for part := range output {
			e.Errorf("%s, streamed: it says %q", script, part)
		}
	}
	e.prints(s.ID, "echo alive", "alive\n")
}

// startError checks the error of a program that could not be started.
func (e *env) startError(what string, err error, code int, class error) {
	e.Helper()
	e.Wrong(what, err, class)
	if se, ok := errors.AsType[*runtime.StartError](err); !ok {
		e.Errorf("%s: error is %v, want a *StartError", what, err)
	} else if se.Code != code || se.Message == "" {
		e.Errorf("%s: code %d, message %q, want code %d", what, se.Code, se.Message, code)
	}
}

func execStartErrors(e *env) {
	dir := e.dir()
	e.write(dir+"/file", "#!/bin/sh\n")
	s := e.start(e.open(dir))
	for _, tt := range []struct {
		program string
		code    int
		class   error
	}{
		{"no-such-program", 127, runtime.ErrNotFound},
		{"/no/such/program", 127, runtime.ErrNotFound},
		{"./missing", 127, runtime.ErrNotFound},
		{"file/below", 127, runtime.ErrNotFound},
		{"", 127, runtime.ErrNotFound},
		{"/", 126, runtime.ErrDenied},
		{"./file", 126, runtime.ErrDenied},
		{"/etc/passwd", 126, runtime.ErrDenied},
	} {
		r, err := e.rt.Exec(e.Ctx, s.ID, &runtime.ExecRequest{Command: []string{tt.program}})
		e.startError(fmt.Sprintf("%q", tt.program), err, tt.code, tt.class)
		if r != nil {
			e.Errorf("%q: an error and a result %+v", tt.program, r)
		}
	}
	e.prints(s.ID, "echo alive", "alive\n")
}

func execInvalid(e *env) {
	s := e.common()
	for what, req := range map[string]*runtime.ExecRequest{
		"no command":       {},
		"negative timeout": {Command: []string{"true"}, Timeout: -1},
		"NUL":              {Command: []string{"echo", "a\x00b"}},
		"NUL of a value":   {Command: []string{"true"}, Env: map[string]string{"A": "b\x00"}},
		"no name":          {Command: []string{"true"}, Env: map[string]string{"": "b"}},
		"name with =":      {Command: []string{"true"}, Env: map[string]string{"A=B": "c"}},
	} {
		_, err := e.rt.Exec(e.Ctx, s.ID, req)
		e.Wrong(what, err, runtime.ErrInvalid)
	}
	for _, req := range []*runtime.ExecRequest{
		{Command: []string{"true"}, Cwd: "\x00"},
		{Command: sh("true", strings.Repeat("x", 1<<20))}, // beyond what execve takes
	} {
		if r, err := e.rt.Exec(e.Ctx, s.ID, req); err == nil || runtime.Class(err) == nil {
			e.Errorf("%.50q: got r %+v, err %v; want err != nil and runtime.Class(err) != nil", req.Command, r, err)
		}
	}
	e.prints(s.ID, "echo alive", "alive\n")
}

// A program ends when it does, not when the last one does that has its output.
func execBackground(e *env) {
	s, tag := e.start(nil), newTag()
	e.prints(s.ID, "sleep "+tag+" & echo hi", "hi\n")
	e.Until("the process in the background", func() bool { return e.count(s.ID, tag) == 1 })
}

func execConcurrent(e *env) {
	s := e.common()
	for i, err := range suite.AtOnce(some(100), func(i int) error {
		r, err := e.rt.Exec(e.Ctx, s.ID, &runtime.ExecRequest{Command: sh(fmt.Sprintf("echo out%d; echo err%d >&2; exit %d", i, i, i))})
		if err != nil {
			return err
		}
		if r.ExitCode != i || string(r.Stdout) != fmt.Sprintf("out%d\n", i) || string(r.Stderr) != fmt.Sprintf("err%d\n", i) {
			return fmt.Errorf("%+v", r)
		}
		return nil
	}) {
		if err != nil {
			e.Errorf("%d: %v", i, err)
		}
	}
}
