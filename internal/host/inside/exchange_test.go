package inside_test

import (
	"errors"
	"io"
	"net"
	"runtime"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/internal/host/inside"
	"wolffia/internal/test/leak"
)

// checkLeaks fails the test if it leaves something behind. The pipes of splice(2) stay in a pool
// until the garbage collector has found them.
func checkLeaks(t *testing.T) {
	leak.Check(t)
	t.Cleanup(func() {
		for range 4 {
			runtime.GC()
		}
	})
}

// pair returns the ends of a connection by TCP over the loopback.
func pair(t *testing.T) (a, b *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dialled, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	accepted, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	a, b = dialled.(*net.TCPConn), accepted.(*net.TCPConn)
	t.Cleanup(func() { _, _ = a.Close(), b.Close() })
	for _, c := range []*net.TCPConn{a, b} {
		_ = c.SetDeadline(time.Now().Add(30 * time.Second))
	}
	return a, b
}

// exchange returns two ends between which an exchange carries bytes, and a function that waits
// until it has ended and its connections are closed.
func exchange(t *testing.T) (client, server *net.TCPConn, wait func()) {
	t.Helper()
	client, front := pair(t)
	back, server := pair(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		inside.Exchange(front, back)
		_, _ = front.Close(), back.Close()
	}()
	return client, server, func() { <-done }
}

func say(t *testing.T, from, to *net.TCPConn) {
	t.Helper()
	b := make([]byte, 4)
	if _, err := from.Write([]byte("word")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(to, b); err != nil || string(b) != "word" {
		t.Fatalf(`io.ReadFull: got %q, %v; want "word", nil`, b, err)
	}
}

// A reset passes an exchange, in both directions.
func TestExchangeResets(t *testing.T) {
	checkLeaks(t)
	client, server, wait := exchange(t)
	say(t, server, client)
	_ = server.SetLinger(0)
	_ = server.Close()
	if n, err := client.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the server has reset its connection: %d, %v", n, err)
	}
	wait()

	client, server, wait = exchange(t)
	say(t, client, server)
	_ = client.SetLinger(0)
	_ = client.Close()
	if n, err := server.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the client has reset its connection: %d, %v", n, err)
	}
	wait()
}

// Pass finds a reset whose error a write has had.
func TestPassAfterWrite(t *testing.T) {
	checkLeaks(t)
	from, peer := pair(t)
	to, _ := pair(t)
	_ = peer.SetLinger(0)
	_ = peer.Close()
	var err error
	for err == nil { // until the reset has come
		_, err = from.Write([]byte("x"))
	}
	if err := inside.Pass(&inside.Side{Conn: to}, &inside.Side{Conn: from}); !errors.Is(err, syscall.ECONNRESET) {
		t.Error(err)
	}
}

// A reset that comes after the end has no effect: all bytes arrive.
func TestPassEndBeforeReset(t *testing.T) {
	checkLeaks(t)
	from, peer := pair(t)
	to, _ := pair(t)
	if err := peer.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	_ = peer.SetLinger(0)
	_ = peer.Close()
	raw, err := from.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	_ = raw.Control(func(fd uintptr) {
		hungUp := []unix.PollFd{{Fd: int32(fd)}}
		if n, err := unix.Poll(hungUp, 30_000); n != 1 || err != nil {
			t.Errorf("the reset has not come: %v", err)
		}
	})
	if err := inside.Pass(&inside.Side{Conn: to}, &inside.Side{Conn: from}); err != nil {
		t.Error(err)
	}
}

// An end is passed on as such, in either order, and the bytes sent before it arrive.
func TestExchangeEnds(t *testing.T) {
	checkLeaks(t)
	client, server, wait := exchange(t)
	for _, way := range [][2]*net.TCPConn{{client, server}, {server, client}} {
		if _, err := way[0].Write(make([]byte, 1<<20)); err != nil {
			t.Fatal(err)
		}
		if err := way[0].CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if b, err := io.ReadAll(way[1]); len(b) != 1<<20 || err != nil {
			t.Errorf("%d bytes, %v", len(b), err)
		}
	}
	wait()
}

// An exchange whose connections are closed from outside has reset them.
func TestExchangeCut(t *testing.T) {
	checkLeaks(t)
	client, front := pair(t)
	back, server := pair(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		inside.Exchange(front, back)
	}()
	say(t, client, server)
	_, _ = front.Close(), back.Close()
	for what, c := range map[string]net.Conn{"client": client, "server": server} {
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("the %s sees %v", what, err)
		}
	}
	<-done
}
