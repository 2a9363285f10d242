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

// A connection is one to a shim.
type connection struct {
	*client.Conn
	sock *boot.Socket
}

// conn returns a connection to the sandbox's shim, one for all calls.
func (r *Runtime) conn(box *statedir.Box) (*client.Conn, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c := r.conns[box.ID()]; c != nil && c.Err() == nil && !c.sock.HungUp() {
		return c.Conn, nil
	}
	delete(r.conns, box.ID())
	sock, err := dial(box)
	if err != nil {
		return nil, err
	}
	c := client.New(sock)
	r.conns[box.ID()] = &connection{c, sock}
	return c, nil
}

// answers reports whether there is a shim that answers before ctx ends.
func answers(ctx context.Context, box *statedir.Box) bool {
	_, err := ask(ctx, box, &boot.Request{Op: boot.OpNothing}, boot.StatsLimit)
	return err == nil
}

// forget ends the connection to a sandbox that is on its way out. What the shim has said
// last, such as how commands ended, is read before, unless that takes long.
func (r *Runtime) forget(id string) {
	r.mu.Lock()
	c, alive := r.conns[id], r.alive[id]
	delete(r.conns, id)
	delete(r.alive, id)
	r.mu.Unlock()
	if c != nil {
		boot.Within(time.Second, c.Done())
		_ = c.Close()
	}
	if alive != nil {
		_ = alive.Close()
	}
}

// connect connects to the socket called name in the directory dir, which belongs to
// whom the sandbox runs as: a link there leads nowhere.
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

// dial connects to the shim's socket; see listen for the path.
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
		if gone := overNow(box); gone != nil {
			return nil, gone
		}
		state, reason, serr := box.State()
		if serr != nil {
			return nil, serr
		}
		if reason != "" {
			reason = " (" + reason + ")"
		}
		return nil, runtime.Errorf(runtime.ErrConflict, "sandbox %s is not running, it is %s%s: wolffia start %s", box.ID(), state, reason, box.ID())
	}
	if err != nil {
		return nil, runtime.Errorf(runtime.ErrUnavailable, "connect to the shim of sandbox %s: %w", box.ID(), err)
	}
	return boot.NewSocket(sock)
}
