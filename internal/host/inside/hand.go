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

// A hand has PID 1 make sockets and hand them over.
type hand struct {
	mu   sync.Mutex
	conn *os.File // guarded by mu, but for Close
	lost bool     // an answer was missed; guarded by mu
}

// Handed returns the network of the sandbox whose PID 1 serves [wire.NetHand] at the other end of
// conn, with sockets that it makes and hands over: their bytes are carried by this process and the kernel, as with
// [Direct]. PID 1 is not trusted: what it hands over is checked. unixSockets is as for
// Direct. Close closes conn.
func Handed(conn *os.File, unixSockets Network) Network {
	d := newDirect(unixSockets)
	d.hand = &hand{conn: conn}
	return d
}

// close ends the connection.
func (h *hand) close() { _ = h.conn.Close() }

// socket asks for a socket. An answer that does not come before ctx ends, or is not one, ends the
// connection: it cannot be told from the answer to the next request.
func (h *hand) socket(ctx context.Context, kind rawsock.Kind, at netip.AddrPort) (*os.File, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.lost {
		return nil, net.ErrClosed
	}
	stop := context.AfterFunc(ctx, func() { _ = h.conn.SetDeadline(time.Unix(1, 0)) })
	file, err := h.ask(kind, at)
	if !stop() { // the deadline holds on
		err = errors.Join(err, ctx.Err())
	}
	if err != nil && !errors.As(err, new(syscall.Errno)) {
		h.lost = true
		_, _ = file.Close(), h.conn.Close()
		return nil, err
	}
	return file, err
}

// ask sends a request and waits for the answer. A refusal is a syscall.Errno, no other error wraps one.
func (h *hand) ask(kind rawsock.Kind, at netip.AddrPort) (*os.File, error) {
	if _, err := h.conn.Write(wire.HandRequest(uint8(kind), at)); err != nil {
		return nil, fmt.Errorf("ask PID 1 for a socket: %v", err)
	}
	answer := make([]byte, wire.MaxHand)
	n, file, err := rawsock.ReceiveFile(h.conn, answer)
	if err != nil {
		return nil, fmt.Errorf("receive a socket from PID 1: %v", err)
	}
	if file == nil {
		var why wire.Failure
		if err := json.Unmarshal(answer[:n], &why); err != nil || why.Errno <= 0 || why.Errno >= 4096 {
			return nil, errors.New("PID 1 handed over no socket")
		}
		return nil, syscall.Errno(why.Errno)
	}
	if err := check(file, kind, at); err != nil {
		_ = file.Close()
		return nil, err
	}
	return file, nil
}

// check checks a socket that PID 1 handed over.
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
		return fmt.Errorf("PID 1 handed over another socket than the one for %s", at)
	}
	return nil
}
