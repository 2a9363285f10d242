package audit

import (
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"wolffia/perm"
)

// queueSize bounds the lines that wait for the disk.
const queueSize = 1024

// A Log writes denials to a file. Add waits neither for a lock nor for the disk: one goroutine
// writes. Denials beyond the rate, or that cannot be written, are counted; the count is written
// when possible. It is safe for concurrent use.
type Log struct {
	file   file
	logger *slog.Logger

	mu     sync.Mutex  // held for a moment only
	tally  tally       // guarded by mu
	closed bool        // guarded by mu
	queue  chan *entry // sent to with mu held, and room

	wake  chan struct{}      // tally has dropped the first since due
	flush chan chan struct{} // each is closed when the queue has been written
	done  chan struct{}      // closed when all is written
}

// An entry is a Record that the writer explains by rules.
type entry struct {
	record Record
	rules  *perm.Policy
}

// NewLog returns a log that continues the one at path; the first denial creates the file. logger
// receives a message once if it cannot be written; nil discards that. The caller closes the log.
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

// Add records a denial. It sets Time, Count, Command and what Explain sets; the caller sets the
// rest. rules are those that decided. Of a refusal of the network it sets nothing. Add does
// nothing after Close.
//
// The process that was denied still waits for its answer, so that Add can read its name. Nothing
// else of it may be read: the kernel guards the name by a spin lock, but the arguments by a lock
// on the process's memory, which the process may hold until it has its answer.
func (l *Log) Add(r Record, rules *perm.Policy) {
	if len(r.Path) > maxPath {
		r.Path, r.Cut = r.Path[:maxPath], true
	}
	if r.Host != nil {
		r.cut()
		r.Count = max(1, r.Count)
	} else {
		r.Time, r.Count = time.Now(), 1
	}
	e := entry{r, rules}
	l.mu.Lock()
	write := !l.closed && l.tally.add(e)
	first := l.tally.dropped == 1 && !write
	l.mu.Unlock()
	switch {
	case write:
		if r.Host == nil {
			e.record.Command = command(r.PID)
		}
		l.send(&e)
	case first:
		select {
		case l.wake <- struct{}{}:
		default:
		}
	}
}

// send queues a line, or counts it if the queue is full.
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
		l.tally.drop(e.record.Time, e.record.Count)
	}
}

// Flush waits until the lines of all added denials are written, at most limit. It does not write
// counts.
func (l *Log) Flush(limit time.Duration) {
	timer := time.After(limit)
	written := make(chan struct{})
	select {
	case l.flush <- written:
	case <-l.done:
		return
	case <-timer:
		return
	}
	select {
	case <-written:
	case <-timer:
	}
}

// Close writes the counts and closes the log. It waits for the disk at most limit.
func (l *Log) Close(limit time.Duration) {
	l.mu.Lock()
	if !l.closed {
		l.closed = true
		close(l.queue)
	}
	l.mu.Unlock()
	select {
	case <-l.done:
	case <-time.After(limit):
	}
}

// run writes lines until the log is closed.
func (l *Log) run() {
	defer close(l.done)
	timer := time.NewTimer(window)
	timer.Stop() // an idle log does nothing
	armed := false
	for {
		select {
		case e, ok := <-l.queue:
			if !ok {
				l.writeCounts(true)
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
			l.writeCounts(false)
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

// writeCounts writes the lines of tally.due.
func (l *Log) writeCounts(all bool) {
	l.mu.Lock()
	due := l.tally.due(time.Now(), all)
	l.mu.Unlock()
	for i := range due {
		l.write(&due[i])
	}
}

// write writes one line, or counts its denials if it cannot.
func (l *Log) write(e *entry) {
	r := &e.record
	r.Explain(e.rules)
	err := l.file.write(append(r.Append(nil), '\n'))
	if err == nil {
		return
	}
	l.logger.Warn("audit log cannot be written: denials are only counted", "error", err)
	l.logger = slog.New(slog.DiscardHandler) // once
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tally.drop(r.Time, max(r.Count, r.Dropped))
	if !r.Since.IsZero() && r.Since.Before(l.tally.dropSince) {
		l.tally.dropSince = r.Since
	}
}

// command returns the name of the thread pid. It returns "" if the thread has ended, or pid is 0.
func command(pid uint32) string {
	name, _ := os.ReadFile("/proc/" + strconv.FormatUint(uint64(pid), 10) + "/comm")
	return strings.ToValidUTF8(strings.TrimSuffix(string(name), "\n"), "\uFFFD")
}
