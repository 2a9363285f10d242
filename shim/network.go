package shim

import (
	"context"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"wolffia/internal/host/boot"
	"wolffia/internal/host/inside"
	"wolffia/internal/sys/rawsock"
	"wolffia/runtime"
	"wolffia/runtime/launch"
	"wolffia/wire/client"
)

// An insideNetwork is the network of the sandbox. Its fields but the last are set before PID 1's
// stream is relayed.
type insideNetwork struct {
	boot *boot.Params
	pid1 func() hostInit
	self func() (*client.Conn, error) // makes the shim a client of its own
	// is launch.HandPath in an engine's sandbox; nil: not inside
	dir  *os.File
	over chan struct{} // closed when PID 1's stream has ended

	mu      sync.Mutex
	network inside.Network // see reach; nil: the shim has had no use for it; guarded by mu
}

// reach returns the network, the same one each time, once PID 1's stream is relayed.
func (n *insideNetwork) reach() (inside.Network, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.network != nil {
		return n.network, nil
	}
	conn, err := n.self()
	if err != nil {
		return nil, runtime.Errorf(runtime.ErrUnavailable, "connect the shim to PID 1: %w", err)
	}
	go func() { // ends with PID 1's stream
		<-n.over
		_ = conn.Close() // else requests would wait for PID 1 without end
	}()
	n.network = n.networkOver(conn)
	return n.network, nil
}

// networkOver returns the network of a sandbox whose PID 1 is at the other end of conn. Where the
// host's kernel is the sandbox's too, the shim has the sockets itself, but for unix sockets: it
// makes them in the sandbox's network namespace or, in an engine, has PID 1 hand them over.
func (n *insideNetwork) networkOver(conn *client.Conn) inside.Network {
	relayed := inside.Relayed(conn)
	var direct inside.Network
	var err error
	switch {
	case n.dir != nil:
		var hand *os.File
		if hand, err = handed(conn, n.dir); err == nil {
			direct = inside.Passed(hand, relayed)
		}
	case !n.boot.Can.Has(launch.HostProcesses):
		return relayed
	case n.boot.Config.Network == runtime.NetworkHost:
		return inside.Host(relayed)
	default:
		pid1 := n.pid1()
		if pid1.pid == 0 {
			return relayed
		}
		direct, err = inside.Direct(pid1.pid, relayed)
	}
	if err != nil { // PID 1 does the same, only slower
		fmt.Fprintln(os.Stderr, "network of the sandbox:", err)
		return relayed
	}
	return direct
}

// dial connects to a server inside by a socket that this process has.
func (n *insideNetwork) dial(port int) (net.Conn, error) {
	network, err := n.reach()
	if err != nil {
		return nil, err
	}
	if inside.IsRelayed(network) {
		return nil, runtime.Errorf(runtime.ErrUnsupported, "the sandbox's sockets stay inside")
	}
	ctx, cancel := context.WithTimeout(context.Background(), dialLimit)
	defer cancel()
	return dialInside(ctx, network, port)
}

// handLimit is how long PID 1 may take to connect.
const handLimit = 10 * time.Second

// handed has PID 1 connect to a new unix socket in a directory that is launch.HandPath inside, and
// returns the connection. No other process runs inside yet, and none finds a socket there later.
func handed(conn *client.Conn, dir *os.File) (*os.File, error) {
	defer dir.Close()
	const name = "s"
	at := fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), name) // see listen
	l, err := rawsock.ListenPackets(at)
	if err != nil {
		return nil, err
	}
	defer func() { _, _ = l.Close(), os.Remove(at) }()
	if err := l.SetDeadline(time.Now().Add(handLimit)); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), handLimit)
	defer cancel()
	if err := conn.PassFDs(ctx, launch.HandPath+"/"+name); err != nil {
		return nil, fmt.Errorf("connect PID 1 to the shim by a unix socket: %w", err)
	}
	hand, err := rawsock.Accept(l) // it is in the queue
	return hand, err
}

// self makes the shim a client of its own.
func (s *shim) self() (*client.Conn, error) {
	ends, err := selfPair()
	if err != nil {
		return nil, err
	}
	s.attach(ends[0], func(c *clientConn) { c.own = true })
	return client.New(ends[1]), nil
}

// socketOf takes over the descriptor of a connected unix socket.
func socketOf(fd int) (*rawsock.Socket, error) {
	file := os.NewFile(uintptr(fd), "self")
	defer file.Close() // package net copies the descriptor
	conn, err := net.FileConn(file)
	if err != nil {
		return nil, err
	}
	return rawsock.NewSocket(conn.(*net.UnixConn))
}
