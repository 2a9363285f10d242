package session

import (
	"golang.org/x/sys/unix"

	"wolffia/internal/proc"
)

// A pipe is a FIFO in the session's directory that takes an output of its
// commands, one after the other. The guest has it open at both ends, so that
// it never hangs up while a command runs; when the command is over, the guest
// closes its own writing end, and then an end of file says that nobody else
// has one. For each command it has another name, which nobody can guess. Where
// the directory does not tell whether a file was read, the guest opens the reading end
// only, and the pipe lives as long as one command.
type pipe struct {
	name string
	fd   int // to read from; -1: it has yet to be made
	held int // to write to; -1: closed
	file proc.File
}

func newPipe() pipe { return pipe{fd: -1, held: -1} }

// lay makes a pipe ready for a command.
func (s *Session) lay(p *pipe) error {
	if p.fd >= 0 && p.held < 0 {
		s.hold(p)
	}
	if p.fd >= 0 {
		return nil
	}
	name := token()
	fd, err := s.dir.fifo(name, unix.O_RDONLY)
	if err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		_ = unix.Close(fd)
		return err
	}
	p.name, p.fd, p.file = name, fd, proc.FileOf(&st)
	s.poll.add(fd, unix.EPOLLIN)
	if !s.dir.probe {
		return nil
	}
	if p.held, err = s.dir.open(name, unix.O_WRONLY); err != nil {
		s.tear(p)
	}
	return err
}

// hold gives a pipe that no command has another name, and opens the end to write
// to. A pipe that somebody has open, or whose name does not lead to it any more,
// is given up.
func (s *Session) hold(p *pipe) {
	name := token()
	if s.dir.rename(p.name, name) != nil {
		s.tear(p)
		return
	}
	p.name = name
	fds := []unix.PollFd{{Fd: int32(p.fd), Events: unix.POLLIN}}
	if _, _ = unix.Poll(fds, 0); fds[0].Revents != unix.POLLHUP { // it has a writer, or what one has left
		s.tear(p)
		return
	}
	var st unix.Stat_t
	fd, err := s.dir.open(name, unix.O_WRONLY)
	if err == nil && (unix.Fstat(fd, &st) != nil || proc.FileOf(&st) != p.file) {
		err = unix.EINVAL
		_ = unix.Close(fd)
	}
	if err != nil {
		s.tear(p)
		return
	}
	p.held = fd
}

// let closes the end to write to.
func (p *pipe) let() { closeFD(&p.held) }

// tear gives a pipe up; the next command gets a new one.
func (s *Session) tear(p *pipe) {
	if p.fd >= 0 {
		s.poll.remove(p.fd)
		s.dir.unlink(p.name)
	}
	closeFD(&p.fd)
	p.let()
}

func (s *Session) giveUpPipes() {
	for i := range s.pipes {
		s.tear(&s.pipes[i])
	}
}

// leave hands the reading end over to who goes on reading: somebody in the
// background holds the pipe.
func (s *Session) leave(p *pipe) {
	s.poll.remove(p.fd)
	s.dir.unlink(p.name)
	p.fd = -1
	p.let()
}

// onPipe hears that there is something to read.
func (s *Session) onPipe(fd int) {
	if s.cur != nil {
		for _, st := range s.cur.outs {
			if st.fd == fd && !st.over {
				s.onStream(st)
				return
			}
		}
	}
	for i := range s.pipes {
		if p := &s.pipes[i]; p.fd == fd && !s.drains(p) {
			s.tear(p) // written by somebody who has no business to
		}
	}
}

// drains reports whether the command that runs has this pipe, at its end
// already.
func (s *Session) drains(p *pipe) bool {
	if s.cur != nil {
		for _, st := range s.cur.outs {
			if st.pipe == p {
				return true
			}
		}
	}
	return false
}
