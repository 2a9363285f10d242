package local

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/internal/sys/child"
	"wolffia/internal/sys/statefile"
	"wolffia/internal/sys/timerslack"
	"wolffia/runtime"
)

const (
	// quietTime is how long no spare was taken when a filler replaces those that were, unless
	// half of them are gone: what was taken has a command to run first.
	quietTime = 200 * time.Millisecond
	// lull, for each spare that a pool keeps, is how long no spare was taken when a filler replaces them although half of
	// them are gone: those who take many at once are not done yet. A filler waits at most maxQuiet in all for that.
	quietPerSandbox, maxQuiet = time.Millisecond, 250 * time.Millisecond
	// lingerTime is how long a filler waits for the next spare to be taken. Until then no taker
	// has to start another one.
	lingerTime = time.Minute
	// spawnDelay is how long after a spare was taken a filler looks at its pool, and the taker's Runtime starts one
	// that is missing, unless it is closed before: the taker has a command to run first.
	spawnDelay = 20 * time.Millisecond
)

// refillDelay returns how long a filler lets takers go first if so many spares are ready, of those
// that a pool keeps. since is how long ago the last one was taken; low is how long half of them are gone, if they are. more
// is false if none is missing.
func refillDelay(ready, keeps int, since, low time.Duration) (wait time.Duration, more bool) {
	switch {
	case ready >= keeps:
		return 0, false
	case atHalf(ready, keeps):
		return max(0, min(time.Duration(keeps)*quietPerSandbox-since, maxQuiet-low)), true
	}
	return min(max(0, quietTime-since), quietTime), true
}

// atHalf reports whether half of the spares that a pool keeps are gone, if so many are ready.
func atHalf(ready, keeps int) bool { return 2*ready <= keeps }

// FillPool refills a pool as spares are taken, until none was taken for a while, the pool ends, or
// ctx does. If another process does that already, it returns at once. It is for a process that
// does nothing else: the hidden command wolffia pool fill, which a Runtime starts when it has taken
// a spare.
func (s *pools) FillPool(ctx context.Context, shape string) error {
	d := s.poolDir
	for {
		seen, err := s.watch(ctx, shape)
		if err != nil || ctx.Err() != nil {
			return unlessHeld(err)
		}
		// A spare that was taken just before the lock was released has no other filler.
		if claimed, _ := d.used(shape); claimed == seen {
			return nil
		}
	}
}

// watch is FillPool until the filler's lock is released. It returns how many spares were taken
// when it looked last.
func (s *pools) watch(ctx context.Context, shape string) (claimed int64, err error) {
	d := s.poolDir
	release, err := d.try(shape, watchPart)
	if err != nil {
		return 0, err
	}
	defer release()
	events, err := d.events(ctx)
	if err != nil {
		events = nil // without events it does not linger
	} else {
		defer events.Close()
	}
	var r *poolRecord
	var read statefile.Stamp // of r
	filled := int64(-1)      // the value of taken at the last refill
	var low time.Time        // since when half are gone; zero: they are not
	for idle := time.Now(); ; {
		before := claimed
		var last time.Time
		claimed, last = d.used(shape)
		if now := statefile.StampOf(d.record(shape)); now != read || r == nil {
			r, err = d.read(shape)
			if errors.Is(err, runtime.ErrNotFound) {
				return claimed, nil
			}
			if err != nil {
				return claimed, err
			}
			read = now
		}
		if r.over(last) && d.expire(shape) {
			return claimed, nil
		}
		if claimed != before {
			idle = time.Now()
		}
		published, err := s.dir.PublishedOf(shape)
		if err != nil {
			return claimed, err
		}
		ready := len(published)
		switch {
		case !atHalf(ready, r.Size):
			low = time.Time{}
		case low.IsZero():
			low = time.Now()
		}
		wait, more := refillDelay(ready, r.Size, time.Since(last), time.Since(low))
		more = more && claimed != filled // spares that end by themselves are not replaced
		if more && (wait == 0 || events == nil) {
			filled = claimed
			if err := s.refill(ctx, shape); err != nil {
				return claimed, err
			}
			continue
		}
		if !more {
			wait = lingerTime - time.Since(idle)
		}
		if events == nil || wait <= 0 {
			return claimed, nil
		}
		if err := events.wait(shape, wait); err != nil || ctx.Err() != nil {
			return claimed, err
		}
	}
}

// poolEvents reports changes of pools.
type poolEvents struct {
	*os.File
	stop func() bool
}

// events watches the directory of pools until Close. If ctx ends, so does a wait.
func (d poolDir) events(ctx context.Context) (*poolEvents, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("inotify: %w", err)
	}
	f := os.NewFile(uintptr(fd), "inotify")
	if _, err := unix.InotifyAddWatch(fd, d.path, unix.IN_MODIFY|unix.IN_DELETE|unix.IN_MOVED_TO|unix.IN_ONLYDIR|unix.IN_DONT_FOLLOW); err != nil {
		return nil, errors.Join(fmt.Errorf("inotify: %w", err), f.Close())
	}
	return &poolEvents{f, context.AfterFunc(ctx, func() { _ = f.Close() })}, nil
}

func (e *poolEvents) Close() error {
	e.stop()
	return e.File.Close()
}

// wait returns spawnDelay after a pool has changed, or after that time.
func (e *poolEvents) wait(shape string, most time.Duration) error {
	if err := e.SetReadDeadline(time.Now().Add(most)); err != nil {
		return err
	}
	buf := make([]byte, 4096)
	for changed := false; ; {
		n, err := e.Read(buf)
		if errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, os.ErrClosed) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("inotify: %w", err)
		}
		if changed || !mentions(buf[:n], shape) {
			continue
		}
		changed = true
		if err := e.SetReadDeadline(time.Now().Add(spawnDelay)); err != nil {
			return err
		}
	}
}

// mentions reports whether events are of a pool, or of no file: then some are missing.
func mentions(events []byte, shape string) bool {
	for len(events) >= unix.SizeofInotifyEvent {
		end := unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(events[12:]))
		name := strings.TrimRight(string(events[unix.SizeofInotifyEvent:min(end, len(events))]), "\x00")
		if name == "" || strings.HasPrefix(name, shape+".") {
			return true
		}
		events = events[min(end, len(events)):]
	}
	return false
}

// fillers has the pools refilled that a Runtime takes spares from.
type fillers struct {
	*catalog
	poolDir
	log *slog.Logger // may be nil

	mu     sync.Mutex
	due    map[string]*time.Timer // by shape; guarded by mu
	closed bool                   // guarded by mu
}

// claimed counts a spare that was taken of a pool, and has the pool refilled.
func (f *fillers) claimed(shape string) {
	if f.countClaim(shape) {
		f.want(shape)
	}
}

// missed has a pool refilled that had no spare for a taker: what it had has ended, and nobody has taken one since. A pool that was
// started, or could not be refilled, within keepRetry is left alone.
func (f *fillers) missed(shape string) {
	if st, err := os.Lstat(f.record(shape)); err == nil && time.Since(st.ModTime()) > keepRetry {
		f.want(shape)
	}
}

// want has a pool refilled, by a filler of its own if there is none.
func (f *fillers) want(shape string) {
	if f.watched(shape) {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.closed:
		f.start(shape)
	case f.due[shape] == nil:
		f.due[shape] = time.AfterFunc(spawnDelay, func() { f.flush(shape) })
	}
}

// flush starts the filler that is due, if it still is.
func (f *fillers) flush(shape string) {
	f.mu.Lock()
	_, due := f.due[shape]
	delete(f.due, shape)
	f.mu.Unlock()
	if due {
		f.start(shape)
	}
}

// close starts the fillers that are due.
func (f *fillers) close() {
	f.mu.Lock()
	due := f.due
	f.due, f.closed = nil, true
	f.mu.Unlock()
	for shape, timer := range due {
		timer.Stop()
		f.start(shape)
	}
}

// start starts a process that refills a pool, and outlives this one. If that fails, the next
// taker tries again.
func (f *fillers) start(shape string) {
	_, err := child.Start(&child.Command{
		Path: f.wolffia, Args: []string{"wolffia", "pool", "fill", "--state-dir", f.dir.Path(), shape},
		Env: os.Environ(), Attr: &syscall.SysProcAttr{Setsid: true}, Files: []*os.File{nil, nil, nil},
		Slack: timerslack.Coarse,
	})
	if err != nil && f.log != nil {
		f.log.Warn("the pool is not refilled", "pool", shape, "error", err.Error())
	}
}
