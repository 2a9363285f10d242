package gate

import (
	"bytes"
	"errors"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/internal/test/testenv"
)

// pair returns both ends of a connection over a loopback address, HOST:0.
func pair(t *testing.T, address string) (client, server *net.TCPConn) {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return join(t, l)
}

// join returns both ends of a new connection to a listener.
func join(t *testing.T, l net.Listener) (client, server *net.TCPConn) {
	t.Helper()
	c, err := new(net.Dialer).DialContext(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	s, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return c.(*net.TCPConn), s.(*net.TCPConn)
}

// checkUID checks what the kernel says of a server's client; -1: no process has it any more.
func checkUID(t *testing.T, what string, server net.Conn, want int) {
	t.Helper()
	uid, err := clientUID(server)
	if want < 0 && !errors.Is(err, errNoClient) || want >= 0 && (err != nil || uid != want) {
		t.Errorf("%s: uid %d, %v, want %d", what, uid, err, want)
	}
}

func TestClientUID(t *testing.T) {
	for _, address := range []string{"127.0.0.1:0", "[::1]:0"} {
		client, server := pair(t, address)
		checkUID(t, address, server, os.Getuid())
		if err := client.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		checkUID(t, address+", half-closed", server, os.Getuid())
		if err := client.Close(); err != nil {
			t.Fatal(err)
		}
		checkUID(t, address+", closed", server, -1)
	}
}

// A client of an IPv4 address can have a socket of IPv6.
func TestMappedClientUID(t *testing.T) {
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if errors.Is(err, unix.EAFNOSUPPORT) {
		testenv.Lacks(t, "IPv6", "the kernel has no sockets of IPv6")
	}
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	to := &unix.SockaddrInet6{Port: l.Addr().(*net.TCPAddr).Port, Addr: netip.MustParseAddr("::ffff:127.0.0.1").As16()}
	if err := unix.Connect(fd, to); err != nil {
		t.Fatal(err)
	}
	server, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	checkUID(t, "a socket of IPv6", server, os.Getuid())
}

// A listener at the address of a client that has gone is not that client, whatever program listens.
func TestListenerIsNoClient(t *testing.T) {
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	at := netip.MustParseAddrPort(l.Addr().String())
	if _, err := askOwner(at, netip.MustParseAddrPort("127.0.0.1:1")); !errors.Is(err, errNoClient) {
		t.Errorf("a listener counts as a client: %v", err)
	}
}

func TestOwnerOf(t *testing.T) {
	from, to := netip.MustParseAddrPort("127.0.0.1:49153"), netip.MustParseAddrPort("127.0.0.1:8080")
	good := make([]byte, answerSize)
	copy(good[unix.SizeofNlMsghdr:], []byte{unix.AF_INET, unix.BPF_TCP_ESTABLISHED})
	copy(good[idAt:], question(from, to)[questionIDAt:])
	good[uidAt], good[inodeAt] = 7, 9
	good[4] = unix.SOCK_DIAG_BY_FAMILY
	with := func(at int, value byte) []byte {
		b := bytes.Clone(good)
		b[at] = value
		return b
	}
	refused := func(code unix.Errno) []byte {
		b := make([]byte, unix.SizeofNlMsghdr+4)
		b[4] = unix.NLMSG_ERROR
		b[16], b[17], b[18], b[19] = byte(-int(code)), 0xff, 0xff, 0xff
		return b
	}
	const state = unix.SizeofNlMsghdr + 1
	for name, c := range map[string]struct {
		answer []byte
		wrong  error // nil: uid 7
	}{
		"good":            {good, nil},
		"half-closed":     {with(state, unix.BPF_TCP_FIN_WAIT2), nil},
		"no inode":        {with(inodeAt, 0), errNoClient},
		"listening":       {with(state, unix.BPF_TCP_LISTEN), errNoClient},
		"connecting":      {with(state, unix.BPF_TCP_SYN_SENT), errNoClient},
		"over":            {with(state, unix.BPF_TCP_TIME_WAIT), errNoClient},
		"another client":  {with(idAt, 1), errNoClient},
		"another server":  {with(idAt+20, 128), errNoClient},
		"none":            {refused(unix.ENOENT), errNoClient},
		"refused":         {refused(unix.EPERM), unix.EPERM},
		"short":           {good[:answerSize-1], errNoAnswer},
		"of another kind": {with(4, unix.NLMSG_DONE), errNoAnswer},
		"nothing":         {nil, errNoAnswer},
		"an error, cut":   {refused(unix.EPERM)[:unix.SizeofNlMsghdr], errNoAnswer},
	} {
		uid, err := ownerOf(c.answer, from, to)
		if !errors.Is(err, c.wrong) || c.wrong == nil && (err != nil || uid != 7) {
			t.Errorf("%s: uid %d, %v, want %v", name, uid, err, c.wrong)
		}
	}
}

// Connections that exist make the next lookup no slower: a client that is refused can make
// any number of them. The measure is what the connections cost themselves.
func TestManyConnections(t *testing.T) {
	const connections, lookups = 1000, 200
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	begin := time.Now()
	var server net.Conn
	for range connections {
		_, server = join(t, l)
	}
	cost := time.Since(begin)
	begin = time.Now()
	for range lookups {
		checkUID(t, "one of many", server, os.Getuid())
	}
	if took := time.Since(begin); took > 2*cost {
		t.Errorf("%d lookups take %v with %d connections, which took %v", lookups, took, connections, cost)
	}
}
