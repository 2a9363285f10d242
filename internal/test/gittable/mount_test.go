package gittable_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/fusefs"
	"wolffia/internal/probe"
	"wolffia/internal/test/testenv"
	"wolffia/perm"
	"wolffia/policy"
)

// A test of the tree runs in two processes. The parent is the host: it makes the
// codebase and the rules, serves the tree, and runs what the user runs on the codebase
// itself. The child, this program again in namespaces of its own, is the inside: it
// mounts the tree, gives up what it took to do so, and sees the codebase through the
// mount only. It asks the parent over a socket for what the host is to do.

const (
	childEnv  = "WOLFFIA_GITTABLE_CHILD" // the JSON of places
	testLimit = 4 * time.Minute
	clientUID = 1000 // in the child's user namespace
)

// Places are the directories of a test.
type places struct {
	Mount string // the codebase as it is seen inside
	Host  string // and on the host
	Marks string // a directory of marks, outside of the codebase
	State string // the state directory

	Life    int  // which of the lives the child is
	Mounted bool // it is, and there is no right to do so any more
}

// An inside is a life of a sandbox, as seen by what runs in it.
type inside struct {
	places
	m    marks
	conn net.Conn
	enc  *json.Encoder
	dec  *json.Decoder
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
func (c *inside) run(t testing.TB, dir, script string, env ...string) string {
	t.Helper()
	return sh(t, c.at(dir), script, append([]string{"HOST=" + c.Host, "ROOT=" + c.Mount, "MARKS=" + c.Marks + "/bin"}, env...)...)
}

// lives runs each of uses inside a sandbox of its own, one after the other, over the
// codebase that fill makes on the host.
func lives(t *testing.T, fill func(t *testing.T, host string, m marks), uses ...func(t *testing.T, c *inside)) {
	t.Helper()
	t.Parallel()
	if said := os.Getenv(childEnv); said != "" {
		beInside(t, said, uses)
		return
	}
	testenv.Tools(t, "git")
	testenv.Need(t, probe.Fuse, probe.UserNamespaces)
	base := t.TempDir()
	p := places{Mount: filepath.Join(base, "workspace"), Host: filepath.Join(base, "host"), Marks: filepath.Join(base, "marks"), State: filepath.Join(base, "state")}
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
	ctx, cancel := context.WithTimeout(context.Background(), testLimit)
	defer cancel()
	made, err := policy.For(ctx, p.Host, &policy.Options{StateDir: p.State})
	if err != nil {
		t.Fatal(err)
	}
	rules, err := perm.Compile(made.Rules)
	if err != nil {
		t.Fatal(err)
	}
	ours, cmd, out := startChild(t, ctx, p)
	defer ours.Close()
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	defer func() {
		cancel()
		<-ended
	}()
	dev, err := receive(ours)
	if err != nil {
		err := <-ended
		ended <- err
		t.Fatalf("no descriptor from the child: %v\n%s", err, out)
	}
	root, err := os.Open(p.Host)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	srv, err := fusefs.Serve(ctx, dev, serveOptions(int(root.Fd()), rules, p))
	if err != nil {
		t.Fatal(err)
	}
	var hosts sync.WaitGroup
	hosts.Go(func() { beHost(t, ours, p, m) }) // ends when the child closes its end
	err = <-ended
	ended <- err
	hosts.Wait()
	if err != nil {
		t.Errorf("inside, life %d: %v", p.Life, err)
	}
	if err != nil || testing.Verbose() {
		t.Log("\n" + out.String())
	}
	if err == nil && !strings.Contains(out.String(), "--- PASS: "+t.Name()+" ") {
		t.Errorf("the child did not run the test:\n%s", out)
	}
	gone := make(chan struct{})
	go func() { srv.Wait(); close(gone) }()
	select {
	case <-gone:
	case <-ctx.Done():
		t.Fatal("the tree is still served after the child ended")
	}
}

// serveOptions are those of the tree server of a sandbox.
func serveOptions(root int, rules *perm.Policy, p places) *fusefs.Options {
	return &fusefs.Options{Root: root, Rules: rules, Owner: fusefs.Owner{UID: clientUID, GID: clientUID}, Shown: p.Mount}
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

// startChild starts this test in namespaces where it may mount.
func startChild(t *testing.T, ctx context.Context, p places) (*net.UnixConn, *exec.Cmd, *bytes.Buffer) {
	t.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	theirs := os.NewFile(uintptr(pair[1]), "child")
	defer theirs.Close()
	file := os.NewFile(uintptr(pair[0]), "parent")
	defer file.Close()
	conn, err := net.FileConn(file)
	if err != nil {
		t.Fatal(err)
	}
	env, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, "/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout="+testLimit.String())
	cmd.Env = append(os.Environ(), childEnv+"="+string(env))
	cmd.ExtraFiles = []*os.File{theirs}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.WaitDelay = 5 * time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: clientUID, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: clientUID, HostID: os.Getgid(), Size: 1}},
		AmbientCaps: []uintptr{unix.CAP_SYS_ADMIN},
		Pdeathsig:   syscall.SIGKILL,
	}
	runtime.LockOSThread() // Pdeathsig is about the thread that starts the child
	t.Cleanup(runtime.UnlockOSThread)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return conn.(*net.UnixConn), cmd, &out
}

// beInside has the tree mounted and runs the use whose turn it is.
func beInside(t *testing.T, said string, uses []func(t *testing.T, c *inside)) {
	var p places
	if err := json.Unmarshal([]byte(said), &p); err != nil {
		t.Fatal(err)
	}
	file := os.NewFile(3, "parent")
	conn, err := net.FileConn(file)
	if err != nil {
		t.Fatal(err)
	}
	if !p.Mounted {
		p.Mounted = true
		mountAndExec(t, p, conn.(*net.UnixConn))
	}
	file.Close()
	c := &inside{places: p, m: marks{p.Marks}, conn: conn, enc: json.NewEncoder(conn), dec: json.NewDecoder(conn)}
	uses[p.Life](t, c)
}

// mountAndExec mounts, hands the descriptor over, hides the codebase itself, and begins
// again without the right to mount.
func mountAndExec(t *testing.T, p places, conn *net.UnixConn) {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		t.Fatal(err)
	}
	dev, err := fusefs.Mount(p.Mount, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{p.Host, p.State} {
		if err := unix.Mount("tmpfs", dir, "tmpfs", 0, ""); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := conn.WriteMsgUnix([]byte{1}, unix.UnixRights(int(dev.Fd())), nil); err != nil {
		t.Fatal(err)
	}
	dev.Close()
	unix.Umask(0o022)
	runtime.LockOSThread()
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	env, err := json.Marshal(p)
	if err == nil {
		err = os.Setenv(childEnv, string(env))
	}
	if err == nil {
		_, err = unix.FcntlInt(3, unix.F_SETFD, 0)
	}
	if err == nil {
		err = unix.Exec("/proc/self/exe", os.Args, os.Environ())
	}
	t.Fatal(err)
}

// receive takes the descriptor that mountAndExec sends.
func receive(conn *net.UnixConn) (*os.File, error) {
	if err := conn.SetReadDeadline(time.Now().Add(testLimit / 2)); err != nil {
		return nil, err
	}
	defer conn.SetReadDeadline(time.Time{})
	buf, oob := make([]byte, 1), make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := conn.ReadMsgUnix(buf, oob)
	if err != nil {
		return nil, err
	}
	msgs, err := unix.ParseSocketControlMessage(oob[:n])
	if err != nil || len(msgs) != 1 {
		return nil, fmt.Errorf("no control message: %v", err)
	}
	fds, err := unix.ParseUnixRights(&msgs[0])
	if err != nil || len(fds) != 1 {
		return nil, fmt.Errorf("no descriptor: %v", err)
	}
	unix.CloseOnExec(fds[0])
	return os.NewFile(uintptr(fds[0]), "/dev/fuse"), nil
}
