package shell

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// A Host is what sessions need of PID 1. All fields are required.
type Host struct {
	// Start forks and executes, as syscall.ForkExec does. changed is called
	// when the process stops, and at last when it is gone; it must not block.
	Start func(path string, args []string, attr *syscall.ProcAttr, changed func(syscall.WaitStatus)) (pid int, err error)
	// Started reports whether PID 1 itself has started this process.
	Started func(pid int) bool
	// OpenTerminal returns a new terminal's master side, not blocking, and its
	// slave.
	OpenTerminal func() (master int, slave *os.File, err error)
	// LookPath finds a program.
	LookPath func(name, dir string, env []string) (string, error)
	// Dir is an empty directory of their own for the sessions, with a short
	// name. Empty means one that is made in /tmp.
	Dir string
}

// An incarnation is one shell process of a session and what connects it to the
// guest. It belongs to whoever has the session's turn.
type incarnation struct {
	pid    int
	sock   int   // the guest's end of descriptor 0
	peer   inode // the shell's end of it
	script int   // where its lines go: sock, or the FIFO D/f
	tty    int   // the terminal's master side
	saved  *unix.Termios
	state  int // D/w: what it says when it exits
	said   []byte
	ready  bool
	gone   bool

	full    bool     // a packet fills the pipe: see openScript
	waiting []string // packets for which there is no room yet; only if full
	watched bool     // the poller waits for room
}

// startShell starts a shell. changed is called by the reaper, see Host.
func (s *Session) startShell(cwd string, changed func(*incarnation, syscall.WaitStatus)) (_ *incarnation, err error) {
	in := &incarnation{sock: -1, script: -1, state: -1, tty: -1}
	var theirs []int
	defer func() {
		for _, fd := range theirs {
			_ = unix.Close(fd)
		}
		if err != nil {
			in.close()
		}
	}()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	in.sock = pair[0]
	theirs = append(theirs, pair[1])
	if err := unix.SetNonblock(in.sock, true); err != nil {
		return nil, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(pair[1], &st); err != nil {
		return nil, err
	}
	in.peer = inodeOf(&st)
	in.script = in.sock
	if s.d.posix {
		if err := s.openScript(in); err != nil {
			return nil, err
		}
	}
	if err := s.dir.fifo("w"); err != nil { // in gVisor an old one still has what nobody has read
		return nil, err
	}
	if in.state, err = s.dir.open("w", unix.O_RDWR); err != nil { // also to write: it never hangs up
		return nil, err
	}
	if err := s.dir.write("x", []byte(s.d.exitScript(s.dir.path))); err != nil {
		return nil, err
	}
	var slave *os.File
	if in.tty, slave, err = openTerminal(&s.m.host, s.rows, s.cols); err != nil {
		return nil, err
	}
	defer slave.Close()
	in.saved, _ = unix.IoctlGetTermios(in.tty, unix.TCGETS)
	in.pid, err = s.m.host.Start(s.path, s.d.args(s.path, s.dir.path+"/f"), &syscall.ProcAttr{
		Dir: cwd, Env: s.shellEnv(), Files: []uintptr{uintptr(pair[1]), slave.Fd(), slave.Fd()},
		Sys: &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 1},
	}, func(ws syscall.WaitStatus) { changed(in, ws) })
	if err == nil {
		s.mark.put(in.pid) // before it has got a line, and so before it has children
	}
	return in, err
}

// openTerminal is OpenTerminal with a size.
func openTerminal(h *Host, rows, cols uint16) (int, *os.File, error) {
	master, slave, err := h.OpenTerminal()
	if err != nil {
		return -1, nil, err
	}
	if err := setSize(master, rows, cols); err != nil {
		_ = unix.Close(master)
		_ = slave.Close()
		return -1, nil, err
	}
	return master, slave, nil
}

// setSize sets a terminal's size, also if a signal comes between.
func setSize(fd int, rows, cols uint16) error {
	for {
		err := unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: cols})
		if err != unix.EINTR {
			return err
		}
	}
}

// shellEnv is the session's environment and what keeps a shell quiet.
func (s *Session) shellEnv() []string {
	return append(append([]string{}, s.env...), "PS1=", "PS2=", "HISTFILE=", "ENV=")
}

func (in *incarnation) close() {
	if in.script != in.sock {
		closeFD(&in.script)
	}
	in.script = -1
	closeFD(&in.sock)
	closeFD(&in.state)
	closeFD(&in.tty)
}

func closeFD(fd *int) {
	if *fd >= 0 {
		_ = unix.Close(*fd)
	}
	*fd = -1
}

// idle reports whether the shell has read all its lines and waits for more. A
// shell without descriptors to spare may have lost its descriptor 0.
func (in *incarnation) idle() bool {
	what := uint(unix.SIOCOUTQ)
	if in.script != in.sock {
		what = unix.TIOCINQ // FIONREAD
	}
	n, err := unix.IoctlGetInt(in.script, what)
	if err != nil || n > 0 || len(in.waiting) > 0 {
		return false
	}
	input, err := in.input()
	return err == unix.ENOENT || err == nil && input == in.peer
}

// atPrompt reports whether the shell executes no command: while one runs its
// descriptor 0 is another one.
func (in *incarnation) atPrompt() bool {
	input, err := in.input()
	return err == nil && input == in.peer
}

// input is the shell's descriptor 0.
func (in *incarnation) input() (inode, error) {
	var st unix.Stat_t
	err := unix.Stat("/proc/"+itoa(in.pid)+"/fd/0", &st)
	return inodeOf(&st), err
}
