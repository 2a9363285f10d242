package session

import (
	"golang.org/x/sys/unix"

	"wolffia/internal/sys/proc"
)

// A pipe is a FIFO in the session's directory that takes an output of its
// commands, one after the other. The guest has it open at both ends, so that
// it never hangs up while a command runs; when the command is over, the guest
// closes its own writing end, and then an end of file says that no other
// process has one. For each command it has another, random name.
type pipe struct {
	name   string
	fd     int // to read from; -1: it has yet to be made
	writer int // to write to; -1: closed
	file   proc.File
}

func newPipe() pipe { return pipe{fd: -1, writer: -1} }

// preparePipe makes a pipe ready for a command.
func (s *Session) preparePipe(p *pipe) error {
	if p.fd >= 0 {
		return nil
	}
	name := token()
	fd, err := s.dir.fifo(name, unix.O_RDONLY)
	if err != nil {
		return err
	}
	p.name, p.fd, p.file = name, fd, fileOf(fd)
	s.poll.add(fd, unix.EPOLLIN)
	if p.writer, _, err = s.dir.openFIFO(name, unix.O_WRONLY); err != nil {
		s.discardPipe(p)
	}
	return err
}

// renew gives a pipe that no command has another name, and opens the end to write
// to. A pipe that another process has open, or whose name does not lead to it any more,
// is given up.
func (s *Session) renew(p *pipe) {
	name := token()
	var opened proc.File
	if unix.Renameat(s.dir.fd, p.name, s.dir.fd, name) == nil {
		p.name = name
		if poll(p.fd) == unix.POLLHUP { // else it has a writer, or what one has left
			p.writer, opened, _ = s.dir.openFIFO(name, unix.O_WRONLY)
		}
	}
	if p.writer < 0 || opened != p.file {
		s.discardPipe(p)
	}
}

// discardPipe gives a pipe up; the next command gets a new one.
func (s *Session) discardPipe(p *pipe) {
	if p.fd >= 0 {
		s.poll.remove(p.fd)
		s.dir.unlink(p.name)
	}
	closeFD(&p.fd)
	closeFD(&p.writer)
}

func (s *Session) giveUpPipes() {
	for i := range s.pipes {
		s.discardPipe(&s.pipes[i])
	}
}

// handOver leaves the reading end to the job that holds the pipe.
func (s *Session) handOver(p *pipe) {
	s.poll.remove(p.fd)
	s.dir.unlink(p.name)
	p.fd = -1
	closeFD(&p.writer)
}

// onPipe handles a pipe that can be read.
func (s *Session) onPipe(fd int) {
	if s.cur != nil {
		for _, st := range s.cur.outs {
			if st.fd == fd {
				if !st.over {
					s.onStream(st)
				}
				return
			}
		}
	}
	for i := range s.pipes {
		if p := &s.pipes[i]; p.fd == fd {
			s.discardPipe(p) // written to, though no command has it
		}
	}
}
