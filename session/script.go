package session

import (
	"bytes"
	"errors"

	"golang.org/x/sys/unix"
)

// pipeSize is the least that a pipe can hold, and more than any packet.
const pipeSize = 4096

// openScript opens the FIFO that a shell without extensions reads its lines
// from. A read of it must not get more than one packet.
func (s *Session) openScript(in *shellProcess) (err error) {
	if in.script, err = s.ends.dir.fifo(in.names.lines, unix.O_RDWR); err != nil {
		return err
	}
	// Packet mode: a read gets one write (pipe(2), O_DIRECT). That mode cannot
	// be asked for at once where files have no direct I/O.
	_, err = unix.FcntlInt(uintptr(in.script), unix.F_SETFL, unix.O_RDWR|unix.O_NONBLOCK|unix.O_DIRECT)
	if !errors.Is(err, unix.EINVAL) {
		return err
	}
	// gVisor has no such mode. There each packet fills the pipe, so that the
	// next one has room when all of it was read, and not before.
	in.full = true
	_, err = unix.FcntlInt(uintptr(in.script), unix.F_SETPIPE_SZ, pipeSize)
	return err
}

// pad fills a packet up to pipeSize with '#', so that what a shell reads of the padding is
// a comment, wherever it begins.
func pad(packet string) []byte {
	b := bytes.Repeat([]byte{'#'}, pipeSize)
	copy(b, packet)
	b[pipeSize-1] = '\n'
	return b
}

// flush writes those packets that wait for room, as far as there is any, and
// has the poller wait for more.
func (s *Session) flush() {
	in := s.shell
	for len(in.waiting) > 0 {
		_, err := unix.Write(in.script, pad(in.waiting[0]))
		if err == unix.EINTR {
			continue
		}
		if err == unix.EAGAIN {
			break
		}
		in.waiting = in.waiting[1:] // one that does not go out shows as a lost report
	}
	s.ends.poll.watchRoom(in.script, &in.watched, len(in.waiting) > 0)
}

// send sends lines to the shell, each as a packet. One that does not go out shows as a
// lost report.
func (s *Session) send(packets ...string) {
	in := s.shell
	if in == nil || in.script < 0 {
		return
	}
	if in.full {
		in.waiting = append(in.waiting, packets...)
		s.flush()
		return
	}
	for _, p := range packets {
		_, _ = unix.Write(in.script, []byte(p))
	}
}
