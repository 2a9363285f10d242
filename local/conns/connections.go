// Package conns keeps the connections of this process to sandboxes: to their shims, and to their PID 1.
package conns

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/internal/host/boot"
	"wolffia/internal/host/statedir"
	"wolffia/internal/sys/rawsock"
	"wolffia/runtime"
	"wolffia/wire/client"
)

// Conns keeps one connection to each sandbox, which all calls share.
type Conns struct {
	*Table[*Conn]
	Resume bool // a paused sandbox is resumed
	// Wake starts a sandbox that hibernates; nil: none does.
	Wake func(context.Context, *statedir.Record) error
}

// mostBlocking is how many connections of a process have a thread each that reads, which answers
// sooner. The reads of the others wait in the runtime's poller: a service has one or two for each
// sandbox.
const mostBlocking = 8

// held is how many connections the process has.
var held atomic.Int32

// A Conn is one to PID 1 of a sandbox or, where PID 1 takes none, to the shim, which passes
// frames on.
type Conn struct {
	giveUp context.CancelFunc // ends the wait for the shim
	polls  bool               // the reads wait in the runtime's poller
	over   sync.Once

	ready chan struct{} // closed when those below are set
	conn  *client.Conn
	sock  *rawsock.Socket // of conn
	shim  *client.Conn    // if conn is to PID 1; or nil
	err   error
}

// New opens a connection, to a shim that is connected already, or nil.
func New(rec *statedir.Record, shim *rawsock.Socket) *Conn {
	return opening(openLimit, func(ctx context.Context, c *Conn) error {
		if shim == nil {
			var err error
			if shim, err = Dial(rec); err != nil {
				return err
			}
		}
		return c.open(ctx, rec, shim)
	})
}

// Early opens a connection by a socket whose other end is a shim's that is being
// started: it is there when the shim is ready, for which it waits up to a limit, without another
// question. It closes the socket.
func Early(rec *statedir.Record, socket *os.File, limit time.Duration) (*Conn, error) {
	shim, err := rawsock.FileSocket(socket)
	if err != nil {
		return nil, runtime.WithClass(runtime.ErrUnavailable, err)
	}
	return opening(limit, func(ctx context.Context, c *Conn) error { return c.open(ctx, rec, shim) }), nil
}

// opening returns a connection that open opens, within a limit.
func opening(limit time.Duration, open func(context.Context, *Conn) error) *Conn {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	c := beginConnection(cancel)
	go func() { // ends with ctx
		defer cancel()
		defer close(c.ready)
		c.err = open(ctx, c)
	}()
	return c
}

// beginConnection returns a connection that is not open yet; giveUp ends the wait for the shim.
func beginConnection(giveUp context.CancelFunc) *Conn {
	return &Conn{giveUp: giveUp, ready: make(chan struct{}), polls: held.Add(1) > mostBlocking}
}

// share has the reads of a socket wait where those of this connection do, before the first one.
func (c *Conn) share(sock *rawsock.Socket) error {
	if !c.polls {
		return nil
	}
	if err := sock.Poll(); err != nil {
		return runtime.WithClass(runtime.ErrUnavailable, err)
	}
	return nil
}

// Join returns a connection to PID 1 and the shim, which are connected.
func Join(shim *rawsock.Socket, direct *os.File) *Conn {
	c := beginConnection(func() {})
	c.err = c.join(shim, direct)
	close(c.ready)
	return c
}

// opened reports whether conn and the others are set.
func (c *Conn) opened() bool {
	select {
	case <-c.ready:
		return true
	default:
		return false
	}
}

// lives reports whether the connection is open or about to be. What has ended may have something
// to be read.
func (c *Conn) lives() bool {
	return !c.opened() || c.err == nil && c.conn.Err() == nil && !c.sock.HungUp() && (c.shim == nil || c.shim.Err() == nil)
}

// Close closes the connection, also if it is not open yet. Closing twice is fine.
func (c *Conn) Close() error {
	c.giveUp()
	c.over.Do(func() { held.Add(-1) })
	<-c.ready
	if c.err != nil {
		return nil
	}
	return c.conn.Close()
}

// To returns the connection to a sandbox that is not paused. One that has ended is replaced.
func (s *Conns) To(ctx context.Context, rec *statedir.Record) (*client.Conn, error) {
	if err := s.Awake(ctx, rec); err != nil {
		return nil, err
	}
	s.mu.Lock()
	c := s.open[rec.ID()]
	if c == nil || !c.lives() {
		if c != nil {
			_ = c.Close() // it is open, and has ended
		}
		c = New(rec, nil)
		s.open[rec.ID()] = c
	}
	s.mu.Unlock()
	select {
	case <-c.ready:
		return c.conn, c.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Keep keeps a connection to a sandbox, unless one is kept already.
func (s *Conns) Keep(id string, c *Conn) {
	s.mu.Lock()
	old := s.open[id]
	if old != nil && old.lives() {
		old, c = c, old
	}
	s.open[id] = c
	s.mu.Unlock()
	if old != nil {
		_ = old.Close()
	}
}

// Shim returns a connection to the shim of a sandbox on which no process can hold up a request;
// nil if none is open.
func (s *Conns) Shim(id string) *client.Conn {
	s.mu.Lock()
	c := s.open[id]
	s.mu.Unlock()
	switch {
	case c == nil || !c.opened() || !c.lives():
		return nil
	case c.shim != nil:
		return c.shim
	case c.conn.Idle():
		return c.conn
	}
	return nil
}

// Seal reports whether this process has nothing under way in a sandbox. Then it starts nothing
// there by its connection any more.
func (s *Conns) Seal(id string) bool {
	s.mu.Lock()
	c := s.open[id]
	s.mu.Unlock()
	return c == nil || c.opened() && c.err == nil && c.conn.Seal()
}

// IsDirect reports whether the connection to a sandbox is open, and one to PID 1 itself.
func (s *Conns) IsDirect(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.open[id]
	return c != nil && c.opened() && c.err == nil && c.shim != nil
}

// End closes the connection to a sandbox that ends. If it has processes, what was sent last, such
// as how they ended, is read first, for up to a second.
func (s *Conns) End(id string) {
	if c, ok := s.take(id); ok {
		if <-c.ready; c.err == nil {
			if !c.conn.Idle() {
				boot.Within(time.Second, c.conn.Done())
			}
			_ = c.Close()
		}
	}
}

// Dial connects to the socket of a sandbox's shim. The path of the socket may be too long
// for an address; the directory's descriptor is not.
func Dial(rec *statedir.Record) (*rawsock.Socket, error) {
	dir, err := os.OpenFile(rec.Run(), unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) && rec.IsIncomplete() {
		return nil, runtime.Errorf(runtime.ErrNotFound, "no sandbox %s", rec.ID())
	}
	if err != nil {
		return nil, runtime.Errorf(runtime.ErrUnavailable, "sandbox %s: %w", rec.ID(), err)
	}
	defer dir.Close()
	sock, err := connect(int(dir.Fd()), filepath.Base(statedir.Socket(rec.Run())))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ECONNREFUSED) {
		return nil, notRunning(rec)
	}
	if err != nil {
		return nil, runtime.Errorf(runtime.ErrUnavailable, "connect to the shim of sandbox %s: %w", rec.ID(), err)
	}
	return rawsock.NewSocket(sock)
}

// connect connects to the socket called name in the directory dir. The directory belongs
// to the user that the sandbox runs as, so a symbolic link there is not followed.
func connect(dir int, name string) (*net.UnixConn, error) {
	fd, err := unix.Openat(dir, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFSOCK {
		return nil, fmt.Errorf("%s is not a socket", name)
	}
	return net.DialUnix("unix", nil, &net.UnixAddr{Net: "unix", Name: fmt.Sprintf("/proc/self/fd/%d", fd)})
}

// notRunning returns the error for a sandbox whose shim does not listen.
func notRunning(rec *statedir.Record) error {
	if err := Expired(rec); err != nil {
		return err
	}
	state, reason, err := rec.State()
	if err != nil {
		return err
	}
	if reason != "" {
		reason = " (" + reason + ")"
	}
	return runtime.Errorf(runtime.ErrConflict, "sandbox %s is not running, it is %s%s: wolffia start %s", rec.ID(), state, reason, rec.ID())
}

// Lost returns the error for a connection to a sandbox that broke with err: why the
// sandbox ended, if it did.
func Lost(ctx context.Context, rec *statedir.Record, err error) error {
	// A shim records why it ends before it releases the lock. If PID 1 answers instead, the
	// sandbox runs, perhaps anew.
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	go func() { // ends with ctx
		if _, err := Ask(ctx, rec, &boot.Request{Op: boot.OpAlive}, boot.StatsLimit); err == nil {
			cancel()
		}
	}()
	_ = rec.WaitUnlocked(ctx, time.Second)
	if gone := Expired(rec); gone != nil {
		return gone
	}
	state, reason, serr := rec.State()
	switch {
	case errors.Is(serr, runtime.ErrNotFound), serr == nil && state == runtime.StateStopped:
		return runtime.Errorf(runtime.ErrConflict, "sandbox %s was stopped: %w", rec.ID(), err)
	case serr == nil && state == runtime.StatePaused:
		return errors.Join(Awake(ctx, rec, false), err)
	case serr == nil && state == runtime.StateHibernated:
		return runtime.Errorf(runtime.ErrConflict,
			"sandbox %s was made to hibernate meanwhile, and the request is lost: repeat it: %w", rec.ID(), err)
	case serr == nil && state == runtime.StateDead:
		return runtime.Errorf(runtime.ErrConflict, "sandbox %s is dead: %s", rec.ID(), reason)
	}
	return runtime.Errorf(runtime.ErrUnavailable, "lost the connection to sandbox %s, and with it the request: %w", rec.ID(), err)
}

// Ask asks a shim over a connection of its own, which breaks off when time is up and takes
// nothing else with it. The error is that of the request or of the answer; with an answer that is
// an error, the answer is returned too. A shim that stands still is noticed within openLimit,
// however long the request may take.
func Ask(ctx context.Context, rec *statedir.Record, req *boot.Request, limit time.Duration) (*boot.Reply, error) {
	return AskWith(ctx, rec, req, nil, limit)
}

// AskWith is Ask for a request that comes with a file, or nil. The file stays the
// caller's.
func AskWith(ctx context.Context, rec *statedir.Record, req *boot.Request, file *os.File, limit time.Duration) (*boot.Reply, error) {
	sock, err := Dial(rec)
	if err != nil {
		return nil, err
	}
	conn := client.New(sock)
	defer conn.Close()
	if file != nil {
		sock.Pass(file)
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	stuck := time.AfterFunc(openLimit, func() {
		if sock.Unread() {
			cancel()
		}
	})
	defer stuck.Stop()
	answer := new(boot.Reply)
	if err := conn.Control(ctx, req, answer); err != nil {
		if ctx.Err() != nil {
			err = errors.New("the shim does not answer")
		}
		return nil, runtime.Errorf(runtime.ErrUnavailable, "sandbox %s: %w", rec.ID(), err)
	}
	return answer, answer.Err()
}
