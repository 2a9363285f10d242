package session

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/internal/sys/proc"
	"wolffia/wire"
)

// A Manager holds the sessions of a sandbox. It is safe for concurrent use.
type Manager struct {
	host Host

	mu       sync.Mutex
	next     int // number of the last session's directory; guarded by mu
	nextJob  int // number of the last job or what one is made of; guarded by mu
	sessions map[string]*Session
	jobs     []*job // oldest first; guarded by mu

	prestarted *prestarted // nil: none; guarded by mu

	load int // /proc/loadavg; -1: unknown

	remains atomic.Int64 // bytes that are reserved of maxRemains

	activity activity
}

// maxJobs bounds how many jobs that have ended are remembered.
const maxJobs = 200

// NewManager returns a Manager without sessions. It keeps one descriptor for
// as long as the process lives.
func NewManager(h Host) *Manager {
	m := &Manager{host: h, sessions: map[string]*Session{}}
	m.load, _ = unix.Open("/proc/loadavg", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	return m
}

// forked reports whether a process was made in the sandbox since last was
// set, and sets it: the last field of /proc/loadavg is the number of the
// newest process of the namespace (proc_loadavg(5)). Where that is not kept it
// is 0, and the answer always yes.
func (m *Manager) forked(last *string) bool {
	var buf [128]byte
	n, _ := unix.Pread(m.load, buf[:], 0)
	b := bytes.TrimSpace(buf[:max(n, 0)])
	now := string(b[bytes.LastIndexByte(b, ' ')+1:])
	same := now == *last && now != "" && now != "0"
	*last = now
	return !same
}

// Open begins what req asks for, which must have a Session. It does not wait.
// done is called before the frame that ends the channel is sent.
func (m *Manager) Open(channel uint32, w *wire.Writer, req *wire.StartRequest, done func()) *Call {
	c := &Call{
		channel: channel, w: w, req: req, done: done,
		credit: map[wire.Type]int{wire.Stdout: wire.Window, wire.Stderr: wire.Window},
	}
	c.setHandler(ignore{})
	switch q := req.Session; q.Op {
	case wire.SessionCreate:
		m.create(c)
	case wire.SessionPrepare:
		m.prestart(c)
	case wire.SessionList:
		go func() { m.answer(c, m.list()) }() // ends when it is sent
	case wire.SessionLeft:
		go func() { m.answer(c, left(req.Dir)) }() // ends when it is sent
	case wire.SessionJobs, wire.SessionJobOutput, wire.SessionJobWait, wire.SessionJobSignal:
		m.openJob(c)
	default:
		s := m.session(q.Name)
		switch {
		case s != nil:
			m.openSession(c, s)
		case q.Create != nil && (q.Op == wire.SessionExec || q.Op == wire.SessionAttach):
			m.create(c)
		default:
			c.fail(wire.ClassNotFound, fmt.Sprintf("no session %q", q.Name))
		}
	}
	return c
}

func (m *Manager) openSession(c *Call, s *Session) {
	c.setHandler(s)
	q := c.req.Session
	if q.SameUser && q.User != s.spec.who() {
		c.fail(wire.ClassConflict, fmt.Sprintf("session %q is of user %s: use another session, or su in it", s.name, cmp.Or(s.spec.who(), "root")))
		return
	}
	switch q.Op {
	case wire.SessionExec, wire.SessionJobStart:
		if err := checkText(c.req); err != nil {
			c.fail(wire.ClassInvalid, err.Error())
			return
		}
		if err := m.checkJob(q); err != nil {
			c.fail(wire.ClassExists, err.Error())
			return
		}
		s.turns.post(func() {
			if q.Keep {
				s.detach(c)
			} else {
				s.submit(c)
			}
		})
	case wire.SessionCancel:
		s.turns.post(func() { s.cancel(c) })
	case wire.SessionGet:
		s.turns.post(func() { m.answer(c, m.describe(s)) })
	case wire.SessionDestroy:
		s.turns.later(func() { s.destroy(c) })
	case wire.SessionAttach:
		s.turns.later(func() { s.attach(c) })
	default:
		c.fail(wire.ClassInvalid, fmt.Sprintf("unknown session operation %d", q.Op))
	}
}

// checkText returns the error of an invalid request to run a text, or nil.
func checkText(req *wire.StartRequest) error {
	q := req.Session
	switch {
	case len(req.Args) != 1:
		return fmt.Errorf("%d texts to run, want one", len(req.Args))
	case strings.Contains(req.Args[0], "\x00"):
		return errors.New("the text has a NUL, which no shell can run")
	case q.Op == wire.SessionJobStart && q.Job != "":
		if _, err := strconv.Atoi(q.Job); err == nil || wire.CheckSessionName(q.Job) != nil {
			return fmt.Errorf("job name %q: want letters, digits and ._-, and not only digits", q.Job)
		}
	case q.Keep:
		if err := wire.CheckSessionName(q.Job); err != nil {
			return fmt.Errorf("operation: %w", err)
		}
		if req.Stdin || req.TTY {
			return errors.New("a detached command has no input and no terminal")
		}
	}
	return nil
}

// terminalProgram returns what the terminals of a new session run.
func terminalProgram(req *wire.StartRequest) (string, error) {
	switch {
	case req.Session.Op != wire.SessionCreate || len(req.Args) == 0:
		return "", nil
	case len(req.Args) > 1:
		return "", fmt.Errorf("%d texts for a terminal to run, want one", len(req.Args))
	case strings.Contains(req.Args[0], "\x00"):
		return "", errors.New("the text for a terminal has a NUL, which no shell can run")
	}
	return req.Args[0], nil
}

func (m *Manager) session(name string) *Session {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.sessions[name]
}

// answer sends v as JSON on standard output, and ends the channel.
func (m *Manager) answer(c *Call, v any) {
	b, err := json.Marshal(v)
	if err == nil && len(b) > wire.Window {
		err = fmt.Errorf("%d bytes, at most %d can be sent", len(b), wire.Window)
	}
	if err != nil {
		c.fail(wire.ClassUnavailable, fmt.Sprintf("answer: %v", err))
		return
	}
	for part := range slices.Chunk(b, wire.MaxPayload) {
		_ = c.w.Send(wire.Stdout, c.channel, part)
	}
	c.exit(wire.ExitStatus{}) // the end of the output too
}

func (m *Manager) list() []wire.SessionInfo {
	infos := []wire.SessionInfo{}
	for _, s := range m.named("") {
		s.turns.wait(func() {}) // all earlier requests are done
		infos = append(infos, m.describe(s))
	}
	slices.SortFunc(infos, func(a, b wire.SessionInfo) int { return cmp.Compare(a.Name, b.Name) })
	return infos
}

// describe describes a session with its jobs.
func (m *Manager) describe(s *Session) wire.SessionInfo {
	s.mu.Lock()
	i := s.info
	s.mu.Unlock()
	i.Terminal = s.terms.info()
	i.Jobs = m.running(s.name)
	return i
}

// create starts a session, and then continues with the call if the call asks for more.
func (m *Manager) create(c *Call) {
	q := c.req.Session
	start := q.Create
	if q.Op == wire.SessionCreate {
		start = &wire.SessionStart{Env: c.req.Env, Dir: c.req.Dir}
	}
	if err := wire.CheckSessionName(q.Name); err != nil {
		c.fail(wire.ClassInvalid, err.Error())
		return
	}
	program, err := terminalProgram(c.req)
	if err != nil {
		c.fail(wire.ClassInvalid, err.Error())
		return
	}
	s, class, err := m.newSession(c.req, start)
	if err != nil {
		c.fail(class, err.Error())
		return
	}
	s.terms.program = program
	m.mu.Lock()
	if old := m.sessions[s.name]; old != nil {
		m.mu.Unlock()
		if q.Op != wire.SessionCreate { // another call was faster
			m.openSession(c, old)
			return
		}
		c.setHandler(old)
		old.turns.post(func() { old.collide(c) })
		return
	}
	begin := func() { s.start(c) }
	if a := m.claimPrestarted(s); a != nil {
		asked := s
		s, begin = a, func() { a.activate(asked, c) }
	}
	if q.Op != wire.SessionCreate {
		c.created = func() { m.openSession(c, s) }
	}
	c.setHandler(s)
	m.sessions[q.Name] = s
	defer m.mu.Unlock()
	s.turns.later(begin) // before any other call
}

// collide answers a call that is to create a session of the same name. While this one is only
// being created it is not told that it exists: its caller may give it up. As a call that waits for
// it, the call keeps it.
func (s *Session) collide(c *Call) {
	switch {
	case c.killed:
		c.giveUp()
	case s.state == terminated || s.ending: // the name is free again
		s.m.create(c)
	case s.task != nil && s.task.kind == createTask:
		s.queue = append(s.queue, c)
		s.publish()
	default:
		c.fail(wire.ClassExists, fmt.Sprintf("session %q exists", s.name))
	}
}

// newSession returns a session for a request; nothing is started. After an error, class is that of
// the answer.
func (m *Manager) newSession(req *wire.StartRequest, start *wire.SessionStart) (s *Session, class string, err error) {
	q := req.Session
	s = &Session{
		m: m, name: q.Name,
		spec: shellSpec{rc: q.RC, env: start.Env, home: start.Dir, rows: req.Rows, cols: req.Cols, umask: req.Umask},
	}
	s.turns.turn = s.turn
	s.alarms.timer = time.AfterFunc(time.Hour, func() { s.turns.post(func() { s.onTime(m.host.Clock.Now()) }) })
	s.alarms.timer.Stop()
	s.alarms.clock = m.host.Clock
	if q.User != "" {
		if s.spec.user, err = m.host.User(q.User); err != nil {
			return nil, wire.ClassInvalid, err
		}
		s.spec.env = Override(s.spec.env, s.spec.user.Env)
	}
	if s.spec.home == "" {
		s.spec.home = "/"
	}
	if s.spec.rows == 0 || s.spec.cols == 0 {
		s.spec.rows, s.spec.cols = 24, 80
	}
	if err := proc.CheckDir(s.spec.home); err != nil {
		return nil, wire.ClassInvalid, fmt.Errorf("working directory %q: %w", s.spec.home, err)
	}
	s.saved = checkpoint{spec: &s.spec, cwd: s.spec.home}
	if err := s.spec.choose(m.host.LookPath, q.Shell); err != nil {
		return nil, wire.ClassUnavailable, err
	}
	s.procs = &processes{m: m, session: s.name, mark: proc.NewMark()}
	s.terms.mark, s.ops.activity = proc.NewMark(), &m.activity
	s.info = wire.SessionInfo{Name: s.name, Shell: s.spec.path, CreatedMS: time.Now().UnixMilli()}
	return s, "", nil
}

// start starts the first shell, for a call that waits for it.
func (s *Session) start(c *Call) {
	var err error
	if s.ends, err = newEndpoints(func() (*dir, error) { return s.m.newDir(s.spec.user) }, s.spec.d, func() { s.turns.wait(s.onEvents) }); err != nil {
		s.m.forget(s)
		s.state = terminated
		c.fail(wire.ClassUnavailable, fmt.Sprintf("session %q: %v", s.name, err))
		return
	}
	s.task = &task{kind: createTask, call: c}
	s.work()
}

func (m *Manager) forget(s *Session) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.sessions[s.name] == s { // else the name has been given to another one
		delete(m.sessions, s.name)
	}
}

// Close releases the Manager's descriptor.
func (m *Manager) Close() { closeFD(&m.load) }

// Override returns an environment in which variables have other values.
func Override(env, with []string) []string {
	return append(slices.DeleteFunc(slices.Clone(env), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return slices.ContainsFunc(with, func(w string) bool { return strings.HasPrefix(w, name+"=") })
	}), with...)
}
