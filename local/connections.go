package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/internal/boot"
	"wolffia/internal/statedir"
	"wolffia/runtime"
	"wolffia/wire/client"
)

// connections keeps one connection to the shim of each sandbox, which all calls share.
type connections struct{ *table[*connection] }

type connection struct {
	*client.Conn
	sock *boot.Socket
}

// to returns the connection to a sandbox. One that has ended is replaced.
func (s *connections) to(box *statedir.Box) (*client.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.open[box.ID()]; c != nil && c.Err() == nil && !c.sock.HungUp() {
		return c.Conn, nil
	}
	delete(s.open, box.ID())
	sock, err := dial(box)
	if err != nil {
		return nil, err
	}
	c := client.New(sock)
	s.open[box.ID()] = &connection{c, sock}
	return c, nil
}

// end closes the connection to a sandbox that ends. What the shim sent last, such as how
// commands ended, is read first, for up to a second.
func (s *connections) end(id string) {
	if c, ok := s.take(id); ok {
		boot.Within(time.Second, c.Done())
		_ = c.Close()
	}
}

// dial connects to the socket of a sandbox's shim. The path of the socket may be too long
// for an address; the directory's descriptor is not.
func dial(box *statedir.Box) (*boot.Socket, error) {
	dir, err := os.OpenFile(box.Run(), unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) && box.Half() {
		return nil, runtime.Errorf(runtime.ErrNotFound, "no sandbox %s", box.ID())
	}
	if err != nil {
		return nil, runtime.Errorf(runtime.ErrUnavailable, "sandbox %s: %w", box.ID(), err)
	}
	defer dir.Close()
	sock, err := connect(int(dir.Fd()), filepath.Base(statedir.Socket(box.Run())))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ECONNREFUSED) {
		return nil, notRunning(box)
	}
	if err != nil {
		return nil, runtime.Errorf(runtime.ErrUnavailable, "connect to the shim of sandbox %s: %w", box.ID(), err)
	}
	return boot.NewSocket(sock)
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
func notRunning(box *statedir.Box) error {
	if err := expired(box); err != nil {
		return err
	}
	state, reason, err := box.State()
	if err != nil {
		return err
	}
	if reason != "" {
		reason = " (" + reason + ")"
	}
	return runtime.Errorf(runtime.ErrConflict, "sandbox %s is not running, it is %s%s: wolffia start %s", box.ID(), state, reason, box.ID())
}

// lost returns the error for a connection to a sandbox that broke with err: why the
// sandbox ended, if it did.
func lost(box *statedir.Box, err error) error {
	// A shim records why it ends before it releases the lock. If one answers instead, the
	// sandbox runs, perhaps anew.
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	go func() { // ends with ctx
		if _, err := askShim(ctx, box, &boot.Request{Op: boot.OpNothing}, boot.StatsLimit); err == nil {
			cancel()
		}
	}()
	_ = box.WaitUnlocked(ctx, time.Second)
	if gone := expired(box); gone != nil {
		return gone
	}
	state, reason, serr := box.State()
	switch {
	case errors.Is(serr, runtime.ErrNotFound), serr == nil && state == runtime.StateStopped:
		return runtime.Errorf(runtime.ErrConflict, "sandbox %s was stopped: %w", box.ID(), err)
	case serr == nil && state == runtime.StateDead:
		return runtime.Errorf(runtime.ErrConflict, "sandbox %s is dead: %s", box.ID(), reason)
	}
	return runtime.Errorf(runtime.ErrUnavailable, "lost the connection to sandbox %s, and with it the request: %w", box.ID(), err)
}

// askShim asks a shim over a connection of its own, which breaks off when time is up and takes
// nothing else with it. The error is that of the request or of the answer; with an
// answer that is an error, the answer is returned too.
func askShim(ctx context.Context, box *statedir.Box, req *boot.Request, limit time.Duration) (*boot.Reply, error) {
	sock, err := dial(box)
	if err != nil {
		return nil, err
	}
	conn := client.New(sock)
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	answer := new(boot.Reply)
	if err := conn.Control(ctx, req, answer); err != nil {
		if ctx.Err() != nil {
			err = errors.New("the shim does not answer")
		}
		return nil, runtime.Errorf(runtime.ErrUnavailable, "sandbox %s: %w", box.ID(), err)
	}
	return answer, answer.Err()
}
