package device

import (
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// MaxHandlers bounds the requests that are answered at once, and with them the memory.
	// Further requests of a sandbox wait.
	MaxHandlers = 64

	// yieldEvery is how often a handler lets Go's scheduler choose again. sysmon takes the
	// processor of a goroutine that has run for 10 ms without that, each time it finds it in a
	// system call, and then looks again every 20 microseconds.
	yieldEvery = 5 * time.Millisecond

	// spinTime is how long a handler looks for the next message before it sleeps, if the one before
	// came that soon. To be woken takes as long where processors that are idle sleep.
	spinTime = 50 * time.Microsecond

	// spinPause is before how many messages a handler does not look so once it has done so in vain.
	spinPause = 16

	// busyStreak is how many messages in a row have to be there already when a handler looks,
	// before there is one more.
	busyStreak = 16

	// blockedTime is for how long all handlers have to work without an answer, before another one
	// starts.
	blockedTime = time.Millisecond
)

// handlers read messages from a device, each in a goroutine of its own, and have them answered.
// Mostly there is one: more would take the processors from the programs that wait for the answers.
// When messages wait, there are as many as Go has processors; when all are blocked, by a disk or a
// lock, there is one more each blockedTime, up to limit.
type handlers struct {
	fd     int                                // serve makes it one that does not block
	answer func(b *Buffers, n int) (size int) // as for New
	limit  int                                // of running
	logger *slog.Logger

	buffers bufferPool
	parked  atomic.Int32  // of running, those in Park
	over    chan struct{} // closed when the device has ended
	end     sync.Once     // closes over
	running atomic.Int32  // 0 once all have ended, then for good
	reading atomic.Int32  // of running, those that look or wait for a message
	done    atomic.Uint64 // answers
	ended   chan struct{} // closed when running is 0

	watch   *time.Timer // calls look
	watched atomic.Bool // it is set
	seen    uint64      // done at the last look
}

// serve returns when the device has ended (ENODEV, or an end of file).
func (h *handlers) serve() {
	if err := unix.SetNonblock(h.fd, true); err != nil {
		h.logger.Error("serve a tree", "error", err)
		return
	}
	h.ended = make(chan struct{})
	h.watch = time.AfterFunc(time.Hour, h.checkStall)
	h.watch.Stop()
	h.running.Store(1)
	h.begin()
	<-h.ended
	h.watch.Stop()
	h.buffers.close()
}

// more starts a handler, unless most are running or all have ended.
func (h *handlers) more(most int) {
	for {
		n := h.running.Load()
		if n == 0 || int(n-h.parked.Load()) >= most {
			return
		}
		if h.running.CompareAndSwap(n, n+1) {
			h.begin()
			return
		}
	}
}

// begin starts a handler that is in running.
func (h *handlers) begin() {
	h.reading.Add(1)
	go func() { // ends when others read, or with the device
		b, err := h.buffers.get()
		if err == nil {
			h.run(b)
			h.buffers.put(b)
		} else {
			h.reading.Add(-1)
			h.logger.Error("allocate the buffer of a request", "error", err)
		}
		if h.running.Add(-1) == 0 {
			close(h.ended)
		}
	}()
}

// checkStall starts a handler if all handlers have worked for blockedTime without an answer.
func (h *handlers) checkStall() {
	done := h.done.Load()
	switch {
	case done != h.seen:
	case h.reading.Load() == 0:
		h.more(h.limit)
	default:
		h.watched.Store(false)
		if h.reading.Load() > 0 || h.watched.Swap(true) {
			return // the next handler that works alone sets the watch
		}
	}
	h.seen = done
	h.watch.Reset(blockedTime)
}

// A pace is how fast a handler gets its messages.
type pace struct {
	answered time.Time // when it was done with the last one
	soon     bool      // that one had come soon after the one before
	pause    int       // the number of further reads without a sleep
	streak   int       // the number of consecutive reads that found a message
}

// run handles messages until the device has ended, or others wait for the next one.
func (h *handlers) run(b *Buffers) {
	p := pace{answered: time.Now()}
	yielded := p.answered
	for h.next(b, &p) {
		if p.answered.Sub(yielded) > yieldEvery {
			yielded = p.answered
			runtime.Gosched()
		}
	}
}

// next waits for a message and handles it. It returns false if the handler is to end, which does
// not count in reading any more.
func (h *handlers) next(b *Buffers, p *pace) bool {
	n, errno := readMessage(h.fd, b)
	switch errno {
	case 0:
		if p.streak++; p.streak == busyStreak {
			p.streak = 0
			h.more(min(h.limit, runtime.GOMAXPROCS(0)))
		}
	case syscall.EAGAIN:
		p.streak = 0
		n, errno = h.await(b, p)
	}
	if errno != 0 {
		if errno != errRetired {
			h.reading.Add(-1)
			h.end.Do(func() {
				if h.over != nil { // a Device has one
					close(h.over)
				}
			})
		}
		if errno != errRetired && errno != syscall.ENODEV {
			h.logger.Error("read from the kernel", "error", errno)
		}
		return false
	}
	begun := time.Now()
	p.soon = begun.Sub(p.answered) < 2*spinTime // it may have been woken
	if h.reading.Add(-1) == 0 && !h.watched.Load() && !h.watched.Swap(true) {
		h.watch.Reset(blockedTime)
	}
	if size := h.answer(b, n); size != 0 {
		_, err := unix.Write(h.fd, b.Out[:size])
		switch err {
		case nil, syscall.ENOENT, syscall.ENODEV: // the request was interrupted, or the tree unmounted
		default:
			h.logger.Warn("answer the kernel", "error", err)
		}
	}
	h.done.Add(1)
	h.reading.Add(1)
	p.answered = time.Now()
	return true
}

// errRetired means that enough other handlers wait for a message.
const errRetired = syscall.ECANCELED

// await is readMessage for a message that has not arrived yet.
func (h *handlers) await(b *Buffers, p *pace) (n int, errno syscall.Errno) {
	if p.pause > 0 {
		p.pause--
	} else if p.soon {
		for time.Since(p.answered) < spinTime {
			unix.RawSyscallNoError(unix.SYS_SCHED_YIELD, 0, 0, 0)
			if n, errno = readMessage(h.fd, b); errno != syscall.EAGAIN {
				return n, errno
			}
		}
		p.pause = spinPause
	}
	for r := h.reading.Load(); r > 1; r = h.reading.Load() {
		if h.reading.CompareAndSwap(r, r-1) {
			return 0, errRetired
		}
	}
	for {
		_, _ = unix.Poll([]unix.PollFd{{Fd: int32(h.fd), Events: unix.POLLIN}}, -1) // an error is one of readMessage, too
		if n, errno = readMessage(h.fd, b); errno != syscall.EAGAIN {
			return n, errno
		}
	}
}

// readMessage returns the size of the next message of a device. EAGAIN: it would have to wait, and
// the device does not block. ENODEV: the tree is unmounted.
func readMessage(fd int, b *Buffers) (int, syscall.Errno) {
	for {
		n, err := unix.Read(fd, b.In)
		switch {
		case err == syscall.EINTR, err == syscall.ENOENT: // ENOENT: the request was interrupted
		case err != nil:
			return 0, err.(syscall.Errno)
		case n == 0:
			return 0, syscall.ENODEV // it has an end: it is a test's
		default:
			return n, 0
		}
	}
}
