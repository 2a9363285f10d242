package session

// A session's life is a machine. It is always in one state; whatever it waits for comes
// as an event. The events that end what a state does to the shell decide what becomes of
// the task, a caller's request or a snapshot; and then what is to do next (see next)
// decides the state.

// A state is what a session does, or its shell.
type state int

const (
	idle       state = iota // waits, or there is no shell
	starting                // comes to its first prompt
	restoring               // takes its predecessor's state
	created                 // is ready: create is answered
	untrapping              // puts the user's trap back
	reverting               // puts back what the last call has set for itself only
	overriding              // sets the call's Dir and Env
	executing               // runs the caller's text
	launching               // starts the caller's text as job
	saving                  // prints its state
	leaving                 // is hung up: PID 1 is ending
	gone                    // is killed
	stateCount
)

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

// effects is the machine's table. Nothing runs in the shell in the states in which work
// counts.
var effects = [stateCount][eventCount]effect{
	//           work, done, lost, unread, broken
	idle:       {goOn},
	starting:   {ignored, goOn, fail, fail, fail},
	restoring:  {ignored, goOn, withoutState, withoutState, withoutState},
	created:    {ignored, goOn},
	untrapping: {ignored, goOn, goOn, goOn, goOn},
	reverting:  {ignored, goOn, goOn, goOn, goOn},
	overriding: {ignored, verify, fail, retry, fail},
	executing:  {ignored, reply, reply, retry, fail},
	launching:  {ignored, answer, fail, retry, fail},
	saving:     {ignored, save, save, save, save},
	leaving:    {goOn},
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
