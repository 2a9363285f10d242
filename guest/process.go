package guest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/internal/sys/proc"
	"wolffia/session"
	"wolffia/session/dialect"
	"wolffia/wire"
)

const (
	killGrace  = 300 * time.Millisecond // from SIGTERM to SIGKILL when a request's time limit is over
	deathLimit = 5 * time.Second        // how long processes that were killed are waited for
)

// A process is the process of one request, the leader of a session of its own, with
// its process tree and its streams.
type process struct {
	label  string    // unless empty, the process outlives its link
	in     *input    // nil without input
	outs   []*output // stdout, stderr; merged or a terminal: stdout only
	tty    *os.File  // the terminal's master side, or nil
	exited chan syscall.WaitStatus
	clean  func() // closes the process's ends of the streams, once started

	killing sync.Mutex // held while the tree is being killed
	killed  []int      // guarded by killing

	sending sync.Mutex // held while frames are sent: none follows the last one of a channel

	mu             sync.Mutex
	to             *place           // nil: nowhere; guarded by mu
	over           bool             // its last frame is sent, or goes nowhere; guarded by mu
	tree           proc.Tree        // guarded by mu
	pendingSignals []syscall.Signal // that came before the process existed, each once; guarded by mu
	timedOut       bool             // guarded by mu
	dropped        bool             // guarded by mu
}

// newProcess makes the streams that req asks for. It returns the three
// descriptors for the process.
func newProcess(to *place, req *wire.StartRequest) (_ *process, files []uintptr, err error) {
	p := &process{to: to, label: req.Keep, exited: make(chan syscall.WaitStatus, 1)}
	var theirs []int
	p.clean = func() {
		for _, fd := range theirs {
			_ = unix.Close(fd)
		}
	}
	defer func() {
		if err != nil {
			p.clean()
			p.closeOurs()
		}
	}()
	if req.TTY {
		master, fd, err := newTerminal()
		if err != nil {
			return nil, nil, fmt.Errorf("open a terminal: %w", err)
		}
		p.tty = master
		theirs = append(theirs, fd)
		if req.Rows > 0 && req.Cols > 0 {
			p.Resize(req.Rows, req.Cols)
		}
		p.in = newInput(master, true, to, &p.sending)
		p.outs = []*output{newOutput(master, wire.Stdout, true, to, &p.sending)}
		return p, []uintptr{uintptr(fd), uintptr(fd), uintptr(fd)}, nil
	}

	add := func(read bool) (*os.File, uintptr, error) {
		ours, fd, err := newPipe(read)
		if err == nil {
			theirs = append(theirs, fd)
		}
		return ours, uintptr(fd), err
	}
	files = make([]uintptr, 3)
	if req.Stdin {
		file, fd, err := add(false)
		if err != nil {
			return nil, nil, err
		}
		p.in, files[0] = newInput(file, false, to, &p.sending), fd
	} else {
		fd, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return nil, nil, fmt.Errorf("open /dev/null: %w", err)
		}
		theirs = append(theirs, fd)
		files[0] = uintptr(fd)
	}
	for i, stream := range []wire.Type{wire.Stdout, wire.Stderr} {
		if i == 1 && req.Merge {
			files[2] = files[1]
			break
		}
		file, fd, err := add(true)
		if err != nil {
			return nil, nil, err
		}
		p.outs = append(p.outs, newOutput(file, stream, false, to, &p.sending))
		files[1+i] = fd
	}
	return p, files, nil
}

func (p *process) closeOurs() {
	if p.in != nil {
		_ = p.in.file.Close()
	}
	for _, o := range p.outs {
		_ = o.file.Close()
	}
}

// run starts the process, and returns when its Exit or Failed frame is sent. Its time-out counts by
// clock.
func (p *process) run(r *reaper, clock *session.Clock, kept *keptProcesses, req *wire.StartRequest, files []uintptr) {
	pid, err := p.start(r, req, files)
	p.clean()
	if err != nil {
		p.closeOurs()
		name := ""
		if len(req.Args) > 0 {
			name = req.Args[0]
		}
		p.conclude(wire.Failed, failure(name, err))
		return
	}
	p.tell(wire.Started, binary.LittleEndian.AppendUint32(nil, uint32(pid)))
	if p.label != "" {
		kept.add(uint32(pid), p)
		defer kept.remove(uint32(pid))
	}

	stopLimit := func() {}
	if req.TimeoutMS > 0 {
		stopLimit = clock.AfterFunc(time.Duration(req.TimeoutMS)*time.Millisecond, p.expire)
	}
	var copying sync.WaitGroup // nothing is sent after Exit
	if p.in != nil {
		copying.Go(func() { p.in.copy() }) // ends by close or abandon below
	}
	for _, o := range p.outs {
		copying.Go(func() {
			o.copy()
			if p.hasExited() || !isAlive(pid) {
				return // Exit is the end of both streams too
			}
			eof := wire.StdoutEOF
			if o.stream == wire.Stderr {
				eof = wire.StderrEOF
			}
			p.tell(eof, nil)
		})
	}

	ws := <-p.exited
	stopLimit() // a slow reader of the output is not the command's fault
	p.mu.Lock()
	p.tree.Reaped = true
	p.mu.Unlock()
	if p.in != nil {
		p.in.abandon()
	}
	for _, o := range p.outs {
		o.finish()
	}
	copying.Wait()
	p.killing.Lock()
	if len(p.killed) > 0 { // with the answer they do not count as processes any more
		r.awaitReaped(p.killed)
	}
	p.killing.Unlock()
	p.mu.Lock()
	status := wire.StatusOf(ws)
	status.TimedOut = p.timedOut
	p.mu.Unlock()
	p.conclude(wire.Exit, status)
}

// hasExited reports whether the process is known to have been waited for.
func (p *process) hasExited() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.tree.Reaped || len(p.exited) > 0
}

// errCanceled is the error of a process that was not started because its caller has canceled the
// request.
var errCanceled = errors.New("the request was canceled")

func (p *process) start(r *reaper, req *wire.StartRequest, files []uintptr) (int, error) {
	if len(req.Args) == 0 {
		return 0, errors.New("no program given")
	}
	dir := req.Dir
	if dir == "" {
		dir = "/"
	}
	pid, err := p.execute(r, req, dir, files)
	if err != nil {
		if derr := proc.CheckDir(dir); derr != nil { // not before: each question is a system call
			return 0, dirError{fmt.Errorf("working directory %q: %w", dir, derr)}
		}
	}
	return pid, err
}

// execute finds the program that req asks for, and starts it in dir.
func (p *process) execute(r *reaper, req *wire.StartRequest, dir string, files []uintptr) (int, error) {
	path, err := lookPath(req.Args[0], dir, req.Env)
	if err != nil {
		return 0, err
	}
	env := req.Env
	if !req.TTY {
		env = slices.Concat(env, dialect.Unattended(env))
	}
	attr := &syscall.ProcAttr{
		Dir: dir, Env: env, Files: files,
		Sys: &syscall.SysProcAttr{Setsid: true, Setctty: req.TTY, Ctty: 0},
	}
	p.mu.Lock() // the tree is complete before kill uses it
	defer p.mu.Unlock()
	if p.dropped {
		return 0, errCanceled
	}
	exited := func(ws syscall.WaitStatus) {
		if !ws.Stopped() {
			p.exited <- ws
		}
	}
	pid, err := r.start(req.Umask, path, req.Args, attr, exited)
	if errors.Is(err, syscall.ENOEXEC) {
		// A script without an interpreter line: what execvp(3) does.
		pid, err = r.start(req.Umask, "/bin/sh", append([]string{"/bin/sh", path}, req.Args[1:]...), attr, exited)
	}
	if err != nil {
		return 0, err
	}
	p.tree.Root = pid
	for _, sig := range p.pendingSignals {
		_ = unix.Kill(-pid, sig)
	}
	return pid, nil
}

// processes returns the process tree, with those pipes that a process may still hold.
func (p *process) processes() proc.Tree {
	p.mu.Lock()
	tree := p.tree
	p.mu.Unlock()
	for _, o := range p.outs {
		if !o.tty {
			control(o.file, func(fd int) {
				var st unix.Stat_t
				if unix.Fstat(fd, &st) == nil {
					tree.Files = append(tree.Files, proc.FileOf(&st))
				}
			})
		}
	}
	return tree
}

// A dirError keeps the errno of a bad working directory from being taken for
// the program's: that is 125, not 127.
type dirError struct{ error }

// control calls f with a descriptor, which stays open during the call.
func control(file *os.File, f func(fd int)) {
	if conn, err := file.SyscallConn(); err == nil {
		_ = conn.Control(func(fd uintptr) { f(int(fd)) })
	}
}

// expire ends the process tree because its time is over.
func (p *process) expire() {
	p.mu.Lock()
	p.timedOut = true
	p.mu.Unlock()
	tree := p.processes()
	known := tree.Signal(unix.SIGTERM)
	p.mu.Lock()
	p.tree.Known = known
	p.mu.Unlock()
	time.AfterFunc(killGrace, p.kill)
}

// kill ends the process tree at once. What is left in the pipes is still sent.
func (p *process) kill() {
	if tree := p.processes(); tree.Root != 0 {
		p.killing.Lock()
		defer p.killing.Unlock()
		p.killed = append(p.killed, tree.Kill(deathLimit)...)
	}
}

// drop ends the process tree of a canceled request, and drops its output.
func (p *process) drop() {
	for _, o := range p.outs {
		o.mute()
	}
	p.mu.Lock()
	p.dropped = true
	p.mu.Unlock()
	p.kill()
}

// The methods of channelHandler.

func (p *process) PutInput(f wire.Frame) bool {
	if p.in == nil {
		f.Release()
		return true
	}
	return p.in.PutInput(f)
}

func (p *process) CloseInput() {
	if p.in != nil {
		p.in.CloseInput()
	}
}

func (p *process) Kill() { go p.drop() } // ends when the tree is dead

func (p *process) Grant(stream wire.Type, n int) {
	for _, o := range p.outs {
		if o.stream == stream {
			o.grant(n)
		}
	}
}

// Signal sends sig to the leader's process group, and to a terminal's foreground group if that is
// another one. A process that does not exist yet gets sig when it starts.
func (p *process) Signal(sig syscall.Signal) {
	p.mu.Lock()
	leader, reaped := p.tree.Root, p.tree.Reaped
	if leader == 0 && !slices.Contains(p.pendingSignals, sig) {
		p.pendingSignals = append(p.pendingSignals, sig)
	}
	p.mu.Unlock()
	if leader == 0 || reaped {
		return
	}
	_ = proc.Send(-leader, sig)
	if p.tty == nil {
		return
	}
	control(p.tty, func(fd int) {
		// TIOCGPGRP works on the master side (ioctl_tty(2)).
		if pg, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP); err == nil && pg > 1 && pg != leader {
			_ = proc.Send(-pg, sig)
		}
	})
}

// Resize sets the terminal's size; the kernel signals the foreground group.
func (p *process) Resize(rows, cols uint16) {
	if p.tty == nil {
		return
	}
	control(p.tty, func(fd int) { // pty.Setsize would make it block
		_ = unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: cols})
	})
}
