package audit

import (
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/perm"
)

// queueSize is how many lines may wait for the disk.
const queueSize = 1024

// A Log writes denials to a file. Add never waits, for neither lock nor disk:
// one goroutine writes. What is too much, or cannot be written, is counted, and
// told in a line when that is possible.
type Log struct {
	file   file
	logger *slog.Logger

	mu     sync.Mutex  // held for a moment only
	tally  tally       // guarded by mu
	closed bool        // guarded by mu
	queue  chan *entry // sent to with mu held, and room

	wake  chan struct{}      // something was dropped, the first since that was told
	flush chan chan struct{} // to be closed when what is queued is written
	done  chan struct{}      // closed when all is written
}

// An entry is a Record whose explanation is still to be had of rules.
type entry struct {
	record Record
	rules  *perm.Policy
}

// NewLog returns a log that continues the one at path, which is made with the
// first denial. logger is told, once, if it cannot be written; nil discards.
// The caller closes the log.
func NewLog(path string, logger *slog.Logger) *Log {
	return newLog(path, logger, MaxSize)
}

func newLog(path string, logger *slog.Logger, max int64) *Log {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	l := &Log{
		file: file{path: path, max: max}, logger: logger,
		queue: make(chan *entry, queueSize), wake: make(chan struct{}, 1), flush: make(chan chan struct{}), done: make(chan struct{}),
	}
	go l.run() // ends with Close
	return l
}

// Add records a denial, of which all but Time, Count, Command and what Explain
// says is given; rules are those that decided. It is safe for concurrent use,
// and does nothing once the log is closed.
//
// The process waits for the answer to what it asked, so that it is still there
// and its name can be had. The name is all that may be read of it: it is behind
// a spin lock in the kernel, while others, such as its arguments, are in its
// memory, which the process may hold locked until it has its answer.
func (l *Log) Add(r Record, rules *perm.Policy) {
	if len(r.Path) > maxPath {
		r.Path, r.Cut = r.Path[:maxPath], true
	}
	r.Time, r.Count = time.Now(), 1
	e := entry{r, rules}
	l.mu.Lock()
	write := !l.closed && l.tally.add(e)
	first := l.tally.dropped == 1 && !write
	l.mu.Unlock()
	switch {
	case write:
		e.record.Command = command(r.PID)
		l.send(&e)
	case first:
		select {
		case l.wake <- struct{}{}:
		default:
		}
	}
}

// send queues a line, or counts it if there is no room.
func (l *Log) send(e *entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	if o := l.tally.open[kindOf(&e.record)]; o != nil && o.first.record.Time.Equal(e.record.Time) {
		o.first.record.Command = e.record.Command
	}
	select {
	case l.queue <- e:
	default:
		l.tally.drop(e.record.Time, 1)
	}
}

// Flush waits until all lines of what was added are written, up to limit. What is only
// counted is told in its time.
func (l *Log) Flush(limit time.Duration) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	written := make(chan struct{})
	select {
	case l.flush <- written:
	case <-l.done:
		return
	case <-timer.C:
		return
	}
	select {
	case <-written:
	case <-timer.C:
	}
}

// Close writes what was counted, and closes the log. It waits for the disk, up
// to limit.
func (l *Log) Close(limit time.Duration) {
	l.mu.Lock()
	if !l.closed {
		l.closed = true
		close(l.queue)
	}
	l.mu.Unlock()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-l.done:
	case <-timer.C:
	}
}

// run writes until the log is closed.
func (l *Log) run() {
	defer close(l.done)
	timer := time.NewTimer(window)
	timer.Stop() // an idle log does nothing
	armed := false
	for {
		select {
		case e, ok := <-l.queue:
			if !ok {
				l.tell(true)
				_ = l.file.close()
				return
			}
			l.write(e)
		case written := <-l.flush:
			for range len(l.queue) {
				l.write(<-l.queue)
			}
			close(written)
		case <-l.wake:
		case <-timer.C:
			armed = false
			l.tell(false)
		}
		if !armed && l.pending() {
			timer.Reset(window)
			armed = true
		}
	}
}

func (l *Log) pending() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.tally.pending()
}

// tell writes what was counted.
func (l *Log) tell(all bool) {
	l.mu.Lock()
	due := l.tally.due(time.Now(), all)
	l.mu.Unlock()
	for i := range due {
		l.write(&due[i])
	}
}

// write writes one line, or counts what it stands for.
func (l *Log) write(e *entry) {
	r := &e.record
	r.Explain(e.rules)
	err := l.file.write(append(r.Append(nil), '\n'))
	if err == nil {
		return
	}
	l.logger.Warn("the audit log cannot be written: denials are counted only", "error", err)
	l.logger = slog.New(slog.DiscardHandler) // once
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tally.drop(r.Time, max(r.Count, r.Dropped))
	if !r.Since.IsZero() && r.Since.Before(l.tally.dropSince) {
		l.tally.dropSince = r.Since
	}
}

// command is the name of a thread; empty if it is gone.
func command(pid uint32) string {
	if pid == 0 {
		return ""
	}
	fd, err := unix.Open("/proc/"+strconv.FormatUint(uint64(pid), 10)+"/comm", unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return ""
	}
	defer unix.Close(fd)
	buf := make([]byte, 64) // TASK_COMM_LEN is 16; kernel threads' are longer
	n, err := unix.Read(fd, buf)
	if err != nil || n <= 0 {
		return ""
	}
	return strings.ToValidUTF8(strings.TrimSuffix(string(buf[:n]), "\n"), "\uFFFD")
}
