package inside_test

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/netip"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/internal/host/inside"
	"wolffia/internal/sys/rawsock"
	"wolffia/internal/test/leak"
	"wolffia/wire"
)

// passed returns a network whose sockets answer passes. answer is called for each request. It
// returns the socket, or the packet in its place; nil and nil: no answer.
func passed(t *testing.T, answer func(kind rawsock.Kind, at netip.AddrPort) (*os.File, []byte)) inside.Network {
	t.Helper()
	fd, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs := os.NewFile(uintptr(fd[0]), "ours"), os.NewFile(uintptr(fd[1]), "theirs")
	over := make(chan struct{})
	go func() { // ends with the connection
		defer close(over)
		defer theirs.Close()
		for {
			b := make([]byte, wire.MaxFDPacket)
			n, err := theirs.Read(b)
			if err != nil {
				return
			}
			kind, at, err := wire.ParseFDRequest(b[:n])
			if err != nil {
				t.Error(err)
				return
			}
			file, packet := answer(rawsock.Kind(kind), at)
			switch {
			case file != nil:
				err = errors.Join(rawsock.SendFile(theirs, file), file.Close())
			case packet != nil:
				_, err = theirs.Write(packet)
			}
			if err != nil {
				t.Error(err)
			}
		}
	}()
	n := inside.Passed(ours, nil)
	t.Cleanup(func() {
		_ = n.Close()
		<-over
	})
	return n
}

// honest answers as PID 1 does.
func honest(kind rawsock.Kind, at netip.AddrPort) (*os.File, []byte) {
	file, err := rawsock.Open(kind, at)
	if err == nil {
		return file, nil
	}
	var errno syscall.Errno
	errors.As(err, &errno)
	b, _ := json.Marshal(wire.Failure{Code: 125, Message: err.Error(), Errno: int(errno)})
	return nil, b
}

func TestHanded(t *testing.T) {
	leak.Check(t)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	n := passed(t, honest)
	testNetwork(ctx, t, n)
	_ = n.Close()
	if _, err := n.ListenTCP(ctx, netip.MustParseAddrPort("127.0.0.1:0")); !errors.Is(err, net.ErrClosed) {
		t.Errorf("listen after Close: %v", err)
	}
}

// PID 1 passes the socket that was asked for, or the connection ends.
func TestHandedLies(t *testing.T) {
	leak.Check(t)
	at := netip.MustParseAddrPort("127.0.0.1:0")
	open := func(kind rawsock.Kind, at netip.AddrPort) *os.File {
		file, err := rawsock.Open(kind, at)
		if err != nil {
			t.Error(err)
		}
		return file
	}
	for name, lie := range map[string]func(kind rawsock.Kind) (*os.File, []byte){
		"a file": func(rawsock.Kind) (*os.File, []byte) {
			file, err := os.Open("/dev/null")
			if err != nil {
				t.Error(err)
			}
			return file, nil
		},
		"a unix socket": func(rawsock.Kind) (*os.File, []byte) {
			fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
			if err != nil {
				t.Error(err)
			}
			return os.NewFile(uintptr(fd), "unix"), nil
		},
		"another kind": func(kind rawsock.Kind) (*os.File, []byte) {
			if kind == rawsock.Stream {
				return open(rawsock.Listening, at), nil
			}
			return open(rawsock.Stream, at), nil
		},
		"another family": func(kind rawsock.Kind) (*os.File, []byte) { return open(kind, netip.MustParseAddrPort("[::1]:0")), nil },
		"another address": func(rawsock.Kind) (*os.File, []byte) {
			return open(rawsock.Listening, netip.MustParseAddrPort("127.0.0.2:0")), nil
		},
		"a connected one": func(rawsock.Kind) (*os.File, []byte) {
			l := open(rawsock.Listening, at)
			defer l.Close()
			to, _ := rawsock.Addresses(l)
			c := open(rawsock.Stream, at)
			sa, _ := rawsock.Sockaddr(to)
			if err := rawsock.Connect(t.Context(), c, sa); err != nil {
				t.Error(err)
			}
			return c, nil
		},
		"no descriptor": func(rawsock.Kind) (*os.File, []byte) { return nil, []byte{0} },
		"no JSON":       func(rawsock.Kind) (*os.File, []byte) { return nil, []byte("{") },
		"no error":      func(rawsock.Kind) (*os.File, []byte) { return nil, []byte(`{"errno":0}`) },
		"a wide error":  func(rawsock.Kind) (*os.File, []byte) { return nil, []byte(`{"errno":99999}`) },
		"a long packet": func(rawsock.Kind) (*os.File, []byte) { return nil, make([]byte, wire.MaxFDPacket+1) },
		"no answer":     func(rawsock.Kind) (*os.File, []byte) { return nil, nil },
	} {
		t.Run(name, func(t *testing.T) {
			var asked atomic.Int32
			n := passed(t, func(kind rawsock.Kind, _ netip.AddrPort) (*os.File, []byte) {
				asked.Add(1)
				return lie(kind)
			})
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			if name == "no answer" {
				ctx, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond)
			}
			defer cancel()
			var err error
			if name == "a connected one" {
				_, err = n.DialTCP(ctx, netip.MustParseAddrPort("127.0.0.1:9"))
			} else {
				_, err = n.ListenTCP(ctx, at)
			}
			if err == nil {
				t.Fatal("it was taken")
			}
			if _, err := n.ListenTCP(t.Context(), at); err == nil {
				t.Error("it was asked again")
			}
			_ = n.Close()
			if n := asked.Load(); n != 1 {
				t.Errorf("%d requests", n)
			}
		})
	}
}
