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
func (p *shellProcess) openScript() (err error) {
	if p.script, err = p.ends.dir.fifo(p.names.lines, unix.O_RDWR); err != nil {
		return err
	}
	// Packet mode: a read gets one write (pipe(2), O_DIRECT). That mode cannot
	// be asked for at once where files have no direct I/O.
	_, err = unix.FcntlInt(uintptr(p.script), unix.F_SETFL, unix.O_RDWR|unix.O_NONBLOCK|unix.O_DIRECT)
	if !errors.Is(err, unix.EINVAL) {
		return err
	}
	// gVisor has no such mode. There each packet fills the pipe, so that the
	// next one has room when all of it was read, and not before.
	p.full = true
	_, err = unix.FcntlInt(uintptr(p.script), unix.F_SETPIPE_SZ, pipeSize)
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
func (p *shellProcess) flush() {
	for len(p.waiting) > 0 {
		_, err := unix.Write(p.script, pad(p.waiting[0]))
		if err == unix.EINTR {
			continue
		}
		if err == unix.EAGAIN {
			break
		}
		p.waiting = p.waiting[1:] // one that does not go out shows as a lost report
	}
	p.ends.poll.watchRoom(p.script, &p.watched, len(p.waiting) > 0)
}

// send sends lines to the shell, if there is one, each as a packet. One that does not go out shows
// as a lost report.
func (p *shellProcess) send(packets ...string) {
	if p == nil || p.script < 0 {
		return
	}
	if p.full {
		p.waiting = append(p.waiting, packets...)
		p.flush()
		return
	}
	for _, line := range packets {
		_, _ = unix.Write(p.script, []byte(line))
	}
}
