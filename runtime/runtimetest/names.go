package runtimetest

import (
	"fmt"
	"io"
	"net"
	"strings"

	"wolffia/network"
	"wolffia/runtime"
)

// A network that names filter.
var nameTests = []test{
	{"NamesReached", []Feature{Names}, namesReached},
	{"NamesRefused", []Feature{Names}, namesRefused},
	{"NamesInvalid", []Feature{Names}, namesInvalid},
}

// origin is a server on the host's loopback that answers each connection with what it sends. It
// returns its port.
func (e *env) origin() int {
	e.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	e.OK(err)
	e.Cleanup(func() { _ = l.Close() })
	go func() { // ends with the listener
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { // ends with the connection
				defer c.Close()
				_, _ = io.Copy(c, c)
				_ = c.(*net.TCPConn).CloseWrite()
			}()
		}
	}()
	return l.Addr().(*net.TCPAddr).Port
}

// echoClient exchanges data over many connections to a name, half-closing each.
const echoClient = `
import socket, threading
def exchange(data):
    c = socket.create_connection((%q, %d), timeout=60)
    def send():
        c.sendall(data); c.shutdown(socket.SHUT_WR)
    t = threading.Thread(target=send); t.start()
    got = bytearray()
    while True:
        b = c.recv(1 << 16)
        if not b: break
        got += b
    t.join()
    assert got == data, (len(got), len(data))
    c.close()
exchange(bytes(range(256)) * 16384)
failed = []
def small():
    try: exchange(b"small" * 5000)
    except BaseException as e: failed.append(repr(e))
all = [threading.Thread(target=small) for _ in range(100)]
[t.start() for t in all]; [t.join() for t in all]
print(failed[:3] or "all are back")
`

// A name that leads to the host's loopback by explicit consent, for programs that know of no
// proxy.
func namesReached(e *env) {
	port := e.origin()
	s := e.start(&runtime.SandboxConfig{Network: runtime.NetworkFiltered, Egress: &network.Policy{
		Allow: []string{fmt.Sprintf("echo.example:%d", port)}, Hosts: map[string]string{"echo.example": "127.0.0.1"},
	}})
	if s.Network != runtime.NetworkFiltered {
		e.Errorf("the network is %q", s.Network)
	}
	if got := e.python(s.ID, fmt.Sprintf(echoClient, "echo.example", port)); got != "all are back\n" {
		e.Errorf("python: got %s, want %q", got, "all are back\n")
	}
	e.prints(s.ID, `echo "$HTTP_PROXY $https_proxy $no_proxy [$ALL_PROXY$all_proxy]"`, "http://127.64.0.1:3128 http://127.64.0.1:3128 localhost,127.0.0.1,127.0.0.0/8,::1,[::1],0.0.0.0,"+string(s.ID)+" []\n")
	r := e.exec(s.ID, &runtime.ExecRequest{Command: []string{"true"}})
	if r.Refused != nil {
		e.Errorf("refused: %+v", r.Refused)
	}
	e.OK(e.rt.Stop(e.Ctx, s.ID))
	e.OK(e.rt.Start(e.Ctx, s.ID))
	if got := e.python(s.ID, fmt.Sprintf(echoClient, "ECHO.example.", port)); got != "all are back\n" {
		e.Errorf("after a restart: %s", got)
	}
}

// refusedClient tries what no rule allows, and prints what works.
const refusedClient = `
import socket
port = %d
def no(what, f):
    try: f()
    except OSError: return
    print(what)
no("another name", lambda: socket.getaddrinfo("other.example", port))
no("below it", lambda: socket.getaddrinfo("a.echo.example", port))
no("IPv6", lambda: socket.getaddrinfo("echo.example", port, socket.AF_INET6))
a = socket.gethostbyname("echo.example")
no("another port", lambda: socket.create_connection((a, 1 if port != 1 else 2), timeout=10))
def reads(a):
    c = socket.create_connection((a, port), timeout=10)
    c.sendall(b"x")
    if not c.recv(1): raise OSError("closed")
no("an address without a name", lambda: reads("127.65.0.1"))
no("the loopback's own address", lambda: reads("127.0.0.1"))
print(a)
`

// What no rule allows is refused, and the result names it with the flag that would allow it.
func namesRefused(e *env) {
	port := e.origin()
	s := e.start(&runtime.SandboxConfig{Network: runtime.NetworkFiltered, Egress: &network.Policy{
		Allow: []string{fmt.Sprintf("echo.example:%d", port)}, Hosts: map[string]string{"echo.example": "127.0.0.1"},
	}})
	if got := e.python(s.ID, fmt.Sprintf(refusedClient, port)); !strings.HasPrefix(got, "127.64.") {
		e.Errorf("python: got %s; want got begins with 127.64.", got)
	}
	r := e.exec(s.ID, &runtime.ExecRequest{Command: []string{"getent", "ahosts", "third.example"}})
	if r.ExitCode == 0 || len(r.Refused) != 1 {
		e.Fatalf("%+v, refused %+v", r, r.Refused)
	}
	got := r.Refused[0]
	if got.Op != "lookup" || got.Name != "third.example" || got.Reason == "" || got.Allow != "--allow-host third.example" || got.Count < 1 || got.Time.IsZero() {
		e.Errorf(`got %+v; want got.Op == "lookup" and got.Name == "third.example" and got.Reason != "" and got.Allow == "--allow-host third.example" and got.Count >= 1 and not got.Time.IsZero()`,
			got)
	}
	none := e.start(&runtime.SandboxConfig{Network: runtime.NetworkFiltered})
	if r := e.sh(none.ID, "getent ahosts echo.example"); r.ExitCode == 0 {
		e.Errorf("without names: %s", r.Stdout)
	}
}

func namesInvalid(e *env) {
	for what, c := range map[string]*runtime.SandboxConfig{
		"names without their network": {Egress: &network.Policy{Allow: []string{"a.example"}}},
		"names and the host's":        {Network: runtime.NetworkHost, Egress: new(network.Policy)},
		"an address":                  {Network: runtime.NetworkFiltered, Egress: &network.Policy{Allow: []string{"192.0.2.1"}}},
		"a relative file": {Network: runtime.NetworkFiltered, Egress: &network.Policy{
			Headers: []network.Header{{Name: "a.example", Header: "Authorization", File: "token"}},
		}},
	} {
		_, err := e.rt.Create(e.Ctx, c)
		e.Wrong(what, err, runtime.ErrInvalid)
	}
}
