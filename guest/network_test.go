package guest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"wolffia/internal/host/inside"
	"wolffia/internal/test/wait"
	"wolffia/wire"
)

// network returns the network of a guest that shares this process's.
func network(t *testing.T) (context.Context, inside.Network) {
	t.Helper()
	conn, _ := start(t)
	ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
	t.Cleanup(cancel)
	return ctx, inside.Relayed(conn)
}

// echo answers each connection with what it sends, and ends its direction after the peer's.
func echo(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			_, _ = io.Copy(c, c)
			_ = c.(inside.HalfCloser).CloseWrite()
		}()
	}
}

// roundTrip sends data over a connection, ends its direction, and compares what comes back.
func roundTrip(c net.Conn, data []byte) error {
	sent := make(chan error, 1)
	go func() {
		_, err := c.Write(data)
		if err == nil {
			err = c.(inside.HalfCloser).CloseWrite()
		}
		sent <- err
	}()
	got, err := io.ReadAll(c)
	if err := errors.Join(err, <-sent); err != nil {
		return err
	}
	if !bytes.Equal(got, data) {
		return fmt.Errorf("%d bytes came back of %d", len(got), len(data))
	}
	return nil
}

func random(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(b)
	return b
}

// A server inside is reached with 16 MB both ways, and 200 connections at once.
func TestDial(t *testing.T) {
	ctx, n := network(t)
	server, err := net.Listen("tcp", "127.0.0.1:0") // this process's network is the guest's too
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	go echo(server)
	at := netip.MustParseAddrPort(server.Addr().String())
	c, err := n.DialTCP(ctx, at)
	if err != nil {
		t.Fatal(err)
	}
	if got := c.RemoteAddr().String(); got != at.String() {
		t.Errorf("the peer is %s", got)
	}
	if err := roundTrip(c, random(16<<20)); err != nil {
		t.Error(err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	small := random(100 << 10)
	errs := make(chan error)
	for range 200 {
		go func() {
			c, err := n.DialTCP(ctx, at)
			if err == nil {
				err = errors.Join(roundTrip(c, small), c.Close())
			}
			errs <- err
		}()
	}
	for range 200 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	_ = server.Close()
	if _, err := n.DialTCP(ctx, at); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("without a server: %v", err)
	}
}

// A listener inside passes connections on, by TCP and by a unix socket.
func TestListen(t *testing.T) {
	ctx, n := network(t)
	path := filepath.Join(t.TempDir(), "new", "socket")
	tcp, err := n.ListenTCP(ctx, netip.MustParseAddrPort("127.0.0.1:0"))
	if err != nil {
		t.Fatal(err)
	}
	unixSocket, err := n.ListenUnix(ctx, path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := n.ListenTCP(ctx, netip.MustParseAddrPort(tcp.Addr().String())); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("listen twice: %v", err)
	}
	if _, err := n.ListenUnix(ctx, path); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("listen twice: %v", err)
	}
	for _, l := range []net.Listener{tcp, unixSocket} {
		go echo(l)
		dial := func() (net.Conn, error) { return net.Dial(l.Addr().Network(), l.Addr().String()) }
		c, err := dial()
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(roundTrip(c, random(16<<20)), c.Close()); err != nil {
			t.Error(err)
		}
		var all sync.WaitGroup
		small := random(100 << 10)
		for range 200 {
			all.Go(func() {
				c, err := dial()
				if err == nil {
					err = errors.Join(roundTrip(c, small), c.Close())
				}
				if err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("accept after Close: %v", err)
		}
	}
	// A closed socket is released once the guest has closed it.
	again, err := n.ListenTCP(ctx, netip.MustParseAddrPort("127.0.0.1:0"))
	if err != nil {
		t.Fatal(err)
	}
	_ = again.Close()
	wait.Until(t, "the removal of "+path, func() bool { _, err := os.Lstat(path); return errors.Is(err, os.ErrNotExist) })
}

// A socket that a guest has left is replaced; nothing else is.
func TestListenAtDeadSocket(t *testing.T) {
	ctx, n := network(t)
	dir := t.TempDir()
	leave := func(name string) (path string, l *net.UnixListener) {
		t.Helper()
		path = filepath.Join(dir, name)
		l, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: path})
		if err != nil {
			t.Fatal(err)
		}
		l.SetUnlinkOnClose(false)
		return path, l
	}
	dead, l := leave("dead")
	_ = l.Close()
	got, err := n.ListenUnix(ctx, dead)
	if err != nil {
		t.Fatal(err)
	}
	go echo(got)
	c, err := net.Dial("unix", dead)
	if err == nil {
		err = errors.Join(roundTrip(c, random(1000)), c.Close())
	}
	if err := errors.Join(err, got.Close()); err != nil {
		t.Error(err)
	}

	used, l := leave("used")
	defer l.Close()
	target, l := leave("target")
	_ = l.Close()
	link, file := filepath.Join(dir, "link"), filepath.Join(dir, "file")
	if err := errors.Join(os.Symlink(target, link), os.WriteFile(file, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{used, link, file} {
		before, err := os.Lstat(path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := n.ListenUnix(ctx, path); !errors.Is(err, syscall.EADDRINUSE) {
			t.Errorf("%s: got %v, want syscall.EADDRINUSE", path, err)
		}
		if after, err := os.Lstat(path); err != nil || !os.SameFile(before, after) {
			t.Errorf("%s has changed: %v", path, err)
		}
	}
	if _, err := os.Lstat(target); err != nil {
		t.Error(err)
	}
}

// The address that a program dialled is known, and closing sends what was written.
func TestAcceptedAddress(t *testing.T) {
	ctx, n := network(t)
	l, err := n.ListenTCP(ctx, netip.MustParseAddrPort("0.0.0.0:0"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	want := netip.AddrPortFrom(netip.MustParseAddr("127.64.3.4"), netip.MustParseAddrPort(l.Addr().String()).Port())
	answer := random(wire.NetWindow)
	done := make(chan error, 1)
	go func() {
		done <- func() error {
			c, err := l.Accept()
			if err != nil {
				return err
			}
			if c.LocalAddr().String() != want.String() {
				err = fmt.Errorf("the dialled address is %v", c.LocalAddr())
			}
			_, werr := c.Write(answer)
			return errors.Join(err, werr, c.Close())
		}()
	}()
	c, err := net.Dial("tcp4", want.String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if got, err := io.ReadAll(c); err != nil || !bytes.Equal(got, answer) {
		t.Errorf("%d bytes of %d, %v", len(got), len(answer), err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// A connection that the host cuts is reset inside, also what was sent before and not read.
func TestReset(t *testing.T) {
	ctx, n := network(t)
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	for _, size := range []int{1, wire.NetWindow / 2} {
		c, err := n.DialTCP(ctx, netip.MustParseAddrPort(server.Addr().String()))
		if err != nil {
			t.Fatal(err)
		}
		peer, err := server.Accept()
		if err != nil {
			t.Fatal(err)
		}
		_ = peer.SetDeadline(time.Now().Add(wait.Limit))
		if _, err := c.Write(make([]byte, size)); err != nil {
			t.Fatal(err)
		}
		if _, err := peer.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		inside.Reset(c)
		_ = c.Close()
		if _, err := io.Copy(io.Discard, peer); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("after %d bytes: %v", size, err)
		}
		_ = peer.Close()
	}
}

// A peer inside that does not read holds the sender up, whose deadline ends that; and one that
// resets its connection is an error.
func TestStuckPeer(t *testing.T) {
	ctx, n := network(t)
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	c, err := n.DialTCP(ctx, netip.MustParseAddrPort(server.Addr().String()))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	peer, err := server.Accept()
	if err != nil {
		t.Fatal(err)
	}
	_ = c.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
	if _, err := c.Write(make([]byte, 256<<20)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("write: %v", err)
	}
	_ = c.SetReadDeadline(time.Now())
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("read: %v", err)
	}
	_ = c.SetReadDeadline(time.Time{})
	_ = peer.(*net.TCPConn).SetLinger(0)
	_ = peer.Close()
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE) {
		t.Errorf("after a reset: %v", err)
	}
}

// Datagrams have boundaries and senders.
func TestDatagrams(t *testing.T) {
	ctx, n := network(t)
	server, err := n.ListenUDP(ctx, netip.MustParseAddrPort("127.0.0.1:0"))
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for b := make([]byte, 1<<16); ; {
			got, from, err := server.ReadFrom(b)
			if err != nil {
				return
			}
			_, _ = server.WriteTo(append([]byte("re: "), b[:got]...), from)
		}
	}()
	c, err := net.Dial("udp", server.LocalAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(wait.Limit))
	for _, q := range []string{"a", "", string(random(40_000))} {
		if _, err := c.Write([]byte(q)); err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 1<<16)
		got, err := c.Read(b)
		if err != nil || string(b[:got]) != "re: "+q {
			t.Errorf("%d bytes of %d, %v", got, len(q), err)
		}
	}
	if err := server.Close(); err != nil {
		t.Error(err)
	}
}

// A listener that does not exist, and the end of the connection to PID 1.
func TestNetworkEnds(t *testing.T) {
	ctx, n := network(t)
	l, err := n.ListenTCP(ctx, netip.MustParseAddrPort("127.0.0.1:0"))
	if err != nil {
		t.Fatal(err)
	}
	accepted := make(chan error, 1)
	go func() {
		_, err := l.Accept()
		accepted <- err
	}()
	if err := n.Close(); err != nil {
		t.Error(err)
	}
	select {
	case err := <-accepted:
		if !errors.Is(err, net.ErrClosed) {
			t.Errorf("accept: %v", err)
		}
	case <-ctx.Done():
		t.Fatal("accept does not end")
	}
	if _, err := n.DialTCP(ctx, netip.MustParseAddrPort(l.Addr().String())); err == nil {
		t.Error("dial after Close")
	}
}
