package runtimetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"wolffia/internal/test/suite"
	"wolffia/internal/test/testenv"
	"wolffia/network"
	"wolffia/runtime"
)

// Connections between the host and a sandbox that has no network.
var portTests = []test{
	{"DialPort", []Feature{Ports}, dialPort},
	{"DialPortErrors", []Feature{Ports}, dialPortErrors},
	{"LowPort", []Feature{Ports}, lowPort},
	{"LowPortFiltered", []Feature{Ports, Names}, lowPortFiltered},
	{"PublishedPort", []Feature{Ports}, publishedPort},
	{"PublishedTwice", []Feature{Ports}, publishedTwice},
	{"ExposedPort", []Feature{Ports}, exposedPort},
	{"ResetPort", []Feature{Ports}, resetPort},
	{"HostSocket", []Feature{Ports}, hostSocket},
	{"IdleNotWhileConnected", []Feature{Ports, Lifetime}, idleNotWhileConnected},
}

// echoServer listens inside at the address of the first argument. It answers each connection
// with what it sends, and ends its direction after the peer's.
const echoServer = `
import socket, sys, threading
def serve(c):
    try:
        while True:
            b = c.recv(65536)
            if not b: break
            c.sendall(b)
        c.shutdown(socket.SHUT_WR)
    except OSError: pass
    c.close()
host, port = sys.argv[1], int(sys.argv[2])
s = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind((host, port)); s.listen(500)
print("up", flush=True)
while True:
    threading.Thread(target=serve, args=(s.accept()[0],), daemon=True).start()
`

// upgradeServer answers one HTTP request with 101, and then echoes lines in upper case.
const upgradeServer = `
import socket
s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(("0.0.0.0", 8081)); s.listen()
print("up", flush=True)
c = s.accept()[0]; f = c.makefile("rwb", buffering=0)
while f.readline() not in (b"\r\n", b""): pass
f.write(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: echo\r\nConnection: Upgrade\r\n\r\n")
for line in f: f.write(line.upper())
`

// server starts a Python program inside, and waits until it has printed a line.
func (e *env) server(id, program string, args ...string) runtime.Process {
	e.Helper()
	p := e.process(id, &runtime.Command{Command: append([]string{"/usr/bin/python3", "-ISBc", program}, args...), Merge: true})
	line := make([]byte, 3)
	if _, err := io.ReadFull(p.Stdout(), line); err != nil || string(line) != "up\n" {
		e.Fatalf("the server says %q, %v", line, err)
	}
	return p
}

// exchanged sends data over a connection, half-closes it, and compares what comes back.
func exchanged(c net.Conn, data []byte) error {
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(suite.Limit))
	sent := make(chan error, 1)
	go func() {
		_, err := c.Write(data)
		if err == nil {
			err = c.(interface{ CloseWrite() error }).CloseWrite()
		}
		sent <- err
	}()
	got, err := io.ReadAll(c)
	if err := errors.Join(err, <-sent); err != nil {
		return err
	}
	if !bytes.Equal(got, data) {
		return fmt.Errorf("%d bytes came back of %d, or others", len(got), len(data))
	}
	return nil
}

// pattern returns n bytes, of which no two places are alike.
func pattern(n int) []byte {
	b := make([]byte, 0, n+20)
	for i := int64(0); len(b) < n; i++ {
		b = append(strconv.AppendInt(b, i, 10), ',')
	}
	return b[:n]
}

// manyExchanges moves 16 MB both ways over one connection, and then uses 200 at once; of a sample
// a part of both.
func (e *env) manyExchanges(dial func() (net.Conn, error)) {
	e.Helper()
	c, err := dial()
	if err != nil {
		e.Fatal(err)
	}
	size, conns := 16<<20, 200
	if e.Sample {
		size, conns = testenv.Some(size), testenv.Some(conns)
	}
	if err := exchanged(c, pattern(size)); err != nil {
		e.Error(err)
	}
	var all sync.WaitGroup
	small := pattern(50_000)
	for range conns {
		all.Go(func() {
			c, err := dial()
			if err == nil {
				err = exchanged(c, small)
			}
			if err != nil {
				e.Error(err)
			}
		})
	}
	all.Wait()
}

func dialPort(e *env) {
	s := e.start(nil)
	for host, port := range map[string]int{"127.0.0.1": 8080, "::1": 8082} {
		p := e.server(s.ID, echoServer, host, fmt.Sprint(port))
		e.manyExchanges(func() (net.Conn, error) { return e.rt.DialPort(e.Ctx, s.ID, port) })
		e.OK(p.Close())
	}
	e.server(s.ID, upgradeServer)
	c, err := e.rt.DialPort(e.Ctx, s.ID, 8081)
	if err != nil {
		e.Fatal(err)
	}
	e.upgrade(c)
}

// A program listens at a port below 1024, as root could in a network of its own.
func lowPort(e *env) { e.lowPort("0.0.0.0", &runtime.SandboxConfig{}) }

// So it does where names filter the network, at a port of theirs if that is published.
func lowPortFiltered(e *env) {
	names := &network.Policy{Allow: []string{"a.example:80"}}
	e.lowPort("127.0.0.1", &runtime.SandboxConfig{Network: runtime.NetworkFiltered, Egress: names})
}

func (e *env) lowPort(at string, c *runtime.SandboxConfig) {
	local := e.freePort()
	c.Publish = []runtime.Publish{{Local: local, Port: 80}}
	s := e.start(c)
	e.server(s.ID, echoServer, at, "80")
	conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", local))
	if err != nil {
		e.Fatal(err)
	}
	e.OK(exchanged(conn, pattern(100)))
}

// upgrade does what a WebSocket's client does: a request, and then both directions at will.
func (e *env) upgrade(c net.Conn) {
	e.Helper()
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(suite.Limit))
	_, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\nUpgrade: echo\r\nConnection: Upgrade\r\n\r\n")
	e.OK(err)
	head := make([]byte, len("HTTP/1.1 101 Switching Protocols\r\nUpgrade: echo\r\nConnection: Upgrade\r\n\r\n"))
	if _, err := io.ReadFull(c, head); err != nil || !bytes.HasPrefix(head, []byte("HTTP/1.1 101 ")) {
		e.Fatalf(`io.ReadFull: got head %q, err %v; want err == nil and bytes.HasPrefix(head, []byte("HTTP/1.1 101 "))`, head, err)
	}
	for _, word := range []string{"one\n", "two\n"} {
		_, err := io.WriteString(c, word)
		e.OK(err)
		got := make([]byte, len(word))
		if _, err := io.ReadFull(c, got); err != nil || string(got) != strings.ToUpper(word) {
			e.Errorf("io.ReadFull: got %q, %v; want strings.ToUpper(word), nil", got, err)
		}
	}
}

func dialPortErrors(e *env) {
	s := e.start(nil)
	_, err := e.rt.DialPort(e.Ctx, s.ID, 8080)
	e.Wrong("no server", err, runtime.ErrUnavailable)
	if !errors.Is(err, syscall.ECONNREFUSED) {
		e.Errorf("no server: %v, which is not ECONNREFUSED", err)
	}
	for _, port := range []int{0, -1, 1 << 16} {
		_, err := e.rt.DialPort(e.Ctx, s.ID, port)
		e.Wrong(fmt.Sprint("port ", port), err, runtime.ErrInvalid)
	}
	_, err = e.rt.DialPort(e.Ctx, "none", 80)
	e.Wrong("no such sandbox", err, runtime.ErrNotFound)
	// A connection ends with the sandbox.
	e.server(s.ID, echoServer, "127.0.0.1", "8080")
	c, err := e.rt.DialPort(e.Ctx, s.ID, 8080)
	if err != nil {
		e.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(suite.Limit))
	e.OK(e.rt.Stop(e.Ctx, s.ID))
	if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		e.Errorf("a connection to a sandbox that was stopped: %v", err)
	}
	_, err = e.rt.DialPort(e.Ctx, s.ID, 8080)
	e.Wrong("a stopped sandbox", err, runtime.ErrConflict)
}

// freePort returns a port of the host's loopback that is free at this moment. It is none that
// the kernel gives to others who ask for any (from 32768 on, ip(7)).
func (e *env) freePort() int {
	e.Helper()
	for {
		port := 12_000 + rand.IntN(20_000)
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			e.OK(l.Close())
			return port
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			e.Fatal(err)
		}
	}
}

func publishedPort(e *env) {
	local, upgrade := e.freePort(), e.freePort()
	s := e.start(&runtime.SandboxConfig{Publish: []runtime.Publish{{Local: local, Port: 8080}, {Local: upgrade, Port: 8081}}})
	dialHost := func(port int) (net.Conn, error) { return net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port)) }
	// Without a server the connection is ended.
	c, err := dialHost(local)
	if err == nil {
		_ = c.SetDeadline(time.Now().Add(suite.Limit))
		_, err = c.Read(make([]byte, 1))
		_ = c.Close()
	}
	if !errors.Is(err, syscall.ECONNRESET) {
		e.Errorf("without a server: %v", err)
	}
	e.server(s.ID, echoServer, "127.0.0.1", "8080")
	e.manyExchanges(func() (net.Conn, error) { return dialHost(local) })
	e.server(s.ID, upgradeServer)
	if c, err = dialHost(upgrade); err != nil {
		e.Fatal(err)
	}
	e.upgrade(c)
	if e.has(Network) {
		publishedOfHost(e)
	}
	// The port is the host's again when the sandbox has stopped, and the sandbox's at its next
	// start.
	e.OK(e.rt.Stop(e.Ctx, s.ID))
	if _, err := dialHost(local); !errors.Is(err, syscall.ECONNREFUSED) {
		e.Errorf("the sandbox is stopped: %v", err)
	}
	e.OK(e.rt.Start(e.Ctx, s.ID))
	e.server(s.ID, echoServer, "127.0.0.1", "8080")
	if c, err = dialHost(local); err != nil {
		e.Fatal(err)
	}
	e.OK(exchanged(c, pattern(1000)))
}

// publishedOfHost publishes a port of a sandbox that shares the host's network.
func publishedOfHost(e *env) {
	local, port := e.freePort(), e.freePort()
	s := e.start(&runtime.SandboxConfig{Network: runtime.NetworkHost, Publish: []runtime.Publish{{Local: local, Port: port}}})
	e.server(s.ID, echoServer, "127.0.0.1", fmt.Sprint(port))
	c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", local))
	if err != nil {
		e.Fatal(err)
	}
	e.OK(exchanged(c, pattern(100_000)))
}

// A port that is taken is a clear error, and leaves nothing.
func publishedTwice(e *env) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		e.Fatal(err)
	}
	defer l.Close()
	local := l.Addr().(*net.TCPAddr).Port
	s, err := e.rt.Create(e.Ctx, &runtime.SandboxConfig{Publish: []runtime.Publish{{Local: local, Port: 80}}})
	if err != nil {
		e.Fatal(err)
	}
	err = e.rt.Start(e.Ctx, s.ID)
	e.Wrong("a port in use", err, runtime.ErrConflict)
	if want := fmt.Sprintf("publish 127.0.0.1:%d: ", local); err != nil && !strings.Contains(err.Error(), want) {
		e.Errorf("%v: want %q in it", err, want)
	}
	_ = l.Close()
	e.OK(e.rt.Start(e.Ctx, s.ID))
	e.OK(e.rt.Destroy(e.Ctx, s.ID))
	for what, c := range map[string]*runtime.SandboxConfig{
		"port 0":         {Publish: []runtime.Publish{{Local: 0, Port: 80}}},
		"a name":         {Publish: []runtime.Publish{{Address: "localhost", Local: 1, Port: 80}}},
		"twice":          {Publish: []runtime.Publish{{Local: 1, Port: 80}, {Local: 1, Port: 81}}},
		"exposed twice":  {Expose: []runtime.Expose{{HostPort: 1, Port: 80}, {HostPort: 80}}},
		"itself, host":   {Network: runtime.NetworkHost, Publish: []runtime.Publish{{Local: 1, Port: 1}}},
		"exposed, host":  {Network: runtime.NetworkHost, Expose: []runtime.Expose{{HostPort: 1}}},
		"no socket":      {Sockets: []runtime.Socket{{Source: "/etc/passwd"}}},
		"relative":       {Sockets: []runtime.Socket{{Source: "agent"}}},
		"socket in /usr": {Sockets: []runtime.Socket{{Source: "/tmp/x", Target: "/usr/x"}}},
	} {
		if c.Network == runtime.NetworkHost && !e.has(Network) {
			continue
		}
		_, err := e.rt.Create(e.Ctx, c)
		e.Wrong(what, err, runtime.ErrInvalid)
	}
}

// client connects inside to the address of its arguments, sends what it reads, and prints what
// comes back.
const client = `
import socket, sys, threading
if len(sys.argv) == 2: c = socket.socket(socket.AF_UNIX); c.connect(sys.argv[1])
else: c = socket.create_connection((sys.argv[1], int(sys.argv[2])))
def send():
    while True:
        b = sys.stdin.buffer.read(65536)
        if not b: break
        c.sendall(b)
    c.shutdown(socket.SHUT_WR)
t = threading.Thread(target=send); t.start()
while True:
    b = c.recv(65536)
    if not b: break
    sys.stdout.buffer.write(b)
t.join()
`

// resetServer sends a row, and resets the connection after the answer "reset"; after another it
// prints how the connection ends, one that is reset as "reset".
const resetServer = `
import socket, struct
s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(("127.0.0.1", 8080)); s.listen()
print("up", flush=True)
while True:
    c = s.accept()[0]
    try:
        c.sendall(b"row")
        if c.recv(5) == b"reset":
            c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)); c.close()
            continue
        c.sendall(b"row")
        print("ended" if c.recv(1) == b"" else "moved", flush=True)
    except ConnectionResetError: print("reset", flush=True)
`

// A connection that is reset at one end is reset at the other: what was sent before is not all.
func resetPort(e *env) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		e.Fatal(err)
	}
	defer l.Close()
	local, service := e.freePort(), l.Addr().(*net.TCPAddr).Port
	s := e.start(&runtime.SandboxConfig{Publish: []runtime.Publish{{Local: local, Port: 8080}}, Expose: []runtime.Expose{{HostPort: service}}})
	server := e.server(s.ID, resetServer)
	for what, dial := range map[string]func() (net.Conn, error){
		"published": func() (net.Conn, error) { return net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", local)) },
		"dialled":   func() (net.Conn, error) { return e.rt.DialPort(e.Ctx, s.ID, 8080) },
	} {
		for _, word := range []string{"reset", "going"} {
			c, err := dial()
			if err != nil {
				e.Fatal(err)
			}
			_ = c.SetDeadline(time.Now().Add(suite.Limit))
			row := make([]byte, 3)
			if _, err := io.ReadFull(c, row); err != nil {
				e.Fatal(err)
			}
			_, err = io.WriteString(c, word)
			e.OK(err)
			if word == "reset" {
				if _, err := c.Read(row); !errors.Is(err, syscall.ECONNRESET) {
					e.Errorf("%s, the server has reset its connection: %v", what, err)
				}
				_ = c.Close()
				continue
			}
			if _, err := io.ReadFull(c, row); err != nil {
				e.Fatal(err)
			}
			e.OK(c.(interface{ SetLinger(seconds int) error }).SetLinger(0))
			_ = c.Close()
			line := make([]byte, len("reset\n"))
			if _, err := io.ReadFull(server.Stdout(), line); err != nil || string(line) != "reset\n" {
				e.Errorf("%s, the client has reset its connection: the server sees %q, %v", what, line, err)
			}
		}
	}
	// A service of the host.
	go func() { // ends with the listener
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, "row")
			_, _ = c.Read(make([]byte, 1))
			_ = c.(*net.TCPConn).SetLinger(0)
			_ = c.Close()
		}
	}()
	r := e.sh(s.ID, fmt.Sprintf(`/usr/bin/python3 -ISBc 'import socket
c = socket.create_connection(("127.0.0.1", %d)); c.settimeout(60); c.recv(3); c.sendall(b"x")
try: print(c.recv(1))
except ConnectionResetError: print("reset")'`, service))
	if r.ExitCode != 0 || string(r.Stdout) != "reset\n" {
		e.Errorf("the service has reset its connection: exit code %d, %s%s", r.ExitCode, r.Stdout, r.Stderr)
	}
}

// echoes answers connections as echoServer does, on the host.
func echoes(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			_, _ = io.Copy(c, c)
			_ = c.(interface{ CloseWrite() error }).CloseWrite()
		}()
	}
}

// echoed runs client inside, and compares what it prints with what it was given.
func (e *env) echoed(id string, n int, to ...string) {
	e.Helper()
	data := pattern(n)
	ctx, cancel := context.WithTimeout(e.Ctx, suite.Limit)
	defer cancel()
	r, err := e.rt.Exec(ctx, id, &runtime.ExecRequest{
		Command: append([]string{"/usr/bin/python3", "-ISBc", client}, to...), Stdin: bytes.NewReader(data), MaxOutput: n + 1,
	})
	if err != nil {
		e.Fatal(err)
	}
	if r.ExitCode != 0 || string(r.Stdout) != string(data) {
		e.Errorf("%v: exit code %d, %d bytes of %d, %s", to, r.ExitCode, len(r.Stdout), n, r.Stderr)
	}
}

func exposedPort(e *env) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		e.Fatal(err)
	}
	defer l.Close()
	go echoes(l)
	port := l.Addr().(*net.TCPAddr).Port
	gone := e.freePort()
	s := e.start(&runtime.SandboxConfig{Expose: []runtime.Expose{{HostPort: port}, {HostPort: port, Port: 5432}, {HostPort: port, Port: 80}, {HostPort: gone}}})
	e.echoed(s.ID, 8<<20, "127.0.0.1", "5432")
	e.echoed(s.ID, 1000, "127.0.0.1", "80")
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() { e.echoed(s.ID, 10_000, "localhost", fmt.Sprint(port)) })
	}
	all.Wait()
	// Only that service: not the next port, and no address but loopback.
	r := e.sh(s.ID, fmt.Sprintf(`/usr/bin/python3 -ISBc 'import socket; socket.create_connection(("127.0.0.1", %d))'`, port+1))
	if r.ExitCode == 0 {
		e.Error("another port is reached")
	}
	// A service that is not there ends the connection.
	r = e.sh(s.ID, fmt.Sprintf(`/usr/bin/python3 -ISBc 'import socket; c = socket.create_connection(("127.0.0.1", %d)); c.settimeout(30); print(c.recv(1))'`, gone))
	if r.ExitCode == 0 && string(r.Stdout) != "b''\n" {
		e.Errorf("without a service: %q", r.Stdout)
	}
}

func hostSocket(e *env) {
	path := filepath.Join(e.dir(), "agent")
	l, err := net.Listen("unix", path)
	if err != nil {
		e.Fatal(err)
	}
	defer l.Close()
	e.OK(os.Chmod(path, 0o777))
	go echoes(l)
	s := e.start(&runtime.SandboxConfig{Sockets: []runtime.Socket{{Source: path}, {Source: path, Target: "/tmp/new/directory/socket"}}})
	e.echoed(s.ID, 1<<20, "/tmp/agent")
	e.echoed(s.ID, 1000, "/tmp/new/directory/socket")
	// A socket that controls the host must be asked for by force.
	engine := filepath.Join(e.dir(), "docker.sock")
	e.OK(os.Rename(path, filepath.Join(filepath.Dir(path), "podman.sock")))
	e.OK(os.Symlink(filepath.Join(filepath.Dir(path), "podman.sock"), engine))
	_, err = e.rt.Create(e.Ctx, &runtime.SandboxConfig{Sockets: []runtime.Socket{{Source: engine}}})
	e.Wrong("an engine's socket", err, runtime.ErrInvalid)
	forced := e.start(&runtime.SandboxConfig{Sockets: []runtime.Socket{{Source: engine, Target: "/tmp/agent", Force: true}}})
	e.echoed(forced.ID, 1000, "/tmp/agent")
}

// Listening sockets do not keep a sandbox in use; a connection does.
func idleNotWhileConnected(e *env) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		e.Fatal(err)
	}
	defer l.Close()
	port := l.Addr().(*net.TCPAddr).Port
	e.idling(func(timeout time.Duration) bool {
		s := e.start(&runtime.SandboxConfig{Expose: []runtime.Expose{{HostPort: port}}, IdleTimeout: timeout})
		in, is := e.inTime(s.ID, timeout)
		if !is {
			return false
		}
		r, err := e.rt.Exec(e.Ctx, s.ID, &runtime.ExecRequest{Command: []string{"/usr/bin/python3", "-ISBc", `
import os, socket, sys
c = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
if os.fork() == 0:
    os.setsid()
    for fd in 0, 1, 2: os.close(fd)
    c.recv(1); c.close()
os._exit(0)
`, fmt.Sprint(port)}})
		if e.late(err) {
			return false
		}
		if r.ExitCode != 0 {
			e.Fatalf("connect: %s", r.Stderr)
		}
		_ = l.(*net.TCPListener).SetDeadline(time.Now().Add(suite.Limit))
		c, err := l.Accept()
		if err != nil {
			e.Fatal(err)
		}
		defer c.Close()
		if !in() {
			return false
		}
		time.Sleep(timeout + soon)
		if now := e.get(s.ID); now.Expired != "" || now.State != runtime.StateRunning {
			e.Errorf("while a connection is open it is %s, over by %q", now.State, now.Expired)
		}
		_ = c.Close()
		e.expired(s.ID, runtime.ExpiredIdle)
		return true
	})
}
