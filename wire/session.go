package wire

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"unicode/utf8"
)

// A SessionOp is the operation of a request about shell sessions.
type SessionOp uint8

// The operations. The zero SessionOp is invalid. docs/wire.md lists, for each operation, the
// fields of [SessionRequest] and of the [StartRequest] around it that count, and the answer; other
// fields are ignored. A channel that cannot do its operation ends with [Failed], whose class is
// the kind of failure.
const (
	_ SessionOp = iota
	// SessionCreate starts a shell, and answers as SessionGet. Class [ClassExists] if a session of
	// the name exists. Args[0], if given, is the text that the shells of its terminals run, in
	// place of typed commands.
	SessionCreate
	// SessionExec runs the text Args[0], any bytes but NUL, in the session's
	// shell. Dir (empty: where the session is) and Env (variables beside those of the
	// session) hold for this call only. TimeoutMS counts from when it is its turn.
	// With Keep the command is known as Job (see [CheckSessionName])
	// and does not end with the channel, which Kill only closes: another
	// request for the same Job watches the same command, from its first byte on,
	// also when it is over. Neither Stdin nor TTY then; credit does not hold it
	// up. [ClassExists] if Job was another request.
	SessionExec
	// SessionDestroy ends a session and all that it has started. Commands that run or
	// wait end with SessionEnded.
	SessionDestroy
	// SessionList answers with JSON of []SessionInfo on Stdout.
	SessionList
	// SessionGet answers with JSON of a SessionInfo on Stdout.
	SessionGet
	// SessionJobs answers with JSON of []JobInfo on Stdout; with an empty Name those
	// of all sessions, destroyed ones included.
	SessionJobs
	// SessionJobStart starts the text Args[0] as a background job that has
	// the session's state, and answers with JSON of a JobInfo on Stdout. It waits for
	// its turn as SessionExec does.
	SessionJobStart
	// SessionJobOutput sends what a job has written since Offset and ErrOffset (bytes
	// since its start), apart as Stdout and Stderr.
	SessionJobOutput
	// SessionJobWait ends with Exit when the job is over. The code is the job's if it
	// is known (SessionJobStart), else StatusLost is true.
	SessionJobWait
	// SessionJobSignal sends Signal to all processes of a job.
	SessionJobSignal
	// SessionAttach shows the session's second shell, an interactive one on a terminal of its own.
	// It starts that shell, with the session's state, if it does not run. Resize sets the size for
	// all viewers. Kill detaches, and does not end the shell. The first line of Stderr is JSON of
	// a TerminalInfo.
	SessionAttach
	// SessionCancel interrupts the command that SessionExec has kept as Job, or
	// takes it from the queue. It ends at once; a command that is over is left as it is.
	SessionCancel
	// SessionPrepare starts a shell of the default kind for the first session that asks for the
	// same Dir, Env, Rows and Cols, and ends when it is at its prompt. The shell ends if a process
	// is started before.
	SessionPrepare
	// SessionLeft answers with JSON of []LeftPath on Stdout: what the sandbox has in the home
	// directory Dir and loses with its end.
	SessionLeft

	sessionOpEnd
)

// A SessionRequest asks something of a shell session; see the operations for
// the fields that count.
type SessionRequest struct {
	Op SessionOp
	// Name is the session's: see [CheckSessionName].
	Name string
	// Shell is "bash" or "sh" or a path; empty means bash if there is one,
	// else sh.
	Shell string
	// Job is a job's id or name.
	Job string
	// Offset and ErrOffset say where to start, in bytes; FromEnd means at the next output. Bytes
	// that are not kept any more are skipped.
	Offset, ErrOffset uint64
	// Signal is a signal's number.
	Signal uint8
	// RC has the shell read the user's start files.
	RC bool
	// NoWait refuses with ClassConflict when the session is busy.
	NoWait bool
	// Follow continues until the job's output ends.
	Follow bool
	// Takeover detaches all other viewers.
	Takeover bool
	// Keep has the command outlive the channel.
	Keep bool
	// User is the user inside that the shell of a new session is of: NAME or UID, also with :GROUP.
	// Empty: PID 1's.
	User string
	// SameUser refuses a session of another user with ClassConflict.
	SameUser bool
	// Create has SessionExec and SessionAttach create the session first if it does
	// not exist, as SessionCreate does with Shell, RC, Rows and Cols; nil: that is
	// ClassNotFound.
	Create *SessionStart
}

// A SessionStart is what the shell of a new session starts with.
type SessionStart struct {
	Env []string // the whole environment, as KEY=VALUE
	Dir string   // the working directory
}

// MaxKept is how much is kept of each stream of a command that outlives its
// channel, in bytes.
const MaxKept = 16 << 20

// FromEnd as an Offset means behind all that there is.
const FromEnd = 1<<64 - 1

// MaxSessionName is the longest name of a session or a job, in bytes.
const MaxSessionName = 64

// CheckSessionName returns the reason why name cannot name a session or a job, or nil: a name has
// letters, digits, and, but for the first, any of "._-".
func CheckSessionName(name string) error {
	if name == "" || len(name) > MaxSessionName {
		return fmt.Errorf("session name %q: want 1 to %d characters", name, MaxSessionName)
	}
	for i, c := range []byte(name) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case i > 0 && (c == '.' || c == '_' || c == '-'):
		default:
			return fmt.Errorf("session name %q: want letters, digits and, not first, any of ._-", name)
		}
	}
	return nil
}

// flags are those of a session request's second byte, from its lowest bit on; then comes
// flagCreate.
func (r *SessionRequest) flags() []*bool {
	return []*bool{&r.RC, &r.NoWait, &r.Follow, &r.Takeover, &r.Keep}
}

const (
	flagCreate   = 1 << 5
	flagUser     = 1 << 6
	flagSameUser = 1 << 7
)

// appendTo appends the request as bytes: see docs/wire.md.
func (r *SessionRequest) appendTo(b []byte) []byte {
	flags := pack(r.flags())
	if r.Create != nil {
		flags |= flagCreate
	}
	if r.User != "" {
		flags |= flagUser
	}
	if r.SameUser {
		flags |= flagSameUser
	}
	b = append(b, byte(r.Op), flags, r.Signal)
	b = binary.AppendUvarint(b, r.Offset)
	b = binary.AppendUvarint(b, r.ErrOffset)
	b = appendString(b, r.Name)
	b = appendString(b, r.Shell)
	b = appendString(b, r.Job)
	if r.Create != nil {
		b = appendList(appendString(b, r.Create.Dir), r.Create.Env)
	}
	if r.User != "" {
		b = appendString(b, r.User)
	}
	return b
}

func (p *parser) session() *SessionRequest {
	if len(p.rest) < 3 || p.rest[0] == 0 || p.rest[0] >= byte(sessionOpEnd) {
		p.bad, p.rest = true, nil
		return nil
	}
	r := &SessionRequest{Op: SessionOp(p.rest[0]), Signal: p.rest[2]}
	unpack(p.rest[1], r.flags())
	flags := p.rest[1]
	r.SameUser = flags&flagSameUser != 0
	p.rest = p.rest[3:]
	r.Offset, r.ErrOffset = p.number(), p.number()
	r.Name, r.Shell, r.Job = p.text(), p.text(), p.text()
	if flags&flagCreate != 0 {
		r.Create = &SessionStart{Dir: p.text(), Env: p.list()}
	}
	if flags&flagUser != 0 {
		if r.User = p.text(); r.User == "" { // each request has one form
			p.bad = true
		}
	}
	return r
}

// The classes of a [Failure]; its zero class means no class.
const (
	ClassInvalid     = "invalid"     // the request makes no sense
	ClassNotFound    = "notFound"    // no such session or job
	ClassExists      = "exists"      // the name is taken
	ClassConflict    = "conflict"    // busy
	ClassUnavailable = "unavailable" // the shell or the system fails
	ClassUnsupported = "unsupported" // not with this shell
)

// What a replaced shell has got back of its predecessor's state.
const (
	RestoredFull    = "full"    // all that a snapshot holds, as of its end
	RestoredPartial = "partial" // an older snapshot, or without functions (dash)
	RestoredNone    = "none"    // nothing
)

// The states of a session and of a job.
const (
	StateIdle    = "idle"    // waits for a command
	StateRunning = "running" // runs one
	StateEnded   = "ended"   // its shell has ended; the next command starts a new one
	StateStopped = "stopped" // a job whose processes are stopped
)

// A SessionInfo describes a session. Times are milliseconds since 1970.
type SessionInfo struct {
	Name      string `json:"name"`
	Shell     string `json:"shell"` // the program's path
	PID       int    `json:"pid"`   // of the shell; 0 if it has ended
	State     string `json:"state"`
	Cwd       Path   `json:"cwd"`
	CreatedMS int64  `json:"createdAt"`
	UsedMS    int64  `json:"usedAt"`   // when a command last started or ended
	Commands  int64  `json:"commands"` // how many were run
	Waiting   int    `json:"waiting"`  // how many wait for their turn
	Jobs      int    `json:"jobs"`     // background jobs that run
	Restarts  int    `json:"restarts"` // how often the shell was replaced
	Restored  string `json:"restored,omitempty"`
	// Terminal is the one to attach to; nil before the first viewer.
	Terminal *TerminalInfo `json:"terminal,omitempty"`
}

// A TerminalInfo describes a session's terminal. Offsets count the bytes that
// it has printed since it was opened.
type TerminalInfo struct {
	PID     int    `json:"pid"`     // of its shell
	Start   uint64 `json:"start"`   // for SessionAttach: of the first byte sent; else the oldest byte kept
	End     uint64 `json:"end"`     // behind the last byte printed
	Viewers int    `json:"viewers"` // how many watch, the new one included
	Rows    uint16 `json:"rows"`
	Cols    uint16 `json:"cols"`
}

// A JobInfo describes a background job: all processes that one command has left running. Times are
// milliseconds since 1970. Offsets count the bytes that the job has written since its start
// (SessionJobStart), or since the result of the command that has left it. The bytes from Start on
// are kept.
type JobInfo struct {
	ID        string `json:"id"` // unique in the sandbox
	Name      string `json:"name,omitempty"`
	Session   string `json:"session"`
	Command   string `json:"command"` // how the command that started it begins
	State     string `json:"state"`   // running, stopped, ended
	PIDs      []int  `json:"pids"`
	StartedMS int64  `json:"startedAt"`
	EndedMS   int64  `json:"endedAt,omitempty"`
	// Code is the exit code of a job of SessionJobStart that has ended; that
	// of others only the shell knows: nil.
	Code        *int   `json:"code,omitempty"`
	StdoutStart uint64 `json:"stdoutStart"`
	StdoutEnd   uint64 `json:"stdoutEnd"`
	StderrStart uint64 `json:"stderrStart"`
	StderrEnd   uint64 `json:"stderrEnd"`
}

// A Path is bytes that are mostly text. As JSON it is a string, or, where
// that would lose something, {"base64": "..."}.
type Path string

// MarshalJSON implements json.Marshaler.
func (p Path) MarshalJSON() ([]byte, error) {
	if utf8.ValidString(string(p)) {
		return json.Marshal(string(p))
	}
	return json.Marshal(rawPath{[]byte(p)})
}

// UnmarshalJSON implements json.Unmarshaler.
func (p *Path) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err == nil {
		*p = Path(s)
		return nil
	}
	var raw rawPath
	if err := json.Unmarshal(b, &raw); err != nil {
		return err
	}
	*p = Path(raw.Bytes)
	return nil
}

type rawPath struct {
	Bytes []byte `json:"base64"`
}

// A LeftPath is a file in a directory that ends with the sandbox, or a directory with Files files.
type LeftPath struct {
	Path  Path `json:"path"`
	Files int  `json:"files"`
	Dir   bool `json:"dir,omitempty"`
	// Worktree says that Path looks like a linked working tree of git, whose commits are elsewhere.
	Worktree bool `json:"worktree,omitempty"`
}
