package gate

import (
	"bufio"
	"context"
	"encoding/hex"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"

	"wolffia/runtime"
)

// Listen listens on a TCP address, HOST:PORT. Without keys the host must be a loopback
// address or localhost, and the listener closes the connections of processes of other users
// than this one and root: a loopback address is open to all users of the machine. The
// caller closes the listener.
func Listen(ctx context.Context, address string, keys bool) (l net.Listener, loopback bool, err error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil || port == "" {
		return nil, false, runtime.Errorf(runtime.ErrInvalid, "--listen %q: it must be unix:PATH or HOST:PORT", address)
	}
	if host == "" {
		return nil, false, runtime.Errorf(runtime.ErrInvalid, "--listen %q: the host is missing: write 127.0.0.1:%s, or 0.0.0.0:%s for all addresses", address, port, port)
	}
	tcp, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return nil, false, runtime.Errorf(runtime.ErrInvalid, "--listen %q: %w", address, err)
	}
	loopback = tcp.IP.IsLoopback()
	if !loopback && !keys {
		return nil, false, runtime.Errorf(runtime.ErrInvalid, "--listen %q: an address that other machines can reach needs API keys: add --api-keys FILE, or use 127.0.0.1:%s", address, port)
	}
	l, err = new(net.ListenConfig).Listen(ctx, "tcp", tcp.String())
	if err != nil {
		return nil, false, runtime.Errorf(runtime.ErrUnavailable, "listen: %w", err)
	}
	if keys {
		return l, loopback, nil
	}
	return &ownListener{l, os.Geteuid()}, loopback, nil
}

// An ownListener accepts connections of one user and of root, on a loopback address.
type ownListener struct {
	net.Listener
	uid int
}

// Accept implements [net.Listener].
func (l *ownListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		uid, err := clientUID(c)
		if err == nil && (uid == l.uid || uid == 0) {
			return c, nil
		}
		_ = c.Close()
	}
}

// clientUID returns the uid of the process at the other end of a connection within this
// machine, from the kernel's table of connections.
func clientUID(c net.Conn) (int, error) {
	local, err := netip.ParseAddrPort(c.LocalAddr().String())
	if err != nil {
		return 0, err
	}
	remote, err := netip.ParseAddrPort(c.RemoteAddr().String())
	if err != nil {
		return 0, err
	}
	for _, name := range []string{"tcp", "tcp6"} { // an IPv6 socket can have an IPv4 connection
		uid, err := uidIn("/proc/thread-self/net/"+name, remote, local)
		if !errors.Is(err, errNoConnection) {
			return uid, err
		}
	}
	return 0, errNoConnection
}

var errNoConnection = errors.New("the kernel's table does not have the connection")

func uidIn(table string, from, to netip.AddrPort) (int, error) {
	f, err := os.Open(table)
	if errors.Is(err, os.ErrNotExist) { // a kernel without IPv6
		return 0, errNoConnection
	}
	if err != nil {
		return 0, err
	}
	defer f.Close()
	return findUID(f, from, to)
}

// findUID returns the uid in the row of an established connection. A connection that is
// being closed has no owner any more, and the row shows uid 0: it does not count.
func findUID(table io.Reader, from, to netip.AddrPort) (int, error) {
	const established = "01"
	s := bufio.NewScanner(table)
	for s.Scan() {
		f := strings.Fields(s.Text()) // sl local rem st tx:rx tr:when retrnsmt uid timeout inode
		if len(f) < 10 || f[3] != established || f[9] == "0" || !sameAddress(f[1], from) || !sameAddress(f[2], to) {
			continue
		}
		return strconv.Atoi(f[7])
	}
	if err := s.Err(); err != nil {
		return 0, err
	}
	return 0, errNoConnection
}

// sameAddress reports whether text, ADDRESS:PORT in the form of proc_net_tcp(5), is a. The
// address is of words of four bytes, each a number in the order of the machine, which is
// little-endian on all that wolffia runs on.
func sameAddress(text string, a netip.AddrPort) bool {
	address, port, ok := strings.Cut(text, ":")
	if !ok || !strings.EqualFold(port, hex.EncodeToString([]byte{byte(a.Port() >> 8), byte(a.Port())})) {
		return false
	}
	b, err := hex.DecodeString(address)
	if err != nil || len(b)%4 != 0 {
		return false
	}
	for i := 0; i < len(b); i += 4 {
		slices.Reverse(b[i : i+4])
	}
	ip, ok := netip.AddrFromSlice(b)
	return ok && ip.Unmap() == a.Addr().Unmap().WithZone("")
}
