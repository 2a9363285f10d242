package inside_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/internal/host/inside"
	"wolffia/internal/test/leak"
	"wolffia/internal/test/testenv"
)

const childVariable = "WOLFFIA_TEST_INSIDE"

// The test program is also a process with a network namespace of its own.
func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		os.Exit(beInside())
	}
	os.Exit(m.Run())
}

// beInside sets the loopback interface up, and ends at the end of its input.
func beInside() int {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		return 1
	}
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return 1
	}
	lo.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, lo); err != nil {
		return 1
	}
	_, _ = os.Stdout.WriteString("up\n")
	_, _ = io.Copy(io.Discard, os.Stdin)
	return 0
}

// other starts a process in a user and network namespace of its own, and returns its number.
func other(t *testing.T) int {
	t.Helper()
	cmd := &exec.Cmd{Path: "/proc/self/exe", Env: append(os.Environ(), childVariable+"=1"), SysProcAttr: &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Geteuid(), Size: 1}},
		Pdeathsig:   syscall.SIGKILL,
	}}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = in.Close(), cmd.Wait() })
	if _, err := io.ReadFull(out, make([]byte, 3)); err != nil {
		t.Fatal(err)
	}
	return cmd.Process.Pid
}

// Sockets are made in the other namespace, with ports and addresses of its own, and work in
// every thread.
func TestDirect(t *testing.T) {
	if !testenv.InNamespace(t) {
		return
	}
	leak.Check(t)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	n, err := inside.Direct(other(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	testNetwork(ctx, t, n)

	// A port below 1024 on all addresses; an address of 127.0.0.0/8 says which was dialled.
	low, err := n.ListenTCP(ctx, netip.MustParseAddrPort("0.0.0.0:80"))
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		if c, err := n.DialTCP(ctx, netip.MustParseAddrPort("127.64.0.5:80")); err == nil {
			_ = c.Close()
		}
	}()
	c, err := low.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if got := c.LocalAddr().String(); got != "127.64.0.5:80" {
		t.Errorf("dialled %s", got)
	}
	_ = c.Close()
	// It is not this process's namespace.
	if _, err := net.Dial("tcp", "127.0.0.1:80"); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("from here: %v", err)
	}
	// Close ends listeners.
	if err := n.Close(); err != nil {
		t.Error(err)
	}
	if _, err := low.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("accept after Close: %v", err)
	}
	if _, err := n.DialTCP(ctx, netip.MustParseAddrPort("127.0.0.1:80")); !errors.Is(err, net.ErrClosed) {
		t.Errorf("dial after Close: %v", err)
	}
}

// A process of the same namespace is refused: the sockets would be the host's.
func TestDirectIsNotTheHost(t *testing.T) {
	if n, err := inside.Direct(os.Getpid(), nil); err == nil {
		_ = n.Close()
		t.Error("the namespace of this process was joined")
	}
}

// TestHost uses the network of this process.
func TestHost(t *testing.T) {
	leak.Check(t)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	n := inside.Host(nil)
	testNetwork(ctx, t, n)
	_ = n.Close()
	if _, err := n.ListenTCP(ctx, netip.MustParseAddrPort("127.0.0.1:0")); !errors.Is(err, net.ErrClosed) {
		t.Errorf("listen after Close: %v", err)
	}
}

// testNetwork tests what each Network does.
func testNetwork(ctx context.Context, t *testing.T, n inside.Network) {
	t.Helper()
	l, err := n.ListenTCP(ctx, netip.MustParseAddrPort("127.0.0.1:0"))
	if err != nil {
		t.Fatal(err)
	}
	at := netip.MustParseAddrPort(l.Addr().String())
	if _, err := n.ListenTCP(ctx, at); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("listen twice: %v", err)
	}
	echoed := make(chan error, 1)
	go func() {
		echoed <- func() error {
			c, err := l.Accept()
			if err != nil {
				return err
			}
			defer c.Close()
			got, err := io.ReadAll(c) // to the half-close
			if err != nil {
				return err
			}
			_, err = c.Write(append(got, '!'))
			return err
		}()
	}()
	c, err := n.DialTCP(ctx, at)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	big := bytes.Repeat([]byte("0123456789abcdef"), 1<<16) // 1 MiB
	if _, err := c.Write(big); err != nil {
		t.Fatal(err)
	}
	if err := c.(inside.HalfCloser).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	back, err := io.ReadAll(c)
	if err != nil || !bytes.Equal(back, append(big, '!')) {
		t.Errorf("%d bytes back, %v", len(back), err)
	}
	if err := <-echoed; err != nil {
		t.Error(err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if _, err := n.DialTCP(ctx, at); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("dial without a listener: %v", err)
	}

	// Datagrams.
	a, err := n.ListenUDP(ctx, netip.MustParseAddrPort("127.0.0.1:0"))
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	b, err := n.ListenUDP(ctx, netip.MustParseAddrPort("127.0.0.1:0"))
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if _, err := a.WriteTo([]byte("ask"), b.LocalAddr()); err != nil {
		t.Fatal(err)
	}
	_ = b.SetReadDeadline(time.Now().Add(20 * time.Second))
	buf := make([]byte, 100)
	got, from, err := b.ReadFrom(buf)
	if err != nil || string(buf[:got]) != "ask" || from.String() != a.LocalAddr().String() {
		t.Errorf("datagram %q from %v, %v", buf[:got], from, err)
	}
}
