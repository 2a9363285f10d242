package session

import (
	"crypto/rand"
	"fmt"

	"golang.org/x/sys/unix"

	"wolffia/internal/sys/proc"
	"wolffia/session/dialect"
)

// A pipe is a FIFO in the session's directory that takes an output of its commands, one after the
// other. The guest has it open at both ends, so that it never hangs up while a command runs. When
// the command is over, the guest closes its own writing end; an end of file then says that no
// other process has one. Each command gets another, random name.
type pipe struct {
	name   string
	fd     int // to read from; -1: not made yet
	writer int // to write to; -1: closed
	file   proc.File
}

// Endpoints are what connects a session to its shells: a directory, and in it the pipes of
// its commands' output; and what watches all descriptors. They belong to the session's turn.
type endpoints struct {
	newDir func() (*dir, error)
	dir    *dir
	poll   *poller
	pipes  [2]pipe // standard output and error
}

// newEndpoints makes a directory and a poller. ready is called whenever one of the descriptors is.
func newEndpoints(newDir func() (*dir, error), d dialect.Dialect, ready func()) (*endpoints, error) {
	at, err := newDir()
	if err != nil {
		return nil, err
	}
	if n := d.Longest(at.path, rand.Text()); n > dialect.MaxPacket {
		at.remove()
		return nil, fmt.Errorf("the session directory %s is too long by %d bytes", at.path, n-dialect.MaxPacket)
	}
	poll, err := newPoller(ready)
	if err != nil {
		at.remove()
		return nil, err
	}
	none := pipe{fd: -1, writer: -1}
	return &endpoints{newDir: newDir, dir: at, poll: poll, pipes: [2]pipe{none, none}}, nil
}

// move makes endpoints use another directory. The running shell keeps running; the state that it
// would leave in the old directory when it ends is lost.
func (e *endpoints) move() error {
	d, err := e.newDir()
	if err != nil {
		return err
	}
	e.giveUp()
	e.dir.remove()
	e.dir = d
	return nil
}

// prepare makes a pipe ready for a command.
func (e *endpoints) prepare(p *pipe) error {
	if p.fd >= 0 {
		return nil
	}
	name := token()
	fd, err := e.dir.fifo(name, unix.O_RDONLY)
	if err != nil {
		return err
	}
	p.name, p.fd, p.file = name, fd, fileOf(fd)
	e.poll.add(fd, unix.EPOLLIN)
	if p.writer, _, err = e.dir.openFIFO(name, unix.O_WRONLY); err != nil {
		e.discard(p)
	}
	return err
}

// renewAll makes the pipes that a command had ready for the next one.
func (e *endpoints) renewAll() {
	for i := range e.pipes {
		if p := &e.pipes[i]; p.fd >= 0 && p.writer < 0 {
			e.renew(p)
		}
	}
}

// renew gives a pipe that no command has another name, and opens the writing end. It discards a
// pipe that another process has open, or that its name does not lead to any more.
func (e *endpoints) renew(p *pipe) {
	name := token()
	var opened proc.File
	if unix.Renameat(e.dir.fd, p.name, e.dir.fd, name) == nil {
		p.name = name
		if poll(p.fd) == unix.POLLHUP { // else it has a writer, or what one has left
			p.writer, opened, _ = e.dir.openFIFO(name, unix.O_WRONLY)
		}
	}
	if p.writer < 0 || opened != p.file {
		e.discard(p)
	}
}

// discard gives a pipe up; the next command gets a new one.
func (e *endpoints) discard(p *pipe) {
	if p.fd >= 0 {
		e.poll.remove(p.fd)
		e.dir.unlink(p.name)
	}
	closeFD(&p.fd)
	closeFD(&p.writer)
}

// giveUp discards all pipes.
func (e *endpoints) giveUp() {
	for i := range e.pipes {
		e.discard(&e.pipes[i])
	}
}

// passToJob leaves the reading end to the job that holds the pipe.
func (e *endpoints) passToJob(p *pipe) {
	e.poll.remove(p.fd)
	e.dir.unlink(p.name)
	p.fd = -1
	closeFD(&p.writer)
}

// discardUnowned discards the pipe of descriptor fd: a process writes to it though no command has
// it.
func (e *endpoints) discardUnowned(fd int) {
	for i := range e.pipes {
		if p := &e.pipes[i]; p.fd == fd {
			e.discard(p)
		}
	}
}
