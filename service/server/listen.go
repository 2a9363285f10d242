package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/internal/filelock"
	"wolffia/runtime"
)

// A Listener is a unix socket that takes only its own user and root.
type Listener struct {
	*net.UnixListener
	path   string
	uid    uint32
	unlock func()
}

// errInUse is why a lock is not waited for any longer.
var errInUse = errors.New("in use")

// lockLimit is how long the lock of a service that was killed may still be held,
// by a child that was just being started.
const lockLimit = time.Second

// Listen makes the socket at path, which must be absolute, for the user alone,
// and its directory if that is not there. What a service that was killed has
// left is replaced; a socket that somebody answers on is [runtime.ErrConflict].
// Whose socket it is, is decided by a lock on PATH.lock, which stays. Close
// removes the socket.
func Listen(path string) (*Listener, error) {
	if len(path) >= len(unix.RawSockaddrUnix{}.Path) {
		return nil, runtime.Errorf(runtime.ErrInvalid, "socket %s: its path has %d bytes, and %d is the most; choose another with --listen unix:PATH", path, len(path), len(unix.RawSockaddrUnix{}.Path)-1)
	}
	if err := prepareDir(filepath.Dir(path)); err != nil {
		return nil, runtime.Errorf(runtime.ErrUnavailable, "socket %s: %w", path, err)
	}
	unlock, err := takeLock(path + ".lock")
	if err != nil {
		return nil, err
	}
	l, err := bind(path)
	if err != nil {
		unlock()
		return nil, err
	}
	return &Listener{l, path, uint32(os.Geteuid()), unlock}, nil
}

// prepareDir makes the socket's directory, and checks one that is there: who may
// write in it could put another socket in the place of ours.
func prepareDir(dir string) error {
	err := os.Mkdir(dir, 0o700)
	if err == nil {
		return nil
	}
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return &fs.PathError{Op: "stat", Path: dir, Err: err}
	}
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFDIR:
		return fmt.Errorf("%s is not a directory", dir)
	case st.Uid != 0 && int(st.Uid) != os.Geteuid():
		return fmt.Errorf("%s belongs to uid %d, not to you", dir, st.Uid)
	case st.Mode&0o022 != 0: // sticky or not: who is first there has the name
		return fmt.Errorf("others may write in %s: chmod go-w it, or choose another with --listen unix:PATH", dir)
	}
	return nil
}

func takeLock(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, runtime.WithClass(runtime.ErrUnavailable, err)
	}
	ctx, cancel := context.WithTimeoutCause(context.Background(), lockLimit, errInUse)
	defer cancel()
	unlock, err = filelock.Wait(ctx, f, unix.F_WRLCK, 0, 0)
	switch {
	case errors.Is(err, errInUse):
		return nil, runtime.Errorf(runtime.ErrConflict, "another service listens there: %s is locked; end that one first, or choose another with --listen unix:PATH", path)
	case err != nil:
		return nil, runtime.Errorf(runtime.ErrUnavailable, "lock %s: %w", path, err)
	}
	return unlock, nil
}

// bind makes the socket.
// Precondition: its lock is held.
func bind(path string) (*net.UnixListener, error) {
	var st unix.Stat_t
	err := unix.Lstat(path, &st)
	switch {
	case errors.Is(err, unix.ENOENT):
	case err != nil:
		return nil, runtime.Errorf(runtime.ErrUnavailable, "socket %s: %w", path, err)
	case st.Mode&unix.S_IFMT != unix.S_IFSOCK || int(st.Uid) != os.Geteuid():
		return nil, runtime.Errorf(runtime.ErrConflict, "socket %s: something else is there, which is left alone; remove it, or choose another with --listen unix:PATH", path)
	default:
		if c, err := net.DialTimeout("unix", path, lockLimit); err == nil || !errors.Is(err, unix.ECONNREFUSED) {
			if err == nil {
				_ = c.Close()
			}
			return nil, runtime.Errorf(runtime.ErrConflict, "socket %s: somebody listens there; end that first, or choose another with --listen unix:PATH", path)
		}
		if err := unix.Unlink(path); err != nil {
			return nil, runtime.Errorf(runtime.ErrUnavailable, "remove the dead socket %s: %w", path, err)
		}
	}
	// The file gets the mode that the socket has, less the umask (bind in unix(7)):
	// so there is no moment at which others may connect.
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var merr error
		err := c.Control(func(fd uintptr) { merr = unix.Fchmod(int(fd), 0o600) })
		return errors.Join(err, merr)
	}}
	l, err := config.Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, runtime.Errorf(runtime.ErrUnavailable, "listen: %w", err)
	}
	u := l.(*net.UnixListener)
	u.SetUnlinkOnClose(false) // Close does, while it has the lock
	return u, nil
}

// Accept implements [net.Listener]: it returns the next connection of somebody
// who may have one. Others are closed.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		c, err := l.AcceptUnix()
		if err != nil {
			return nil, err
		}
		uid, err := peerUID(c)
		if err == nil && allowed(uid, l.uid) {
			return c, nil
		}
		_ = c.Close()
	}
}

// allowed reports whether a peer may connect to a service of user self.
func allowed(peer, self uint32) bool { return peer == self || peer == 0 }

// peerUID is who has connected, as the kernel knows it (SO_PEERCRED in unix(7)).
func peerUID(c *net.UnixConn) (uint32, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Ucred
	var gerr error
	if err := raw.Control(func(fd uintptr) { cred, gerr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); err != nil {
		return 0, err
	}
	if gerr != nil {
		return 0, gerr
	}
	return cred.Uid, nil
}

// Close removes the socket. Twice is fine.
func (l *Listener) Close() error {
	err := l.UnixListener.Close()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	err = errors.Join(err, unix.Unlink(l.path))
	l.unlock()
	return err
}
