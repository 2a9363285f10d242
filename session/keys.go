package session

import (
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"wolffia/internal/sys/proc"
)

// A session's terminal has no person, but for a command that asked for one (streams.tty).
// So a read of it returns the end of file at once: the terminal is not canonical, and
// needs no byte (MIN and TIME are 0: "Case D" in termios(3)). A program that asks for a
// password or a line keeps that. One that asks for keys, such as an editor, changes it:
// then the session looks whether the command waits, and hangs it up.

// quiet returns the modes of a terminal at which no person types.
func quiet(t unix.Termios) unix.Termios {
	t.Lflag &^= unix.ICANON
	t.Cc[unix.VMIN], t.Cc[unix.VTIME] = 0, 0
	return t
}

// blocks reports whether a read of a terminal with these modes may wait.
func blocks(t *unix.Termios) bool {
	return t.Lflag&unix.ICANON != 0 || t.Cc[unix.VMIN] > 0 || t.Cc[unix.VTIME] > 0
}

// keyLooks is how often in a row a command is seen to wait for keys before it is hung up.
const keyLooks = 4

// checkKeys hangs the command up if it waits for keys that no person types, and interrupts it if
// it continues to wait. It is called every lostTick.
func (r *run) checkKeys() {
	if r.call == nil || r.st.TTY {
		return
	}
	t, err := unix.IoctlGetTermios(r.shell.tty, unix.TCGETS)
	keys := err == nil && (blocks(t) || !r.shell.stoppable() && *t != r.shell.quiet) // in gVisor MIN is 1 always
	// A wait that changes no mode is looked for more and more rarely: it may be one for an
	// event (poll(2)), or of a program that takes its standard error for a terminal.
	r.ticks++
	rare := r.ticks >= keyLooks && (r.ticks&(r.ticks-1) == 0 || r.ticks%64 == 0)
	if !keys && !rare || !r.waitsForKeys(keys, files(r.outs)) {
		r.keyLooks = 0
		return
	}
	if r.keyLooks++; keys && r.keyLooks < keyLooks {
		return
	}
	r.keyLooks = 0
	group := r.shell.foreground()
	if !r.wantedTerminal && group > 1 && group != r.shell.pid {
		r.wantedTerminal = true
		_ = unix.Kill(-group, unix.SIGHUP)
		return
	}
	r.wantedTerminal = true
	r.interrupt()
}

// waitsForKeys reports whether the program in the foreground sleeps, and its standard input is the
// terminal or one of outputs, or, if keys is set, it has the terminal anyhow. A program whose
// files cannot be examined does not wait.
func (r *run) waitsForKeys(keys bool, outputs []proc.File) bool {
	group := r.shell.foreground()
	found, _ := r.tree().Find(proc.Others()) // parents and sessions identify all processes of the group and its descendants
	switch {
	case group == r.shell.pid, group == 0 && len(found) == 0: // a builtin
		p, err := proc.Read(r.shell.pid)
		return err == nil && p.State == 'S' && r.shell.readsTerminal(r.shell.input)
	}
	return sleepsAt(found, group, func(pid int) bool {
		input := "/proc/" + itoa(pid) + "/fd/0"
		return isOneOf(input, outputs) || r.shell.readsTerminal(input) || keys && r.shell.hasTerminal(pid)
	})
}

// sleepsAt reports whether all processes of a group and their descendants that have no
// children themselves sleep, and meet the condition. Group 0 stands for all processes.
func sleepsAt(found []proc.Process, group int, condition func(pid int) bool) bool {
	in := map[int]bool{}
	for before := -1; before != len(in); {
		before = len(in)
		for _, p := range found {
			if group == 0 || p.Group == group || in[p.Parent] {
				in[p.PID] = true
			}
		}
	}
	parents := map[int]bool{}
	for _, p := range found {
		parents[p.Parent] = in[p.PID] || parents[p.Parent]
	}
	for _, p := range found {
		if in[p.PID] && !parents[p.PID] && (p.State != 'S' || !condition(p.PID)) {
			return false
		}
	}
	return len(in) > 0
}

// hasTerminal reports whether a process has the session's terminal open for reading.
func (p *shellProcess) hasTerminal(pid int) bool {
	dir := "/proc/" + itoa(pid) + "/fd/"
	fds, err := os.ReadDir(dir)
	return err == nil && slices.ContainsFunc(fds, func(e os.DirEntry) bool { return p.readsTerminal(dir + e.Name()) })
}

// readsTerminal reports whether a descriptor below /proc is the terminal, or /dev/tty, and
// open for reading.
func (p *shellProcess) readsTerminal(fd string) bool {
	const readable = 0o400 // in the mode of the link: proc_pid_fd(5)
	link, err := os.Lstat(fd)
	if err != nil || link.Mode()&readable == 0 {
		return false
	}
	name, err := os.Readlink(fd)
	return err == nil && name == "/dev/tty" || isOneOf(fd, []proc.File{p.slave})
}

// isOneOf reports whether a descriptor below /proc is one of files.
func isOneOf(fd string, files []proc.File) bool {
	file, err := fileAt(fd)
	return err == nil && slices.Contains(files, file)
}
