package nettest

import (
	"strings"
	"testing"

	"wolffia/internal/host/probe"
	"wolffia/internal/test/testenv"
)

// TestFlags: the flag of a refusal allows what was refused, and the log has the refusal with the
// same flag.
func TestFlags(t *testing.T) {
	testenv.Need(t, probe.UserNamespaces, probe.Bubblewrap, probe.Fuse)
	testenv.Tools(t, "curl")
	if !alone(t) {
		return
	}
	w := newWorld(t)
	const get = unset + "curl -sS --fail --max-time 60 "
	for _, c := range []struct {
		name, script, want string
		flags              []string
	}{
		{"lookup", get + "https://a.no.example/hello", "--allow-host a.no.example", []string{"--network", "filtered"}},
		{"proxy", get + "--noproxy '' --proxy http://127.64.0.1:3128 https://b.no.example/hello", "--allow-host b.no.example", []string{"--network", "filtered"}},
		{"proxy port", get + "--noproxy '' --proxy http://127.64.0.1:3128 http://c.no.example:8080/hello", "--allow-host c.no.example:8080", []string{"--network", "filtered"}},
		{"socks", get + "--noproxy '' --socks5-hostname 127.64.0.1:1080 http://d.no.example:8080/hello", "--allow-host d.no.example:8080", []string{"--network", "filtered"}},
		{"port", get + "http://e.no.example:8080/hello", "--allow-host e.no.example:8080", []string{"--allow-host", "e.no.example", "--allow-host", "f.no.example:8080"}},
		{"private", get + "http://ten.ok.example/hello", "--allow-host ten.ok.example@private", []string{"--allow-host", "*.ok.example"}},
		{"loopback", get + "https://loop.ok.example/hello", "--add-host loop.ok.example:127.0.0.1", []string{"--allow-host", "*.ok.example"}},
		{"own", get + "https://own.ok.example/hello", "--add-host own.ok.example:" + own, []string{"--allow-host", "*.ok.example"}},
		{"private IPv6", get + "https://ula.ok.example/hello", "--allow-host ula.ok.example@private", []string{"--allow-host", "*.ok.example"}},
		{"server name", get + "--connect-to g.no.example:443:h.no.example:443 https://g.no.example/hello", "--no-sni-check h.no.example", []string{"--allow-host", "h.no.example"}},
		{"host", get + "-H 'Host: g.no.example' http://i.no.example/hello", "--no-sni-check i.no.example", []string{"--allow-host", "i.no.example"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := w.create(t, "bwrap", c.flags...)
			r := s.sh(t, c.script)
			if r.ExitCode == 0 || len(r.Refused) == 0 {
				t.Fatalf("not refused: %v", r)
			}
			if r.Refused[0].Allow != c.want {
				t.Errorf("want the flag %q: %v", c.want, r)
			}
			if log := s.must(t, "audit", "--json", s.id); !strings.Contains(log, `"`+r.Refused[0].Allow+`"`) {
				t.Errorf("the log has no %q: %s", r.Refused[0].Allow, log)
			}
			again := w.create(t, "bwrap", append(c.flags, strings.Fields(r.Refused[0].Allow)...)...)
			if r := again.sh(t, c.script); r.ExitCode != 0 || !strings.Contains(r.Stdout, "hello from") {
				t.Errorf("with %s: %v", c.want, r)
			}
		})
	}
}

// TestLive: a name that is allowed while the sandbox runs can be reached at once, and one that is
// denied cannot, by connections that exist either.
func TestLive(t *testing.T) {
	testenv.Need(t, probe.UserNamespaces, probe.Bubblewrap, probe.Fuse)
	testenv.Tools(t, python, "curl")
	if !alone(t) {
		return
	}
	w := newWorld(t)
	s := w.create(t, "bwrap", "--network", "filtered")
	const get = unset + "curl -sS --fail --max-time 60 http://a.no.example:8080/hello"
	// Holds a connection until the other end closes it.
	const hold = `import socket, sys
s = socket.create_connection(("a.no.example", 7007), timeout=60)
s.sendall(b"x")
assert s.recv(1) == b"x"
open("held", "w").close()
try:
    print(s.recv(1))
except ConnectionResetError:
    print(b"")`
	if r := s.sh(t, get); r.ExitCode == 0 {
		t.Fatalf("before: %v", r)
	}
	s.must(t, "network", "allow", s.id, "a.no.example:7007,8080")
	if r := s.sh(t, get); r.ExitCode != 0 {
		t.Fatalf("allowed: %v", r)
	}
	held := make(chan *result, 1)
	go func() {
		defer close(held)
		held <- s.sh(t, "cd /tmp; mkfifo held; exec /usr/bin/python3 -c '"+hold+"'")
	}()
	if r := s.sh(t, "cd /tmp; until test -p held; do :; done; cat held"); r.ExitCode != 0 { // ends when the connection is there
		t.Fatalf("held: %v", r)
	}
	s.must(t, "network", "deny", s.id, "a.no.example:7007,8080")
	if r := <-held; r == nil || r.ExitCode != 0 || r.Stdout != "b''\n" {
		t.Errorf("the connection ends with %v", r)
	}
	if r := s.sh(t, get); r.ExitCode == 0 || len(r.Refused) == 0 {
		t.Errorf("denied: %v", r)
	}
}
