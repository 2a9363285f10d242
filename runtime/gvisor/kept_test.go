package gvisor_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"wolffia/image/store"
	"wolffia/internal/host/probe"
	"wolffia/internal/test/testenv"
	"wolffia/internal/test/testimage"
	"wolffia/internal/test/wait"
)

// A program with 200 MB of random data and a shell on a terminal: it answers with the data's sum, and
// with what a line of the shell prints.
const holder = `
import hashlib, http.server, os, pty, urllib.parse
data = os.urandom(200 << 20)
pid, shell = pty.fork()
if pid == 0:
    os.execvp("env", ["env", "TERM=dumb", "bash", "--norc", "-i"])
class H(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        query = urllib.parse.unquote(self.path[2:])
        if query:
            os.write(shell, (query + "; echo E''ND\n").encode())
            said = b""
            while b"\nEND\r" not in said:
                said += os.read(shell, 1000)
            answer = said.replace(b"\r", b"")
        else:
            answer = hashlib.md5(data).hexdigest().encode()
        self.send_response(200); self.end_headers(); self.wfile.write(answer)
    def log_message(self, *a): pass
s = http.server.HTTPServer(("127.0.0.1", 3001), H)
open("/tmp/holds", "w").close()
s.serve_forever()
`

// hits counts how often it was asked, in JavaScript.
const hits = `let hits = 0;
require("http").createServer((q, a) => a.end("hit " + ++hits)).listen(3002, "127.0.0.1", () => require("fs").writeFileSync("/tmp/hits", ""))`

// asks prints the answer of a server inside.
func asks(port int, query string) string {
	return fmt.Sprintf(`python3 -ISc 'import sys, urllib.parse, urllib.request as u; print(u.urlopen("http://127.0.0.1:%d/?" + urllib.parse.quote(sys.argv[1])).read().decode())' '%s'`, port, query)
}

// Programs with much in memory, with a terminal, and of another language go on, in a fork, after a
// hibernation, and from a snapshot.
func TestProgramsInMemory(t *testing.T) {
	need(t)
	testenv.Tools(t, "node", "python3")
	c := newCLI(t)
	c.run("create", "--runtime", "gvisor", "--name", "box")
	c.in("box", "cat >/tmp/holder.py <<'END'"+holder+"END\ncat >/tmp/hits.js <<'END'\n"+hits+
		"\nEND\npython3 -IS /tmp/holder.py & node /tmp/hits.js & until [ -e /tmp/holds ] && [ -e /tmp/hits ]; do sleep 0.05; done")
	sum := c.in("box", asks(3001, ""))
	if len(sum) != 32 {
		t.Fatalf("the sum of the data is %q", sum)
	}
	c.in("box", asks(3001, "Y=7; tty"))
	c.is("box", asks(3002, ""), "hit 1")
	goesOn := func(box string, hit int) {
		t.Helper()
		c.is(box, asks(3001, ""), sum)
		c.is(box, asks(3002, ""), fmt.Sprintf("hit %d", hit))
		if got := c.in(box, asks(3001, "echo $Y; test -t 0 && stty size")); !strings.Contains(got, "\n7\n") {
			t.Errorf("%s: the shell on a terminal prints %q; want 7", box, got)
		}
	}
	c.run("snapshot", "create", "--memory", "box", "one")
	c.run("fork", "--memory", "--name", "try", "box")
	goesOn("try", 2)
	c.run("pause", "--hibernate", "box")
	goesOn("box", 2)
	c.run("stop", "box")
	c.run("snapshot", "restore", "box", "one")
	c.run("start", "box")
	goesOn("box", 2)
}

// The host's ports reach inside and outside, names are filtered, and the time to live counts on,
// after a hibernation and from a snapshot; a fork leaves the published port to the first.
func TestNetworkFromMemory(t *testing.T) {
	need(t)
	testenv.Tools(t, "python3")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	host := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "the host") })}
	go func() { _ = host.Serve(l) }() // ends with Close
	defer host.Close()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	published := free.Addr().(*net.TCPAddr).Port
	_ = free.Close()
	c := newCLI(t)
	c.run("create", "--runtime", "gvisor", "--name", "box", "--allow-host", "one.example", "--ttl", "1h",
		"--expose", fmt.Sprintf("%d:9000", l.Addr().(*net.TCPAddr).Port), "--publish", fmt.Sprintf("%d:3000", published))
	c.startServer("box")
	reached := 0
	goesOn := func(box string) {
		t.Helper()
		c.is(box, asks(9000, ""), "the host")
		c.is(box, "getent hosts one.example >/dev/null && ! getent hosts two.example && echo filtered", "filtered")
		if text := c.run("inspect", box); !strings.Contains(text, `"expiresAt"`) {
			t.Errorf("%s: the time to live is lost: %s", box, text)
		}
	}
	port := func() {
		t.Helper()
		reached++
		client := &http.Client{Timeout: wait.Limit, Transport: &http.Transport{DisableKeepAlives: true}}
		r, err := client.Get(fmt.Sprintf("http://127.0.0.1:%d", published))
		if err != nil {
			t.Errorf("the published port: %v", err)
			return
		}
		defer r.Body.Close()
		if got, err := io.ReadAll(r.Body); err != nil || string(got) != fmt.Sprintf("hit %d", reached) {
			t.Errorf("the published port: got %q, %v; want hit %d", got, err, reached)
		}
	}
	goesOn("box")
	port()
	c.run("snapshot", "create", "--memory", "box", "one")
	c.run("fork", "--memory", "--name", "try", "box")
	c.is("try", asks(9000, ""), "the host")
	c.is("try", asks(3000, ""), "hit 2") // the fork's own
	port()
	c.run("pause", "--hibernate", "box")
	goesOn("box")
	port()
	c.run("stop", "box")
	c.run("snapshot", "restore", "box", "one")
	c.run("start", "box")
	reached = 1
	goesOn("box")
	port()
	c.run("touch", "--ttl", "2s", "box")
	c.run("pause", "--hibernate", "box")
	wait.For(t, "the end of one that hibernates", func() string { return c.run("ls", "-q") },
		func(list string) bool { return len(strings.Fields(list)) == 1 })
}

// A disk without room for the memory is named, and the sandbox runs on with all that it has.
func TestMemoryOnFullDisk(t *testing.T) {
	need(t)
	disk := testenv.OnSmallDisk(t, "64m")
	if disk == nil {
		return
	}
	c := newCLIAt(t, disk.Dir)
	id := c.run("create", "--runtime", "gvisor", "--cow")
	c.in(id, "X=5; head -c 100M /dev/urandom >/dev/shm/data; sum=$(md5sum </dev/shm/data)")
	for range 2 {
		for _, args := range [][]string{{"pause", "--hibernate", id}, {"snapshot", "create", "--memory", id, "one"}, {"fork", "--memory", id}} {
			c.fails("has no room", args...)
			c.is(id, `[ "$sum" = "$(md5sum </dev/shm/data)" ] && echo $X`, "5")
		}
	}
	if list := strings.Fields(c.run("ls", "-q")); len(list) != 1 {
		t.Errorf("failed forks leave %q", list)
	}
	c.in(id, "rm /dev/shm/data")
	c.run("pause", "--hibernate", id)
	c.is(id, "echo $X", "5")
}

// A sandbox with root inside, or on an image, hibernates with what it has changed, and has removed and
// holds open; a fork with its memory is refused, by name.
func TestHibernateOnImage(t *testing.T) {
	testenv.Both(t)
	need(t)
	testenv.Busybox(t)
	for name, flags := range map[string][]string{"root": {"--root"}, "image": {"--image", "busybox:1"}} {
		t.Run(name, func(t *testing.T) {
			c := newCLI(t)
			if name == "image" {
				layer := testimage.Layer(t, testimage.Busybox(t)...)
				c.run("image", "import", testimage.Archive(t, "busybox:1", store.Config{Env: []string{"PATH=/bin"}, Cmd: []string{"sh"}}, layer))
			} else {
				testenv.Need(t, probe.SubIDs)
			}
			id := c.run(append([]string{"create", "--runtime", "gvisor"}, flags...)...)
			c.in(id, "X=5; mkdir -p /opt/d; cd /opt/d; echo own >own; echo gone >gone; exec 7<gone; rm gone")
			for i := range 2 {
				c.run("pause", "--hibernate", id)
				if list := c.run("ls"); !strings.Contains(list, "hibernated") {
					t.Errorf("ls: %s", list)
				}
				c.is(id, "echo $X $PWD $(cat own); echo $(ls); touch more"+fmt.Sprint(i), []string{"5 /opt/d own\nown", "5 /opt/d own\nmore0 own"}[i])
			}
			c.is(id, "cat <&7", "gone")
			c.fails("wolffia pause --hibernate", "fork", "--memory", id)
			c.fails("wolffia pause --hibernate", "snapshot", "create", "--memory", id, "one")
		})
	}
}
