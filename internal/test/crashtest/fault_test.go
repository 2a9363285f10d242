package crashtest

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"wolffia/internal/host/probe"
	hostproc "wolffia/internal/sys/proc"
	"wolffia/internal/test/suite"
	"wolffia/internal/test/testenv"
	"wolffia/runtime"
	"wolffia/runtime/bwrap"
)

// A process with too few descriptors, a command line, a service or what they start
// (which has no more), says so; and there is a whole sandbox, or nothing.
func TestFewDescriptors(t *testing.T) {
	testenv.Need(t, probe.UserNamespaces, probe.Bubblewrap, probe.Fuse)
	w := newWorld(t, backend{name: bwrap.Name, shims: bwrap.Backend()})
	made, refused := 0, 0
	for n := 5; n < 64; n += 1 + n/16 {
		w.T = suite.New(t)
		for _, line := range [][]string{
			{"wolffia", "create", "--codebase", w.codebase, "--mount-point", "/workspace", "--rule", "**=write", "--owner", "o/p/subject"},
			{"service", w.state, w.codebase},
		} {
			cmd := w.command("wolffia")
			cmd.Path = "/bin/sh"
			cmd.Args = append([]string{"sh", "-c", fmt.Sprintf(`ulimit -n %d; exec "$@"`, n), "sh"}, line...)
			cmd.Stdin = strings.NewReader("create subject\n")
			begin := time.Now()
			out, err := cmd.CombinedOutput()
			if took := time.Since(begin); took > 15*time.Second {
				t.Errorf("%d descriptors, %s: it took %v", n, line[0], took)
			}
			rt := w.open()
			states := w.settled(rt)
			delete(states, w.bystander)
			if line[0] == "service" && err == nil && strings.Count(string(out), "ok ") != 2 {
				err = fmt.Errorf("%s", out)
			}
			switch {
			case err == nil && len(states) == 1:
				made++
			case err != nil && len(states) == 0:
				refused++
				// Go's runtime itself, and the dynamic loader, need some.
				if text := string(out); n >= 12 && !strings.Contains(text, "too many open files") {
					t.Errorf("%d descriptors, %s: it says %s", n, line[0], text)
				}
			default:
				t.Errorf("%d descriptors, %s: %v, %s; there are %v", n, line[0], err, out, states)
			}
			for id := range states {
				w.OK(w.whole(rt, id, runtime.StateRunning, theOwner))
				w.OK(rt.Destroy(w.Ctx, id))
			}
			w.nothing(rt)
			w.OK(rt.Close())
		}
	}
	if made == 0 || refused == 0 {
		t.Errorf("%d were made, %d refused", made, refused)
	}
}

// The clock may have been anywhere when a sandbox was made: it decides nothing.
func TestClockJumps(t *testing.T) {
	testenv.Need(t, probe.UserNamespaces, probe.Bubblewrap, probe.Fuse)
	w := newWorld(t, backend{name: bwrap.Name, shims: bwrap.Backend()})
	for _, at := range []int64{0, -1 << 40, 1, time.Now().Add(30 * 365 * 24 * time.Hour).UnixMilli(), 1 << 52, 1<<63 - 1, -1 << 63} {
		t.Run(fmt.Sprint(at), func(t *testing.T) {
			w.T = suite.New(t)
			rt := w.open()
			defer rt.Close()
			s, err := rt.Create(w.Ctx, w.config(theOwner))
			w.OK(err)
			w.OK(rt.Start(w.Ctx, s.ID))
			w.change(s.ID, "config.json", func(all map[string]any) { all["createdAt"] = json.Number(fmt.Sprint(at)) })
			for _, line := range [][]string{{"ls"}, {"ls", "--json"}, {"inspect", s.ID}, {"scan"}, {"scan", "--json"}} {
				if line[0] == "scan" && at <= 0 {
					continue // no owner's: no clock was ever there
				}
				out, err := w.command("wolffia", line...).CombinedOutput()
				if err != nil || !strings.Contains(string(out), s.ID) || line[0] != "inspect" && !strings.Contains(string(out), w.bystander) {
					t.Errorf(`CombinedOutput: got line %s, err %v, out %s; want err == nil and out contains %v and (line[0] == "inspect" or out contains %v)`,
						line, err, out, s.ID, w.bystander)
				}
			}
			service := w.openService(rt)
			if at > 0 {
				w.OK(w.whole(rt, s.ID, runtime.StateRunning, theOwner))
				if got := w.find(service, theOwner); got != s.ID {
					t.Errorf("the owner has %q", got)
				}
			}
			w.OK(service.Close())
			w.OK(rt.Stop(w.Ctx, s.ID))
			w.OK(rt.Start(w.Ctx, s.ID))
			w.OK(rt.Destroy(w.Ctx, s.ID))
			service = w.openService(rt)
			w.OK(service.Close())
			w.nothing(rt)
		})
	}
}

// change changes a state file's JSON.
func (w *world) change(id, file string, f func(all map[string]any)) {
	w.Helper()
	path := filepath.Join(w.state, "sandboxes", id, file)
	b, err := os.ReadFile(path)
	w.OK(err)
	all := map[string]any{}
	w.OK(json.Unmarshal(b, &all))
	f(all)
	b, err = json.Marshal(all)
	w.OK(err)
	w.OK(os.WriteFile(path, b, 0o600))
}

// Process numbers that were recorded may mean somebody else by now, after enough
// processes or another boot: nobody else is killed, and the sandbox is what its
// lock says.
func TestRecordedProcessIsAnother(t *testing.T) {
	testenv.Need(t, probe.UserNamespaces, probe.Bubblewrap, probe.Fuse)
	w := newWorld(t, backend{name: bwrap.Name, shims: bwrap.Backend()})
	for name, record := range map[string]func(all map[string]any, stranger hostproc.Process){
		"the number was given again": func(all map[string]any, stranger hostproc.Process) { all["pid"] = stranger.PID },
		"in another boot, at the same time": func(all map[string]any, stranger hostproc.Process) {
			all["pid"], all["start"], all["bootId"] = stranger.PID, strconv.FormatUint(stranger.Start, 10), "00000000-0000-0000-0000-000000000000"
		},
		"the machine has booted": func(all map[string]any, _ hostproc.Process) { all["bootId"] = "00000000-0000-0000-0000-000000000000" },
		"it is PID 1":            func(all map[string]any, _ hostproc.Process) { all["pid"] = 1 },
		"it is all of a group":   func(all map[string]any, _ hostproc.Process) { all["pid"] = -1 },
		"it is nobody":           func(all map[string]any, _ hostproc.Process) { all["pid"] = 1 << 30 },
	} {
		for _, state := range []runtime.State{runtime.StateRunning, runtime.StateDead} {
			t.Run(name+"/"+string(state), func(t *testing.T) {
				w.T = suite.New(t)
				rt := w.open()
				defer rt.Close()
				s, err := rt.Create(w.Ctx, w.config(theOwner))
				w.OK(err)
				w.OK(rt.Start(w.Ctx, s.ID))
				if state == runtime.StateDead {
					w.die(s.ID)
				}
				// It has the id as an argument, as the parts of a sandbox have.
				in, hold, err := os.Pipe()
				w.OK(err)
				defer in.Close()
				defer hold.Close()
				stranger := &exec.Cmd{Path: "/bin/sh", Args: []string{"sh", "-c", "read x", "wolffia", "shim", s.ID}, Stdin: in}
				w.OK(stranger.Start())
				own.Store(stranger.Process.Pid, true)
				defer own.Delete(stranger.Process.Pid)
				defer func() { _ = stranger.Wait() }()
				defer func() { _ = stranger.Process.Kill() }()
				p, err := hostproc.Read(stranger.Process.Pid)
				w.OK(err)
				w.change(s.ID, "shim.json", func(all map[string]any) { record(all, p) })
				if got, err := rt.Get(w.Ctx, s.ID); err != nil || got.State != state {
					t.Errorf("Get: got %+v, err %v; want err == nil and got.State == %v", got, err, state)
				}
				if state == runtime.StateRunning {
					w.OK(w.whole(rt, s.ID, state, theOwner))
				}
				w.OK(rt.Stop(w.Ctx, s.ID))
				w.OK(rt.Start(w.Ctx, s.ID))
				w.change(s.ID, "shim.json", func(all map[string]any) { record(all, p) })
				w.OK(rt.Destroy(w.Ctx, s.ID))
				if now, err := hostproc.Read(p.PID); err != nil || now.Dead() || now.Start != p.Start {
					t.Errorf("a stranger was killed: %v, %v", now, err)
				}
				// The kernel lets go of a process's lock, which Destroy waits for, before the
				// process is gone.
				w.Until("nothing of the sandbox", func() bool {
					return !slices.ContainsFunc(processes(t), func(q proc) bool { return part(q, nil) != "" && q.sandbox() == s.ID })
				})
			})
		}
	}
	w.T = suite.New(t)
	w.nothing(w.open())
}
