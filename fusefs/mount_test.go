package fusefs

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
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/internal/probe"
	"wolffia/internal/test/testenv"
	"wolffia/perm"
)

// The tests of a mount run in two processes. The parent makes the host
// directory and serves it. The child, which is this test binary again, in
// namespaces of its own and running the same test only, mounts, sends the
// descriptor to the parent and is the client. When it ends, the kernel
// unmounts, and nothing is left behind.

// A setup is what a test of a mount begins with.
type setup struct {
	Rules   []fakeRule
	Policy  []perm.Rule                    // if not nil, instead of Rules
	Parse   []string                       // if not nil, instead of Rules
	Panic   string                         // the rules panic at this name
	Host    func(t *testing.T, dir string) // fills the host directory, in the parent
	Timeout time.Duration
	FDs     int
	NoWatch bool
	Quota   int64
	Memory  int64
	Bind    [2]string                                       // what of the host directory the client sees mounted on what else
	Old     bool                                            // as on a kernel before 6.16
	After   func(t *testing.T, s *Server, denials []Denial) // in the parent, when the client is done
}

// A client is the child's view.
type client struct {
	dir  string // the mount
	host string // the host directory behind it
	conn net.Conn
}

// at returns the path of name in the mount.
func (c *client) at(name string) string { return filepath.Join(c.dir, name) }

// stats asks the server what it did so far.
func (c *client) stats(t *testing.T) Stats {
	t.Helper()
	return request[Stats](t, c, "stats")
}

// setRules replaces the rules of the tree.
func (c *client) setRules(t *testing.T, rules ...string) {
	t.Helper()
	if err := json.NewEncoder(c.conn).Encode("rules"); err != nil {
		t.Fatal(err)
	}
	if !request[bool](t, c, parseRules(t, rules...)) {
		t.Fatal("the rules were refused")
	}
}

// parseRules parses rules such as "a/=write".
func parseRules(t *testing.T, rules ...string) (parsed []perm.Rule) {
	t.Helper()
	for _, r := range rules {
		rule, err := perm.ParseRule(r)
		if err != nil {
			t.Fatal(err)
		}
		parsed = append(parsed, rule)
	}
	return parsed
}

// A load is what a server uses.
type load struct {
	Heap   uint64 // bytes that are in use, after a collection
	Walked uint64 // directories that validatePath has gone through
}

func loadOf(s *Server) load {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return load{m.HeapAlloc, s.tree.dirsWalked.Load()}
}

// load asks the server what it uses.
func (c *client) load(t *testing.T) load {
	t.Helper()
	return request[load](t, c, "load")
}

func request[T any](t *testing.T, c *client, what any) (v T) {
	t.Helper()
	if err := json.NewEncoder(c.conn).Encode(what); err != nil {
		t.Fatal(err)
	}
	if err := json.NewDecoder(c.conn).Decode(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

const (
	childEnv  = "WOLFFIA_FUSEFS_CHILD" // the JSON of childArgs
	testLimit = 5 * time.Minute
	clientUID = 1000 // in the child's user namespace
)

type childArgs struct {
	Dir, Host string
	Mounted   bool // it is, and there is no right to do so any more
}

// mounted runs use as the client of a mount made according to s.
func mounted(t *testing.T, s setup, use func(t *testing.T, c *client)) {
	t.Helper()
	if args := os.Getenv(childEnv); args != "" {
		beClient(t, args, s.Bind, use)
		return
	}
	testenv.Need(t, probe.Fuse, probe.UserNamespaces)
	base := t.TempDir()
	args := childArgs{Dir: filepath.Join(base, "mnt"), Host: filepath.Join(base, "host")}
	for _, d := range []string{args.Dir, args.Host} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if s.Host != nil {
		s.Host(t, args.Host)
	}
	serve(t, s, args)
}

// serve starts the child and serves it until it ends.
func serve(t *testing.T, s setup, args childArgs) {
	ctx, cancel := context.WithTimeout(context.Background(), testLimit)
	defer cancel()
	ours, cmd, out := startChild(t, ctx, args)
	defer ours.Close()
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	// Whatever happens, no child stays.
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
	root, err := os.Open(args.Host)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	var rules Rules = newFakeRules(s.Rules)
	if s.Parse != nil {
		s.Policy = parseRules(t, s.Parse...)
	}
	if s.Policy != nil {
		if rules, err = perm.Compile(s.Policy); err != nil {
			t.Fatal(err)
		}
	}
	if s.Panic != "" {
		rules = panicRules{rules, s.Panic}
	}
	denials := make(chan Denial, 10000)
	srv, err := Serve(ctx, dev, &Options{
		Root: int(root.Fd()), Rules: rules, Owner: Owner{clientUID, clientUID},
		Timeout: s.Timeout, FDs: s.FDs, NoWatch: s.NoWatch, Quota: s.Quota, Memory: s.Memory, Denied: func(d Denial) {
			select {
			case denials <- d:
			default:
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if s.Old {
		srv.tree.dev.epochs = false // nothing was asked yet
	}
	seen := answer(ours, srv, denials)
	err = <-ended
	ended <- err
	if err != nil {
		t.Errorf("client: %v", err)
	}
	report(t, out.String(), err != nil)
	gone := make(chan struct{})
	go func() { srv.Wait(); close(gone) }()
	select {
	case <-gone:
	case <-ctx.Done():
		t.Fatal("the tree is still served after the client ended")
	}
	if s.After != nil {
		s.After(t, srv, <-seen)
	}
	if fds := srv.Stats().FDs; fds != 0 {
		t.Errorf("%d descriptors left open", fds)
	}
}

// startChild starts this test in namespaces where it may mount.
func startChild(t *testing.T, ctx context.Context, args childArgs) (*net.UnixConn, *exec.Cmd, *bytes.Buffer) {
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
	env, _ := json.Marshal(args)
	cmd := exec.CommandContext(ctx, "/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v",
		"-test.timeout="+testLimit.String())
	cmd.Env = append(os.Environ(), childEnv+"="+string(env))
	cmd.ExtraFiles = []*os.File{theirs}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.WaitDelay = 5 * time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: clientUID, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: clientUID, HostID: os.Getgid(), Size: 1}},
		// No more than it takes to mount: what could overrule the modes
		// would hide that they are wrong.
		AmbientCaps: []uintptr{unix.CAP_SYS_ADMIN},
		Pdeathsig:   syscall.SIGKILL,
	}
	// Pdeathsig is about the thread that starts the child.
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return conn.(*net.UnixConn), cmd, &out
}

// beClient has the tree mounted and runs use.
func beClient(t *testing.T, env string, bind [2]string, use func(t *testing.T, c *client)) {
	var args childArgs
	if err := json.Unmarshal([]byte(env), &args); err != nil {
		t.Fatal(err)
	}
	file := os.NewFile(3, "parent")
	conn, err := net.FileConn(file)
	if err != nil {
		t.Fatal(err)
	}
	if !args.Mounted {
		args.Mounted = true
		mountAndExec(t, args, bind, conn.(*net.UnixConn))
	}
	file.Close()
	c := &client{dir: args.Dir, host: args.Host, conn: conn}
	c.stats(t) // answered once the mount is served
	use(t, c)
}

// mountAndExec mounts, hands the descriptor over, and begins again without
// the right to mount: all threads of what is executed, and all that they start,
// have no more rights than a sandbox.
func mountAndExec(t *testing.T, args childArgs, bind [2]string, conn *net.UnixConn) {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		t.Fatal(err)
	}
	if bind[0] != "" {
		if err := unix.Mount(filepath.Join(args.Host, bind[0]), filepath.Join(args.Host, bind[1]), "", unix.MS_BIND, ""); err != nil {
			t.Fatal(err)
		}
	}
	dev, err := Mount(args.Dir, nil)
	if err != nil {
		t.Fatal(err)
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
	env, _ := json.Marshal(args)
	if err := os.Setenv(childEnv, string(env)); err != nil {
		t.Fatal(err)
	}
	if _, err := unix.FcntlInt(3, unix.F_SETFD, 0); err != nil {
		t.Fatal(err)
	}
	t.Fatal(unix.Exec("/proc/self/exe", os.Args, os.Environ()))
}

// receive takes the descriptor that beClient sends.
func receive(conn *net.UnixConn) (*os.File, error) {
	conn.SetReadDeadline(time.Now().Add(testLimit / 2))
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

// answer answers the client's questions until it is gone, and then gives all
// denials.
func answer(conn net.Conn, srv *Server, denials chan Denial) <-chan []Denial {
	all := make(chan []Denial, 1)
	go func() { // ends when the child closes its end
		var seen []Denial
		drain := func() {
			for {
				select {
				case d := <-denials:
					seen = append(seen, d)
				default:
					return
				}
			}
		}
		in, out := json.NewDecoder(conn), json.NewEncoder(conn)
		for {
			var what string
			if err := in.Decode(&what); err != nil {
				drain()
				all <- seen
				return
			}
			switch drain(); what {
			case "stats":
				out.Encode(srv.Stats())
			case "denials":
				out.Encode(seen)
			case "prunes":
				out.Encode(!srv.tree.pruneUnsupported.Load())
			case "load":
				out.Encode(loadOf(srv))
			case "close":
				out.Encode(srv.Close() == nil)
			case "rules":
				var rules []perm.Rule
				policy, err := (*perm.Policy)(nil), in.Decode(&rules)
				if err == nil {
					policy, err = perm.Compile(rules)
				}
				if err == nil {
					srv.SetRules(policy)
				}
				out.Encode(err == nil)
			}
		}
	}()
	return all
}

// report passes on what the child printed: its subtests if verbose, all of it
// if it failed, and whether it skipped.
func report(t *testing.T, out string, failed bool) {
	t.Helper()
	if failed || testing.Verbose() {
		t.Log("\n" + out)
	}
	if !failed && strings.Contains(out, "--- SKIP: "+t.Name()+" ") {
		t.Skip("skipped by the client")
	}
	if !failed && !strings.Contains(out, "--- PASS: "+t.Name()+" ") {
		t.Errorf("the client did not run the test:\n%s", out)
	}
}
