package session

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"wolffia/internal/excerpt"
	"wolffia/internal/sys/proc"
	"wolffia/session/dialect"
	"wolffia/wire"
)

// A Host is what sessions need of PID 1. All fields are required.
type Host struct {
	// Start forks and executes a process with a umask, as syscall.ForkExec does. changed is called
	// when the process stops, and at last when it has ended; it must not block.
	Start func(umask wire.Umask, path string, args []string, attr *syscall.ProcAttr, changed func(syscall.WaitStatus)) (pid int, err error)
	// Started reports whether PID 1 itself has started this process.
	Started func(pid int) bool
	// OpenTerminal returns a new terminal's master side, not blocking, and its
	// slave.
	OpenTerminal func() (master int, slave *os.File, err error)
	// LookPath finds a program.
	LookPath func(name, dir string, env []string) (string, error)
	// User finds a user of the sandbox.
	User func(who string) (*User, error)
	// Dir is an empty directory of their own for the sessions, with a short name, on
	// a file system that keeps access times.
	Dir string
	// Clock is the time by which commands time out; nil: it never stops.
	Clock *Clock
}

// A User is a user of the sandbox other than PID 1's.
type User struct {
	Who      string // as it was asked for
	UID, GID int
	Env      []string // variables of the user, as KEY=VALUE
	Become   []string // the command that becomes the user, and executes what follows
}

// A shellSpec is what the shells of a session are started with.
type shellSpec struct {
	path       string // the program
	d          dialect.Dialect
	env        []string
	rc         bool   // new shells without a snapshot read the user's start files
	home       string // the directory to start in
	rows, cols uint16
	umask      wire.Umask
	user       *User // nil: PID 1's
}

// who returns the name that the user was asked for by; empty: PID 1's user.
func (s *shellSpec) who() string {
	if s.user == nil {
		return ""
	}
	return s.user.Who
}

// command returns the command that executes args as the user.
func (s *shellSpec) command(args []string) (path string, all []string) {
	if s.user != nil {
		args = slices.Concat(s.user.Become, args)
		return args[0], args
	}
	return s.path, args
}

// own gives the user a terminal.
func (s *shellSpec) own(terminal *os.File) error {
	if s.user == nil {
		return nil
	}
	return terminal.Chown(s.user.UID, -1)
}

// equal reports whether shells of both are the same but for the umask.
func (s *shellSpec) equal(t *shellSpec) bool {
	return s.who() == t.who() && s.path == t.path && s.d == t.d && s.rc == t.rc && s.home == t.home && s.rows == t.rows && s.cols == t.cols &&
		slices.Equal(s.env, t.env)
}

// choose finds the program of that name; of an empty one bash, or else sh.
func (s *shellSpec) choose(lookPath func(name, dir string, env []string) (string, error), shell string) error {
	names := []string{shell}
	if shell == "" {
		names = []string{"bash", "sh"}
	}
	var err error
	for _, n := range names {
		if s.path, err = lookPath(n, s.home, s.env); err != nil {
			continue
		}
		real, rerr := filepath.EvalSymlinks(s.path)
		if rerr != nil {
			err = rerr
			continue
		}
		switch filepath.Base(real) {
		case "bash":
			s.path = real
		case "zsh", "mksh", "yash", "fish", "ksh", "ksh93", "tcsh", "csh":
			err = fmt.Errorf("%s is not supported: want bash, or a POSIX sh", filepath.Base(real))
			continue
		default:
			s.d.POSIX = true
		}
		return nil
	}
	return fmt.Errorf("shell %q: %w", names[len(names)-1], err)
}

// A shellProcess is one shell process of a session and what connects it to the
// guest. It belongs to the session's turn.
type shellProcess struct {
	d      dialect.Dialect
	ends   *endpoints
	procs  *processes
	pid    int
	proc   string    // its directory in /proc, with a slash
	input  string    // its descriptor 0 there
	cwd    string    // its working directory there
	sock   int       // the guest's end of descriptor 0
	peer   proc.File // the shell's end of it
	script int       // where its lines go: sock, or the FIFO D/f
	tty    int       // the terminal's master side
	slave  proc.File // its other side
	// The modes of the terminal for commands on it, and for others.
	attended *unix.Termios
	quiet    unix.Termios
	state    int // a FIFO: the output of the shell's exit script
	said     *excerpt.Excerpt
	place    string // the session's directory when it was started
	names    own
	answers  bool // it has reported once
	ended    bool
	copies   int                         // how many terminals it has at its prompt
	packet   [dialect.MaxReport + 1]byte // the last that came; here since it is not to be made each time
	control  [64]byte

	stateful bool // it has yet to be given its predecessor's state
	trapped  bool // the guard's trap may have put one of the user's aside
	frozen   bool // it is stopped until it is killed

	full    bool     // a packet fills the pipe: see openScript
	waiting []string // packets for which there is no room yet; only if full
	watched bool     // the poller waits for room
}

// own are the names of a shell's own files in the session's directory.
type own struct {
	exit  string // the script that the shell sources when it exits
	state string // the FIFO for that script's output
	guard string // what its trap on dialect.GuardSignal sources
	aside string // the user's trap on SIGINT that this has put aside
	lines string // the FIFO that its lines come from, if they do
}

// startShell starts a shell. changed is called by the reaper, see Host.
func startShell(
	h *Host, spec *shellSpec, ends *endpoints, procs *processes, cwd string,
	changed func(*shellProcess, syscall.WaitStatus),
) (_ *shellProcess, err error) {
	p := &shellProcess{
		d: spec.d, ends: ends, procs: procs,
		sock: -1, script: -1, state: -1, tty: -1, place: ends.dir.path, said: excerpt.New(dialect.MaxSnapshot, 0),
		names: own{exit: token(), state: token(), guard: token(), aside: token(), lines: token()},
	}
	var theirs []int
	defer func() {
		for _, fd := range theirs {
			_ = unix.Close(fd)
		}
		if err != nil {
			p.close()
		}
	}()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	p.sock = pair[0]
	theirs = append(theirs, pair[1])
	p.peer = fileOf(pair[1])
	p.script = p.sock
	if p.d.POSIX {
		if err := p.openScript(); err != nil {
			return nil, err
		}
	}
	if p.state, err = ends.dir.fifo(p.names.state, unix.O_RDWR); err != nil { // also to write: it never hangs up
		return nil, err
	}
	if err := errors.Join(
		unix.SetNonblock(p.sock, true),
		unix.SetsockoptInt(p.sock, unix.SOL_SOCKET, unix.SO_PASSCRED, 1),
		ends.dir.write(p.names.exit, []byte(p.d.ExitScript(p.path(p.names.state)))),
		ends.dir.write(p.names.guard, []byte(p.d.GuardScript(p.path(p.names.aside)))),
	); err != nil {
		return nil, err
	}
	var slave *os.File
	if p.tty, slave, err = openTerminal(h, spec.rows, spec.cols); err != nil {
		return nil, err
	}
	defer slave.Close()
	if err := spec.own(slave); err != nil {
		return nil, err
	}
	p.slave = fileOf(int(slave.Fd()))
	if p.attended, err = unix.IoctlGetTermios(p.tty, unix.TCGETS); err != nil {
		return nil, err
	}
	p.quiet = quiet(*p.attended)
	p.setTerminal(&p.quiet)
	path, args := spec.command(p.d.Args(spec.path, p.path(p.names.lines)))
	p.pid, err = h.Start(spec.umask, path, args, &syscall.ProcAttr{
		Dir: cwd, Files: []uintptr{uintptr(pair[1]), slave.Fd(), slave.Fd()},
		Env: slices.Concat(spec.env, dialect.Unattended(spec.env), []string{"PS1=", "PS2=", "HISTFILE=", "ENV="}), // keep it quiet
		Sys: &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 1},
	}, func(ws syscall.WaitStatus) { changed(p, ws) })
	p.proc = "/proc/" + itoa(p.pid) + "/"
	p.input, p.cwd = p.proc+"fd/0", p.proc+"cwd"
	if err != nil {
		return nil, err
	}
	procs.start(p.pid) // before it has got a line, and so before it has children
	for _, fd := range []int{p.sock, p.state, p.tty} {
		ends.poll.add(fd, unix.EPOLLIN)
	}
	return p, nil
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

// ready records that the shell has reached its first prompt. stateful says that the shell needs
// state.
func (p *shellProcess) ready(stateful bool) {
	p.answers, p.stateful = true, stateful
	p.copies = p.terminals()
	p.ends.dir.unlink(p.names.lines) // the shell has it open
}

// setTerminal sets the terminal's modes, and drops unread input. TCSETSF drops the terminal's own
// queue with its modes, since they are those of the shell's side (ioctl_tty(2)). The bytes on the
// way to it are the output of the master side (TCOFLUSH).
func (p *shellProcess) setTerminal(t *unix.Termios) {
	_ = unix.IoctlSetInt(p.tty, unix.TCFLSH, unix.TCOFLUSH)
	_ = unix.IoctlSetTermios(p.tty, unix.TCSETSF, t)
}

// release ends what connects the shell to the guest.
func (p *shellProcess) release() {
	for _, fd := range []int{p.sock, p.state, p.tty} {
		p.ends.poll.remove(fd)
	}
	p.ends.poll.watchRoom(p.script, &p.watched, false)
	p.ended, p.procs.root = true, 0
	p.close()
	if p.place == p.ends.dir.path {
		for _, name := range []string{p.names.exit, p.names.state, p.names.guard, p.names.aside, p.names.lines} {
			p.ends.dir.unlink(name)
		}
	}
}

// readState reads the state that an exiting shell prints.
func (p *shellProcess) readState() {
	var buf [32 << 10]byte
	for {
		n, _ := read(p.state, buf[:])
		if n <= 0 {
			return
		}
		_, _ = p.said.Write(buf[:n]) // never fails
	}
}

// drainTerminal drops the output of the terminal.
func (p *shellProcess) drainTerminal() {
	var buf [32 << 10]byte
	for range 64 {
		if n, err := read(p.tty, buf[:]); n <= 0 {
			if err != unix.EAGAIN {
				p.ends.poll.remove(p.tty) // no process has it open
			}
			return
		}
	}
}

// path is that of one of the shell's own files.
func (p *shellProcess) path(name string) string { return p.place + "/" + name }

func (p *shellProcess) close() {
	if p.script != p.sock {
		closeFD(&p.script)
	}
	p.script = -1
	closeFD(&p.sock)
	closeFD(&p.state)
	closeFD(&p.tty)
}

func closeFD(fd *int) {
	if *fd >= 0 {
		_ = unix.Close(*fd)
	}
	*fd = -1
}

// hasReadAll reports whether the shell has read all its lines and waits for more. A
// shell without descriptors to spare may have lost its descriptor 0.
func (p *shellProcess) hasReadAll() bool {
	what := uint(unix.SIOCOUTQ)
	if p.script != p.sock {
		what = unix.TIOCINQ // FIONREAD
	}
	n, err := unix.IoctlGetInt(p.script, what)
	if err != nil || n > 0 || len(p.waiting) > 0 {
		return false
	}
	input, err := fileAt(p.input)
	return err == unix.ENOENT || err == nil && input == p.peer
}

// atPrompt reports whether the shell executes no command: while one runs its
// descriptor 0 is another one.
func (p *shellProcess) atPrompt() bool {
	input, err := fileAt(p.input)
	return err == nil && input == p.peer
}

// outOfSync reports whether the shell executes no command, and does not read its lines
// from the guest either: such a shell can report nothing more. A shell that executes a command
// keeps copies of its own streams, which are the terminal.
func (p *shellProcess) outOfSync() bool {
	for n := 1; n <= 2; n++ {
		if file, err := p.descriptor(n); err != nil || file != p.slave {
			return false
		}
	}
	return !p.atPrompt() && p.terminals() <= p.copies
}

// terminals counts the shell's descriptors that are its terminal, without its standard streams.
func (p *shellProcess) terminals() (n int) {
	fds, err := os.ReadDir(p.proc + "fd")
	if err != nil {
		return math.MaxInt
	}
	for _, e := range fds {
		fd, err := strconv.Atoi(e.Name())
		if err != nil || fd <= 2 {
			continue
		}
		if file, err := p.descriptor(fd); err == nil && file == p.slave {
			n++
		}
	}
	return n
}

// trapsGuard reports whether the shell has the trap by which it aborts a command. On gVisor,
// which does not show traps, it reports true.
func (p *shellProcess) trapsGuard() bool {
	return !p.stoppable() || proc.Catches(p.pid, dialect.GuardSignal)
}

// descriptor is what the shell has open as descriptor n.
func (p *shellProcess) descriptor(n int) (proc.File, error) {
	return fileAt(p.proc + "fd/" + itoa(n))
}

func fileOf(fd int) proc.File {
	var st unix.Stat_t
	_ = unix.Fstat(fd, &st) // fails only for a closed descriptor; the zero File equals no file
	return proc.FileOf(&st)
}

// fileAt is the file that a path leads to.
func fileAt(path string) (proc.File, error) {
	var st unix.Stat_t
	err := unix.Stat(path, &st)
	return proc.FileOf(&st), err
}

// receive reads one packet that the shell itself has sent. A packet of another
// process that has its socket, such as a copy of the shell, is read and dropped: the
// kernel attaches the sender to each packet (SCM_CREDENTIALS in unix(7)).
//
// The packet is good until the next call.
func (p *shellProcess) receive() ([]byte, error) {
	for {
		n, cn, _, _, err := unix.Recvmsg(p.sock, p.packet[:], p.control[:], unix.MSG_CMSG_CLOEXEC)
		if err == unix.EINTR {
			continue
		}
		if err != nil || n == 0 {
			return nil, err
		}
		sender, err := sentBy(p.control[:cn])
		if err == nil && sender == p.pid {
			return p.packet[:n], nil
		}
	}
}

// sentBy returns the process that a packet's control data tell of, and closes
// descriptors that came with it.
func sentBy(control []byte) (pid int, err error) {
	for len(control) > 0 {
		h, data, rest, err := unix.ParseOneSocketControlMessage(control)
		if err != nil {
			return 0, err
		}
		control = rest
		switch {
		case h.Level != unix.SOL_SOCKET:
		case h.Type == unix.SCM_CREDENTIALS && len(data) >= 4:
			pid = int(int32(binary.NativeEndian.Uint32(data))) // struct ucred begins with it
		case h.Type == unix.SCM_RIGHTS:
			for fd := range slices.Chunk(data, 4) {
				_ = unix.Close(int(int32(binary.NativeEndian.Uint32(fd))))
			}
		}
	}
	return pid, nil
}
