package session

import (
	"golang.org/x/sys/unix"

	"wolffia/internal/proc"
)

// A pipe is a FIFO in the session's directory that takes an output of its
// commands, one after the other. The guest has it open at both ends, so that
// it never hangs up while a command runs; when the command is over, the guest
// closes its own writing end, and then an end of file says that no other
// process has one. For each command it has another, random name. Where
// the directory does not tell whether a file was read, the guest opens the reading end
// only, and the pipe lives as long as one command.
type pipe struct {
	name   string
	fd     int // to read from; -1: it has yet to be made
	writer int // to write to; -1: closed
	file   proc.File
}

func newPipe() pipe { return pipe{fd: -1, writer: -1} }

// preparePipe makes a pipe ready for a command.
func (s *Session) preparePipe(p *pipe) error {
	if p.fd >= 0 && p.writer < 0 {
		s.renew(p)
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
	if p.writer, err = s.dir.open(name, unix.O_WRONLY); err != nil {
		s.discardPipe(p)
	}
	return err
}

// renew gives a pipe that no command has another name, and opens the end to write
// to. A pipe that another process has open, or whose name does not lead to it any more,
// is given up.
func (s *Session) renew(p *pipe) {
	name := token()
	if s.dir.rename(p.name, name) != nil {
		s.discardPipe(p)
		return
	}
	p.name = name
	fds := []unix.PollFd{{Fd: int32(p.fd), Events: unix.POLLIN}}
	if _, _ = unix.Poll(fds, 0); fds[0].Revents != unix.POLLHUP { // it has a writer, or what one has left
		s.discardPipe(p)
		return
	}
	var st unix.Stat_t
	fd, err := s.dir.open(name, unix.O_WRONLY)
	if err == nil && (unix.Fstat(fd, &st) != nil || proc.FileOf(&st) != p.file) {
		err = unix.EINVAL
		_ = unix.Close(fd)
	}
	if err != nil {
		s.discardPipe(p)
		return
	}
	p.writer = fd
}

// closeWriter closes the end to write to.
func (p *pipe) closeWriter() { closeFD(&p.writer) }

// discardPipe gives a pipe up; the next command gets a new one.
func (s *Session) discardPipe(p *pipe) {
	if p.fd >= 0 {
		s.poll.remove(p.fd)
		s.dir.unlink(p.name)
	}
	closeFD(&p.fd)
	p.closeWriter()
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
	p.closeWriter()
}

// onPipe handles a pipe that can be read.
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
			s.discardPipe(p) // written to, though no command has it
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
