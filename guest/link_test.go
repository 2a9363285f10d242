package guest_test

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/internal/sys/rawsock"
	"wolffia/internal/test/wait"
	"wolffia/wire"
	"wolffia/wire/client"
)

// passConn gives a guest a connection, and returns the other end.
func passConn(t *testing.T, fdSocket *os.File) *rawsock.Socket {
	t.Helper()
	fd, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	theirs := os.NewFile(uintptr(fd[1]), "client")
	defer theirs.Close()
	if err := rawsock.SendFile(fdSocket, theirs); err != nil {
		t.Fatal(err)
	}
	sock := rawsock.SocketOf(fd[0])
	t.Cleanup(func() { _ = sock.Close() })
	return sock
}

// startForClients runs a guest, and returns its host's connection and a function that makes
// clients.
func startForClients(t *testing.T) (host *client.Conn, connect func() *client.Conn, fdSocket *os.File) {
	t.Helper()
	p, _, fdSocket := launchForClients(t)
	host = client.New(p)
	t.Cleanup(func() { _ = host.Close() })
	hello(t, host)
	return host, func() *client.Conn {
		conn := client.New(passConn(t, fdSocket))
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}, fdSocket
}

// A client has processes, whose channels are its own, and which have no descriptor of any
// connection.
func TestClients(t *testing.T) {
	host, connect, _ := startForClients(t)
	a, b := connect(), connect()
	for _, conn := range []*client.Conn{a, b, host} { // each begins with channel 1
		if r := sh(t, conn, "echo $((6 * 7)); ls /proc/self/fd"); r.stdout != "42\n0\n1\n2\n3\n" { // 3 is ls's own
			t.Errorf(`sh "echo $((6 * 7)); ls /proc/self/fd": got r %+v; want r.stdout == %q`, r, "42\n0\n1\n2\n3\n")
		}
	}
}

// The end of a client's connection ends what it has started, and nothing else.
func TestEndOfAClient(t *testing.T) {
	host, connect, _ := startForClients(t)
	a, b := connect(), connect()
	start := func(conn *client.Conn) *client.Process {
		p, err := conn.Start(&client.Request{StartRequest: wire.StartRequest{Args: []string{"sleep", "1000"}, Env: env}})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	start(a)
	others := start(b)
	await := func(n int) {
		t.Helper()
		wait.Equal(t, "processes of clients", n, func() int { return strings.Count(sh(t, host, "ps -e -o args").stdout, "sleep 1000") })
	}
	await(2)
	_ = a.Close()
	await(1)
	select {
	case <-others.Done():
		t.Error("the process of another client has ended")
	default:
	}
}

// What a client must not say ends its connection only.
func TestClientsBreakTheProtocol(t *testing.T) {
	host, connect, fdSocket := startForClients(t)
	other := connect()
	socket := wire.StartRequest{Network: &wire.NetRequest{Op: wire.NetListen, Path: "/tmp/x"}}
	for name, say := range map[string]func(w *wire.Writer) error{
		"the end of the sandbox": func(w *wire.Writer) error { return w.Send(wire.Shutdown, 0, make([]byte, 4)) },
		"a ping":                 func(w *wire.Writer) error { return w.Send(wire.Ping, 0, nil) },
		"to be told of jobs":     func(w *wire.Writer) error { return w.Send(wire.WatchBusy, 0, nil) },
		"a socket":               func(w *wire.Writer) error { return w.WriteStart(1, &socket) },
		"a frame of a bad type":  func(w *wire.Writer) error { return w.Send(200, 1, nil) },
	} {
		sock := passConn(t, fdSocket)
		if err := say(wire.NewWriter(sock)); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		late := time.AfterFunc(wait.Limit, func() { _ = sock.Close() })
		n, err := io.ReadFull(sock, make([]byte, 1))
		if !late.Stop() || n > 0 || !errors.Is(err, io.EOF) {
			t.Errorf("%s: the connection goes on, or says something: %d bytes, %v", name, n, err)
		}
	}
	for _, conn := range []*client.Conn{host, other} {
		if r := sh(t, conn, "echo here"); r.stdout != "here\n" {
			t.Errorf(`sh "echo here": got r %+v; want r.stdout == %q`, r, "here\n")
		}
	}
}

// A client that does not read delays no other client, not even on one session.
func TestClientThatDoesNotRead(t *testing.T) {
	_, connect, _ := startForClients(t)
	deaf, other := connect(), connect()
	var unread []*client.Process
	for range 4 { // more than a socket holds
		p, err := deaf.Start(&client.Request{StartRequest: wire.StartRequest{Args: []string{"cat", "/dev/zero"}, Env: env}})
		if err != nil {
			t.Fatal(err)
		}
		unread = append(unread, p)
	}
	for _, p := range unread {
		wait.For(t, "unread bytes of a process that writes without end", func() int64 { total, _ := p.Backlog(); return total },
			func(total int64) bool { return total >= wire.Window })
	}
	if r := sh(t, other, "echo here"); r.stdout != "here\n" {
		t.Errorf(`sh "echo here": got r %+v; want r.stdout == %q`, r, "here\n")
	}
	if r := sh(t, deaf, "echo here"); r.stdout != "here\n" {
		t.Errorf("the same client: %+v", r)
	}
	ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
	defer cancel()
	_ = unread[0].Kill()
	if _, err := unread[0].Wait(ctx); err != nil {
		t.Error(err)
	}
}

// A socket that is not read at all: PID 1 waits for it without a thread, and keeps no more than
// the credit.
func TestSocketThatIsNotRead(t *testing.T) {
	host, connect, fdSocket := startForClients(t)
	for range 40 { // more than PID 1 has threads
		sock := passConn(t, fdSocket)
		w := wire.NewWriter(sock)
		for ch := range uint32(2) {
			if err := w.WriteStart(ch+1, &wire.StartRequest{Args: []string{"cat", "/dev/zero"}, Env: env}); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, conn := range []*client.Conn{host, connect()} {
		if r := sh(t, conn, "echo here; grep -c . /proc/self/status"); !strings.HasPrefix(r.stdout, "here\n") {
			t.Errorf(`sh "echo here; grep -c . /proc/self/status": got r %+v; want r.stdout begins with %q`, r, "here\n")
		}
	}
}
