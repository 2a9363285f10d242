package session

// A session's life is a machine. It is always in one state; whatever it waits for comes
// as an event. The events that end what a state does to the shell decide what becomes of
// the task, a caller's request or a snapshot; and then what is to do next decides the
// state:
//
//	state        what the shell does               done     lost          unread        broken
//	-----        -------------------               ----     ----          ------        ------
//	idle         waits, or there is none           -        -             -             -
//	starting     comes to its first prompt         goOn     fail          fail          fail
//	restoring    takes its predecessor's state     goOn     withoutState  withoutState  withoutState
//	created      is ready: create is answered      goOn     -             -             -
//	untrapping   puts the user's trap back         goOn     goOn          goOn          goOn
//	reverting    puts back what the last call      goOn     goOn          goOn          goOn
//	             has set for itself only
//	overriding   sets the call's Dir and Env       verify    fail          retry         fail
//	executing    runs the caller's text            reply    reply         retry         fail
//	launching    starts the caller's text as job   answer   fail          retry         fail
//	saving       prints its state                  save     save          save          save
//	leaving      is hung up: PID 1 is ending       -        -             -             -
//	gone         is killed                         -        -             -             -
//
// work, the fifth event, says that there may be something to do: it counts in the states
// idle and leaving, in which nothing runs in the shell.
//
// What is to do next is the first of these that applies: to be gone if that was asked
// for; to restore a new shell's state; to put back what was changed; without a task to
// leave, or to be idle; to start a shell; the steps of the task.

// A state is what a session does.
type state int

const (
	idle state = iota
	starting
	restoring
	created
	untrapping
	reverting
	overriding
	executing
	launching
	saving
	leaving
	gone
	stateCount
)

func (s state) String() string {
	return [...]string{
		"idle", "starting", "restoring", "created", "untrapping", "reverting", "overriding", "executing",
		"launching", "saving", "leaving", "gone",
	}[s]
}

// An event ends what a state does.
type event int

const (
	work   event = iota // there may be something to do
	done                // the shell has done it, and reported
	lost                // the shell is gone, or was killed since it did not report
	unread              // the same, and it has not come to the text: another shell can have it
	broken              // it could not be begun
	eventCount
)

// An effect is what an event does to the task.
type effect int

const (
	ignored      effect = iota // nothing happens
	goOn                       // the next step
	withoutState               // the shell was killed by the state: a new one gets none
	verify                     // look whether Dir and Env are set
	retry                      // the task begins again, in a new shell
	reply                      // the result is sent
	answer                     // the job is described
	save                       // the snapshot is kept
	fail                       // the task fails
)

// effectOf is the machine's table, see above.
func effectOf(in state, ev event) effect {
	if ev == work {
		if in == idle || in == leaving {
			return goOn
		}
		return ignored
	}
	switch in {
	case starting:
		if ev == done {
			return goOn
		}
		return fail
	case restoring:
		if ev == done {
			return goOn
		}
		return withoutState
	case created:
		if ev == done {
			return goOn
		}
	case untrapping, reverting:
		return goOn
	case saving:
		return save
	case overriding, executing, launching:
		switch {
		case ev == unread:
			return retry
		case ev == done && in == overriding:
			return verify
		case ev == done && in == launching:
			return answer
		case ev != broken && in == executing:
			return reply
		}
		return fail
	}
	return ignored
}

// facts are what the next state depends on.
type facts struct {
	ending   bool // the session was destroyed, or its first shell could not be started
	leaving  bool // PID 1 is about to end
	shell    bool
	stateful bool // the shell has yet to be given state
	trapped  bool // the user's trap on SIGINT was put aside
	revert   bool // something is to be put back that is not the task's
	task     taskKind
	override bool // the task has a Dir or Env that is not set yet
}

// A taskKind is what a task asks of the shell.
type taskKind int

const (
	noTask taskKind = iota
	createTask
	execTask
	jobTask
	snapshotTask
)

// next decides what the session does now that nothing runs in the shell.
func next(f facts) state {
	switch {
	case f.ending:
		return gone
	case f.shell && f.stateful:
		return restoring
	case f.shell && f.trapped:
		return untrapping
	case f.shell && f.revert:
		return reverting
	case f.task == noTask && f.leaving:
		return leaving
	case f.task == noTask:
		return idle
	case !f.shell && f.task == snapshotTask:
		return saving // of no shell: nothing
	case !f.shell:
		return starting
	case f.override:
		return overriding
	}
	return [...]state{createTask: created, execTask: executing, jobTask: launching, snapshotTask: saving}[f.task]
}
