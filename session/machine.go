package session

// A session is a state machine. It is always in one state, and receives events. An event that
// ends a state's work in the shell decides the effect on the task, which is a caller's request
// or a snapshot. Then next decides the following state.

// A state is what a session or its shell does.
type state int

const (
	idle         state = iota // waits, with a shell or without
	starting                  // comes to its first prompt
	restoring                 // takes its predecessor's state
	created                   // is ready: create is answered
	untrapping                // puts the user's trap back
	reverting                 // restores what the last call has set for itself only
	overriding                // sets the call's Dir and Env
	executing                 // runs the caller's text
	launching                 // starts the caller's text as job
	saving                    // prints its state
	shuttingDown              // runs nothing more: PID 1 is ending
	terminated                // has ended
	stateCount
)

// An event ends what a state does.
type event int

const (
	work   event = iota // there may be something to do
	done                // the shell has done it, and reported
	lost                // the shell has ended, or was killed because it did not report
	unread              // as lost, and the shell had not read the text: another shell can run it
	broken              // the run could not begin
	eventCount
)

// An effect is what an event does to the task.
type effect int

const (
	ignored   effect = iota // nothing happens
	advance                 // the next step
	dropState               // the shell was killed by the state: a new one gets none
	verify                  // look whether Dir and Env are set
	retry                   // the task begins again, in a new shell
	reply                   // the result is sent
	answer                  // the job is described
	save                    // the snapshot is kept
	fail                    // the task fails
)

// effects is the machine's table. Nothing runs in the shell in the states in which work
// counts.
var effects = [stateCount][eventCount]effect{
	//           work, done, lost, unread, broken
	idle:         {advance},
	starting:     {ignored, advance, fail, fail, fail},
	restoring:    {ignored, advance, dropState, dropState, dropState},
	created:      {ignored, advance},
	untrapping:   {ignored, advance, advance, advance, advance},
	reverting:    {ignored, advance, advance, advance, advance},
	overriding:   {ignored, verify, fail, retry, fail},
	executing:    {ignored, reply, reply, retry, fail},
	launching:    {ignored, answer, fail, retry, fail},
	saving:       {ignored, save, save, save, save},
	shuttingDown: {advance},
}

// facts are what the next state depends on.
type facts struct {
	ending       bool // the session was destroyed, or its first shell could not be started
	shuttingDown bool // PID 1 is about to end
	shell        bool
	stateful     bool // the shell needs state
	trapped      bool // the user's trap on SIGINT was put aside
	revert       bool // a setting of an earlier task must be restored
	task         taskKind
	override     bool // the task has a Dir or Env that is not set yet
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
		return terminated
	case f.shell && f.stateful:
		return restoring
	case f.shell && f.trapped:
		return untrapping
	case f.shell && f.revert:
		return reverting
	case f.task == noTask && f.shuttingDown:
		return shuttingDown
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
