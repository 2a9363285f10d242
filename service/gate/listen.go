package gate

import (
	"context"
	"errors"
	"net"
	"os"

	"wolffia/runtime"
)

// Listen listens on a TCP address, HOST:PORT. Without keys the host must be a loopback
// address or localhost, and the listener closes the connections of processes of other users
// than this one and root: a loopback address is open to all users of the machine. The
// caller closes the listener.
func Listen(ctx context.Context, address string, keys bool) (l net.Listener, loopback bool, err error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil || port == "" {
		return nil, false, runtime.Errorf(runtime.ErrInvalid, "--listen %q: it must be unix:PATH or HOST:PORT", address)
	}
	if host == "" {
		return nil, false, runtime.Errorf(runtime.ErrInvalid, "--listen %q: the host is missing: write 127.0.0.1:%s, or 0.0.0.0:%s for all addresses", address, port, port)
	}
	tcp, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return nil, false, runtime.Errorf(runtime.ErrInvalid, "--listen %q: %w", address, err)
	}
	loopback = tcp.IP.IsLoopback()
	if !loopback && !keys {
		return nil, false, runtime.Errorf(runtime.ErrInvalid, "--listen %q: an address that other machines can reach needs API keys: add --api-keys FILE, or use 127.0.0.1:%s", address, port)
	}
	l, err = new(net.ListenConfig).Listen(ctx, "tcp", tcp.String())
	if err != nil {
		return nil, false, runtime.Errorf(runtime.ErrUnavailable, "listen: %w", err)
	}
	return Own(l, keys)
}

// Own is Listen for a listener on a TCP address that another process has made, such as systemd. It
// closes l if it returns an error.
func Own(l net.Listener, keys bool) (_ net.Listener, loopback bool, err error) {
	tcp, is := l.Addr().(*net.TCPAddr)
	loopback = is && tcp.IP.IsLoopback()
	switch {
	case keys:
		return l, loopback, nil
	case !loopback:
		err = runtime.Errorf(runtime.ErrInvalid, "the socket of systemd listens at %s, which other machines can reach, and needs API keys: add --api-keys FILE", l.Addr())
	default:
		err = checkDiag(l)
	}
	if err != nil {
		return nil, false, errors.Join(err, l.Close())
	}
	return &ownListener{l, os.Geteuid()}, loopback, nil
}

// An ownListener accepts connections of one user and of root, on a loopback address.
type ownListener struct {
	net.Listener
	uid int
}

// Accept implements [net.Listener].
func (l *ownListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		uid, err := clientUID(c)
		if err == nil && (uid == l.uid || uid == 0) {
			return c, nil
		}
		_ = c.Close()
	}
}
