package guest

import (
	"context"
	"errors"
	"io"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"wolffia/session"
	"wolffia/wire"
)

// Serve speaks the protocol on in and out until in ends or breaks, and then returns. Afterwards
// the caller ends PID 1, and the kernel ends everything else. exit ends PID 1 at once; Serve calls
// it when the host asks for an orderly shutdown. sessions is a directory for the shell sessions,
// see [session.Host]. limits apply to started processes; nil means no limits. clients, if it is
// not nil, is a socket over which the host passes connections of clients, see link. guard is
// [Guard]: Serve calls it while the host learns that PID 1 runs, and before it starts a process.
// Serve returns guard's error. Precondition: the process is PID 1, or a child subreaper, and no
// other part of it waits for children.
func Serve(in io.Reader, out io.Writer, sessions string, limits *Rlimits, clients *os.File, guard func() error, exit func(code int)) error {
	g, err := newGuest(sessions, limits, exit)
	if err != nil {
		return err
	}
	defer g.shells.Close()
	host := g.host(out)
	if err := host.greet(); err != nil {
		return err
	}
	if err := guard(); err != nil {
		return err
	}
	if clients != nil {
		go g.serveClients(clients) // ends with PID 1
	}
	for {
		err := host.serve(in)
		if !errors.Is(err, errRestored) {
			return err
		}
		host.end()
		host = g.host(out)
		if err := host.greet(); err != nil {
			return err
		}
	}
}

// newGuest returns the state of PID 1. The caller closes its shells.
func newGuest(sessions string, limits *Rlimits, exit func(code int)) (*guest, error) {
	limiter, err := newLimiter(limits)
	if err != nil {
		return nil, err
	}
	g := &guest{reaper: newReaper(limiter), exit: exit, clients: map[*wire.Outbox]bool{}, clock: new(session.Clock), kept: new(keptProcesses)}
	g.shells = session.NewManager(session.Host{
		Start:        g.reaper.start,
		Started:      g.reaper.mine,
		OpenTerminal: openTerminal,
		LookPath:     lookPath,
		User:         findUser,
		Dir:          sessions,
		Clock:        g.clock,
	})
	return g, nil
}

// host returns the link of PID 1's own stream.
func (g *guest) host(out io.Writer) *link {
	host := g.link(wire.NewWriter(out))
	host.network = &network{w: host.w, set: host.set, listeners: map[uint64]*listener{}}
	return host
}

// A guest is the state of Serve.
type guest struct {
	reaper  *reaper
	exit    func(code int)
	clock   *session.Clock
	shells  *session.Manager
	kept    *keptProcesses
	running sync.WaitGroup // one for each process whose channel is open

	mu      sync.Mutex
	clients map[*wire.Outbox]bool // guarded by mu
}

// flush waits until all bytes for clients are written.
func (g *guest) flush() {
	g.mu.Lock()
	all := slices.Collect(maps.Keys(g.clients))
	g.mu.Unlock()
	for _, out := range all {
		out.Flush()
	}
}

// shutdown asks all processes to end, waits until they have ended and their output is sent, at
// most for grace, and ends PID 1. The kernel kills the remaining processes (pid_namespaces(7)).
func (g *guest) shutdown(grace time.Duration) {
	over, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	if os.Getpid() == 1 { // anywhere else -1 means the user's whole session
		g.terminate(over.Done())
	}
	select {
	case <-g.reaper.idle():
	case <-over.Done():
	}
	sent := make(chan struct{})
	go func() { // ends with PID 1 at the latest
		g.running.Wait()
		g.shells.Flush()
		g.flush()
		close(sent)
	}()
	select {
	case <-sent:
	case <-over.Done():
	}
	g.exit(0)
}
