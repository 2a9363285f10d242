package gate

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"wolffia/runtime"
)

func TestFindUID(t *testing.T) {
	const table = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 77 1 0 100 0 0 10 0
   1: 0100007F:C001 0100007F:1F90 01 00000000:00000000 00:00000000 00000000  1007        0 78 1 0 20 4 30 10 -1
   2: 0100007F:C002 0100007F:1F90 06 00000000:00000000 00:00000000 00000000     0        0 0 3 0
   3: 0100007F:C003 0100007F:1F90 01 00000000:00000000 00:00000000 00000000     0        0 0 3 0
   4: 0000000000000000FFFF00000100007F:C004 0000000000000000FFFF00000100007F:1F90 01 0:0 00:0 0  1008 0 79 1
   5: 00000000000000000000000001000000:C005 00000000000000000000000001000000:1F90 01 0:0 00:0 0  1009 0 80 1
   6: damaged:C006 0100007F:1F90 01 0:0 00:0 0 0 0 81 1
`
	for _, c := range []struct {
		from, to string
		uid      int // -1: none
	}{
		{"127.0.0.1:49153", "127.0.0.1:8080", 1007},
		{"127.0.0.1:49154", "127.0.0.1:8080", -1}, // TIME_WAIT
		{"127.0.0.1:49155", "127.0.0.1:8080", -1}, // no owner
		{"127.0.0.1:49156", "127.0.0.1:8080", 1008},
		{"[::1]:49157", "[::1]:8080", 1009},
		{"127.0.0.1:49157", "127.0.0.1:8080", -1},
		{"127.0.0.1:49158", "127.0.0.1:8080", -1},
		{"127.0.0.1:8080", "127.0.0.1:49153", -1},
	} {
		uid, err := findUID(strings.NewReader(table), netip.MustParseAddrPort(c.from), netip.MustParseAddrPort(c.to))
		if c.uid < 0 && !errors.Is(err, errNoConnection) || c.uid >= 0 && (err != nil || uid != c.uid) {
			t.Errorf("%s to %s: %d, %v", c.from, c.to, uid, err)
		}
	}
}

func TestListen(t *testing.T) {
	for address, wrong := range map[string]string{
		"8080": "HOST:PORT", ":8080": "the host is missing", "127.0.0.1:": "HOST:PORT", "0.0.0.0:0": "needs API keys", "[::]:0": "needs API keys",
		"localhost:nothing": "nothing",
	} {
		if l, _, err := Listen(t.Context(), address, false); runtime.Class(err) != runtime.ErrInvalid || !strings.Contains(err.Error(), wrong) {
			t.Errorf("%s: %v, %v", address, l, err)
		}
	}
	l, loopback, err := Listen(t.Context(), "0.0.0.0:0", true)
	if err != nil || loopback {
		t.Fatalf("with keys: %v, %v", loopback, err)
	}
	_ = l.Close()
}

// dial connects to a listener and returns what Accept returns within the limit.
func dial(t *testing.T, l net.Listener) (net.Conn, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	c, err := new(net.Dialer).DialContext(ctx, "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	type accepted struct {
		net.Conn
		err error
	}
	came := make(chan accepted, 1)
	go func() { // ends with the listener
		a, err := l.Accept()
		came <- accepted{a, err}
	}()
	_ = c.SetReadDeadline(time.Now().Add(3 * time.Minute))
	refused := make(chan error, 1)
	go func() { // ends with the connection
		_, err := c.Read(make([]byte, 1))
		refused <- err
	}()
	select {
	case a := <-came:
		return a.Conn, a.err
	case err := <-refused:
		return nil, err
	}
}

func TestOwnConnections(t *testing.T) {
	for _, address := range []string{"127.0.0.1:0", "[::1]:0"} {
		l, loopback, err := Listen(t.Context(), address, false)
		if err != nil && strings.Contains(address, ":1") {
			t.Logf("%s: %v", address, err)
			continue
		}
		if err != nil || !loopback {
			t.Fatal(err)
		}
		if c, err := dial(t, l); err != nil {
			t.Errorf("%s: my own connection: %v", address, err)
		} else {
			_ = c.Close()
		}
		if os.Geteuid() != 0 { // of root all are served
			l.(*ownListener).uid++
			if c, err := dial(t, l); err == nil {
				t.Errorf("%s: accepted %v of another user", address, c.RemoteAddr())
			}
		}
		_ = l.Close()
	}
}
