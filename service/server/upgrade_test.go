package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"wolffia/internal/test/servetest"
	"wolffia/internal/test/testbin"
	"wolffia/internal/test/testenv"
)

// A load is clients that run commands without an end, while versions of the service replace one another.
type load struct {
	world
	service *servetest.Managed
	phase   atomic.Int32 // how often the service was replaced
	down    sync.RWMutex // held while it is replaced
	served  chan int32   // has the phase of each client that had enough answers in it
	refused atomic.Int32
	ended   atomic.Bool
}

// run is a client: it runs commands in a sandbox of its own, which count themselves, until the test ends.
func (l *load) run(i int, id string) error {
	const each = 3 // commands in each phase
	n, inPhase := 0, [3]int{}
	for !l.ended.Load() {
		phase := l.phase.Load()
		r := l.call(l.Ctx, "executeBash", by(owner(i), m{"sandboxId": id, "command": "echo >>/tmp/n; wc -l </tmp/n"}))
		switch {
		case unserved(r.err), r.err == nil && r.status == http.StatusServiceUnavailable && r.Error.Code == "stopping":
			l.refused.Add(1)
			l.down.RLock() // until the next one serves
			l.down.RUnlock()
			continue
		case r.err != nil || r.status != http.StatusOK:
			return fmt.Errorf("client %d, phase %d: %d %s (%w)", i, phase, r.status, r.body, r.err)
		}
		if n++; strings.TrimSpace(r.Stdout) != strconv.Itoa(n) {
			return fmt.Errorf("client %d, phase %d: got the count %s; want %d: a command is lost, or ran twice", i, phase, r.Stdout, n)
		}
		if inPhase[phase]++; inPhase[phase] == each {
			l.served <- phase
		}
	}
	return nil
}

// unserved reports whether no service has read a request: none listens, or the one that did has closed
// the socket meanwhile.
func unserved(err error) bool {
	return slices.ContainsFunc([]error{unix.ECONNREFUSED, unix.ENOENT, unix.ECONNRESET, unix.EPIPE}, func(e error) bool { return errors.Is(err, e) })
}

// versions returns what ls of the installed wolffia says of the versions of running sandboxes.
func (l *load) versions() map[string]string {
	l.Helper()
	out, err := exec.CommandContext(l.Ctx, l.service.Program, "--state-dir", l.state, "ls", "--json").Output()
	l.OK(err)
	var all []struct{ ID, Version, State string }
	l.OK(json.Unmarshal(out, &all))
	found := map[string]string{}
	for _, s := range all {
		found[s.ID] = s.State + " " + s.Version
	}
	return found
}

// A service is replaced by a newer one, and that by the older one, while clients run commands: no
// sandbox and no command is lost. On a socket that systemd keeps, no connection is refused either.
func TestUpgradeUnderLoad(t *testing.T) {
	testenv.Soak(t, "it builds another version")
	stamped := t.TempDir()
	testbin.Stamped(t, stamped, "v99.0.0")
	older, newer := servetest.Packed(t, testbin.Dir(t)), servetest.Packed(t, stamped)
	for _, kept := range []bool{false, true} {
		t.Run(fmt.Sprintf("systemd listens: %v", kept), func(t *testing.T) { testUpgrade(t, older, newer, kept) })
	}
}

func testUpgrade(t *testing.T, older, newer string, kept bool) {
	const clients = 16
	socket := filepath.Join(t.TempDir(), "sock")
	var passed interface{ File() (*os.File, error) }
	args := []string{"--listen", "unix:" + socket}
	if kept {
		listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
		passed, args = listener, nil
	}
	l := &load{served: make(chan int32, 3*clients), service: servetest.NewManaged(t, passed, args...)}
	l.service.Told("READY=1")
	l.T, l.state, l.socket = l.service.T, l.service.State, socket
	l.client = &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		},
	}}
	l.service.Program = filepath.Join(filepath.Dir(l.state), "wolffia")
	replace := func(by string) {
		l.down.Lock()
		defer l.down.Unlock()
		l.OK(os.Link(by, l.service.Program+".new")) // as an installation replaces the file of what runs
		l.OK(os.Rename(l.service.Program+".new", l.service.Program))
		l.service.Replace()
	}
	replace(older)

	var ids [clients]string
	for i := range clients {
		ids[i] = l.box(owner(i))
	}
	failed := make(chan error, clients)
	defer l.ended.Store(true)
	for i := range clients {
		go func() { failed <- l.run(i, ids[i]) }() // ends with the last phase, or the test
	}
	l.await(0, failed)
	first := l.versions()
	replace(newer)
	l.phase.Store(1)
	late := l.box(yan)
	l.await(1, failed)
	if got := l.versions()[late]; got != "running v99.0.0" {
		t.Errorf("the sandbox of the newer version: got %q", got)
	}
	replace(older)
	l.phase.Store(2)
	l.await(2, failed)
	l.ended.Store(true)
	for range clients {
		if err := <-failed; err != nil {
			t.Fatal(err)
		}
	}
	if out := l.bash(yan, late, "echo works"); out != "works\n" {
		t.Errorf("the sandbox of the newer version, by the older one: got %q", out)
	}
	last := l.versions()
	for _, id := range ids {
		if !strings.HasPrefix(first[id], "running ") || first[id] == "running v99.0.0" || last[id] != first[id] {
			t.Errorf("sandbox %s: got first %q, last %q; want it to run with the older version", id, first[id], last[id])
		}
	}
	if n := l.refused.Load(); kept && n > 0 {
		t.Errorf("got %d refused requests on a socket that was kept; want none", n)
	}
}

// await returns once each client had enough answers in a phase.
func (l *load) await(phase int32, failed chan error) {
	l.Helper()
	for range cap(failed) {
		select {
		case got := <-l.served:
			if got != phase {
				l.Fatalf("got an answer of phase %d; want %d", got, phase)
			}
		case err := <-failed:
			l.Fatal(err)
		case <-l.Ctx.Done():
			l.Fatalf("phase %d does not end", phase)
		}
	}
}
