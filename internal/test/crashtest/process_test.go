package crashtest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	hostproc "wolffia/internal/sys/proc"
)

// All processes that a round starts, and what these start, are below this one,
// whatever happens to their parents: it is their subreaper (prctl(2)). So none
// can be missed, and what is dead has to be waited for here.

// A proc is a process below this one. Its number and start mean it only.
type proc struct {
	hostproc.Process
	args []string
}

func (p proc) String() string {
	return fmt.Sprintf("%d %c %.60q", p.PID, p.State, strings.Join(p.args, " "))
}

// sandbox is the id on the command line.
func (p proc) sandbox() string {
	id, _, _ := strings.Cut(p.args[len(p.args)-1], "-")
	return id
}

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
	children := map[int][]proc{}
	for _, p := range hostproc.Others() {
		children[p.Parent] = append(children[p.Parent], proc{Process: p})
	}
	var all []proc
	next := []int{os.Getpid()}
	for len(next) > 0 {
		for _, p := range children[next[0]] {
			_, isOwn := own.Load(p.PID)
			if p.Dead() {
				if next[0] == os.Getpid() && !isOwn {
					_, _ = unix.Wait4(p.PID, nil, unix.WNOHANG, nil)
				}
				continue // it has no children
			}
			args, err := arguments(p.PID)
			if err != nil {
				continue // it has ended
			}
			p.args = args
			all = append(all, p)
			next = append(next, p.PID)
		}
		next = next[1:]
	}
	return all
}

// arguments returns the command line of a process.
func arguments(pid int) ([]string, error) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
	return strings.Split(strings.TrimSuffix(string(b), "\x00"), "\x00"), err
}

var errGone = errors.New("it is gone")

// kill kills a process, and returns when it is dead.
func (p proc) kill() error {
	was := false
	go thaw(p.PID) // ends at once
	err := hostproc.Kill(p.PID, time.Now().Add(time.Minute), func() (bool, error) {
		now, err := hostproc.Read(p.PID)
		was = err == nil && now.Start == p.Start
		return was, nil
	})
	if err == nil && !was {
		err = errGone
	}
	return err
}

// thaw thaws the control group of version 1 of a process of a paused sandbox: no signal ends it
// before, and a resume would thaw it.
func thaw(pid int) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	for line := range strings.Lines(string(text)) {
		if _, path, is := strings.Cut(strings.TrimSpace(line), ":freezer:"); is && strings.Contains(path, "/wolffia-") {
			_ = os.WriteFile("/sys/fs/cgroup/freezer"+path+"/freezer.state", []byte("THAWED"), 0)
		}
	}
}

// The victims there are.
const (
	theCaller  = "caller"
	theShim    = "shim"
	theTree    = "tree"
	theUsr     = "usr"     // the server of /usr
	theBackend = "backend" // bwrap, or runsc's first process
	theGuest   = "guest"   // PID 1, or what is to become it
	theKeeper  = "keeper"
	allParts   = "parts" // all of them at once
)

// part says which part of a sandbox a process is; empty: none that is named.
func part(p proc, all []proc) string {
	parent := func() proc {
		i := slices.IndexFunc(all, func(q proc) bool { return q.PID == p.Parent })
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
	case p.is("usr"):
		return theUsr
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
		if in[p.Parent] || part(p, all) != "" && p.sandbox() == id {
			in[p.PID] = true
			found = append(found, p)
		}
	}
	return found
}
