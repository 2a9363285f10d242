package shim

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/internal/host/boot"
	"wolffia/internal/host/inside"
	"wolffia/internal/sys/rawsock"
	"wolffia/internal/test/leak"
	"wolffia/internal/test/wait"
	"wolffia/wire"
	"wolffia/wire/client"
)

// dialClient starts serving a client, and returns its end of the connection and a function that closes it and
// waits until the shim has noticed.
func dialClient(t *testing.T, s *shim) (sock *rawsock.Socket, end func()) {
	t.Helper()
	fd, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	ours, err := socketOf(fd[0])
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := socketOf(fd[1])
	if err != nil {
		t.Fatal(err)
	}
	c := newClientConn(theirs)
	over := make(chan struct{})
	go func() { // ends with the connection
		s.serve(c)
		close(over)
	}()
	end = sync.OnceFunc(func() {
		_ = ours.Close()
		<-over
	})
	t.Cleanup(end)
	return ours, end
}

// ask sends a request, and returns the answer with its file.
func ask(t *testing.T, sock *rawsock.Socket, req *boot.Request) (reply boot.Reply, file *os.File, err error) {
	t.Helper()
	b, err := json.Marshal(req)
	if err != nil {
		t.Fatal(err)
	}
	if err := wire.NewWriter(sock).WriteControl(b); err != nil {
		t.Fatal(err)
	}
	late := time.AfterFunc(wait.Limit, func() { _ = sock.Close() })
	defer late.Stop()
	b, file, err = sock.ReceiveFile(make([]byte, wire.HeaderSize+wire.MaxPayload))
	if err != nil || len(b) == 0 {
		return reply, nil, errors.Join(io.EOF, err)
	}
	f, err := wire.NewReader(bytes.NewReader(b)).Next()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Release()
	if err := wire.Decode(&f, &reply); err != nil {
		t.Fatal(err)
	}
	return reply, file, nil
}

// asked sends a request for a port, and returns the answer.
func asked(t *testing.T, sock *rawsock.Socket, port int) (reply boot.Reply, conn net.Conn, err error) {
	t.Helper()
	reply, file, err := ask(t, sock, &boot.Request{Op: boot.OpDial, Port: port})
	if file != nil {
		defer file.Close()
		if conn, err = net.FileConn(file); err != nil {
			t.Fatal(err)
		}
	}
	return reply, conn, err
}

func (r *relay) isBusy() bool {
	busy, _ := r.usage()
	return busy
}

// A client that asks for a port has the socket itself, which keeps the sandbox in use until the client is gone.
func TestDial(t *testing.T) {
	leak.Check(t)
	network := inside.Host(nil)
	defer network.Close()
	s := &shim{relay: newRelay(nil), net: insideNetwork{network: network}}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := l.Addr().(*net.TCPAddr).Port

	sock, end := dialClient(t, s)
	reply, conn, err := asked(t, sock, port)
	if err != nil || reply.Err() != nil || conn == nil {
		t.Fatalf("asked: got reply %+v, conn %v, err %v; want err == nil and reply.Err() == nil and conn != nil", reply, conn, err)
	}
	defer conn.Close()
	server, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	if !s.relay.isBusy() {
		t.Error("the connection is no use of the sandbox")
	}
	if _, _, err := asked(t, sock, port); err == nil {
		t.Error("a second connection for the same client")
	}
	end()
	if s.relay.isBusy() {
		t.Error("the sandbox is in use by a client that is gone")
	}
	// The shim has closed its own descriptor: the end of the client's is the end.
	if _, err := conn.Write([]byte("x")); err != nil {
		t.Error(err)
	}
	_ = conn.Close()
	if got, err := io.ReadAll(server); err != nil || string(got) != "x" {
		t.Errorf(`io.ReadAll: got %q, %v; want "x", nil`, got, err)
	}

	_ = l.Close()
	sock, _ = dialClient(t, s)
	reply, conn, err = asked(t, sock, port)
	if err != nil || conn != nil || reply.Err() == nil || syscall.Errno(reply.Errno) != syscall.ECONNREFUSED || s.relay.isBusy() {
		t.Errorf("without a server: %+v, %v, %v", reply, conn, err)
	}
	sock, _ = dialClient(t, s)
	if reply, conn, err := asked(t, sock, 1<<16); err == nil {
		t.Errorf("port 65536: %+v, %v", reply, conn)
	}
}

// A connection whose bytes PID 1 carries is not handed over, but refused as what there is not.
func TestDialRelayed(t *testing.T) {
	leak.Check(t)
	near, far := net.Pipe()
	defer far.Close()
	network := inside.Relayed(client.New(near))
	defer network.Close()
	s := &shim{relay: newRelay(nil), net: insideNetwork{network: network}}
	sock, _ := dialClient(t, s)
	reply, conn, err := asked(t, sock, 80)
	if err != nil || conn != nil || reply.Class == "" || reply.Errno != 0 {
		t.Errorf(`asked: got reply %+v, conn %v, err %v; want err == nil and conn == nil and reply.Class != "" and reply.Errno == 0`,
			reply, conn, err)
	}
}
