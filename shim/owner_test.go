package shim

import (
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
)

// The owner of a socket is found by its ends, of each kind of socket; here it is this process.
func TestOwner(t *testing.T) {
	l, err := net.Listen("tcp", ":0") // of both families
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	at := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), uint16(l.Addr().(*net.TCPAddr).Port))
	c, err := net.Dial("tcp4", at.String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	server, err := l.Accept() // in the table of IPv6
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	connected, err := net.Dial("udp4", at.String())
	if err != nil {
		t.Fatal(err)
	}
	defer connected.Close()
	open, err := net.ListenPacket("udp4", ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	end := func(a net.Addr) netip.AddrPort { return netip.MustParseAddrPort(a.String()) }
	unbound := netip.AddrPortFrom(at.Addr(), end(open.LocalAddr()).Port())
	for what, ends := range map[string][2]netip.AddrPort{
		"TCP": {end(c.LocalAddr()), at}, "TCP of both families": {at, end(c.LocalAddr())},
		"UDP": {end(connected.LocalAddr()), at}, "UDP that is not connected": {unbound, at},
	} {
		pid, program := owner(os.Getpid(), ends[0], ends[1])
		if pid != os.Getpid() || !strings.HasPrefix(program, "shim.test") {
			t.Errorf("%s: process %d, %q", what, pid, program)
		}
	}
	if pid, _ := owner(os.Getpid(), at, netip.MustParseAddrPort("127.0.0.9:9")); pid != 0 {
		t.Errorf("a socket that does not exist: process %d", pid)
	}
}

// A search for an owner ends before it has looked at all that the sandbox has.
func TestOwnerBounded(t *testing.T) {
	runtime.LockOSThread() // the children of one thread are listed in the order in which they began
	defer runtime.UnlockOSThread()
	socket, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	at := netip.MustParseAddrPort(socket.LocalAddr().String())
	file, err := socket.(*net.UDPConn).File()
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := socket.Close(); err != nil { // the descriptor of file stays, and is given away
		t.Fatal(err)
	}
	sleeper := func(files ...*os.File) *exec.Cmd {
		c := exec.Command("sleep", "600")
		c.ExtraFiles = files
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _, _ = c.Process.Kill(), c.Wait() })
		return c
	}
	const fds = 500
	var many []*os.File
	for range fds {
		many = append(many, null)
	}
	for range maxOwnerSteps/fds + 1 {
		sleeper(many...)
	}
	last := sleeper(file)
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	if pid, _ := owner(last.Process.Pid, at, netip.AddrPort{}); pid != last.Process.Pid {
		t.Errorf("process %d has the socket, not %d", last.Process.Pid, pid)
	}
	if pid, _ := owner(os.Getpid(), at, netip.AddrPort{}); pid != 0 {
		t.Errorf("process %d was found after more than %d descriptors", pid, maxOwnerSteps)
	}
}
