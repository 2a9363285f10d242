package session_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/internal/test/wait"
	"wolffia/wire"
	"wolffia/wire/client"
)

// A call that waits for its turn is canceled when its caller is interrupted, and
// not run afterwards.
func TestSignalOfWhatWaits(t *testing.T) {
	s := open(t, "bash")
	first := s.start(t, "echo up; read x", withInput)
	first.out.await(t, "up")
	for _, sig := range []syscall.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT} {
		second := s.start(t, "ran=yes")
		if err := second.Signal(sig); err != nil {
			t.Fatal(err)
		}
		if r := second.wait(t); r.err == nil || !strings.Contains(r.err.Error(), "canceled") {
			t.Errorf(`%v: got r %v; want r.err != nil and r.err.Error() contains "canceled"`, sig, r)
		}
	}
	third := s.start(t, "echo ${ran-no}")
	if err := third.Signal(unix.SIGUSR1); err != nil { // has no effect on it
		t.Fatal(err)
	}
	first.give(t, "x\n")
	first.wait(t)
	if r := third.wait(t); r.stdout != "no\n" {
		t.Errorf("wait: got r %v; want r.stdout == %q", r, "no\n")
	}
}

// A session can be ended though a caller does not take its command's output.
func TestDestroyWhileNobodyReads(t *testing.T) {
	s := open(t, "bash")
	p, err := s.conn.Start(&client.Request{StartRequest: wire.StartRequest{
		Args: []string{"echo up; yes"}, Session: &wire.SessionRequest{Op: wire.SessionExec, Name: s.name},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Stdout().Read(make([]byte, 3)); err != nil {
		t.Fatal(err)
	}
	time.Sleep(300 * time.Millisecond) // so that there is no credit left, or this shows nothing
	ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
	defer cancel()
	if err := connect(t).DestroySession(ctx, s.name); err != nil {
		t.Error(err)
	}
	if err := p.Kill(); err != nil {
		t.Error(err)
	}
}

// A session that is only being created does not exist for another caller that creates it, since
// its own caller may give it up.
func TestCreateWhatIsBeingCreated(t *testing.T) {
	conn, dir := connect(t), t.TempDir()
	gate, shell := filepath.Join(dir, "gate"), filepath.Join(dir, "slow")
	if err := errors.Join(unix.Mkfifo(gate, 0o666), os.WriteFile(shell, []byte("#!/bin/sh\nread x <"+gate+"\nexec /bin/sh \"$@\"\n"), 0o755), os.Chmod(dir, 0o755)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
	defer cancel()
	begin := func(ctx context.Context) <-chan error {
		ended := make(chan error, 1)
		go func() {
			_, err := conn.CreateSession(ctx, &wire.StartRequest{
				Dir: "/", Env: environ(), Session: &wire.SessionRequest{Op: wire.SessionCreate, Name: "slow", Shell: shell},
			})
			ended <- err
		}()
		return ended
	}
	until := func(waiting int) {
		for {
			if i, err := conn.Session(ctx, "slow"); err == nil && i.Waiting == waiting {
				return
			}
			if ctx.Err() != nil {
				t.Fatalf("never %d calls wait", waiting)
			}
		}
	}
	given, giveUp := context.WithCancel(ctx)
	first := begin(given)
	until(0)
	second := begin(ctx)
	until(1)
	giveUp()
	if err := <-first; err == nil {
		t.Error("it was created for a caller that has given up")
	}
	if err := os.WriteFile(gate, []byte("\n"), 0); err != nil {
		t.Fatal(err)
	}
	var failed *client.StartError
	if err := <-second; !errors.As(err, &failed) || failed.Class != wire.ClassExists {
		t.Errorf("the second caller: %v", err)
	}
	if _, err := conn.Session(ctx, "slow"); err != nil {
		t.Error(err)
	}
	if err := conn.DestroySession(ctx, "slow"); err != nil {
		t.Error(err)
	}
}

// What a session's terminals have started ends with it, also where their shells had
// ended before.
func TestDestroyEndsWhatTerminalsLeft(t *testing.T) {
	s, other := open(t, "bash"), open(t, "bash")
	ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
	defer cancel()
	for _, n := range []string{"8761", "8762"} {
		var out lockedBuffer
		term, err := s.conn.Attach(ctx, &wire.StartRequest{Session: &wire.SessionRequest{Op: wire.SessionAttach, Name: s.name}}, out.add)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := term.Stdin().Write([]byte("setsid sleep " + n + " </dev/null >/dev/null 2>&1 & until pgrep -fx 'sleep " + n + "'; do :; done; exit\n")); err != nil {
			t.Fatal(err)
		}
		if _, err := term.Wait(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if got := other.exec(t, "pgrep -fxc 'sleep 876[12]'"); got != "2\n" {
		t.Fatalf("%s of 2 are there", got)
	}
	if err := s.conn.DestroySession(ctx, s.name); err != nil {
		t.Fatal(err)
	}
	if r := other.run(t, "while pgrep -fx 'sleep 876[12]'; do :; done", timeout(5*time.Second)); r.Code != 0 {
		t.Errorf("alive: %v", r)
	}
}

// A call whose variables or directory cannot be set is not run, and leaves the session as it was.
func TestOverrideThatFails(t *testing.T) {
	for name, shell := range shells(t) {
		t.Run(name, func(t *testing.T) {
			s := open(t, shell)
			s.exec(t, "cd /usr; readonly fixed=1; A=mine")
			for _, change := range []func(*wire.StartRequest){
				func(r *wire.StartRequest) { r.Env = []string{"A=other", "fixed=2"} },
				func(r *wire.StartRequest) { r.Env, r.Dir = []string{"A=other", "fixed=2"}, "/etc" },
				func(r *wire.StartRequest) { r.Env, r.Dir = []string{"A=other"}, "/nowhere" },
			} {
				if r := s.run(t, "echo ran", change); r.err == nil || r.stdout != "" || !strings.Contains(r.err.Error(), "cannot be set") {
					t.Errorf(`run "echo ran": got r %v; want r.err != nil and r.stdout == "" and r.err.Error() contains "cannot be set"`, r)
				}
			}
			if got := s.exec(t, "echo $A $fixed; pwd"); got != "mine 1\n/usr\n" {
				t.Errorf(`exec "echo $A $fixed; pwd": got %q, want %q`, got, "mine 1\n/usr\n")
			}
		})
	}
}
