package guest

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/internal/sys/proc"
	"wolffia/internal/sys/rawsock"
)

// ConnectArg is the first argument of the program that runs [Connect]; the second is the name.
const ConnectArg = "connect"

// strangerLimit is how long a peer may take to answer PID 1's question.
const strangerLimit = 10 * time.Second

// startLimit is how long PID 1 may take until it listens.
const startLimit = 30 * time.Second

// strangers is how many peers from outside PID 1 asks at once.
const strangers = 8

// nonceSize is the length of the question, in bytes.
const nonceSize = 16

// errInside refuses a peer.
var errInside = errors.New("the peer is a process of the sandbox")

// ServeOutside is [Serve] where PID 1 has no stream: hosts come one after the other, each over a
// process of [Connect] that was executed from outside the PID namespace. The next host ends the
// connection of the one before. name is of the socket, in the abstract namespace of unix(7), where
// no process inside can remove it. While no host is connected, sessions and kept jobs run on;
// after alone without a host ServeOutside returns, with an error.
func ServeOutside(name string, alone time.Duration, sessions string, limits *Rlimits, guard func() error, exit func(code int)) error {
	listener, err := rawsock.ListenUnix("@" + name)
	if err != nil {
		return err
	}
	g, err := newGuest(sessions, limits, exit)
	if err != nil {
		return err
	}
	defer g.shells.Close()
	if err := guard(); err != nil {
		return err
	}
	hosts := make(chan *os.File)
	go admit(listener, hosts) // ends with PID 1
	var current *os.File
	var over chan struct{} // closed once nothing of current is left
	leave := func() {
		_ = current.Close()
		<-over
		current, over = nil, nil
	}
	limit := time.NewTimer(alone)
	for {
		select {
		case <-limit.C:
			return fmt.Errorf("no host for %v", alone)
		case <-over:
			leave()
			limit.Reset(alone)
		case host := <-hosts:
			if current != nil {
				leave()
			}
			limit.Stop()
			current, over = host, make(chan struct{})
			go g.serveHost(host, over) // ends with the connection
		}
	}
}

// serveHost serves a host until its connection ends or breaks.
func (g *guest) serveHost(connection *os.File, over chan<- struct{}) {
	defer close(over)
	host := g.host(connection)
	if host.greet() == nil {
		_ = host.serve(connection) // a host that breaks the protocol is as good as gone
	}
	_ = connection.Close() // else a write could wait
	host.leave()
}

// admit accepts connections, and sends those from outside to hosts.
func admit(listener *os.File, hosts chan<- *os.File) {
	asked := make(chan struct{}, strangers)
	for {
		peer, err := rawsock.Accept(listener)
		if err != nil {
			time.Sleep(acceptPause) // no descriptor, or no memory
			continue
		}
		c, err := rawsock.PeerOf(peer)
		if err != nil || checkOutside(int(c.Pid)) != nil {
			_ = peer.Close()
			continue
		}
		asked <- struct{}{} // only peers from outside take a place
		go func() {         // ends with the answer, or strangerLimit
			defer func() { <-asked }()
			if err := ask(peer, int(c.Pid)); err != nil {
				_ = peer.Close()
				return
			}
			hosts <- peer
		}()
	}
}

// checkOutside returns nil if a process was executed from outside the PID namespace: it has no
// parent inside. An orphan of a process inside has PID 1 as its parent.
func checkOutside(pid int) error {
	if pid <= 1 {
		return errInside
	}
	p, err := proc.Read(pid)
	if err == nil && p.Parent != 0 {
		err = errInside
	}
	return err
}

// ask makes sure that it is the process pid, from outside, that holds the peer's end now: the
// number that the socket has is from the connect, and that process may have ended since, and left
// the connection to another. The answer to a question comes with its sender's number, from the
// kernel; and the process was the same one, from outside, before the question and after the answer.
func ask(peer *os.File, pid int) error {
	before, err := proc.Read(pid)
	if err != nil {
		return err
	}
	if before.Parent != 0 {
		return errInside
	}
	if err := errors.Join(rawsock.PassCredentials(peer, true), peer.SetDeadline(time.Now().Add(strangerLimit))); err != nil {
		return err
	}
	nonce := make([]byte, nonceSize)
	_, _ = rand.Read(nonce) // never fails
	if _, err := peer.Write(nonce); err != nil {
		return err
	}
	answer := make([]byte, nonceSize)
	for at := 0; at < nonceSize; {
		n, c, err := rawsock.ReceiveFrom(peer, answer[at:])
		if err != nil {
			return err
		}
		if n == 0 {
			return io.ErrUnexpectedEOF
		}
		if int(c.Pid) != pid {
			return errInside
		}
		at += n
	}
	after, err := proc.Read(pid)
	switch {
	case err != nil:
		return err
	case after.Parent != 0 || after.Start != before.Start || !bytes.Equal(answer, nonce):
		return errInside
	}
	return errors.Join(rawsock.PassCredentials(peer, false), peer.SetDeadline(time.Time{}))
}

// Connect carries the bytes of in and out to and from PID 1, which runs [ServeOutside], until one
// of them ends. The caller was executed from outside the PID namespace, by a program that processes
// inside cannot read: so they cannot trace it (ptrace(2), would_dump in the kernel's fs/exec.c).
func Connect(name string, in io.Reader, out io.Writer) error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("prctl PR_SET_DUMPABLE: %w", err)
	}
	signal.Ignore(unix.SIGHUP, unix.SIGINT, unix.SIGTERM) // which PID 1 sends to all at a shutdown
	socket, err := rawsock.DialUnix("@" + name)
	for end := time.Now().Add(startLimit); errors.Is(err, unix.ECONNREFUSED) && time.Now().Before(end); {
		time.Sleep(acceptPause) // PID 1 starts
		socket, err = rawsock.DialUnix("@" + name)
	}
	if err != nil {
		return fmt.Errorf("connect to PID 1: %w", err)
	}
	defer socket.Close()
	c, err := rawsock.PeerOf(socket)
	if err != nil {
		return err
	}
	if c.Pid != 1 { // a program inside listens there: PID 1 has ended, or is not wolffia's
		return fmt.Errorf("process %d, not PID 1, listens at %q", c.Pid, name)
	}
	nonce := make([]byte, nonceSize)
	if _, err := io.ReadFull(socket, nonce); err != nil {
		return fmt.Errorf("PID 1 has refused the connection: %w", err)
	}
	if _, err := socket.Write(nonce); err != nil {
		return err
	}
	ended := make(chan error, 2)
	go func() { // ends with the program
		_, err := io.Copy(socket, in)
		ended <- err
	}()
	go func() { // ends with the program
		_, err := io.Copy(out, socket)
		ended <- err
	}()
	return <-ended
}
