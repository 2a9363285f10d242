package gate

import (
	"context"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"wolffia/runtime"
)

func TestListen(t *testing.T) {
	for address, wrong := range map[string]string{
		"8080": "HOST:PORT", ":8080": "the host is missing", "127.0.0.1:": "HOST:PORT", "0.0.0.0:0": "needs API keys", "[::]:0": "needs API keys",
		"localhost:nothing": "nothing",
	} {
		if l, _, err := Listen(t.Context(), address, false); runtime.Class(err) != runtime.ErrInvalid || !strings.Contains(err.Error(), wrong) {
			t.Errorf("%s: got l %v, err %v; want runtime.Class(err) == runtime.ErrInvalid and err.Error() contains %v",
				address, l, err, wrong)
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
