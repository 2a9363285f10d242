package guest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/internal/sys/rawsock"
	"wolffia/wire"
)

// network is the sockets that the host has PID 1 make. The host opens their channels, also
// those for connections that it accepts, so it bounds how many there are.
type network struct {
	w   *wire.Writer
	set func(channel uint32, h channelHandler)

	listening sync.WaitGroup // one for each listen, and each socket for datagrams

	mu        sync.Mutex
	listeners map[uint64]*listener // by the host's number; guarded by mu
}

// open opens a channel for a socket. It does not wait.
func (n *network) open(channel uint32, req *wire.NetRequest) {
	ctx, cancel := context.WithCancel(context.Background())
	c := newConnection(channel, n, cancel)
	c.taken = req.Op != wire.NetAccept
	n.set(channel, c)
	switch req.Op {
	case wire.NetDial:
		go n.dial(ctx, c, req) // ends with the connection
	case wire.NetPacket:
		n.listening.Go(func() { packets{c}.run(req) }) // ends when the channel is killed
	case wire.NetListen:
		n.listening.Go(func() { n.listen(c, req) }) // ends when the channel is killed
	case wire.NetPassFD:
		go n.passSockets(c, req.Path) // ends with the connection, or when the channel is killed
	case wire.NetAccept:
		n.mu.Lock()
		l := n.listeners[req.Listener]
		n.mu.Unlock()
		if l == nil || !l.offer(c) {
			go c.abandon() // the listener has ended while this was on its way
		}
	}
}

func netFailure(err error) wire.Failure {
	f := wire.Failure{Code: 125, Message: err.Error()}
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		f.Errno = int(errno)
	}
	return f
}

// dial connects, and runs the connection.
func (n *network) dial(ctx context.Context, c *connection, req *wire.NetRequest) {
	sa, domain := rawsock.Sockaddr(req.Address)
	socket, err := rawsock.TCP(domain)
	if err == nil {
		if err = rawsock.Connect(ctx, socket, sa); err != nil {
			_ = socket.Close()
		}
	}
	if err != nil {
		c.finish(err)
		return
	}
	c.run(socket)
}

// A listener accepts connections for the channels that the host has opened for them. It accepts
// one ahead at most; others stay in the kernel's queue.
type listener struct {
	path   string // of a unix socket, to remove
	socket *os.File

	mu     sync.Mutex
	change *sync.Cond    // waits or closed has changed; uses mu
	waits  []*connection // channels without a connection; guarded by mu
	closed bool          // guarded by mu
}

// listenUnix makes a socket at a path, and the missing parent directories. A file at the path is
// an error, except for a socket that an earlier sandbox has left: a guest that is killed does not
// remove its socket, and the directory may outlive the sandbox.
func listenUnix(path string) (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	socket, err := rawsock.ListenUnix(path)
	if errors.Is(err, unix.EADDRINUSE) && rawsock.RemoveDead(path) {
		return rawsock.ListenUnix(path)
	}
	return socket, err
}

// acceptPause is the time between attempts to accept a connection while there is no
// descriptor or no memory for it.
const acceptPause = 20 * time.Millisecond

func (l *listener) run() {
	for {
		socket, err := rawsock.Accept(l.socket)
		switch {
		case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE), errors.Is(err, unix.ENOBUFS), errors.Is(err, unix.ENOMEM):
			time.Sleep(acceptPause)
			continue
		case err != nil:
			return // closed
		}
		c := l.next()
		if c == nil {
			_ = socket.Close()
			return
		}
		go c.run(socket) // ends with the connection
	}
}

// offer adds a channel for a connection. It reports false if the listener is closed.
func (l *listener) offer(c *connection) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	l.waits = append(l.waits, c)
	l.change.Signal()
	return true
}

// next waits for a channel whose host still wants a connection; nil: the listener is closed.
func (l *listener) next() *connection {
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		for len(l.waits) == 0 && !l.closed {
			l.change.Wait()
		}
		if l.closed {
			return nil
		}
		c := l.waits[0]
		l.waits = l.waits[1:]
		if c.claim() {
			return c
		}
	}
}

// close closes the listener, and ends the channels that wait for a connection.
func (l *listener) close() {
	l.mu.Lock()
	waits := l.waits
	l.closed, l.waits = true, nil
	l.change.Broadcast()
	l.mu.Unlock()
	_ = l.socket.Close()
	if l.path != "" {
		_ = os.Remove(l.path)
	}
	for _, c := range waits {
		c.abandon()
	}
}

// listen listens until the channel c, over which no bytes go, is killed.
func (n *network) listen(c *connection, req *wire.NetRequest) {
	var socket *os.File
	var err error
	if req.Path == "" {
		socket, err = rawsock.ListenTCP(req.Address)
	} else {
		socket, err = listenUnix(req.Path)
	}
	if err != nil {
		c.finish(err)
		return
	}
	l := &listener{path: req.Path, socket: socket}
	l.change = sync.NewCond(&l.mu)
	n.mu.Lock()
	taken := n.listeners[req.Listener] != nil
	if !taken {
		n.listeners[req.Listener] = l
	}
	n.mu.Unlock()
	if taken {
		l.close()
		c.finish(unix.EEXIST)
		return
	}
	local, _ := rawsock.Addresses(socket)
	_ = n.w.Send(wire.Started, c.channel, wire.AppendAddresses(nil, local, local))
	go l.run() // ends with the socket
	c.wait()
	n.mu.Lock()
	delete(n.listeners, req.Listener)
	n.mu.Unlock()
	l.close()
	c.finish(nil)
}
