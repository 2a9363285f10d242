package inside

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/internal/sys/rawsock"
	"wolffia/wire"
)

// An fdSocket is a unix socket over which PID 1 passes the descriptors of sockets that it makes.
type fdSocket struct {
	mu   sync.Mutex
	conn *os.File // guarded by mu, but for Close
	lost bool     // an answer was missed; guarded by mu
}

// Passed returns the network of the sandbox whose PID 1 serves [wire.NetPassFD] at the other end
// of conn. PID 1 makes the sockets and passes their descriptors. This process and the kernel carry
// their bytes, as with [Direct]. PID 1 is not trusted: each descriptor is checked. unixSockets is
// as for Direct. Close closes conn.
func Passed(conn *os.File, unixSockets Network) Network {
	d := newDirect(unixSockets)
	d.fds = &fdSocket{conn: conn}
	return d
}

// close ends the connection.
func (h *fdSocket) close() { _ = h.conn.Close() }

// socket asks for a socket. An answer that is late for ctx, or is invalid, ends the connection: the
// next request could not tell that answer from its own.
func (h *fdSocket) socket(ctx context.Context, kind rawsock.Kind, at netip.AddrPort) (*os.File, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.lost {
		return nil, net.ErrClosed
	}
	stop := context.AfterFunc(ctx, func() { _ = h.conn.SetDeadline(time.Unix(1, 0)) })
	file, err := h.ask(kind, at)
	if !stop() { // the deadline stays in force
		err = errors.Join(err, ctx.Err())
	}
	if err != nil && !errors.As(err, new(syscall.Errno)) {
		h.lost = true
		_, _ = file.Close(), h.conn.Close()
		return nil, err
	}
	return file, err
}

// ask sends a request and waits for the answer. A refusal is a syscall.Errno, no other error wraps
// one.
func (h *fdSocket) ask(kind rawsock.Kind, at netip.AddrPort) (*os.File, error) {
	if _, err := h.conn.Write(wire.FDRequest(uint8(kind), at)); err != nil {
		return nil, fmt.Errorf("ask PID 1 for a socket: %v", err)
	}
	answer := make([]byte, wire.MaxFDPacket)
	n, file, err := rawsock.ReceiveFile(h.conn, answer)
	if err != nil {
		return nil, fmt.Errorf("receive a socket from PID 1: %v", err)
	}
	if file == nil {
		var failure wire.Failure
		if err := json.Unmarshal(answer[:n], &failure); err != nil || failure.Errno <= 0 || failure.Errno >= 4096 {
			return nil, errors.New("PID 1 passed no socket")
		}
		return nil, syscall.Errno(failure.Errno)
	}
	if err := check(file, kind, at); err != nil {
		_ = file.Close()
		return nil, err
	}
	return file, nil
}

// check checks that a socket which PID 1 passed is the one that was asked for.
func check(file *os.File, kind rawsock.Kind, at netip.AddrPort) error {
	_, domain := rawsock.Sockaddr(at)
	is := false
	switch kind {
	case rawsock.Datagrams:
		is = rawsock.Is(file, domain, unix.SOCK_DGRAM, unix.IPPROTO_UDP, false)
	default:
		is = rawsock.Is(file, domain, unix.SOCK_STREAM, unix.IPPROTO_TCP, kind == rawsock.Listening)
	}
	local, peer := rawsock.Addresses(file)
	switch {
	case peer.IsValid(), kind == rawsock.Stream && local.Port() != 0:
		is = false
	case kind != rawsock.Stream:
		is = is && local.Addr() == at.Addr().Unmap() && (at.Port() == 0 || local.Port() == at.Port())
	}
	if !is {
		return fmt.Errorf("PID 1 passed another socket than the one for %s", at)
	}
	return nil
}
