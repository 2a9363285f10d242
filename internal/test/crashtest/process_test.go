package crashtest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// All processes that a round starts, and what these start, are below this one,
// whatever happens to their parents: it is their subreaper (prctl(2)). So none
// can be missed, and what is dead has to be waited for here.

// A proc is a process below this one.
type proc struct {
	pid, parent int
	state       string
	start       string // with the number it means this process only
	args        []string
}

func (p proc) String() string {
	return fmt.Sprintf("%d %s %.60q", p.pid, p.state, strings.Join(p.args, " "))
}

// sandbox is the id on the command line.
func (p proc) sandbox() string { return p.args[len(p.args)-1] }

// is reports whether the process is wolffia with this verb.
func (p proc) is(verb string) bool {
	return len(p.args) == 3 && strings.HasPrefix(filepath.Base(p.args[0]), "wolffia") && p.args[1] == verb
}

// own are processes for which somebody else waits.
var own sync.Map

// processes returns all that are below this one, each after its parent. Those
// that are dead and nobody else's are waited for.
func processes(t testing.TB) []proc {
	t.Helper()
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	children := map[int][]proc{}
	for _, dir := range dirs {
		if p, err := readProc(dir); err == nil {
			children[p.parent] = append(children[p.parent], p)
		}
	}
	var all []proc
	next := []int{os.Getpid()}
	for len(next) > 0 {
		for _, p := range children[next[0]] {
			_, isOwn := own.Load(p.pid)
			if p.state == "Z" {
				if next[0] == os.Getpid() && !isOwn {
					_, _ = unix.Wait4(p.pid, nil, unix.WNOHANG, nil)
				}
				continue // it has no children
			}
			all = append(all, p)
			next = append(next, p.pid)
		}
		next = next[1:]
	}
	return all
}

// readProc reads what is known of a process; proc_pid_stat(5).
func readProc(dir string) (proc, error) {
	stat, err := os.ReadFile(dir + "/stat")
	if err != nil {
		return proc{}, err
	}
	cmdline, err := os.ReadFile(dir + "/cmdline")
	if err != nil {
		return proc{}, err
	}
	f := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	pid, _ := strconv.Atoi(filepath.Base(dir))
	parent, err := strconv.Atoi(string(f[1]))
	return proc{pid, parent, string(f[0]), string(f[19]), strings.Split(strings.TrimSuffix(string(cmdline), "\x00"), "\x00")}, err
}

// kill kills a process, and returns when it is dead.
func (p proc) kill() error {
	fd, err := unix.PidfdOpen(p.pid, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if now, err := readProc(fmt.Sprintf("/proc/%d", p.pid)); err != nil || now.start != p.start {
		return errors.Join(errors.New("it is gone"), err)
	}
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil {
		return err
	}
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 20_000)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return err
		case n == 0:
			return errors.New("it was killed and does not end")
		default:
			return nil
		}
	}
}

// The victims there are.
const (
	theCaller  = "caller"
	theShim    = "shim"
	theTree    = "tree"
	theBackend = "backend" // bwrap, or runsc's first process
	theGuest   = "guest"   // PID 1, or what is to become it
	theKeeper  = "keeper"
	allParts   = "parts" // all of them at once
)

// part says which part of a sandbox a process is; empty: none that is named.
func part(p proc, all []proc) string {
	parent := func() proc {
		i := slices.IndexFunc(all, func(q proc) bool { return q.pid == p.parent })
		if i < 0 {
			return proc{args: []string{""}}
		}
		return all[i]
	}
	switch {
	case p.is("shim") && !parent().is("shim"):
		return theShim
	case p.is("tree"):
		return theTree
	case p.is("keep"):
		return theKeeper
	case p.args[0] == "bwrap" && parent().is("shim"), strings.HasPrefix(filepath.Base(p.args[0]), "runsc") && parent().is("shim"):
		return theBackend
	case parent().args[0] == "bwrap" && part(parent(), all) == theBackend:
		return theGuest
	}
	return ""
}

// parts returns the processes of a sandbox by what they are.
func parts(all []proc, id string) map[string]proc {
	found := map[string]proc{}
	for _, p := range all {
		if what := part(p, all); what != "" && p.sandbox() == id {
			found[what] = p
		}
	}
	return found
}

// below returns the processes of a sandbox, and what they have started.
func below(all []proc, id string) []proc {
	var found []proc
	in := map[int]bool{}
	for _, p := range all { // each after its parent
		if in[p.parent] || part(p, all) != "" && p.sandbox() == id {
			in[p.pid] = true
			found = append(found, p)
		}
	}
	return found
}
