package session_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/internal/test/wait"
	"wolffia/wire"
	"wolffia/wire/client"
)

func TestJobs(t *testing.T) {
	for name, shell := range shells(t) {
		t.Run(name, func(t *testing.T) {
			s := open(t, shell)
			ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
			defer cancel()
			s.exec(t, "v=state; cd /usr; mkfifo /mnt/.w-job; f() { echo f; }")
			defer os.Remove("/mnt/.w-job")
			j, err := s.conn.StartJob(ctx, &wire.StartRequest{
				Args:    []string{"echo $v; pwd; f; echo err >&2; read x </mnt/.w-job; echo $x; exit 5"},
				Session: &wire.SessionRequest{Op: wire.SessionJobStart, Name: s.name, Job: "server"},
			})
			if err != nil || j.Name != "server" || j.State != wire.StateRunning || len(j.PIDs) == 0 {
				t.Fatalf(`StartJob: got j %+v, err %v; want err == nil and j.Name == "server" and j.State == wire.StateRunning and len(j.PIDs) != 0`,
					j, err)
			}
			s.alive(t)
			var out, errs bytes.Buffer
			follow := func(off uint64, follow bool) wire.ExitStatus {
				out.Reset()
				errs.Reset()
				p, err := s.conn.Start(&client.Request{
					StartRequest: wire.StartRequest{Session: &wire.SessionRequest{Op: wire.SessionJobOutput, Name: s.name, Job: "server", Offset: off, Follow: follow}},
					OnStdout:     func(b []byte) { out.Write(b) }, OnStderr: func(b []byte) { errs.Write(b) },
				})
				if err != nil {
					t.Fatal(err)
				}
				st, err := p.Wait(ctx)
				if err != nil {
					t.Fatal(err)
				}
				return st
			}
			go s.run(t, "echo go >/mnt/.w-job")
			if st := follow(6, true); out.String() != "/usr\nf\ngo\n" || errs.String() != "err\n" || st.StdoutEnd != 16 || st.StderrEnd != 4 {
				t.Errorf("follow: got st %+v, %q, %q; want out.String() == %q and errs.String() == %q and st.StdoutEnd == 16 and st.StderrEnd == 4",
					st, out.String(), errs.String(), "/usr\nf\ngo\n", "err\n")
			}
			if st, err := s.conn.WaitJob(ctx, s.name, "server"); err != nil || st.Code != 5 || st.StatusLost {
				t.Errorf(`WaitJob "server": got st %+v, err %v; want err == nil and st.Code == 5 and not st.StatusLost`, st, err)
			}
			follow(0, false)
			if out.String() != "state\n/usr\nf\ngo\n" {
				t.Errorf("got %q, want %q", out.String(), "state\n/usr\nf\ngo\n")
			}
			s.exec(t, "sleep 1000 & sh -c 'setsid sleep 1000 &'")
			all, err := s.conn.Jobs(ctx, s.name)
			if err != nil || len(all) != 2 || all[0].State != wire.StateEnded || all[1].State != wire.StateRunning || len(all[1].PIDs) != 2 {
				t.Fatalf("Jobs: got all %+v, err %v; want err == nil and len(all) == 2 and all[0].State == wire.StateEnded and all[1].State == wire.StateRunning and len(all[1].PIDs) == 2",
					all, err)
			}
			if i := s.info(t); i.Jobs != 1 || i.State != wire.StateIdle || i.Cwd != "/usr" {
				t.Errorf(`info: got i %+v; want i.Jobs == 1 and i.State == wire.StateIdle and i.Cwd == "/usr"`, i)
			}
			if err := s.conn.SignalJob(ctx, s.name, all[1].ID, 9); err != nil {
				t.Error(err)
			}
			if st, err := s.conn.WaitJob(ctx, s.name, all[1].ID); err != nil || !st.StatusLost {
				t.Errorf("WaitJob: got st %+v, err %v; want err == nil and st.StatusLost", st, err)
			}
			s.alive(t)
		})
	}
}

// What a process substitution writes after its command has ended is in the
// command's result, if it comes at once, else in a job's output; nowhere it is
// lost.
func TestProcessSubstitutionIsNotLost(t *testing.T) {
	s := open(t, "bash")
	ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
	defer cancel()
	jobOutput := func() string {
		all, err := s.conn.Jobs(ctx, s.name)
		if err != nil {
			t.Fatal(err)
		}
		if len(all) == 0 {
			return ""
		}
		var out bytes.Buffer
		p, err := s.conn.Start(&client.Request{
			StartRequest: wire.StartRequest{Session: &wire.SessionRequest{Op: wire.SessionJobOutput, Name: s.name, Job: all[len(all)-1].ID, Follow: true}},
			OnStdout:     func(b []byte) { out.Write(b) }, OnStderr: func([]byte) {},
		})
		if err == nil {
			_, err = p.Wait(ctx)
		}
		if err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	for i := range 50 {
		want := strconv.Itoa(i) + "\n"
		r := s.run(t, "echo "+strconv.Itoa(i)+" > >(cat)")
		if r.stdout == want {
			continue
		}
		if late := jobOutput(); r.stdout != "" || late != want {
			t.Fatalf("%d: %v, and later %q", i, r, late)
		}
	}
	s.exec(t, "rm -f /mnt/.w-late; mkfifo /mnt/.w-late")
	defer os.Remove("/mnt/.w-late")
	if r := s.run(t, "echo much > >(read x </mnt/.w-late; cat; echo $x)"); r.stdout != "" || r.Code != 0 {
		t.Errorf(`run "echo much > >(read x </mnt/.w-late; cat; echo $x)": got r %v; want r.stdout == "" and r.Code == 0`, r)
	}
	s.exec(t, "echo late >/mnt/.w-late")
	if out := jobOutput(); out != "much\nlate\n" {
		t.Errorf("the job's output is %q", out)
	}
}

// What is in the place of a job's exit status is not followed, waited for, or
// read to an end that never comes.
func TestJobStatusIsHostile(t *testing.T) {
	s := open(t, "bash")
	ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
	defer cancel()
	for name, text := range map[string]string{
		"a FIFO": "mkfifo $f", "a link": "echo 9 >/mnt/.w-nine; ln -s /mnt/.w-nine $f", "endless": "ln -s /dev/zero $f",
		"a directory": "mkdir $f", "long": "seq 1 100000 >$f", "no number": "echo x >$f", "too large": "printf 256 >$f", "nothing": ":",
	} {
		j, err := s.conn.StartJob(ctx, &wire.StartRequest{
			Args:    []string{"f=${BASH_SOURCE}s; read -r a b c parent d </proc/$BASHPID/stat; kill -9 $parent; rm -f $f; " + text},
			Session: &wire.SessionRequest{Op: wire.SessionJobStart, Name: s.name},
		})
		if err != nil {
			t.Fatal(err)
		}
		if st, err := s.conn.WaitJob(ctx, s.name, j.ID); err != nil || !st.StatusLost {
			t.Errorf("%s: got st %+v, err %v; want err == nil and st.StatusLost", name, st, err)
		}
	}
	s.exec(t, "rm -f /mnt/.w-nine")
	s.alive(t)
}

// Dir and Env hold for one call.
func TestForThisCallOnly(t *testing.T) {
	for name, shell := range shells(t) {
		t.Run(name, func(t *testing.T) {
			s := open(t, shell)
			s.exec(t, "cd /usr; A=a; export B='it'\\''s'")
			with := func(r *wire.StartRequest) {
				r.Dir, r.Env = "/tmp", []string{"A=1 '2'", "B=3", "C=4"}
			}
			if r := s.run(t, "pwd; env | grep '^[ABC]=' | sort", with); r.stdout != "/tmp\nA=1 '2'\nB=3\nC=4\n" || r.Cwd != "/usr" {
				t.Errorf(`run "pwd; env | grep '^[ABC]=' | sort": got r %v; want r.stdout == %q and r.Cwd == "/usr"`,
					r, "/tmp\nA=1 '2'\nB=3\nC=4\n")
			}
			if got := s.exec(t, "pwd; echo $A $B ${C-none}; env | grep '^[ABC]='"); got != "/usr\na it's none\nB=it's\n" {
				t.Errorf(`exec "pwd; echo $A $B ${C-none}; env | grep '^[ABC]='": got %q, want %q`, got, "/usr\na it's none\nB=it's\n")
			}
			if r := s.run(t, "exit 3", with); r.Code != 3 {
				t.Errorf(`run "exit 3": got r %v; want r.Code == 3`, r)
			}
			if r := s.run(t, "pwd; echo $A $B ${C-none}"); r.stdout != "/usr\na it's none\n" {
				t.Errorf(`run "pwd; echo $A $B ${C-none}": got r %v; want r.stdout == %q`, r, "/usr\na it's none\n")
			}
			r := s.run(t, "echo no", func(r *wire.StartRequest) { r.Dir = "/nonexistent" })
			if r.err == nil || !strings.Contains(r.err.Error(), "nonexistent") {
				t.Errorf(`run "echo no": got r %v; want r.err != nil and r.err.Error() contains "nonexistent"`, r)
			}
			s.alive(t)
			if r := s.run(t, "echo a\x00b"); r.err == nil {
				t.Errorf("NUL: %v", r)
			}
			s.run(t, "false")
			if got := s.run(t, "echo $?").stdout; name == "bash" && got != "1\n" {
				t.Errorf("the last status is %q", got)
			}
		})
	}
}

// A call of a shell that has died between two commands has its Dir and Env in the next
// shell, and so has a job.
func TestForThisCallInAnotherShell(t *testing.T) {
	for name, shell := range shells(t) {
		t.Run(name, func(t *testing.T) {
			s := open(t, shell)
			s.exec(t, "cd /usr")
			ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
			defer cancel()
			for range 10 {
				if err := unix.Kill(s.info(t).PID, unix.SIGKILL); err != nil {
					t.Fatal(err)
				}
				r := s.run(t, "pwd; echo $A", func(r *wire.StartRequest) { r.Dir, r.Env = "/tmp", []string{"A=1"} })
				if r.err != nil || r.Code != 0 || r.stdout != "/tmp\n1\n" {
					t.Fatalf(`run "pwd; echo $A": got r %v; want r.err == nil and r.Code == 0 and r.stdout == %q`, r, "/tmp\n1\n")
				}
				if r := s.run(t, "echo ${A-none}"); r.stdout != "none\n" {
					t.Fatalf("afterwards: %v", r)
				}
				if err := unix.Kill(s.info(t).PID, unix.SIGKILL); err != nil {
					t.Fatal(err)
				}
				j, err := s.conn.StartJob(ctx, &wire.StartRequest{
					Args: []string{"exit 3"}, Session: &wire.SessionRequest{Op: wire.SessionJobStart, Name: s.name},
				})
				if err != nil {
					t.Fatal(err)
				}
				if st, err := s.conn.WaitJob(ctx, s.name, j.ID); err != nil || st.Code != 3 {
					t.Fatalf("WaitJob: got st %+v, err %v; want err == nil and st.Code == 3", st, err)
				}
			}
			s.alive(t)
		})
	}
}

// A job that was started by name does not belong to the shell: no command sees a message about it,
// waits for it or lists it.
func TestNamedJobIsNotTheShells(t *testing.T) {
	s := open(t, "bash")
	ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
	defer cancel()
	start := func(text string) string {
		t.Helper()
		j, err := s.conn.StartJob(ctx, &wire.StartRequest{
			Args: []string{text}, Session: &wire.SessionRequest{Op: wire.SessionJobStart, Name: s.name},
		})
		if err != nil {
			t.Fatal(err)
		}
		return j.ID
	}
	long := start("exec sleep 1000")
	if r := s.run(t, "jobs; wait; echo $?"); r.err != nil || r.stdout != "0\n" || r.stderr != "" {
		t.Errorf("jobs and wait: %v", r)
	}
	s.exec(t, "mkfifo /mnt/.w-own")
	defer os.Remove("/mnt/.w-own")
	for _, status := range []string{"exit 0", "exit 3", "kill -9 $BASHPID"} {
		j := start("read x </mnt/.w-own; " + status)
		// It ends during a command that is interrupted, after which bash has messages.
		r := s.run(t, "echo go >/mnt/.w-own; sleep 1000", timeout(time.Second))
		if !r.TimedOut || r.stdout != "" || r.stderr != "" {
			t.Errorf(`%s: got r %v; want r.TimedOut and r.stdout == "" and r.stderr == ""`, status, r)
		}
		if _, err := s.conn.WaitJob(ctx, s.name, j); err != nil {
			t.Error(err)
		}
	}
	if err := s.conn.SignalJob(ctx, s.name, long, 9); err != nil {
		t.Error(err)
	}
	s.alive(t)
}

// A command whose client has disconnected is interrupted; the session continues.
func TestKillInterrupts(t *testing.T) {
	s := open(t, "bash")
	r := s.start(t, "echo up; sleep 1000; echo no")
	r.out.await(t, "up")
	waiting := s.start(t, "echo never")
	if err := waiting.Kill(); err != nil {
		t.Fatal(err)
	}
	if w := waiting.wait(t); w.err == nil {
		t.Errorf("a call that waited: %v", w)
	}
	if err := r.Kill(); err != nil {
		t.Fatal(err)
	}
	if got := r.wait(t); got.Code != 130 || got.stdout != "up\n" || got.TimedOut {
		t.Errorf("wait: got %v; want got.Code == 130 and got.stdout == %q and not got.TimedOut", got, "up\n")
	}
	s.alive(t)
	r = s.start(t, "trap 'echo usr' USR1; echo up; while :; do sleep 0.01; done", timeout(wait.Limit))
	r.out.await(t, "up")
	if err := r.Signal(10); err != nil {
		t.Fatal(err)
	}
	_ = r.Kill()
	r.wait(t)
	s.alive(t)
}

// Output that no client reads delays its command, and nothing is lost.
func TestBackpressure(t *testing.T) {
	s, other := open(t, "bash"), open(t, "bash")
	p, err := s.conn.Start(&client.Request{StartRequest: wire.StartRequest{
		Args: []string{"head -c 8000000 /dev/zero"}, Session: &wire.SessionRequest{Op: wire.SessionExec, Name: s.name},
	}})
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		other.alive(t)
	}
	select {
	case <-p.Done():
		t.Error("8 MB went out though no client read them")
	default:
	}
	var n int
	buf := make([]byte, 1<<16)
	for err = nil; err == nil; {
		var m int
		m, err = p.Stdout().Read(buf)
		n += m
	}
	if n != 8_000_000 {
		t.Errorf("%d bytes", n)
	}
	p, err = s.conn.Start(&client.Request{StartRequest: wire.StartRequest{
		Args: []string{"yes"}, Session: &wire.SessionRequest{Op: wire.SessionExec, Name: s.name},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Kill(); err != nil { // stalled, or on its way there
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
	defer cancel()
	if _, err := p.Wait(ctx); err != nil {
		t.Error(err)
	}
	s.alive(t)
}

func TestTerminalCommand(t *testing.T) {
	s := open(t, "bash")
	r := s.start(t, "stty size; tty; read x; echo got $x; y=$x; stty raw -echo", func(r *wire.StartRequest) {
		r.TTY, r.Stdin, r.Rows, r.Cols = true, true, 30, 100
	})
	r.out.await(t, "30 100")
	if _, err := r.Stdin().Write([]byte("word\n")); err != nil {
		t.Fatal(err)
	}
	got := r.wait(t)
	if got.Code != 0 || !strings.Contains(got.stdout, "got word\r\n") || !strings.Contains(got.stdout, "/dev/") {
		t.Errorf(`wait: got %v; want got.Code == 0 and got.stdout contains %q and got.stdout contains "/dev/"`, got, "got word\r\n")
	}
	if got := s.exec(t, "echo $y"); got != "word\n" {
		t.Errorf(`exec "echo $y": got %q, want %q`, got, "word\n")
	}
	r = s.start(t, "sh -c 'stty -a; exec sleep 1000'", func(r *wire.StartRequest) { r.TTY, r.Stdin = true, true })
	r.out.await(t, "isig icanon")
	if _, err := r.Stdin().Write([]byte{3}); err != nil { // ^C
		t.Fatal(err)
	}
	if got := r.wait(t); got.Code != 130 {
		t.Errorf("wait: got %v; want got.Code == 130", got)
	}
	s.alive(t)
}

func TestAttach(t *testing.T) {
	for name, shell := range shells(t) {
		t.Run(name, func(t *testing.T) {
			s := open(t, shell)
			ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
			defer cancel()
			s.exec(t, "cd /usr; v=mine; alias ll='echo alias'")
			attach := func(out *lockedBuffer, q wire.SessionRequest) *client.Terminal {
				q.Op, q.Name = wire.SessionAttach, s.name
				term, err := s.conn.Attach(ctx, &wire.StartRequest{Rows: 20, Cols: 70, Session: &q}, out.add)
				if err != nil {
					t.Fatal(err)
				}
				return term
			}
			typed := func(term *client.Terminal, text string) {
				if _, err := term.Stdin().Write([]byte(text)); err != nil {
					t.Fatal(err)
				}
			}
			var a, b, c lockedBuffer
			one := attach(&a, wire.SessionRequest{})
			typed(one, "echo $v-$PWD-$((40+2)); ll; stty size\n")
			a.await(t, "mine-/usr-42")
			a.await(t, "alias\r\n")
			a.await(t, "20 70")
			s.alive(t) // not blocked by a person
			two := attach(&b, wire.SessionRequest{})
			b.await(t, "mine-/usr-42")
			if two.Info.Viewers != 2 || two.Info.Start != 0 {
				t.Errorf("attach: got two.Info %+v; want two.Info.Viewers == 2 and two.Info.Start == 0", two.Info)
			}
			typed(one, "PS1=in-$((30+3))\n") // a size that comes while a shell prompts is lost
			a.await(t, "in-33")
			if err := one.Resize(40, 90); err != nil {
				t.Fatal(err)
			}
			typed(two, "stty size; echo $((2000+22))\n")
			a.await(t, "40 90")
			a.await(t, "2022")
			if err := one.Kill(); err != nil {
				t.Fatal(err)
			}
			if st, err := one.Wait(ctx); err != nil || !st.Detached {
				t.Errorf("Wait: got st %+v, err %v; want err == nil and st.Detached", st, err)
			}
			seen := one.Info.Start + uint64(len(a.String()))
			typed(two, "echo $((3000+33))\n")
			b.await(t, "3033")
			three := attach(&c, wire.SessionRequest{Offset: seen, Takeover: true})
			c.await(t, "3033")
			if strings.Contains(c.String(), "2022") || three.Info.Start != seen {
				t.Errorf(`attach: got three.Info %+v, %q; want c.String() does not contain "2022" and three.Info.Start == %v`,
					three.Info, c.String(), seen)
			}
			if st, err := two.Wait(ctx); err != nil || !st.Detached {
				t.Errorf("Wait: got st %+v, err %v; want err == nil and st.Detached", st, err)
			}
			typed(three, "exit 7\n")
			if st, err := three.Wait(ctx); err != nil || st.Code != 7 || st.Detached {
				t.Errorf("Wait: got st %+v, err %v; want err == nil and st.Code == 7 and not st.Detached", st, err)
			}
			s.alive(t)
			var d lockedBuffer
			four := attach(&d, wire.SessionRequest{})
			typed(four, "echo $((4000+44))\n")
			d.await(t, "4044")
			if err := s.conn.DestroySession(ctx, s.name); err != nil {
				t.Fatal(err)
			}
			if _, err := four.Wait(ctx); err != nil {
				t.Error(err)
			}
		})
	}
}

// A terminal does not run away from the only one who watches, and nothing of
// what it prints is lost to him.
func TestAttachBackpressure(t *testing.T) {
	s := open(t, "bash")
	prints := func(size int, pause time.Duration) {
		ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
		defer cancel()
		term, err := s.conn.Attach(ctx, &wire.StartRequest{Session: &wire.SessionRequest{Op: wire.SessionAttach, Name: s.name}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Fprintf(term.Stdin(), "exec head -c %d /dev/zero\n", size); err != nil {
			t.Fatal(err)
		}
		time.Sleep(pause)
		var zeros int
		buf := make([]byte, 1<<16)
		for {
			n, err := term.Stdout().Read(buf)
			zeros += bytes.Count(buf[:n], []byte{0})
			if err != nil {
				break
			}
		}
		if zeros != size {
			t.Errorf("%d of %d bytes", zeros, size)
		}
	}
	prints(5_000_000, 0)
	// The last of it waits in the terminal for him when the shell has ended.
	for rest := 0; rest <= 20; rest += 2 {
		prints(wire.Window+512<<10+rest<<10, 100*time.Millisecond)
	}
}

// The shell is no part of a job, though that is in its process group or the shell has the job's
// streams.
func TestJobIsNotItsShell(t *testing.T) {
	for name, shell := range shells(t) {
		for what, text := range map[string]string{
			"Substitution": "p=$(sleep 1000 >/dev/null 2>&1 & echo $!)", "NoMonitor": "set +m; sleep 1000 & :", "Stream": "exec 3>&1; sleep 1000 & :",
		} {
			t.Run(name+"/"+what, func(t *testing.T) {
				s := open(t, shell)
				ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
				defer cancel()
				s.exec(t, text)
				pid := s.info(t).PID
				all, err := s.conn.Jobs(ctx, s.name)
				if err != nil || len(all) != 1 || len(all[0].PIDs) != 1 || all[0].PIDs[0] == pid {
					t.Fatalf("the shell is %d, and the jobs are %+v, %v", pid, all, err)
				}
				s.exec(t, "sleep 0.1")
				if err := s.conn.SignalJob(ctx, s.name, all[0].ID, 9); err != nil {
					t.Error(err)
				}
				if _, err := s.conn.WaitJob(ctx, s.name, all[0].ID); err != nil {
					t.Error(err)
				}
				if now := s.info(t).PID; now != pid {
					t.Errorf("the shell was %d, and is %d", pid, now)
				}
			})
		}
	}
}

// A text that is given to a shell once more has all of its input.
func TestInputOfRetry(t *testing.T) {
	for what, text := range map[string]string{
		"Function": ".() { sleep 0.3; }", "Replaced": "ulimit -n 4", "Killed": "trap 'sleep 0.3; kill -9 $$' DEBUG",
	} {
		t.Run(what, func(t *testing.T) {
			s := open(t, "bash")
			s.run(t, text)
			in := strings.Repeat("0123456789abcde\n", 20_000)
			r := s.start(t, "cat", withInput)
			r.give(t, in)
			if got := r.wait(t); got.stdout != in || got.Code != 0 {
				t.Errorf("of %d bytes of input %d came, code %d, %v", len(in), len(got.stdout), got.Code, got.Restored)
			}
		})
	}
}

// Input is not lost if there is output before the shell has read the text.
func TestInputAfterOutput(t *testing.T) {
	s := open(t, "bash")
	s.run(t, `.() { echo pre; sleep 0.05; builtin . "$@"; }`)
	for range 5 {
		r := s.start(t, "sleep 0.1; wc -c", withInput)
		r.give(t, "hello")
		if got := r.wait(t); got.stdout != "pre\n5\n" {
			t.Fatalf("wait: got %v; want got.stdout == %q", got, "pre\n5\n")
		}
	}
}

// A job's exit status is known under set -e, and an unknown one does not count as success.
func TestJobStatus(t *testing.T) {
	for name, shell := range shells(t) {
		t.Run(name, func(t *testing.T) {
			s := open(t, shell)
			ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
			defer cancel()
			s.exec(t, "set -e")
			for text, code := range map[string]int{"exit 3": 3, "false; exit 4": 1, "true": 0} {
				j, err := s.conn.StartJob(ctx, &wire.StartRequest{Args: []string{text}, Session: &wire.SessionRequest{Op: wire.SessionJobStart, Name: s.name}})
				if err != nil {
					t.Fatal(err)
				}
				if st, err := s.conn.WaitJob(ctx, s.name, j.ID); err != nil || st.Code != code || st.StatusLost {
					t.Errorf("%s: got st %+v, err %v; want err == nil and st.Code == %v and not st.StatusLost", text, st, err, code)
				}
			}
			s.exec(t, "(sleep 0.2; exit 7) &")
			all, err := s.conn.Jobs(ctx, s.name)
			if err != nil {
				t.Fatal(err)
			}
			if st, err := s.conn.WaitJob(ctx, s.name, all[len(all)-1].ID); err != nil || st.Code != 125 || !st.StatusLost {
				t.Errorf("WaitJob: got st %+v, err %v; want err == nil and st.Code == 125 and st.StatusLost", st, err)
			}
			s.exec(t, "set +e")
			s.alive(t)
		})
	}
}

// Of two jobs with one name that are asked for at once, one is started.
func TestJobNameAtOnce(t *testing.T) {
	s := open(t, "bash")
	ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
	defer cancel()
	busy := s.start(t, "sleep 0.3")
	errs := make(chan error)
	for range 2 {
		go func() {
			_, err := s.conn.StartJob(ctx, &wire.StartRequest{Args: []string{"sleep 1000"}, Session: &wire.SessionRequest{Op: wire.SessionJobStart, Name: s.name, Job: "web"}})
			errs <- err
		}()
	}
	busy.wait(t)
	var failed *client.StartError
	if err := errors.Join(<-errs, <-errs); !errors.As(err, &failed) || failed.Class != wire.ClassExists {
		t.Errorf("two jobs of a name: %v", err)
	}
	if all, err := s.conn.Jobs(ctx, s.name); err != nil || len(all) != 1 {
		t.Errorf("Jobs: got all %+v, err %v; want err == nil and len(all) == 1", all, err)
	}
}

// A call with a directory of its own, after which the session cannot return to its directory,
// reports that, and keeps the shell.
func TestDirGoneMeanwhile(t *testing.T) {
	for name, shell := range shells(t) {
		t.Run(name, func(t *testing.T) {
			s := open(t, shell)
			dir := t.TempDir()
			s.exec(t, "mkdir "+dir+"/d && cd "+dir+"/d; set -e")
			pid := s.info(t).PID
			r := s.run(t, "rmdir "+dir+"/d", func(r *wire.StartRequest) { r.Dir = "/" })
			if r.Code != 0 || string(r.Cwd) != "/" {
				t.Errorf(`run: got r %v; want r.Code == 0 and r.Cwd == "/"`, r)
			}
			if out := s.exec(t, "pwd"); out != "/\n" {
				t.Errorf("it is in %q", out)
			}
			if now := s.info(t).PID; now != pid {
				t.Errorf("the shell was %d, and is %d", pid, now)
			}
		})
	}
}

// Of the output of jobs that have ended so much is kept, the newest; and that of one that has just
// ended.
func TestJobOutputsAreBounded(t *testing.T) {
	s := open(t, "bash")
	ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
	defer cancel()
	for range 40 {
		j, err := s.conn.StartJob(ctx, &wire.StartRequest{Args: []string{"head -c 2500000 /dev/zero"}, Session: &wire.SessionRequest{Op: wire.SessionJobStart, Name: s.name}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.conn.WaitJob(ctx, s.name, j.ID); err != nil {
			t.Fatal(err)
		}
	}
	all, err := s.conn.Jobs(ctx, s.name)
	if err != nil || len(all) != 40 {
		t.Fatal(len(all), err)
	}
	kept := uint64(0)
	for _, j := range all {
		if kept += j.StdoutEnd - j.StdoutStart; j.StdoutEnd != 2500000 {
			t.Errorf("got j %+v; want j.StdoutEnd == 2500000", j)
		}
	}
	if last := all[39]; kept > 33<<20 || kept < 31<<20 || last.StdoutEnd-last.StdoutStart != 1<<20 {
		t.Errorf("%d bytes are kept, the last job is %+v", kept, last)
	}
}

// A terminal's size that changes while a command waits for its turn is that of its terminal, and
// of no other's.
func TestResizeInQueue(t *testing.T) {
	s := open(t, "bash")
	tty := func(r *wire.StartRequest) { r.TTY, r.Rows, r.Cols = true, 24, 80 }
	first := s.start(t, "echo up; sleep 0.5; stty size", tty)
	first.out.await(t, "up")
	second := s.start(t, "stty size", tty)
	if err := second.Resize(50, 120); err != nil {
		t.Fatal(err)
	}
	if r := first.wait(t); !strings.Contains(r.stdout, "24 80") {
		t.Errorf("the first one has %q", r.stdout)
	}
	if r := second.wait(t); !strings.Contains(r.stdout, "50 120") {
		t.Errorf("the second one has %q", r.stdout)
	}
}
