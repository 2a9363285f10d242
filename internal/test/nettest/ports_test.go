package nettest

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"wolffia/internal/host/probe"
	"wolffia/internal/test/testenv"
)

// TestPorts: programs use a service of the host's loopback, an ssh agent, and a server inside, and
// reach nothing else by them.
func TestPorts(t *testing.T) {
	testenv.Need(t, probe.UserNamespaces, probe.Bubblewrap, probe.Fuse)
	testenv.Tools(t, python, "curl")
	if alone(t) {
		tryPorts(t, "bwrap")
	}
}

// TestPortsInGvisor is TestPorts with another kernel.
func TestPortsInGvisor(t *testing.T) {
	testenv.Need(t, probe.UserNamespaces, probe.Fuse, probe.Runsc)
	testenv.Tools(t, python, "curl")
	if alone(t) {
		tryPorts(t, "gvisor")
	}
}

// TestPortsInDocker is TestPorts in an engine.
func TestPortsInDocker(t *testing.T) {
	testenv.Root(t)
	testenv.Tools(t, "dockerd", python, "curl")
	if alone(t) {
		testenv.Need(t, probe.Docker)
		tryPorts(t, "docker")
	}
}

// published is a port of the test's own network namespace.
const published = 18000

func tryPorts(t *testing.T, backend string) {
	t.Helper()
	w := newWorld(t)
	flags := []string{"--expose", fmt.Sprintf("%d:9000", webPort), "--expose", fmt.Sprintf("%d:9007", echoPort), "--publish", fmt.Sprintf("%d:8000", published)}
	agent := w.agent(t)
	if agent != "" {
		w.env = append(w.env, "SSH_AUTH_SOCK="+agent)
		flags = append(flags, "--socket", agent)
	}
	s := w.create(t, backend, flags...)
	for name, script := range map[string]string{
		"HTTP":       `curl -sS --fail --max-time 60 http://127.0.0.1:9000/hello http://localhost:9000/big -o /dev/null -o big && wc -c <big | grep -qx 8388608`,
		"WebSocket":  `/usr/bin/python3 /conf/websocket.py 127.0.0.1 9000`,
		"half-close": `/usr/bin/python3 -c 'import socket; c = socket.create_connection(("127.0.0.1", 9007), timeout=60); c.sendall(b"x" * 100000); c.shutdown(socket.SHUT_WR); assert len(c.makefile("rb").read()) == 100000'`,
	} {
		t.Run("expose "+name, func(t *testing.T) {
			if r := s.sh(t, "set -e; cd \"$(mktemp -d)\"\n"+script); r.ExitCode != 0 {
				t.Errorf("sh: got r %v; want r.ExitCode == 0", r)
			}
		})
	}
	t.Run("nothing else", func(t *testing.T) {
		r := s.sh(t, `/usr/bin/python3 -c '
import socket
for address in ["127.0.0.1", "::1", "127.0.0.2", "45.45.45.10", "45.45.46.1", "10.1.2.3", "169.254.169.254"]:
    for port in [22, 80, 443, 7007, 8080, 9000, 9007]:
        try:
            socket.create_connection((address, port), timeout=20).close()
            print(address, port)
        except OSError:
            pass
'`)
		if r.ExitCode != 0 || strings.TrimSpace(r.Stdout) != "127.0.0.1 9000\n127.0.0.1 9007" {
			t.Errorf("sh: got r %v; want r.ExitCode == 0 and strings.TrimSpace(r.Stdout) == %q", r, "127.0.0.1 9000\n127.0.0.1 9007")
		}
	})
	t.Run("publish", func(t *testing.T) {
		w.must(t, "exec", "--session", "server", s.id, "--", "cd /conf; /usr/bin/python3 -m http.server 8000 --bind 127.0.0.1 >/tmp/log 2>&1 &")
		ctx, cancel := context.WithTimeout(t.Context(), slow)
		defer cancel()
		wait := exec.CommandContext(ctx, w.wolffia, "forward", "--wait", s.id, "18001:8000") // the word that it is up
		wait.Env, wait.WaitDelay = w.env, time.Second
		out, err := wait.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := wait.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(out, make([]byte, 1)); err != nil {
			t.Fatalf("forward says nothing: %v", err)
		}
		for _, port := range []int{published, 18001} {
			answer, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/package.json", port))
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(answer.Body)
			_ = answer.Body.Close()
			if err != nil || !strings.Contains(string(text), `"dep"`) {
				t.Errorf("port %d: %q, %v", port, text, err)
			}
			if c, err := net.Dial("tcp", net.JoinHostPort(own, fmt.Sprint(port))); err == nil {
				_ = c.Close()
				t.Errorf("port %d is open at another address than the loopback", port)
			}
		}
		cancel()
		_ = wait.Wait()
	})
	t.Run("agent", func(t *testing.T) {
		if os.Geteuid() == 0 {
			t.Skip("another user's agent")
		}
		if agent == "" {
			t.Skip(leftOut + "an ssh agent (Debian: openssh-client)")
		}
		r := s.sh(t, `ssh-add -L; ssh-add -D 2>/dev/null; ls "$SSH_AUTH_SOCK"`)
		if !strings.HasPrefix(r.Stdout, "ssh-ed25519 ") || !strings.Contains(r.Stdout, "/tmp/") {
			t.Errorf(`sh %q: got r %v; want r.Stdout begins with "ssh-ed25519 " and r.Stdout contains "/tmp/"`,
				`ssh-add -L; ssh-add -D 2>/dev/null; ls "$SSH_AUTH_SOCK"`, r)
		}
	})
	t.Run("engine", func(t *testing.T) {
		path := filepath.Join(filepath.Dir(w.conf), "docker.sock")
		l, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		if _, said, code := w.call(t, "run", "--no-config", "--no-codebase", "--runtime", backend, "--socket", path, "--", "true"); code == 0 || !strings.Contains(said, "--socket-force") {
			t.Errorf("exit code %d: %s", code, said)
		}
	})
}

// agent starts an ssh agent with a key until the end of the test, and returns its socket; empty: there
// is none.
func (w *world) agent(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("ssh-agent"); err != nil || os.Geteuid() == 0 { // root drops to another user, whom root's agent does not serve
		return ""
	}
	dir := filepath.Dir(w.conf)
	key := filepath.Join(dir, "keys", "agent")
	if text, err := exec.CommandContext(t.Context(), "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key).CombinedOutput(); err != nil {
		t.Fatalf("ssh-keygen: %v: %s", err, text)
	}
	path := filepath.Join(dir, "a")
	cmd := exec.CommandContext(t.Context(), "ssh-agent", "-D", "-a", path)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = cmd.Process.Kill(), cmd.Wait() })
	if _, err := io.ReadFull(out, make([]byte, 1)); err != nil { // it says its socket when it listens
		t.Fatal(err)
	}
	add := exec.CommandContext(t.Context(), "ssh-add", "-q", key)
	add.Env = append(w.env, "SSH_AUTH_SOCK="+path)
	if text, err := add.CombinedOutput(); err != nil {
		t.Fatalf("ssh-add: %v: %s", err, text)
	}
	return path
}
