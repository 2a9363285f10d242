package service

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"path"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"wolffia/internal/filecall"
	"wolffia/runtime"
	"wolffia/runtime/launch"
)

// An Inside is a handle on a sandbox of a service for working in it. It holds nothing, so it is
// not closed. It is safe for concurrent use.
type Inside struct {
	service *Service
	box     *Sandbox
}

// notRunning returns the error for using a sandbox that does not run.
func notRunning(b *Sandbox) error {
	if b.State == runtime.StatePaused {
		return runtime.Errorf(runtime.ErrConflict, "sandbox %s is paused: resume it", b.ID)
	}
	return runtime.Errorf(runtime.ErrConflict, "sandbox %s is not running: it is %s", b.ID, b.State)
}

// Inside returns a handle on a sandbox. One that is not running is [runtime.ErrConflict].
func (s *Service) Inside(ctx context.Context, caller Caller, id string) (*Inside, error) {
	b, err := s.Get(ctx, caller, id)
	if err != nil {
		return nil, err
	}
	if !b.Usable() {
		return nil, notRunning(b)
	}
	s.usedAt.now(id)
	return &Inside{s, b}, nil
}

// Sandbox returns the sandbox as it was when the handle was made.
func (i *Inside) Sandbox() *Sandbox { return i.box }

// DialPort connects to the server at a port inside, as [runtime.Executor] says.
func (i *Inside) DialPort(ctx context.Context, port int) (net.Conn, error) {
	return i.service.rt.DialPort(ctx, i.box.ID, port)
}

// StartProcess starts a program with arguments, without a shell, as [runtime.Executor] says.
func (i *Inside) StartProcess(ctx context.Context, cmd *runtime.Command) (runtime.Process, error) {
	return i.service.rt.StartProcess(ctx, i.box.ID, cmd)
}

// Kept returns the processes that were started to outlive their callers, and have none: see
// [runtime.Kept].
func (i *Inside) Kept(ctx context.Context) ([]runtime.KeptProcess, error) {
	return runtime.Kept(ctx, i.service.rt, i.box.ID)
}

// A Command is a command that its caller reads the output of. The caller closes it, which
// ends it if it runs.
type Command struct {
	runtime.Process
	ID      string
	session string // empty: none
	of      *commands
	ran     func(runtime.Result) // counts it
	done    chan struct{}        // closed when status is complete
	once    sync.Once

	status runtime.Job // guarded by of.mu
	failed string      // why it has no exit code of its own; empty: it has. Guarded by of.mu
}

// maxEnded is how many commands of a sandbox that have ended are known.
const maxEnded = 100

// commands are the commands of one sandbox that this process has begun.
type commands struct {
	mu    sync.Mutex
	shell string              // empty: not known yet
	all   map[string]*Command // by id
	ended []string            // ids, oldest first
	last  *filecall.Host      // the sample of the last Usage

	sessions map[string]bool // names of those that existed when they were last looked for
}

// used are the commands of sandboxes. The zero value is ready to use.
type used struct {
	mu  sync.Mutex
	all map[string]*commands // by id of a sandbox; guarded by mu
}

// of returns the commands of a sandbox.
func (u *used) of(id string) *commands {
	u.mu.Lock()
	defer u.mu.Unlock()
	c := u.all[id]
	if c == nil {
		c = &commands{all: map[string]*Command{}, sessions: map[string]bool{}}
		if u.all == nil {
			u.all = map[string]*commands{}
		}
		u.all[id] = c
	}
	return c
}

// forget drops what is known of the commands of a sandbox that was stopped.
func (u *used) forget(id string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.all, id)
}

// maxForgotten is how many sandboxes may be known of that do not exist any more.
const maxForgotten = 1000

// sweep drops what is known of the commands of sandboxes that do not exist any more, such as
// those that have expired.
func (u *used) sweep(ctx context.Context, rt Runtime) {
	u.mu.Lock()
	known := len(u.all)
	u.mu.Unlock()
	if known < maxForgotten {
		return
	}
	all, err := rt.List(ctx)
	if err != nil {
		return // the next time
	}
	exists := map[string]bool{}
	for _, s := range all {
		exists[s.ID] = true
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	for id := range u.all {
		if !exists[id] {
			delete(u.all, id)
		}
	}
}

// newCommandID returns the id of a new command. It is a valid name of a job.
func newCommandID() string { return "c" + strings.ToLower(rand.Text()) }

// shell returns the program that evaluates commands: bash, or sh where bash does not exist. That bash
// cannot be started for another reason, such as a limit, is an error, and the next call looks again.
func (i *Inside) shell(ctx context.Context) (string, error) {
	c := i.service.used.of(i.box.ID)
	c.mu.Lock()
	known := c.shell
	c.mu.Unlock()
	if known != "" {
		return known, nil
	}
	_, err := i.service.rt.Exec(ctx, i.box.ID, &runtime.Command{Command: []string{"bash", "-c", ":"}, Cwd: ownDir, Timeout: insideLimit})
	var start *runtime.StartError
	switch {
	case err == nil:
		known = "bash"
	case errors.As(err, &start) && start.Code == 127:
		known = "sh"
	default:
		return "", err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.shell = known
	return known, nil
}

// hasSession returns an error unless a session exists, or has existed: if it was destroyed
// by another process meanwhile, that is the error of the command.
func (i *Inside) hasSession(ctx context.Context, name string) error {
	c := i.service.used.of(i.box.ID)
	c.mu.Lock()
	known := c.sessions[name]
	c.mu.Unlock()
	if known {
		return nil
	}
	if _, err := i.service.rt.GetSession(ctx, runtime.SessionIn(i.box.ID, name)); err != nil {
		return err
	}
	i.noteSession(name, true)
	return nil
}

// noteSession notes whether a session exists.
func (i *Inside) noteSession(name string, exists bool) {
	c := i.service.used.of(i.box.ID)
	c.mu.Lock()
	defer c.mu.Unlock()
	if exists {
		c.sessions[name] = true
	} else {
		delete(c.sessions, name)
	}
}

// Run begins a command, which is one text: without Session a new shell evaluates it. Started, if not nil, is called
// at most once when the shell runs; without Session always, unless it could not be started. It must not block. A
// session that does not exist is [runtime.ErrNotFound]; of one that another process has destroyed it is the error of
// Wait, once. That the shell or the working directory does not exist is the error of Wait, before started.
func (i *Inside) Run(ctx context.Context, cmd *runtime.Command, started func()) (*Command, error) {
	text, own := cmd.Command[0], *cmd
	long := cmd.Session == "" && len(text) > maxArgument
	if cmd.Session == "" {
		shell, err := i.shell(ctx)
		if err != nil {
			return nil, err
		}
		own.Command = []string{shell, "-c", text}
		if long {
			own.Command, own.OpenStdin = []string{shell, "-c", evalInput}, true
		}
	} else {
		own.Cwd = i.absolute(cmd.Cwd)
		if err := i.hasSession(ctx, cmd.Session); err != nil {
			return nil, err
		}
	}
	if started != nil {
		once := sync.OnceFunc(started)
		own.Queued = func(waits bool) {
			if !waits {
				once()
			}
		}
	}
	id, begin := newCommandID(), time.Now()
	c := &Command{ID: id, session: cmd.Session, of: i.service.used.of(i.box.ID), done: make(chan struct{})}
	c.status = runtime.Job{ID: id, Command: beginning(text), StartedAt: time.Now()}
	c.ran = func(r runtime.Result) {
		i.service.ran(ctx, i.box.ID, i.box.Sandbox, cmd.Session != "", []string{beginning(text)}, time.Since(begin), &r)
	}
	var err error
	if c.Process, err = i.service.rt.StartProcess(ctx, i.box.ID, &own); err != nil {
		return nil, err
	}
	if long {
		go func() { // ends with the process
			_, _ = io.WriteString(c.Stdin(), text)
			_ = c.Stdin().Close()
		}()
	}
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	c.of.all[id] = c
	return c, nil
}

const (
	// maxArgument is the longest text that is an argument of its shell, in bytes. The kernel takes 128 KiB.
	maxArgument = 64 << 10
	// evalInput evaluates the text on standard input, where the text finds nothing more.
	evalInput = `eval "$(cat || echo exit 127)" </dev/null`
)

// beginning returns the beginning of a command, to remember it by.
func beginning(text string) string {
	const most = 1000 // bytes
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "..."
}

// Wait implements [runtime.Process].
func (c *Command) Wait(ctx context.Context) (runtime.Result, error) {
	exit, err := c.Process.Wait(ctx)
	if err == nil || ctx.Err() == nil {
		c.finish(exit, err)
	}
	return exit, err
}

// Close implements [runtime.Process].
func (c *Command) Close() error {
	err := c.Process.Close()
	c.finish(runtime.Result{}, errClosed)
	return err
}

var errClosed = errors.New("the client has gone")

// finish records how the command has ended. The first call counts.
func (c *Command) finish(exit runtime.Result, err error) {
	c.once.Do(func() {
		defer close(c.done)
		c.ran(exit)
		c.of.mu.Lock()
		defer c.of.mu.Unlock()
		c.status.EndedAt = time.Now()
		if errors.Is(err, runtime.ErrNotFound) { // it went with an earlier start of the sandbox, or another process has destroyed it
			delete(c.of.sessions, c.session)
		}
		switch {
		case err != nil:
			c.failed = err.Error()
		case exit.TimedOut:
			c.failed = "the command has timed out"
		default:
			code := exit.ExitCode
			c.status.ExitCode = &code
		}
		c.of.ended = append(c.of.ended, c.ID)
		if len(c.of.ended) > maxEnded {
			delete(c.of.all, c.of.ended[0])
			c.of.ended = c.of.ended[1:]
		}
	})
}

// known returns a command of this process, nil if there is none.
func (i *Inside) known(id string) *Command {
	c := i.service.used.of(i.box.ID)
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.all[id]
}

// jobSession is the session whose jobs are the background commands.
const jobSession = "background"

// Background begins a command that outlives its caller and the service, with both streams
// of its output in one. Its Timeout binds while a service runs on the state directory. It
// returns the command's id.
func (i *Inside) Background(ctx context.Context, cmd *runtime.Command) (string, error) {
	id := newCommandID()
	if cmd.Timeout > 0 { // the next service reads it there
		id += "-" + strconv.FormatInt(time.Now().Add(cmd.Timeout).UnixMilli(), 36)
	}
	if _, err := i.service.enter(ctx, i.box); err != nil { // it tells by the session whether that was done
		return "", err
	}
	shell, err := i.shell(ctx)
	if err != nil {
		return "", err
	}
	own := *cmd
	begin := ownShell(shell)
	if user := cmp.Or(own.User, i.box.RunAs); user != "" { // the session that is the job is root's
		begin = strings.Replace(begin, ownWord, asUser+words(user)+" ", 1)
		own.User = ""
	}
	own.Command = []string{begin + words(cmd.Command...)} // $$ and signals are the command's then, as in the foreground
	if text := cmd.Command[0]; len(text) > maxArgument {
		end := newCommandID()
		own.Command[0] = begin + words(evalInput) + hereText + end + "'\n" + text + "\n" + end
	}
	if _, err := i.job(ctx, id, &own); err != nil {
		return "", err
	}
	i.service.arm(i.box.ID, id)
	return id, nil
}

// oneOutput begins the text of a job whose errors go to its output.
const oneOutput = "exec 2>&1\n"

// ownShell begins the line that runs a text, which follows as one word, in a shell of its own.
func ownShell(shell string) string { return ownWord + words(shell, "-c") + " " }

// ownWord begins such a line; instead of it, asUser and a word with a user that the shell is of.
const ownWord = "exec "

var asUser = ownWord + words(launch.GuestPath, launch.BecomeArg) + " "

// hereText comes before the name of the end of a text that is on standard input: see evalInput.
const hereText = " <<'"

// textOf returns the text of a background command from that of its job, of which only the beginning may be known.
func textOf(job string) string {
	text := strings.TrimPrefix(job, oneOutput)
	if rest, is := strings.CutPrefix(text, asUser); is {
		_, rest, _ = strings.Cut(rest, " ")
		text = ownWord + rest
	}
	for _, shell := range []string{"bash", "sh"} {
		if strings.HasPrefix(text, ownShell(shell)+words(evalInput)+hereText) {
			_, text, _ = strings.Cut(text, "\n")
			return text
		}
		if word, is := strings.CutPrefix(text, ownShell(shell)+"'"); is {
			return strings.TrimSuffix(strings.ReplaceAll(word, `'\''`, "'"), "'")
		}
	}
	return text
}

// job starts a job.
func (i *Inside) job(ctx context.Context, name string, cmd *runtime.Command) (*runtime.Job, error) {
	own := *cmd
	own.Command, own.Cwd = []string{oneOutput + cmd.Command[0]}, i.absolute(cmd.Cwd)
	jobs := i.Jobs(jobSession)
	if i.box.Root { // which can become any user
		jobs.User = "root"
	}
	return jobs.Start(ctx, name, &own)
}

// absolute returns a working directory as a session wants it.
func (i *Inside) absolute(dir string) string {
	if dir == "" || path.IsAbs(dir) {
		return dir
	}
	return path.Join(i.box.MountPoint, dir)
}

// arm has a background command killed at the deadline in its id, if it has one.
func (s *Service) arm(sandboxID, id string) {
	_, text, has := strings.Cut(id, "-")
	deadline, err := strconv.ParseInt(text, 36, 64)
	if !has || err != nil {
		return
	}
	time.AfterFunc(time.Until(time.UnixMilli(deadline)), func() { // a job that has ended gets no signal
		ctx, cancel := context.WithTimeout(context.Background(), undoLimit)
		defer cancel()
		_ = s.rt.SignalJob(ctx, runtime.SessionIn(sandboxID, jobSession), id, syscall.SIGKILL)
	})
}

// background returns a background command.
func (i *Inside) background(ctx context.Context, id string) (*runtime.Job, error) {
	j, err := i.Jobs(jobSession).Get(ctx, id)
	if errors.Is(err, runtime.ErrNotFound) {
		err = runtime.Errorf(runtime.ErrNotFound, "no command %q", id)
	}
	return j, err
}

// Status returns how a command is doing, by its ID, Command, times and ExitCode, and why it has no exit code of its own;
// empty: it has, or runs. Of those in the foreground the running ones and the last 100 that have ended are known, and
// none that an earlier service has begun.
func (i *Inside) Status(ctx context.Context, id string) (status *runtime.Job, failed string, err error) {
	if c := i.known(id); c != nil {
		c.of.mu.Lock()
		defer c.of.mu.Unlock()
		s := c.status
		return &s, c.failed, nil
	}
	j, err := i.background(ctx, id)
	if err != nil {
		return nil, "", err
	}
	j.ID, j.Command = id, textOf(j.Command)
	if !j.EndedAt.IsZero() && j.ExitCode == nil {
		failed = "the exit code is not known"
	}
	return j, failed, nil
}

// Logs returns the output of a background command from an offset in bytes on, as far as it
// is retained, and the offset of its end; dropped is how many bytes before it are lost.
func (i *Inside) Logs(ctx context.Context, id string, offset uint64) (output []byte, end, dropped uint64, err error) {
	j, err := i.background(ctx, id)
	if err != nil {
		return nil, 0, 0, err
	}
	o, err := i.Jobs(jobSession).Output(ctx, j, &offset, nil, maxLogs)
	if err != nil {
		return nil, 0, 0, err
	}
	out := &o.Stdout
	if len(out.Bytes) == 0 {
		return nil, max(offset, out.End), 0, nil
	}
	return out.Bytes, out.Next(), out.From - min(offset, out.From), nil
}

// maxLogs bounds an answer of Logs, in bytes.
const maxLogs = 8 << 20

// interruptGrace is how long an interrupted command may go on before it is killed.
const interruptGrace = 3 * time.Second

// Interrupt sends SIGINT to a command's processes, and kills them if they go on. It returns
// at once. For a command that has ended it does nothing.
func (i *Inside) Interrupt(ctx context.Context, id string) error {
	if c := i.known(id); c != nil {
		select {
		case <-c.done:
			return nil
		default:
		}
		err := c.Signal(syscall.SIGINT)
		go func() { // ends with the command, or kills it
			timer := time.NewTimer(interruptGrace)
			defer timer.Stop()
			select {
			case <-c.done:
			case <-timer.C:
				_ = c.Process.Close()
			}
		}()
		return err
	}
	j, err := i.background(ctx, id)
	if err != nil || !j.EndedAt.IsZero() {
		return err
	}
	session := runtime.SessionIn(i.box.ID, jobSession)
	if err := i.service.rt.SignalJob(ctx, session, id, syscall.SIGINT); err != nil {
		return err
	}
	go func() { // ends with the job, or kills it
		ctx, cancel := context.WithTimeout(context.Background(), interruptGrace)
		defer cancel()
		if _, err := i.service.rt.WaitJob(ctx, session, id); err != nil && ctx.Err() != nil {
			ctx, cancel := context.WithTimeout(context.Background(), undoLimit)
			defer cancel()
			_ = i.service.rt.SignalJob(ctx, session, id, syscall.SIGKILL)
		}
	}()
	return nil
}

// words returns a command as the words of a shell's line.
func words(command ...string) string {
	quoted := make([]string, len(command))
	for n, w := range command {
		quoted[n] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
	}
	return strings.Join(quoted, " ")
}

// Exec runs a program with arguments to its end, without a shell. A command that has timed out is
// a [*TimeoutError], a program that cannot be started a [*runtime.StartError].
func (i *Inside) Exec(ctx context.Context, cmd *runtime.Command) (*runtime.Result, error) {
	begin := time.Now()
	r, err := i.service.rt.Exec(ctx, i.box.ID, cmd)
	if err == nil {
		i.service.ran(ctx, i.box.ID, i.box.Sandbox, false, cmd.Command, time.Since(begin), r)
	}
	return inTime(cmd, r, err)
}

// Start begins a program with arguments, without a shell. The caller closes the process.
func (i *Inside) Start(ctx context.Context, cmd *runtime.Command) (runtime.Process, error) {
	return i.service.rt.StartProcess(ctx, i.box.ID, cmd)
}

// CreateSession starts a shell that keeps its state, and returns its name: the given one, which is
// [runtime.ErrExists] if it is in use, or a new one if that is empty.
func (i *Inside) CreateSession(ctx context.Context, name, cwd string) (string, error) {
	name = cmp.Or(name, "s"+strings.ToLower(rand.Text()))
	s, err := i.service.rt.CreateSession(ctx, i.box.ID, &runtime.SessionConfig{Name: name, Cwd: i.absolute(cwd)})
	if err != nil {
		return "", err
	}
	i.noteSession(s.Name, true)
	return s.Name, nil
}

// DestroySession ends a session and all that it has started.
func (i *Inside) DestroySession(ctx context.Context, name string) error {
	i.noteSession(name, false)
	return i.service.rt.DestroySession(ctx, runtime.SessionIn(i.box.ID, name))
}
