package swerex

import (
	"bytes"
	"context"
	"io"
	"regexp"
	"slices"
	"sync"

	"wolffia/ops"
	"wolffia/runtime"
	"wolffia/service"
)

// A shellOf names a session.
type shellOf struct{ sandboxID, session string }

// shells are the sessions in which something runs or is asked for. The zero value is ready to use.
type shells struct {
	mu  sync.Mutex
	all map[shellOf]*shell
}

// A shell is a session. Its fields but turn are guarded by shells.mu.
type shell struct {
	turn     chan struct{} // has an element while a request has its turn
	users    int           // requests and commands
	commands []*running    // those that have not ended: the first runs, the others wait for it
}

// enter returns a session, which the caller leaves.
func (s *shells) enter(of shellOf) *shell {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = map[shellOf]*shell{}
	}
	if s.all[of] == nil {
		s.all[of] = &shell{turn: make(chan struct{}, 1)}
	}
	s.all[of].users++
	return s.all[of]
}

func (s *shells) leave(of shellOf) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all[of].users--; s.all[of].users == 0 {
		delete(s.all, of)
	}
}

// running returns what runs in a session; nil: nothing.
func (s *shells) running(sh *shell) *running {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(sh.commands) == 0 {
		return nil
	}
	return sh.commands[0]
}

// A running is a command in a session. It outlives the request that began it after a time-out, and
// when it has written what that has waited for.
type running struct {
	*service.Command
	tty bool

	mu      sync.Mutex
	out     []byte // what no reply has had
	dropped int    // how many bytes before out are lost
	ended   bool   // and result and err are set
	result  runtime.Result
	err     error
	changed chan struct{} // closed at the next change
}

// start starts a command in a session, which knows it until it ends. The caller has its turn.
func (s *shells) start(ctx context.Context, in *service.Inside, of shellOf, text string, tty bool) (*running, error) {
	r := &running{tty: tty, changed: make(chan struct{})}
	sh := s.enter(of)
	cmd := &runtime.Command{Command: []string{text}, Session: of.session, Merge: !tty, TTY: tty, OpenStdin: tty}
	if tty {
		cmd.Rows, cmd.Cols = 24, 80 // as pexpect
	}
	c, err := in.Run(ctx, cmd, nil)
	if err != nil {
		s.leave(of)
		return nil, err
	}
	r.Command = c
	s.mu.Lock()
	sh.commands = append(sh.commands, r)
	s.mu.Unlock()
	go func() { // ends with the command
		defer s.leave(of)
		result, err := ops.Follow(context.Background(), c, ops.To(r), ops.To(io.Discard))
		s.mu.Lock()
		sh.commands = slices.DeleteFunc(sh.commands, func(x *running) bool { return x == r })
		s.mu.Unlock()
		r.mu.Lock()
		defer r.mu.Unlock()
		r.result, r.err, r.ended = result, err, true
		r.tell()
	}()
	return r, nil
}

// close ends what runs in all sessions.
func (s *shells) close() {
	s.mu.Lock()
	var all []*running
	for _, sh := range s.all {
		all = append(all, sh.commands...)
	}
	s.mu.Unlock()
	for _, r := range all {
		_ = r.Close()
		_, _, _ = r.await(context.Background(), nil)
	}
}

// maxOutput is how many bytes of output are kept for a reply: the last ones.
const maxOutput = 8 << 20

// Write implements [io.Writer], for the command's output.
func (r *running) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.out = append(r.out, b...)
	if excess := len(r.out) - maxOutput; excess > maxOutput/4 { // not for each piece
		r.out = slices.Delete(r.out, 0, excess)
		r.dropped += excess
	}
	r.tell()
	return len(b), nil
}

// tell wakes those that wait for a change. The caller holds r.mu.
func (r *running) tell() {
	close(r.changed)
	r.changed = make(chan struct{})
}

// await waits until the output has a pattern, and takes the output before it; which is the pattern's
// index. If the command ends first it takes all, and which is -1. The error is that of ctx.
func (r *running) await(ctx context.Context, patterns []*regexp.Regexp) (out []byte, which int, err error) {
	for {
		r.mu.Lock()
		changed, ended := r.changed, r.ended
		which, from, to := first(patterns, r.out)
		if which < 0 && ended {
			from, to = len(r.out), len(r.out)
		}
		if which >= 0 || ended {
			out = bytes.Clone(r.out[:from])
			r.out = r.out[to:]
		}
		r.mu.Unlock()
		if which >= 0 || ended {
			return out, which, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, -1, ctx.Err()
		}
	}
}

// first returns the pattern that matches first, and where; of several the first in the list. which is
// -1 if none does.
func first(patterns []*regexp.Regexp, out []byte) (which, from, to int) {
	which = -1
	for i, p := range patterns {
		if at := p.FindIndex(out); at != nil && (which < 0 || at[0] < from) {
			which, from, to = i, at[0], at[1]
		}
	}
	return which, from, to
}
