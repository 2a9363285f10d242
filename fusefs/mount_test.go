package fusefs

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/fusefs/backing"
	"wolffia/fusefs/cow"
	"wolffia/fusefs/fusemount"
	"wolffia/internal/host/probe"
	"wolffia/internal/test/mounttest"
	"wolffia/internal/test/testenv"
	"wolffia/perm"
)

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
	Copied  bool                                            // changes go to an upper layer
	Git     bool                                            // git directories are the sandbox's own
	Monitor bool                                            // git asks what has changed
	Marks   int                                             // on files, and on directories that are followed; 0: as the host says
	Small   int                                             // bytes of the upper layer's file system, which is in memory
	NoMarks bool                                            // files are not watched
	Echo    bool                                            // the host's changes are collected
	System  bool                                            // the modes are the host's
	Ask     bool                                            // what a question may allow is asked about
	Borrow  bool                                            // files borrow their content, however small
	After   func(t *testing.T, s *Server, denials []Denial) // in the parent, when the client is done
}

// A client is the child's view.
type client struct {
	dir  string // the mount
	host string // the host directory behind it
	conn net.Conn

	copied bool
	state  string // stateDir
}

// at returns the path of name in the mount.
func (c *client) at(name string) string { return filepath.Join(c.dir, name) }

// stats asks the server what it did so far.
func (c *client) stats(t *testing.T) Stats {
	t.Helper()
	return request[Stats](t, c, "stats")
}

// usage asks what the upper layer takes.
func (c *client) usage(t *testing.T) backing.Usage {
	t.Helper()
	r := request[usageReply](t, c, "usage")
	if !r.OK {
		t.Fatal("the upper layer cannot be counted")
	}
	return r.Usage
}

type usageReply struct {
	backing.Usage
	OK bool
}

// discard takes what is at path out of the upper layer.
func (c *client) discard(t *testing.T, path string) {
	t.Helper()
	if err := json.NewEncoder(c.conn).Encode("discard"); err != nil {
		t.Fatal(err)
	}
	if !request[bool](t, c, path) {
		t.Fatal("not discarded")
	}
}

// upper returns the path of name in the upper layer.
func (c *client) upper(name string) string {
	return filepath.Join(c.state, "upper", name)
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
	Allocs uint64 // so far
	Piped  uint64 // READs that were answered through a pipe
	Walked uint64 // directories that validatePath has gone through
}

func loadOf(s *Server) load {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return load{m.HeapAlloc, m.Mallocs, s.tree.kernel.dev.Spliced.Load(), s.tree.dirsWalked.Load()}
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

// mountedBoth is mounted for a direct tree and, in a full run, for a copied one.
func mountedBoth(t *testing.T, s setup, use func(t *testing.T, c *client)) {
	t.Run("Direct", func(t *testing.T) { mounted(t, s, use) })
	t.Run("Copied", func(t *testing.T) {
		testenv.Soak(t, "the direct tree has the same rules")
		s := s
		s.Copied = true
		mounted(t, s, use)
	})
}

// behind returns the path where what is at name in the mount is on the host.
func (c *client) behind(name string) string {
	if up := c.upper(name); c.copied {
		if _, err := os.Lstat(up); err == nil {
			return up
		}
	}
	return filepath.Join(c.host, name)
}

// hasMode returns an error if the kernel has no permissions for the root of the mount at dir,
// which is not served yet.
func hasMode(dir string) error {
	var st unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, dir, unix.AT_STATX_DONT_SYNC, unix.STATX_MODE, &st)
	if err == nil && st.Mode != fusemount.RootMode {
		err = fmt.Errorf("the root has mode %o before it is served", st.Mode)
	}
	return err
}

const clientUID = mounttest.UID

type childArgs struct{ Dir, Host string }

// mounted runs use as the client of a mount made according to s: see package mounttest.
func mounted(t *testing.T, s setup, use func(t *testing.T, c *client)) {
	t.Helper()
	var args childArgs
	conn := mounttest.Inside(t, &args, func() (*os.File, error) {
		if s.Bind[0] != "" {
			if err := unix.Mount(filepath.Join(args.Host, s.Bind[0]), filepath.Join(args.Host, s.Bind[1]), "", unix.MS_BIND, ""); err != nil {
				return nil, err
			}
		}
		if s.Small > 0 {
			if err := unix.Mount("tmpfs", stateDir(s, args.Host), "tmpfs", 0, fmt.Sprintf("size=%d,mode=755", s.Small)); err != nil {
				return nil, err
			}
		}
		device, err := fusemount.Mount(args.Dir, nil)
		if err != nil {
			return nil, err
		}
		return device, hasMode(args.Dir)
	})
	if conn != nil {
		c := &client{dir: args.Dir, host: args.Host, conn: conn, copied: s.Copied, state: stateDir(s, args.Host)}
		c.stats(t) // answered once the mount is served
		use(t, c)
		return
	}
	testenv.Need(t, probe.Fuse, probe.UserNamespaces)
	base := t.TempDir()
	args = childArgs{Dir: filepath.Join(base, "mnt"), Host: filepath.Join(base, "host")}
	for _, d := range []string{args.Dir, args.Host, stateDir(s, args.Host)} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if s.Host != nil {
		s.Host(t, args.Host)
	}
	serve(t, s, args)
}

// serve starts the client and serves it until it ends.
func serve(t *testing.T, s setup, args childArgs) {
	child := mounttest.Start(t, args)
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
	state := stateDir(s, args.Host)
	if s.Small > 0 {
		state = fmt.Sprintf("/proc/%d/root%s", child.PID, state) // mounted there
	}
	layer := copyOf(t, s, state)
	denials := make(chan Denial, 10000)
	var onHostChange func() bool
	if s.Echo {
		onHostChange = func() bool { return true }
	}
	asker := newTestAsker(s.Ask)
	srv, err := Serve(child.Ctx, child.Device, &Options{
		OnHostChange: onHostChange, Ask: asker.options(),
		Root: int(root.Fd()), Rules: rules, Owner: Owner{clientUID, clientUID},
		Copy: layer, Git: gitOf(t, s, args.Host, state),
		Timeout: s.Timeout, FDs: s.FDs, NoWatch: s.NoWatch, HostModes: s.System, Quota: s.Quota, Memory: s.Memory, Denied: func(d Denial) {
			select {
			case denials <- d:
			default:
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if s.Borrow {
		srv.tree.copied.borrow = 1 // nothing was asked yet
	}
	if s.NoMarks && srv.tree.watch != nil {
		srv.tree.watch.filesFull.Store(true)
	}
	if s.Marks > 0 && srv.tree.watch != nil {
		srv.tree.watch.maxMarks = func() int { return s.Marks }
	}
	if s.Old {
		srv.tree.kernel.dev.Epochs = false // nothing was asked yet
	}
	layers := &cow.Layers{Root: int(root.Fd()), Rules: rules}
	if layer != nil {
		layers.Upper, layers.Work, layers.Log, layers.Undo = layer.Upper, layer.Work, layer.Log, undoOf(t, state)
	}
	seen := answer(child.Conn, srv, denials, filepath.Join(state, "upper"), layers, asker)
	child.Wait(t, srv.Wait)
	if s.After != nil {
		s.After(t, srv, <-seen)
	}
	if fds := srv.Stats().FDs; fds != 0 {
		t.Errorf("%d descriptors left open", fds)
	}
}

// stateDir returns the directory with the upper layer of a copied mount, in the view of the client.
func stateDir(s setup, host string) string {
	if s.Small > 0 {
		return filepath.Join(filepath.Dir(host), "small")
	}
	return filepath.Dir(host)
}

// copyOf returns the upper layer of a copied mount, in the directories "upper" and "work" of base.
func copyOf(t *testing.T, s setup, base string) *Copy {
	if !s.Copied {
		return nil
	}
	open := func(name string) int {
		dir := filepath.Join(base, name)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return int(f.Fd())
	}
	f, err := os.OpenFile(filepath.Join(base, "base.log"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	log, err := cow.OpenLog(f)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { log.Close() })
	return &Copy{Upper: open("upper"), Work: open("work"), Log: log}
}

// undoOf returns the file in which package cow notes what Apply does.
func undoOf(t *testing.T, base string) *os.File {
	f, err := os.OpenFile(filepath.Join(base, "undo"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// heaps are the answers to "heap", in the server's process, in bytes.
var heaps []int64

// answer answers the client's questions until the client has ended, and then returns all denials.
// upper is the path of the upper layer.
func answer(conn net.Conn, srv *Server, denials chan Denial, upper string, layers *cow.Layers, asker *testAsker) <-chan []Denial {
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
			case "changes":
				thread := 0
				in.Decode(&thread)
				out.Encode(srv.HostChanges(thread))
			case "asked":
				out.Encode(asker.waiting())
			case "verdict":
				var v verdict
				out.Encode(in.Decode(&v) == nil && asker.answer(v))
			case "prunes":
				out.Encode(!srv.tree.kernel.pruneUnsupported.Load())
			case "usage":
				u, errno := srv.tree.Count(srv.tree.root.fd)
				out.Encode(usageReply{u, errno == 0})
			case "discard":
				var path string
				err := in.Decode(&path)
				if err == nil {
					err = srv.Quiesce(func() (err error) {
						srv.Alone(func() {
							srv.Discarded([]string{path})
							err = os.RemoveAll(filepath.Join(upper, path))
						})
						return err
					})
				}
				out.Encode(err == nil)
			case "hold": // a review that does not end before the next question
				begun, end := make(chan struct{}), make(chan struct{})
				var quiet sync.WaitGroup
				quiet.Go(func() {
					srv.Quiesce(func() error {
						close(begun)
						<-end
						return nil
					})
				})
				<-begun
				out.Encode(true)
				in.Decode(&what)
				close(end)
				quiet.Wait()
				out.Encode(true)
			case "review":
				var o reviewOrder
				r := reviewResult{Wrong: "the order cannot be read"}
				if in.Decode(&o) == nil {
					r = reviewInRace(srv, layers, &o)
				}
				out.Encode(r)
			case "heap":
				for range 2 { // what a finalizer frees goes with the second
					runtime.GC()
				}
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				heaps = append(heaps, int64(m.HeapAlloc))
				out.Encode(m.HeapAlloc)
			case "load":
				out.Encode(loadOf(srv))
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
