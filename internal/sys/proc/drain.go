package proc

import (
	"time"

	"golang.org/x/sys/unix"
)

// A process that runs in the background may hold the output of a command that has
// ended, as in "> >(tee log)". The output then ends when what was buffered in the pipe
// is read and nothing has come for Quiet, or the command ended Grace ago.
const (
	Quiet = 10 * time.Millisecond
	Grace = 50 * time.Millisecond
)

// A Drain decides when the output of a command is complete though its end of file is
// not reached. The zero Drain is that of a command that runs.
type Drain struct {
	grace, quiet time.Time
	buffered     int // bytes that were buffered and are still to be read
	counted      bool
}

// Begin notes that the command has ended: the output is complete when it is quiet for
// first, or for [Quiet] after more has come.
func (d *Drain) Begin(now time.Time, first time.Duration) {
	d.grace, d.quiet = now.Add(Grace), now.Add(first)
}

// Begun reports whether the command has ended.
func (d *Drain) Begun() bool { return !d.grace.IsZero() }

// Hold notes how many bytes were buffered when the output was found held; the first
// call counts.
func (d *Drain) Hold(buffered int) {
	if !d.counted {
		d.buffered, d.counted = buffered, true
	}
}

// Left is how many of the bytes that Hold has noted are still to be read.
func (d *Drain) Left() int { return d.buffered }

// Limit is when the output is complete, whatever comes, once what was buffered is read.
func (d *Drain) Limit() time.Time { return d.grace }

// Held reports whether Hold was called.
func (d *Drain) Held() bool { return d.counted }

// Took notes that n bytes were read.
func (d *Drain) Took(n int, now time.Time) {
	d.buffered = max(0, d.buffered-n)
	d.quiet = now.Add(Quiet)
}

// Complete reports whether the output is complete.
func (d *Drain) Complete(now time.Time) bool {
	return d.Begun() && d.buffered == 0 && !d.Next().After(now)
}

// Next is when the output is complete if nothing more comes.
func (d *Drain) Next() time.Time {
	if d.grace.Before(d.quiet) {
		return d.grace
	}
	return d.quiet
}

// Buffered returns how many bytes can be read from a pipe at once: FIONREAD, which is
// also named TIOCINQ (pipe(7), ioctl_tty(2)).
func Buffered(fd int) int {
	n, _ := unix.IoctlGetInt(fd, unix.TIOCINQ)
	return n
}
