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

	"wolffia/internal/sys/filelock"
	"wolffia/runtime"
)

// A Listener is a unix socket that accepts connections of its own user and of root.
type Listener struct {
	*net.UnixListener
	path   string
	uid    uint32
	unlock func()
}

// Listen creates the socket at path, which must be absolute, with access for the user
// alone, and its directory if that does not exist. It replaces the socket of a killed
// service; one that a process listens on is [runtime.ErrConflict]. A lock on PATH.lock,
// a file that stays, decides which service owns the socket. The caller closes the
// Listener, which removes the socket.
func Listen(path string) (*Listener, error) {
	if len(path) >= len(unix.RawSockaddrUnix{}.Path) {
		return nil, runtime.Errorf(runtime.ErrInvalid, "socket %s: the path has %d bytes, the limit is %d: choose another with --listen unix:PATH", path, len(path), len(unix.RawSockaddrUnix{}.Path)-1)
	}
	if err := prepareDir(filepath.Dir(path)); err != nil {
		return nil, runtime.Errorf(runtime.ErrUnavailable, "socket %s: %w", path, err)
	}
	unlock, err := filelock.Exclusive(path + ".lock")
	switch {
	case errors.Is(err, filelock.ErrHeld):
		return nil, runtime.Errorf(runtime.ErrConflict, "socket %s: another service listens there: end that service, or choose another socket with --listen unix:PATH", path)
	case err != nil:
		return nil, runtime.Errorf(runtime.ErrUnavailable, "lock socket %s: %w", path, err)
	}
	l, err := bind(path)
	if err != nil {
		unlock()
		return nil, err
	}
	return &Listener{l, path, uint32(os.Geteuid()), unlock}, nil
}

// Own is Listen for a socket that another process has made and keeps, such as systemd: Close does
// not remove it.
func Own(l *net.UnixListener) *Listener {
	l.SetUnlinkOnClose(false)
	return &Listener{UnixListener: l, uid: uint32(os.Geteuid())}
}

// prepareDir creates the socket's directory, or checks an existing one: another user
// with write permission in it could replace the socket.
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
		return fmt.Errorf("directory %s belongs to uid %d: choose one of your own with --listen unix:PATH", dir, st.Uid)
	case st.Mode&0o022 != 0: // sticky or not: another user could be the first to create the name
		return fmt.Errorf("other users may write in directory %s: chmod go-w it, or choose another with --listen unix:PATH", dir)
	}
	return nil
}

// bind creates the socket. The caller holds its lock.
func bind(path string) (*net.UnixListener, error) {
	var st unix.Stat_t
	err := unix.Lstat(path, &st)
	switch {
	case errors.Is(err, unix.ENOENT):
	case err != nil:
		return nil, runtime.Errorf(runtime.ErrUnavailable, "socket %s: %w", path, err)
	case st.Mode&unix.S_IFMT != unix.S_IFSOCK || int(st.Uid) != os.Geteuid():
		return nil, runtime.Errorf(runtime.ErrConflict, "%s exists and is not a socket of this user: remove it, or choose another with --listen unix:PATH", path)
	default:
		c, err := net.DialTimeout("unix", path, time.Second)
		if err == nil {
			_ = c.Close()
		}
		if !errors.Is(err, unix.ECONNREFUSED) {
			return nil, runtime.Errorf(runtime.ErrConflict, "socket %s: another process listens there: end that process, or choose another socket with --listen unix:PATH", path)
		}
		if err := unix.Unlink(path); err != nil {
			return nil, runtime.Errorf(runtime.ErrUnavailable, "remove the dead socket %s: %w", path, err)
		}
	}
	// bind gives the file the mode of the socket, less the umask (unix(7)): so at no
	// moment may other users connect.
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
	u.SetUnlinkOnClose(false) // Close unlinks it while it holds the lock
	return u, nil
}

// Accept implements [net.Listener]. It closes the connections of other users.
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

// allowed reports whether user peer may connect to a service of user self.
func allowed(peer, self uint32) bool { return peer == self || peer == 0 }

// peerUID returns the uid of the connected process (SO_PEERCRED in unix(7)).
func peerUID(c *net.UnixConn) (uint32, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Ucred
	cerr := raw.Control(func(fd uintptr) { cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	if err := errors.Join(cerr, err); err != nil {
		return 0, err
	}
	return cred.Uid, nil
}

// Close removes the socket. Twice is fine.
func (l *Listener) Close() error {
	err := l.UnixListener.Close()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	if l.unlock == nil { // its maker keeps it
		return err
	}
	err = errors.Join(err, unix.Unlink(l.path))
	l.unlock()
	return err
}
