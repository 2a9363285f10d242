package guest

import (
	"errors"
	"io"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/internal/sys/rawsock"
	"wolffia/wire"
)

// A connection carries the bytes of a socket in both directions, each as far as the host has
// given credit or is allowed to be ahead: wire.NetWindow.
type connection struct {
	channel uint32
	n       *network
	cancel  func() // ends an attempt to connect

	queue           // for the socket
	socket *os.File // nil: not connected yet; guarded by mu
	credit int      // bytes that may be sent to the host; guarded by mu
	killed bool     // the host wants nothing more; guarded by mu
	reset  bool     // the socket's end is a reset; guarded by mu
	taken  bool     // a socket is or was connected to this channel, or it was killed; guarded by mu
}

func newConnection(channel uint32, n *network, cancel func()) *connection {
	c := &connection{channel: channel, n: n, cancel: cancel, credit: wire.NetWindow}
	c.open(wire.NetWindow)
	return c
}

// claim takes the channel for a socket, or for its end. It reports false if that has happened.
func (c *connection) claim() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	free := !c.taken
	c.taken = true
	return free
}

// abandon ends a channel for which no connection has come, unless it has ended.
func (c *connection) abandon() {
	if c.claim() {
		c.finish(unix.EBADF)
	}
}

// wait waits until the channel is killed.
func (c *connection) wait() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for !c.killed {
		c.change.Wait()
	}
}

// finish ends the channel; err nil is the end of a connection, ended in both directions.
func (c *connection) finish(err error) {
	c.cancel()
	c.mu.Lock()
	c.ended, c.killed = true, true
	for _, f := range c.frames {
		f.Release()
	}
	c.frames = nil
	c.change.Broadcast()
	c.mu.Unlock()
	c.n.set(c.channel, nil)
	if err != nil {
		_ = c.n.w.SendJSON(wire.Failed, c.channel, netFailure(err))
		return
	}
	_ = c.n.w.SendJSON(wire.Exit, c.channel, wire.ExitStatus{})
}

// run carries the bytes of a connected socket until both directions have ended.
func (c *connection) run(socket *os.File) {
	c.mu.Lock()
	c.socket = socket
	if c.killed {
		c.linger()
	}
	c.mu.Unlock()
	local, peer := rawsock.Addresses(socket)
	_ = c.n.w.Send(wire.Started, c.channel, wire.AppendAddresses(nil, local, peer))
	sent := make(chan error, 1)
	go func() { sent <- c.write(socket) }() // ends with the socket
	err := c.read(socket)
	if err != nil {
		c.abort(socket)
	}
	if werr := <-sent; werr != nil && (err == nil || errors.Is(err, os.ErrDeadlineExceeded)) {
		err = werr // which ended read
	}
	c.mu.Lock()
	killed := c.killed
	c.mu.Unlock()
	_ = socket.Close()
	if killed {
		err = nil // the host has closed it
	}
	c.finish(err)
}

// abort ends a write.
func (c *connection) abort(socket *os.File) {
	_ = socket.SetDeadline(time.Unix(1, 0))
	c.CloseInput()
}

// read sends what comes from the socket until its end, or until the host wants no more.
func (c *connection) read(socket *os.File) error {
	for {
		n := c.await()
		if n == 0 {
			return nil // killed
		}
		f := wire.NewFrame(wire.Stdout, c.channel)
		n, err := socket.Read(f.Room()[:n])
		reset := errors.Is(err, io.EOF) && rawsock.WasReset(socket)
		c.mu.Lock() // not before: what ends later has not ended the socket
		c.credit -= n
		killed, ended := c.killed, c.ended
		c.mu.Unlock()
		if n > 0 && !killed {
			f.SetLen(n)
			_ = c.n.w.Write(&f) // a broken stream to the host ends the guest elsewhere
		}
		f.Release()
		switch {
		case killed:
			return nil
		case reset && !ended:
			return unix.ECONNRESET
		case errors.Is(err, io.EOF):
			return c.n.w.Send(wire.StdoutEOF, c.channel, nil)
		case err != nil:
			return err
		}
	}
}

// await waits for credit, and returns how much may be read; 0: the channel was killed.
func (c *connection) await() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.credit == 0 && !c.killed {
		c.change.Wait()
	}
	if c.killed {
		return 0
	}
	return min(c.credit, wire.MaxPayload)
}

// write writes the queued bytes until their end, and then ends the socket's direction.
func (c *connection) write(socket *os.File) error {
	for {
		f, ok := c.next()
		if !ok {
			c.mu.Lock()
			reset := c.reset
			c.mu.Unlock()
			if !reset { // else its end would precede that
				_ = rawsock.CloseWrite(socket)
			}
			return nil
		}
		_, err := socket.Write(f.Payload())
		credit := c.done(&f)
		if err != nil {
			_ = socket.SetReadDeadline(time.Unix(1, 0)) // ends read
			return err
		}
		_ = c.n.w.Send(wire.Credit, c.channel, credit)
	}
}

// The methods of channelHandler, but for those of queue.

func (c *connection) Grant(stream wire.Type, n int) {
	if stream != wire.Stdout {
		return
	}
	c.mu.Lock()
	c.credit = min(c.credit+n, wire.MaxCredit)
	c.change.Broadcast()
	c.mu.Unlock()
}

// Kill closes the socket: after a Signal at once, otherwise once its queued bytes are written.
func (c *connection) Kill() {
	c.cancel()
	c.mu.Lock()
	unused := !c.taken // then no goroutine has the channel
	c.ended, c.killed, c.taken = true, true, true
	if c.socket != nil {
		c.linger()
	}
	c.change.Broadcast()
	c.mu.Unlock()
	if unused {
		go c.finish(nil) // ends when the host has read the frame
	}
}

// linger ends reading, and writing soon. c.mu is held.
func (c *connection) linger() {
	now := time.Now()
	_ = c.socket.SetReadDeadline(now)
	if c.reset {
		_ = rawsock.Reset(c.socket)
		_ = c.socket.SetWriteDeadline(now)
		return
	}
	_ = c.socket.SetWriteDeadline(now.Add(wire.NetLingerMS * time.Millisecond))
}

// Signal has the Kill that follows reset the connection.
func (c *connection) Signal(syscall.Signal) {
	c.mu.Lock()
	c.reset = true
	c.mu.Unlock()
}

func (c *connection) Resize(uint16, uint16) {}

// packets carries datagrams.
type packets struct{ *connection }

// run carries datagrams until the channel is killed. What the host is not ready to take is
// lost, as datagrams are.
func (p packets) run(req *wire.NetRequest) {
	socket, err := rawsock.ListenUDP(req.Address)
	if err != nil {
		p.finish(err)
		return
	}
	p.mu.Lock()
	p.socket = socket
	killed := p.killed
	p.mu.Unlock()
	local, _ := rawsock.Addresses(socket)
	_ = p.n.w.Send(wire.Started, p.channel, wire.AppendAddresses(nil, local, local))
	sent := make(chan struct{})
	go func() { // ends with the socket
		defer close(sent)
		p.send(socket)
	}()
	for !killed && err == nil {
		killed, err = p.receive(socket)
	}
	_ = socket.Close()
	p.CloseInput()
	<-sent
	if killed {
		err = nil
	}
	p.finish(err)
}

// receive passes one datagram on.
func (p packets) receive(socket *os.File) (killed bool, err error) {
	f := wire.NewFrame(wire.Stdout, p.channel)
	defer f.Release()
	room := f.Room()
	n, from, err := rawsock.Receive(socket, room[wire.DatagramHeader:])
	p.mu.Lock()
	killed = p.killed
	p.mu.Unlock()
	switch {
	case killed:
		return true, nil
	case errors.Is(err, unix.ECONNREFUSED): // of an earlier answer
		return false, nil
	case err != nil || !from.IsValid():
		return false, err
	}
	head := wire.AppendDatagram(nil, from)
	copy(room[len(head):], room[wire.DatagramHeader:wire.DatagramHeader+n])
	f.SetLen(copy(room, head) + n)
	p.mu.Lock()
	enough := p.credit >= len(f.Payload())
	if enough {
		p.credit -= len(f.Payload())
	}
	p.mu.Unlock()
	if !enough {
		return false, nil
	}
	return false, p.n.w.Write(&f)
}

// send sends the datagrams of the host.
func (p packets) send(socket *os.File) {
	for f, ok := p.next(); ok; f, ok = p.next() {
		if to, data, err := wire.ParseDatagram(f.Payload()); err == nil {
			_ = rawsock.Send(socket, data, to)
		}
		_ = p.n.w.Send(wire.Credit, p.channel, p.done(&f))
	}
}
