package docker_test

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"wolffia/internal/test/dockertest"
	"wolffia/internal/test/testenv"
	"wolffia/internal/test/wait"
	"wolffia/network"
	"wolffia/runtime"
)

// Connections do not pass PID 1: while it is stopped, programs inside connect and talk.
func TestNetworkPastInit(t *testing.T) {
	testenv.Both(t)
	need(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := l.Addr().(*net.TCPAddr).Port
	rt := fresh(t)
	s := start(t, rt, &runtime.SandboxConfig{
		Network: runtime.NetworkFiltered,
		Egress:  &network.Policy{Allow: []string{fmt.Sprintf("server.example:%d", port)}, Hosts: map[string]string{"server.example": "127.0.0.1"}},
	})
	// Nothing is left by which a program could take PID 1's place.
	if left := sh(t, rt, s.ID, "ls -A /run/wolffia/hand; cat /proc/net/unix | grep -c hand/ || true"); strings.TrimSpace(left) != "0" {
		t.Errorf("left inside: %q", left)
	}
	script := fmt.Sprintf(`while exec 3<>/dev/tcp/server.example/%d; do read -r line <&3; echo "got $line" >&3; exec 3>&-; done`, port)
	p, err := rt.StartProcess(t.Context(), s.ID, &runtime.Command{Command: []string{"bash", "-c", script}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	talk := func(word string) {
		t.Helper()
		if err := l.(*net.TCPListener).SetDeadline(time.Now().Add(wait.Limit)); err != nil {
			t.Fatal(err)
		}
		c, err := l.Accept()
		if err != nil {
			t.Fatalf("%s: %v", word, err)
		}
		defer c.Close()
		if err := c.SetDeadline(time.Now().Add(wait.Limit)); err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Fprintln(c, word); err != nil {
			t.Fatalf("%s: %v", word, err)
		}
		if got, err := bufio.NewReader(c).ReadString('\n'); got != "got "+word+"\n" {
			t.Fatalf("ReadString: got word %s, %q, err %v; want got == %q", word, got, err, "got "+word+"\n")
		}
	}
	talk("before")
	dockertest.Docker(t, "kill", "--signal=STOP", "wolffia-"+s.ID)
	for i := range 3 {
		talk(fmt.Sprintf("stopped %d", i))
	}
	dockertest.Docker(t, "kill", "--signal=CONT", "wolffia-"+s.ID)
	talk("after")
	if err := rt.Stop(t.Context(), s.ID); err != nil {
		t.Fatal(err)
	}
	destroy(t, rt, s.ID)
}
