package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime/debug"
	"slices"
	"strings"
	"sync"

	"github.com/creack/pty"

	"wolffia/runtime"
)

// A localShell is what people would use instead of a session: bash on a
// terminal, with a marker after each command.
type localShell struct {
	tty *os.File
	r   *bufio.Reader
	cmd *exec.Cmd
	n   int
}

func newLocalShell() (*localShell, error) {
	cmd := exec.Command("bash", "--norc", "--noprofile", "--noediting", "-i")
	cmd.Env = append(os.Environ(), "PS1=", "PS2=", "HISTFILE=")
	tty, err := pty.Start(cmd)
	if err != nil {
		return nil, err
	}
	s := &localShell{tty: tty, r: bufio.NewReader(tty), cmd: cmd}
	return s, s.run("stty -echo; PS1=; PS2=")
}

// run types a command and waits for the marker after it.
func (s *localShell) run(command string) error {
	s.n++
	mark := fmt.Sprintf("done-%d", s.n)
	if _, err := fmt.Fprintf(s.tty, "%s; echo done-''%d\n", command, s.n); err != nil {
		return err
	}
	for {
		line, err := s.r.ReadString('\n')
		if err != nil {
			return err
		}
		if strings.TrimRight(line, "\r\n") == mark {
			return nil
		}
	}
}

func (s *localShell) close() {
	_ = s.tty.Close()
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
}

// sessions measures shell sessions beside a local shell.
func (b *bench) sessions() error {
	if err := b.wakeUps(); err != nil {
		return err
	}
	local, err := newLocalShell()
	if err != nil {
		return err
	}
	defer local.close()
	id, err := b.create()
	if err != nil {
		return err
	}
	defer func() { _ = b.rt.Destroy(b.ctx, id) }()
	s, err := b.rt.CreateSession(b.ctx, id, nil)
	if err != nil {
		return err
	}
	for _, c := range []struct{ name, command, bar string }{
		{"a builtin", ":", "150 us p50, 3 ms p99"},
		{"/bin/true", "/bin/true", "1.5x of the local bash"},
	} {
		var l, i times
		for n := range 1050 {
			a, err := took(func() error { return local.run(c.command) })
			if err != nil {
				return err
			}
			d, err := took(func() error { return b.inSession(s.ID, c.command) })
			if err != nil {
				return err
			}
			if n >= 50 {
				l, i = append(l, a), append(i, d)
			}
		}
		b.row("bash on a local terminal, "+c.name, l, "")
		slices.Sort(l)
		slices.Sort(i)
		b.row("session, "+c.name+", Go API", i, fmt.Sprintf("%s: %.2fx", c.bar, float64(i.at(0.5))/float64(l.at(0.5))))
	}
	var whole times
	for range 50 {
		cmd := exec.Command(b.wolffia, "exec", "--session", "bench", id, "--", ":")
		cmd.Env = append(os.Environ(), "WOLFFIA_STATE_DIR="+b.state)
		d, err := took(cmd.Run)
		if err != nil {
			return fmt.Errorf("exec --session: %w", err)
		}
		whole = append(whole, d)
	}
	b.row("wolffia exec --session, whole process", whole, "10 ms")
	return b.manySessions(id, s.ID)
}

// manySessions measures many commands in one session, and many sessions.
func (b *bench) manySessions(id string, session runtime.SessionID) error {
	before, err := memoryOf("guest", id)
	if err != nil {
		return err
	}
	var first, last times
	for n := range 10_000 {
		d, err := took(func() error { return b.inSession(session, ":") })
		if err != nil {
			return err
		}
		switch {
		case n < 500:
			first = append(first, d)
		case n >= 9500:
			last = append(last, d)
		}
	}
	after, err := memoryOf("guest", id)
	if err != nil {
		return err
	}
	b.row("the first 500 of 10,000 commands", first, "")
	b.row("the last 500", last, fmt.Sprintf("no growth; guest %.1f MB, then %.1f MB", before, after))
	debug.FreeOSMemory()
	const n = 200
	errs := make([]error, n)
	d, _ := took(func() error {
		var all sync.WaitGroup
		for i := range n {
			all.Go(func() {
				s, err := b.rt.CreateSession(b.ctx, id, nil)
				if err == nil {
					err = b.inSession(s.ID, "cd /tmp && x=1")
				}
				if err == nil {
					err = b.inSession(s.ID, `[ "$PWD$x" = /tmp1 ]`)
				}
				errs[i] = err
			})
		}
		all.Wait()
		return nil
	})
	if err := errors.Join(errs...); err != nil {
		return err
	}
	fmt.Fprintf(b.table, "200 sessions made and used\t\t%s\t\t\t\n", ms(d))
	return nil
}
