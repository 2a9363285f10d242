package shim

import (
	"errors"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"wolffia/internal/host/boot"
	"wolffia/internal/sys/rawsock"
	"wolffia/internal/test/wait"
	"wolffia/runtime"
)

// handing returns a shim that can hand over connections, and PID 1's end.
func handing(t *testing.T) (*shim, *os.File) {
	t.Helper()
	life, _ := born(t, nil)
	hand, theirs, err := boot.ControlPair()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = errors.Join(hand.Close(), theirs.Close()) })
	return &shim{relay: life.relay, life: life, fdSocket: hand}, theirs
}

// A client and PID 1 get the ends of one connection, and the sandbox is in use until the client says otherwise,
// or is gone.
func TestDirect(t *testing.T) {
	s, guest := handing(t)
	sock, end := dialClient(t, s)
	_, ours, err := ask(t, sock, &boot.Request{Op: boot.OpDirect})
	if err != nil || ours == nil {
		t.Fatalf("no connection: %v", err)
	}
	defer ours.Close()
	n, theirs, err := rawsock.ReceiveSocket(guest, make([]byte, 1))
	if err != nil || n != 1 {
		t.Fatalf("PID 1 gets no connection: %v", err)
	}
	defer theirs.Close()
	if _, err := theirs.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	_ = unix.SetNonblock(int(ours.Fd()), false)
	if b := make([]byte, 1); must(ours.Read(b)) != 1 || b[0] != 'x' {
		t.Errorf("%q comes", b)
	}
	raw, err := theirs.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	_ = raw.Control(func(fd uintptr) {
		if _, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PASSRIGHTS); err == nil {
			if err := unix.Sendmsg(int(fd), []byte("x"), unix.UnixRights(0), nil, unix.MSG_DONTWAIT); !errors.Is(err, unix.EPERM) {
				t.Errorf("PID 1 sends a descriptor: %v", err)
			}
		}
	})
	if !s.relay.isBusy() || uses(s.relay) != 1 {
		t.Error("the sandbox is not in use")
	}
	for range 2 { // twice is as once
		if reply, _, err := ask(t, sock, &boot.Request{Op: boot.OpRelease, IdleMS: 1 << 62}); err != nil || reply.Err() != nil {
			t.Fatal(err, reply.Err())
		}
	}
	if busy, idle := s.relay.usage(); busy || idle > wait.Limit {
		t.Errorf("in use: %v, for %v not", busy, idle) // a client cannot move the last use back
	}
	for range 2 {
		if reply, _, err := ask(t, sock, &boot.Request{Op: boot.OpAcquire}); err != nil || reply.Err() != nil {
			t.Fatal(err, reply.Err())
		}
	}
	if uses(s.relay) != 1 {
		t.Errorf("%d uses", uses(s.relay))
	}
	end()
	if s.relay.isBusy() {
		t.Error("in use though the client is gone")
	}
}

func uses(r *relay) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.active()
}

func must(n int, err error) int {
	if err != nil {
		return -1
	}
	return n
}

func TestDirectRefused(t *testing.T) {
	s, _ := handing(t)
	for name, ops := range map[string][]string{
		"twice":                {boot.OpDirect, boot.OpDirect},
		"use without one":      {boot.OpAcquire},
		"rest without one":     {boot.OpRelease},
		"another after OpDial": {boot.OpDirect, boot.OpDial},
	} {
		sock, end := dialClient(t, s)
		var err error
		for i, op := range ops {
			var file *os.File
			if _, file, err = ask(t, sock, &boot.Request{Op: op, Port: 1}); (err == nil) != (i < len(ops)-1) {
				t.Errorf("%s: %s: got err %v; want (err == nil) == i < len(ops)-1", name, op, err)
			}
			_ = file.Close() // nil is fine
		}
		end()
	}
	if s.relay.isBusy() {
		t.Error("still in use")
	}
	s.fdSocket = nil // as in gVisor
	sock, _ := dialClient(t, s)
	if reply, _, err := ask(t, sock, &boot.Request{Op: boot.OpDirect}); err != nil || !errors.Is(reply.Err(), runtime.ErrUnsupported) {
		t.Errorf("ask: got %v, %v; want nil, runtime.ErrUnsupported", err, reply.Err())
	}
}

// The client that a sandbox is started for uses it before its request is read, and until it is gone.
func TestDirectFromTheStart(t *testing.T) {
	for _, starts := range []bool{true, false} {
		s, _ := handing(t)
		fd, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		s.serveAt(fd[0], starts)
		if s.relay.isBusy() != starts {
			t.Errorf("in use: %v", !starts)
		}
		_ = unix.Close(fd[1])
		idle := make(chan struct{})
		go func() {
			s.relay.awaitIdle(func() bool { return false })
			close(idle)
		}()
		if !boot.Within(wait.Limit, idle) {
			t.Fatal("in use though the client is gone")
		}
	}
}

// A client whose connection PID 1 does not take has one that has ended, and is a client no more.
func TestDirectUntaken(t *testing.T) {
	s, _ := handing(t)
	for range 1 << 16 { // until PID 1's socket has no more room
		if unix.Sendto(int(s.fdSocket.Fd()), []byte{0}, unix.MSG_DONTWAIT, nil) != nil {
			break
		}
	}
	sock, _ := dialClient(t, s)
	_, ours, err := ask(t, sock, &boot.Request{Op: boot.OpDirect})
	if err != nil || ours == nil {
		t.Fatalf("no connection: %v", err)
	}
	defer ours.Close()
	_ = unix.SetNonblock(int(ours.Fd()), false)
	if n, err := ours.Read(make([]byte, 1)); n > 0 || err == nil {
		t.Errorf("the client reads %d bytes from a connection that PID 1 has not taken", n)
	}
	if n, err := sock.Read(make([]byte, 1)); n > 0 || err == nil {
		t.Errorf("%d bytes come from the shim", n)
	}
}

// A sandbox that has expired hands over nothing.
func TestDirectExpired(t *testing.T) {
	s, _ := handing(t)
	s.life.expired = true
	sock, _ := dialClient(t, s)
	reply, file, err := ask(t, sock, &boot.Request{Op: boot.OpDirect})
	if err != nil || file != nil || !errors.Is(reply.Err(), runtime.ErrNotFound) {
		t.Errorf("ask: got %v, %v, %v; want nil, nil, runtime.ErrNotFound", file, err, reply.Err())
	}
	if s.relay.isBusy() {
		t.Error("in use")
	}
}
