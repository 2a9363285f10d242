package session_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/internal/test/suite"
	"wolffia/internal/test/wait"
	"wolffia/wire"
)

// The ways in which shell sessions of others have failed, each a test.

func TestUnfinishedInputLeavesNoPrompt(t *testing.T) {
	s := open(t, "bash")
	for _, text := range []string{"cat <<EOF\nx\n", "echo 'a", "echo \"a", "if :; then\n", "f() {\n", "cat <<E\na\nE", "echo a \\"} {
		if r := s.run(t, text); r.err != nil || r.SessionEnded {
			t.Errorf("%q: got r %v; want r.err == nil and not r.SessionEnded", text, r)
		}
		s.alive(t)
	}
}

func TestCommandDoesNotReadTheNext(t *testing.T) {
	s := open(t, "bash")
	if r := s.run(t, "cat; read x; echo \"<$x>\""); r.stdout != "<>\n" {
		t.Errorf("run %q: got r %v; want r.stdout == %q", "cat; read x; echo \"<$x>\"", r, "<>\n")
	}
	if got := s.exec(t, "echo next"); got != "next\n" {
		t.Errorf(`exec "echo next": got %q, want %q`, got, "next\n")
	}
}

// A text that deletes what it was read from is not taken for one that was not
// run.
func TestTextIsRunOnce(t *testing.T) {
	for name, shell := range shells(t) {
		s := open(t, shell)
		for _, text := range []string{"n=$((n+1)); rm -f /dev/shm/*/c", "n=$((n+1)); rm -rf /dev/shm/*", "n=$((n+1)); for d in /dev/shm/*; do mv $d/c $d/d; done"} {
			s.exec(t, "n=0")
			s.run(t, text)
			if got := s.exec(t, "echo $n"); got != "1\n" {
				t.Errorf("%s: %s has run %q times", name, text, got)
			}
		}
	}
}

func TestGroupsKeepTheirState(t *testing.T) {
	s := open(t, "bash")
	s.exec(t, "(cd /tmp; export A=1); { cd /usr; export B=2; }")
	if got := s.exec(t, "pwd; echo $A-$B"); got != "/usr\n-2\n" {
		t.Errorf(`exec "pwd; echo $A-$B": got %q, want %q`, got, "/usr\n-2\n")
	}
}

func TestExitAndSetDoNotPoison(t *testing.T) {
	s := open(t, "bash")
	s.exec(t, "cd /usr; keep=1; f() { echo f; }; alias ll='echo l'; umask 027; set -o noglob; arr=(a 'b c'); declare -A m=([x]=$'1\\n2')")
	for _, text := range []string{"exit 5", "set -e; false", "set -eu; exit $nope", "kill -TERM $$; exit 3"} {
		s.run(t, text)
		want := "/usr\n1\nf\nl\n0027\nb c\n1\n2\n*\n"
		if r := s.run(t, `pwd; echo $keep; f; ll; umask; echo "${arr[1]}"; echo "${m[x]}"; echo *`); r.stdout != want {
			t.Errorf("after %q: %v", text, r)
		}
	}
	r := s.run(t, "exit 5")
	if r.Code != 5 || !r.SessionEnded {
		t.Errorf(`run "exit 5": got r %v; want r.Code == 5 and r.SessionEnded`, r)
	}
	if r = s.run(t, "true"); r.Restored != wire.RestoredFull || r.SessionEnded {
		t.Errorf(`run "true": got r %v; want r.Restored == wire.RestoredFull and not r.SessionEnded`, r)
	}
	if r = s.run(t, "true"); r.Restored != "" {
		t.Errorf("told twice: %v", r)
	}
}

func TestBackgroundChildDoesNotHoldTheCall(t *testing.T) {
	s := open(t, "bash")
	for _, text := range []string{"sleep 100 & echo x", "(sleep 100 &); echo x", "setsid sleep 100 & echo x"} {
		if r := s.run(t, text); r.stdout != "x\n" || r.DurationMS > 5000 {
			t.Errorf("%s: got r %v; want r.stdout == %q and r.DurationMS <= 5000", text, r, "x\n")
		}
	}
}

func TestBackgroundOutputStaysApart(t *testing.T) {
	s := open(t, "bash")
	s.exec(t, "mkfifo /mnt/.w-gate; (read x </mnt/.w-gate; echo late) &")
	if got := s.exec(t, "echo go >/mnt/.w-gate; wait; rm /mnt/.w-gate; echo mine"); got != "mine\n" {
		t.Errorf(`exec "echo go >/mnt/.w-gate; wait; rm /mnt/.w-gate; echo mine": got %q, want %q`, got, "mine\n")
	}
}

func TestTimeoutLeavesTheSession(t *testing.T) {
	s := open(t, "bash")
	s.exec(t, "x=kept; cd /usr")
	for range 3 { // an interrupt that comes before the program runs is lost, and SIGTERM follows
		if r := s.run(t, "sleep 100", timeout(time.Second)); r.Code != 124 || !r.TimedOut || r.SessionEnded || r.ShellCode == nil || *r.ShellCode != 130 {
			t.Errorf(`run "sleep 100": got r %v; want r.Code == 124 and r.TimedOut and not r.SessionEnded and r.ShellCode != nil and *r.ShellCode == 130`,
				r)
		}
	}
	if got := s.exec(t, "echo $x; pwd"); got != "kept\n/usr\n" {
		t.Errorf(`exec "echo $x; pwd": got %q, want %q`, got, "kept\n/usr\n")
	}
	if r := s.run(t, "exit 124"); r.TimedOut || r.Code != 124 {
		t.Errorf("a program's own 124: %v", r)
	}
}

func TestTimeoutKillsGrandchildren(t *testing.T) {
	s := open(t, "bash")
	s.exec(t, "sleep 4321 & echo") // an earlier job, which does not concern it
	for _, text := range []string{
		"sh -c 'sh -c \"sleep 1234\"; :'", "setsid -w sleep 1234", "(setsid sleep 1234 &); sleep 1234",
		"sh -c 'trap \"\" INT TERM; sleep 1234; sleep 1234'", "sh -c 'sleep 1234 & kill -STOP $!; wait'",
	} {
		s.run(t, text, timeout(200*time.Millisecond))
		if r := s.run(t, "while pgrep -fx 'sleep 1234' >/dev/null; do :; done"); r.Code != 0 {
			t.Errorf("%s: left: %v", text, r)
		}
	}
	if r := s.run(t, "until pgrep -fx 'sleep 4321' >/dev/null; do :; done"); r.Code != 0 {
		t.Error("the earlier job is gone")
	}
}

func TestDaemonsEndWithTheSession(t *testing.T) {
	s, other := open(t, "bash"), open(t, "bash")
	s.exec(t, "sleep 7654 & sleep 7655 & disown; (setsid sleep 7656 &)")
	ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
	defer cancel()
	if got := other.exec(t, "until [ $(pgrep -fxc 'sleep 765[456]') = 3 ]; do :; done; echo 3"); got != "3\n" {
		t.Errorf("%q of 3 live", got)
	}
	jobs, err := s.conn.Jobs(ctx, s.name)
	if err != nil || len(jobs) != 1 || len(jobs[0].PIDs) != 3 {
		t.Fatalf("Jobs: got jobs %+v, err %v; want err == nil and len(jobs) == 1 and len(jobs[0].PIDs) == 3", jobs, err)
	}
	if err := s.conn.SignalJob(ctx, s.name, jobs[0].ID, 9); err != nil {
		t.Error(err)
	}
	if _, err := s.conn.WaitJob(ctx, s.name, jobs[0].ID); err != nil {
		t.Error(err)
	}
	s.exec(t, "sleep 7654 & (setsid sleep 7656 &) ; sleep 7655 >/dev/null 2>&1 & disown")
	if err := s.conn.DestroySession(ctx, s.name); err != nil {
		t.Fatal(err)
	}
	other.run(t, "while pgrep -fx 'sleep 765[456]'; do :; done", timeout(5*time.Second))
	if r := other.run(t, "pgrep -fx 'sleep 765[456]'"); r.Code != 1 {
		t.Errorf("alive after all were to go: %v", r)
	}
}

func TestPartialOutputAtTimeout(t *testing.T) {
	s := open(t, "bash")
	var r result
	suite.Timeouts(func(most time.Duration) (came bool) {
		r = s.run(t, "echo one; echo two >&2; sleep 100", timeout(most))
		return r.stderr != ""
	})
	if r.stdout != "one\n" || r.stderr != "two\n" || !r.TimedOut {
		t.Errorf("got r %v; want r.stdout == %q and r.stderr == %q and r.TimedOut", r, "one\n", "two\n")
	}
}

func TestLargeOutputIsExact(t *testing.T) {
	s := open(t, "bash")
	r := s.run(t, "(head -c 30000000 /dev/zero & head -c 20000000 /dev/zero | tr '\\0' y >&2; wait)")
	if len(r.stdout) != 30_000_000 || len(r.stderr) != 20_000_000 || sha256.Sum256([]byte(r.stderr)) != sha256.Sum256([]byte(strings.Repeat("y", 20_000_000))) {
		t.Errorf("%d and %d bytes", len(r.stdout), len(r.stderr))
	}
}

func TestPromptsDoNotBlockForEver(t *testing.T) {
	s := open(t, "bash")
	for _, text := range []string{"read x </dev/tty", "read -p 'name? ' x", "less /etc/passwd </dev/tty >/dev/tty"} {
		r := s.run(t, text, timeout(300*time.Millisecond))
		if r.err != nil {
			t.Errorf("%s: got r %v; want r.err == nil", text, r)
		}
		s.alive(t)
	}
}

func TestCallersTakeTurns(t *testing.T) {
	s := open(t, "bash")
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			want := fmt.Sprintf("%d\n%d\n", i, i)
			if r := s.run(t, fmt.Sprintf("echo %d; sleep 0.005; echo %d; (exit %d)", i, i, i)); r.stdout != want || r.Code != i {
				t.Errorf("run: got i %d, r %v; want r.stdout == %v and r.Code == %v", i, r, want, i)
			}
		})
	}
	wg.Wait()
	first := s.start(t, "echo up; read x", withInput)
	first.out.await(t, "up")
	if r := s.run(t, "true", func(r *wire.StartRequest) { r.Session.NoWait = true }); r.err == nil || !strings.Contains(r.err.Error(), "busy") {
		t.Errorf("a busy session: %v", r)
	}
	first.give(t, "x\n")
	first.wait(t)
}

func TestMissingCommandIs127(t *testing.T) {
	s := open(t, "bash")
	if r := s.run(t, "no-such-command"); r.Code != 127 || !strings.Contains(r.stderr, "not found") {
		t.Errorf(`run "no-such-command": got r %v; want r.Code == 127 and r.stderr contains "not found"`, r)
	}
	if r := s.run(t, "/etc/passwd"); r.Code != 126 {
		t.Errorf(`run "/etc/passwd": got r %v; want r.Code == 126`, r)
	}
}

func TestLongCommands(t *testing.T) {
	s := open(t, "bash")
	text := "x='" + strings.Repeat("0123456789", 100_000) + "'; echo ${#x}"
	if got := s.exec(t, text); got != "1000000\n" {
		t.Errorf("exec: got %q, want %q", got, "1000000\n")
	}
}

func TestStartFilesThatPrintOrHang(t *testing.T) {
	for name, tt := range map[string]struct{ rc, want string }{
		"prints": {"echo noise; echo noise >&2; FROM=rc", "rc\n"},
		"hangs":  {"FROM=rc; sleep 1000", "rc\n"},
		"exits":  {"FROM=rc; exit 3", "\n"},
		"reads":  {"FROM=rc; cat; read x", "rc\n"},
	} {
		t.Run(name, func(t *testing.T) {
			home := t.TempDir()
			if err := os.WriteFile(home+"/.bashrc", []byte(tt.rc+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			s := create(t, &wire.StartRequest{Env: append(environ(), "HOME="+home), Session: &wire.SessionRequest{Shell: "bash", RC: true}})
			if r := s.run(t, "echo $FROM"); r.stdout != tt.want || r.stderr != "" {
				t.Errorf(`run "echo $FROM": got r %v; want r.stdout == %v and r.stderr == ""`, r, tt.want)
			}
		})
	}
}

// A session whose caller cancels before its shell answers does not exist later.
func TestCreateGivenUp(t *testing.T) {
	home := t.TempDir()
	fifo := home + "/fifo"
	err := unix.Mkfifo(fifo, 0o600)
	if err == nil {
		err = os.WriteFile(home+"/.bashrc", []byte("read x <"+fifo+"\n"), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	conn := connect(t)
	name := fmt.Sprintf("t%d", sessions.Add(1))
	ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
	defer cancel()
	var end *os.File
	begun := make(chan error, 1)
	go func() { // waits until the shell reads
		var err error
		end, err = os.OpenFile(fifo, os.O_WRONLY, 0)
		cancel()
		begun <- err
	}()
	_, err = conn.CreateSession(ctx, &wire.StartRequest{
		Dir: "/", Env: append(environ(), "HOME="+home), Session: &wire.SessionRequest{Op: wire.SessionCreate, Name: name, Shell: "bash", RC: true},
	})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("create: %v", err)
	}
	s := &sess{conn, name}
	s.info(t) // after the word that the caller has given up
	if err := <-begun; err != nil {
		t.Fatal(err)
	}
	if err := end.Close(); err != nil {
		t.Fatal(err)
	}
	s.awaitEnd(t)
}

// What is typed on the terminal during one command is not read by the next, nor is
// the end of its input.
func TestTypedIsOneCommands(t *testing.T) {
	for shell, path := range shells(t) {
		t.Run(shell, func(t *testing.T) {
			s := open(t, path)
			onTerminal := func(r *wire.StartRequest) { r.TTY, r.Stdin, r.Rows, r.Cols = true, true, 24, 80 }
			r := s.start(t, "echo up; read x; echo \"got $x\"", onTerminal)
			r.give(t, "one\ntwo\n") // and ^D
			if got := r.wait(t); got.Code != 0 || !strings.Contains(got.stdout, "got one\r\n") {
				t.Fatalf("wait: got %v; want got.Code == 0 and got.stdout contains %q", got, "got one\r\n")
			}
			r = s.start(t, "echo up; read x; echo \"got $x\"", onTerminal)
			r.out.await(t, "up\r\n")
			r.give(t, "three\n")
			if got := r.wait(t); got.Code != 0 || !strings.Contains(got.stdout, "got three\r\n") {
				t.Errorf("the next: %v", got)
			}
			got := s.run(t, "read x </dev/tty; echo \"got $x\"")
			if got.stdout != "got \n" && !got.WantedTerminal {
				t.Errorf("a command without a terminal: %v", got)
			}
			s.alive(t)
		})
	}
}

// The files of ended shells, and of ended commands, are removed.
func TestFilesStayFew(t *testing.T) {
	const most = 10 // text, status, two streams, and those of the shell that runs
	s := open(t, "bash")
	text := s.exec(t, "echo $BASH_SOURCE")
	for range 20 {
		r := s.start(t, "read x; exit 3", withInput)
		r.give(t, "x\n")
		if got := r.wait(t); !got.SessionEnded {
			t.Fatalf("wait: got %v; want got.SessionEnded", got)
		}
		s.exec(t, "sleep 100 & kill $!; wait 2>/dev/null; :")
	}
	s.alive(t)
	dir := filepath.Dir(text)
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) > most {
		t.Errorf("%d files, want at most %d: %v, %v", len(files), most, files, err)
	}
	s.alive(t)
}
