package gittable_test

import (
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"wolffia/fusefs"
	"wolffia/fusefs/fusemount"
	"wolffia/internal/probe"
	"wolffia/internal/test/mounttest"
	"wolffia/internal/test/testenv"
	"wolffia/perm"
	"wolffia/policy"
)

// A test of the tree runs in two processes: see package mounttest. The parent makes the codebase
// and the rules, and runs what the user runs on the codebase itself. The child is the inside: it
// sees the codebase through the mount only, and asks the parent for what the host is to do.

// Places are the directories of a test.
type places struct {
	Mount string // the codebase as it is seen inside
	Host  string // and on the host
	Marks string // a directory of marks, outside of the codebase
	State string // the state directory

	Life int // which of the lives the child is
}

// An inside is a life of a sandbox, as seen by what runs in it.
type inside struct {
	places
	m   marks
	enc *json.Encoder
	dec *json.Decoder
}

// at returns the path of name in the mount.
func (c *inside) at(name ...string) string {
	return filepath.Join(append([]string{c.Mount}, name...)...)
}

// An order is what the host is asked for.
type order struct {
	Do      string // as in host.do
	Dir     string // relative to the codebase
	Script  string
	Content []byte
}

// host has the host do something.
func (c *inside) host(t testing.TB, o order) string {
	t.Helper()
	var said string
	err := c.enc.Encode(o)
	if err == nil {
		err = c.dec.Decode(&said)
	}
	if err != nil {
		t.Fatal(err)
	}
	return said
}

// run runs a shell script inside, in a directory of the mount.
func (c *inside) run(t testing.TB, dir, script string) string {
	t.Helper()
	return sh(t, c.at(dir), script, "HOST="+c.Host, "ROOT="+c.Mount, "MARKS="+c.Marks+"/bin")
}

// lives runs each of uses inside a sandbox of its own, one after the other, over the
// codebase that fill makes on the host.
func lives(t *testing.T, fill func(t *testing.T, host string, m marks), uses ...func(t *testing.T, c *inside)) {
	t.Helper()
	t.Parallel()
	var p places
	if conn := mounttest.Inside(t, &p, func() (*os.File, error) { return mountAndHide(p) }); conn != nil {
		c := &inside{places: p, m: marks{p.Marks}, enc: json.NewEncoder(conn), dec: json.NewDecoder(conn)}
		uses[p.Life](t, c)
		return
	}
	testenv.Tools(t, "git")
	testenv.Need(t, probe.Fuse, probe.UserNamespaces)
	base := t.TempDir()
	p = places{Mount: filepath.Join(base, "workspace"), Host: filepath.Join(base, "host"), Marks: filepath.Join(base, "marks"), State: filepath.Join(base, "state")}
	for _, dir := range []string{p.Mount, p.Host} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	m := newMarks(t, p.Marks)
	t.Cleanup(func() { sh(t, p.Host, "chmod -R u+rwX .") }) // the inside can close directories
	fill(t, p.Host, m)
	if t.Failed() {
		return
	}
	for p.Life = range uses {
		live(t, p, m)
	}
}

// live starts the child and serves it until it ends.
func live(t *testing.T, p places, m marks) {
	made, err := policy.For(t.Context(), p.Host, &policy.Options{StateDir: p.State})
	if err != nil {
		t.Fatal(err)
	}
	rules, err := perm.Compile(made.Rules)
	if err != nil {
		t.Fatal(err)
	}
	child := mounttest.Start(t, p)
	root, err := os.Open(p.Host)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	srv, err := fusefs.Serve(child.Ctx, child.Device, serveOptions(int(root.Fd()), rules, p))
	if err != nil {
		t.Fatal(err)
	}
	var hosts sync.WaitGroup
	hosts.Go(func() { beHost(t, child.Conn, p, m) }) // ends when the child closes its end
	child.Wait(t, func() { hosts.Wait(); srv.Wait() })
}

// serveOptions are those of the tree server of a sandbox.
func serveOptions(root int, rules *perm.Policy, p places) *fusefs.Options {
	const fds = 1000 // several servers share this process's limit
	return &fusefs.Options{
		Root: root, Rules: rules, Owner: fusefs.Owner{UID: mounttest.UID, GID: mounttest.UID}, FDs: fds,	}
}

// beHost does what it is asked for until nobody is there to ask.
func beHost(t *testing.T, conn net.Conn, p places, m marks) {
	in, out := json.NewDecoder(conn), json.NewEncoder(conn)
	h := &host{TB: t, places: p, m: m}
	for {
		var o order
		if in.Decode(&o) != nil {
			return
		}
		if out.Encode(h.do(o)) != nil {
			return
		}
	}
}

// mountAndHide mounts the tree, and hides the codebase itself and the state directory.
func mountAndHide(p places) (*os.File, error) {
	dev, err := fusemount.Mount(p.Mount, nil)
	for _, dir := range []string{p.Host, p.State} {
		if err == nil {
			err = unix.Mount("tmpfs", dir, "tmpfs", 0, "")
		}
	}
	return dev, err
}
