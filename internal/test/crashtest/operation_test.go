package crashtest

import (
	"os"
	"path/filepath"
	"slices"
	"time"

	"wolffia/internal/host/probe"
	"wolffia/internal/test/testenv"
	"wolffia/local"
	"wolffia/runtime"
)

// none is the state of a sandbox that there is not.
const none runtime.State = ""

// A subject is the sandbox that a round is about.
type subject struct {
	id    string        // empty: there is none before
	state runtime.State // before
	was   *call         // the service; nil: there is none
}

// An end is how an operation has ended.
type end struct {
	subject
	ok           bool
	answer       string
	callerKilled bool // while it was at it
	partKilled   bool // any process of the sandbox
	replaced     bool // that was a shim that has a keeper
}

// An operation is what a process does to a sandbox, and what may be after it.
type operation struct {
	name    string
	needs   func(b backend) bool // whether the host has what it needs; nil: it has
	prepare func(w *world) subject
	begin   func(w *world, s *subject) *call
	// steps begins the names of the steps at which there are rounds; empty: at all of them.
	steps string
	// after are the states that the sandbox may have, and none.
	after func(e *end) []runtime.State
	// check is told what is there, nil: that is all.
	check func(w *world, rt *local.Runtime, e *end, id string, state runtime.State)
	// judge compares what is there with what may be; nil: the judge of command lines, or of the
	// service of owners.
	judge func(w *world, r *round, e *end)
}

// running makes a sandbox.
func running(w *world) subject {
	w.Helper()
	return made(w)
}

// named makes a sandbox whose network reaches one.example, and a port of the host.
func named(w *world) subject {
	w.Helper()
	return made(w, networkFlags...)
}

var networkFlags = []string{"--allow-host", "one.example", "--expose", "7:9000"}

// made makes a sandbox with more flags.
func made(w *world, more ...string) subject {
	w.Helper()
	c := w.cli(append([]string{"create", "--runtime", w.backend.name, "--codebase", w.codebase, "--mount-point", "/workspace", "--rule", "**=write", "--owner", "o/p/subject"}, slices.Concat(w.backend.flags, more)...)...)
	w.ends("create", c.done)
	if !c.ok {
		w.Fatalf("create: %s", c.answer)
	}
	return subject{id: c.answer, state: runtime.StateRunning}
}

// shell makes a sandbox with a shell in which A is 0.
func shell(w *world) subject {
	w.Helper()
	s := running(w)
	w.inSession(w.open(), s.id, "A=0")
	return s
}

func stopped(w *world) subject {
	w.Helper()
	s := running(w)
	w.OK(w.open().Stop(w.Ctx, s.id))
	s.state = runtime.StateStopped
	return s
}

func dead(w *world) subject {
	w.Helper()
	s := running(w)
	w.die(s.id)
	s.state = runtime.StateDead
	return s
}

// die has a sandbox end by the death of its shim, and of the keeper, if it has one,
// which would replace that.
func (w *world) die(id string) {
	w.Helper()
	all := parts(processes(w.TB), id)
	for _, name := range []string{theKeeper, theShim} {
		if p, there := all[name]; there {
			w.OK(p.kill())
		}
	}
	w.settled(w.open())
}

// pauses reports whether sandboxes of a backend can be paused here: with bubblewrap by their control groups.
func pauses(b backend) bool { return b.name != "bwrap" || testenv.Has(probe.Cgroups) }

// pausable makes a sandbox with a shell in which A is 0.
func pausable(w *world) subject {
	w.Helper()
	s := made(w, "--pids", "1000", "--limits", "best-effort")
	w.inSession(w.open(), s.id, "A=0")
	return s
}

func paused(w *world) subject {
	w.Helper()
	s := pausable(w)
	w.OK(w.open().Pause(w.Ctx, s.id))
	s.state = runtime.StatePaused
	return s
}

// goesOn checks that a sandbox runs, or is paused and can be resumed, with the shell in which A is 0.
func goesOn(w *world, rt *local.Runtime, _ *end, id string, state runtime.State) {
	w.Helper()
	if !state.Runs() {
		return
	}
	w.OK(rt.Resume(w.Ctx, id))
	if got := w.inSession(rt, id, "echo $A"); got != "0" {
		w.Fatalf("after the pause A is %q", got)
	}
}

func nobody(*world) subject { return subject{} }

// alive is the states of a sandbox that runs unless a part of it was killed.
func (e *end) alive() []runtime.State {
	switch {
	case e.replaced:
		return []runtime.State{runtime.StateDead, runtime.StateRunning}
	case e.partKilled:
		return []runtime.State{runtime.StateDead}
	}
	return []runtime.State{runtime.StateRunning}
}

// counted checks the shell in which A was 0, and was to become 1.
func counted(w *world, rt *local.Runtime, e *end, id string, state runtime.State) {
	w.Helper()
	if state != runtime.StateRunning {
		return // its shells went with it
	}
	got := w.inSession(rt, id, "echo $A")
	if got != "1" && (e.ok || got != "0") {
		w.Fatalf("A is %q; the operation: %v, %q", got, e.ok, e.answer)
	}
	if e.ok && e.answer != "1" && e.answer != `"1\n"` {
		w.Fatalf("it says %q", e.answer)
	}
}

// renewed checks the deadline of a sandbox that had none, and was to have one.
func renewed(w *world, rt *local.Runtime, e *end, id string, _ runtime.State) {
	w.Helper()
	s, err := rt.Get(w.Ctx, id)
	w.OK(err)
	left := time.Until(s.ExpiresAt)
	if has := left > 50*time.Minute && left <= time.Hour; !has && (e.ok || !s.ExpiresAt.IsZero()) || s.Expired != "" {
		w.Fatalf("it is to end at %v (%v); the operation: %v, %q", s.ExpiresAt, s.Expired, e.ok, e.answer)
	}
}

// ruled checks that the rules that were to forbid all writing do so, if that was
// acknowledged.
func ruled(w *world, rt *local.Runtime, e *end, id string, state runtime.State) {
	w.Helper()
	if state != runtime.StateRunning {
		return
	}
	r, err := rt.Exec(w.Ctx, id, &runtime.ExecRequest{Command: []string{"touch", "/workspace/forbidden"}})
	w.OK(err)
	if r.ExitCode == 0 && e.ok {
		w.Fatalf("it may write; the operation: %v, %q", e.ok, e.answer)
	}
	_ = os.Remove(filepath.Join(w.codebase, "forbidden"))
}

// reaches returns a check that names are found inside, or not, if that was acknowledged. The gateway and the port
// that is exposed work in any case.
func reaches(names map[string]bool) func(w *world, rt *local.Runtime, e *end, id string, state runtime.State) {
	return func(w *world, rt *local.Runtime, e *end, id string, state runtime.State) {
		w.Helper()
		if state != runtime.StateRunning {
			return
		}
		for name, want := range names {
			r, err := rt.Exec(w.Ctx, id, &runtime.ExecRequest{Command: []string{"getent", "hosts", name}})
			w.OK(err)
			if found := r.ExitCode == 0; found != want && (e.ok || name == "other.example") {
				w.Fatalf("%s is found: %v; the operation: %v, %q", name, found, e.ok, e.answer)
			}
		}
		r, err := rt.Exec(w.Ctx, id, &runtime.ExecRequest{Command: []string{"grep", "-qi", " 0100007F:2328 00000000:0000 0A ", "/proc/net/tcp"}}) // 127.0.0.1:9000 listens
		w.OK(err)
		if r.ExitCode != 0 {
			w.Fatalf("nothing listens at the exposed port: %s", r.Stderr)
		}
	}
}

// commandLines are the operations of the command line.
func commandLines() []operation {
	line := func(args ...string) func(w *world, s *subject) *call {
		return func(w *world, s *subject) *call {
			all := slices.Clone(args)
			for i, arg := range all {
				all[i] = map[string]string{"ID": s.id, "CODEBASE": w.codebase, "BACKEND": w.backend.name}[arg]
				if all[i] == "" {
					all[i] = arg
				}
			}
			if all[0] == "create" || all[0] == "run" {
				all = slices.Insert(all, 1, w.backend.flags...)
			}
			return w.cli(all...)
		}
	}
	create := []string{"--runtime", "BACKEND", "--codebase", "CODEBASE", "--mount-point", "/workspace", "--rule", "**=write", "--owner", "o/p/subject"}
	start := func(e *end) []runtime.State {
		switch {
		case e.callerKilled:
			return []runtime.State{e.state, runtime.StateRunning, runtime.StateDead}
		case e.ok:
			return e.alive()
		}
		return []runtime.State{e.state, runtime.StateDead}
	}
	use := func(e *end) []runtime.State { return e.alive() }
	created := func(e *end) []runtime.State {
		switch {
		case e.callerKilled:
			return []runtime.State{none, runtime.StateCreated, runtime.StateRunning}
		case e.ok:
			return e.alive()
		}
		return []runtime.State{none}
	}
	return []operation{
		{name: "create", prepare: nobody, begin: line(append([]string{"create"}, create...)...), after: created},
		{name: "start one that is stopped", prepare: stopped, begin: line("start", "ID"), after: start},
		{name: "start one that is dead", prepare: dead, begin: line("start", "ID"), after: start},
		{name: "exec", prepare: running, begin: line("exec", "ID", "--", "sh", "-c", "echo all of it"), after: use, check: func(w *world, _ *local.Runtime, e *end, _ string, _ runtime.State) {
			if e.ok && e.answer != "all of it" {
				w.Fatalf("it says %q", e.answer)
			}
		}},
		{name: "session exec", prepare: shell, begin: line("exec", "--session", "main", "ID", "--", "A=$((A+1)); echo $A"), after: use, check: counted},
		{name: "stop", prepare: running, begin: line("stop", "ID"), after: func(e *end) []runtime.State {
			switch {
			case e.callerKilled:
				return []runtime.State{runtime.StateRunning, runtime.StateStopped}
			case e.partKilled:
				return []runtime.State{runtime.StateStopped, runtime.StateDead}
			}
			return []runtime.State{runtime.StateStopped}
		}},
		{name: "pause", needs: pauses, prepare: pausable, begin: line("pause", "ID"), after: func(e *end) []runtime.State {
			switch {
			case e.callerKilled:
				return append(e.alive(), runtime.StatePaused)
			case e.ok && !e.partKilled:
				return []runtime.State{runtime.StatePaused}
			}
			return e.alive()
		}, check: goesOn},
		{name: "resume", needs: pauses, prepare: paused, begin: line("resume", "ID"), after: func(e *end) []runtime.State {
			if e.callerKilled {
				return append(e.alive(), e.state)
			}
			return e.alive()
		}, check: goesOn},
		{name: "stop one that is paused", needs: pauses, prepare: paused, begin: line("stop", "ID"), after: func(e *end) []runtime.State {
			switch {
			case e.callerKilled:
				return []runtime.State{e.state, runtime.StateRunning, runtime.StateStopped}
			case e.partKilled:
				return []runtime.State{runtime.StateStopped, runtime.StateDead}
			}
			return []runtime.State{runtime.StateStopped}
		}},
		{name: "touch", prepare: running, begin: line("touch", "--ttl", "1h", "ID"), after: use, check: renewed},
		{name: "policy set", prepare: running, begin: line("policy", "set", "ID", "--rule", "**=read"), after: use, check: ruled},
		{name: "create with names", prepare: nobody, begin: line(append(append([]string{"create"}, create...), networkFlags...)...), after: created, check: reaches(map[string]bool{"one.example": true, "other.example": false})},
		{name: "network allow", prepare: named, begin: line("network", "allow", "ID", "two.example"), after: use, check: reaches(map[string]bool{"two.example": true, "other.example": false})},
		{name: "network deny", prepare: named, begin: line("network", "deny", "ID", "one.example"), after: use, check: reaches(map[string]bool{"one.example": false, "other.example": false})},
		{name: "prune", prepare: dead, begin: line("prune"), after: func(e *end) []runtime.State {
			if e.callerKilled {
				return []runtime.State{none, runtime.StateDead}
			}
			return []runtime.State{none}
		}},
		{name: "destroy", prepare: shell, begin: line("rm", "-f", "ID"), after: func(e *end) []runtime.State {
			if e.callerKilled {
				return []runtime.State{none, runtime.StateRunning, runtime.StateStopped}
			}
			return []runtime.State{none}
		}},
		{name: "run", prepare: nobody, begin: line(append(append([]string{"run"}, create...), "--", "sh", "-c", "echo made > file; cat file")...), after: func(*end) []runtime.State {
			return []runtime.State{none}
		}, check: func(w *world, _ *local.Runtime, e *end, _ string, _ runtime.State) {
			b, err := os.ReadFile(filepath.Join(w.codebase, "file"))
			if e.ok && (e.answer != "made" || err != nil || string(b) != "made\n") {
				w.Fatalf("it says %q; the file has %q, %v", e.answer, b, err)
			}
			_ = os.Remove(filepath.Join(w.codebase, "file"))
		}},
	}
}

// mustSucceed are operations that nobody's death keeps from their end but their
// caller's.
var mustSucceed = []string{"stop", "destroy", "service destroy", "fleet destroy"}

// serving starts a service.
func serving(w *world) subject {
	w.Helper()
	c := w.serve()
	w.ends("a service starts", c.done)
	if !c.ok {
		w.Fatalf("a service: %s", c.answer)
	}
	return subject{was: c}
}

// services are the operations of a service.
func services() []operation {
	has := func(w *world) subject {
		w.Helper()
		s := serving(w)
		c := s.was.ask("create subject")
		w.ends("create", c.done)
		if !c.ok {
			w.Fatalf("create: %s", c.answer)
		}
		s.id, s.state = c.answer, runtime.StateRunning
		c = s.was.ask("exec subject A=0")
		w.ends("exec", c.done)
		return s
	}
	ask := func(line string) func(w *world, s *subject) *call {
		return func(_ *world, s *subject) *call { return s.was.ask(line) }
	}
	return []operation{
		{name: "service create", prepare: serving, begin: ask("create subject"), after: func(e *end) []runtime.State {
			switch {
			case e.callerKilled:
				return []runtime.State{none, runtime.StateRunning}
			case e.ok:
				return e.alive()
			}
			return []runtime.State{none}
		}},
		{name: "service ensure", prepare: func(w *world) subject {
			s := has(w)
			w.die(s.id)
			s.state = runtime.StateDead
			return s
		}, begin: ask("ensure subject"), after: func(e *end) []runtime.State {
			switch {
			case e.callerKilled:
				return []runtime.State{none, runtime.StateDead, runtime.StateRunning}
			case e.ok:
				return e.alive()
			}
			return []runtime.State{none, runtime.StateDead}
		}},
		{name: "service exec", prepare: has, begin: ask("exec subject A=$((A+1)); echo $A"), after: func(e *end) []runtime.State {
			return e.alive()
		}, check: counted},
		{name: "service destroy", prepare: has, begin: ask("destroy subject"), after: func(e *end) []runtime.State {
			if e.callerKilled {
				return []runtime.State{none, runtime.StateRunning}
			}
			return []runtime.State{none}
		}},
		// What the one before has left half made it destroys.
		{name: "service starts", prepare: func(w *world) subject {
			w.Helper()
			s := serving(w)
			w.steps.begin(func(a *arrival) bool { return a.role == theCaller && a.name == "service: made" })
			defer w.steps.end()
			c := s.was.ask("create subject")
			select {
			case a := <-w.steps.held:
				w.OK(c.proc.kill())
				a.release()
			case <-c.done:
				w.Fatalf("create: %s", c.answer)
			}
			w.ends("a service that was killed", c.gone)
			if left := w.subjects(); len(left) != 1 {
				w.Fatalf("half made are %v", left)
			}
			return subject{state: none}
		}, begin: func(w *world, s *subject) *call {
			s.was = w.serve()
			return s.was
		}, after: func(*end) []runtime.State { return []runtime.State{none} }},
	}
}
