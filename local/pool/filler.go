package pool

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

	"wolffia/internal/host/statedir"
	"wolffia/internal/sys/child"
	"wolffia/internal/sys/statefile"
	"wolffia/internal/sys/timerslack"
	"wolffia/runtime"
)

const (
	// quietTime is for how long no sandbox was claimed when a filler replaces claimed ones, unless
	// half of the pool is used up. The claimant has a command to run first.
	quietTime = 200 * time.Millisecond
	// quietPerSandbox, times the pool's size, is the same time once half of the pool is used up: a
	// claimant of many at once is not done yet. A filler waits for that at most maxQuiet in all.
	quietPerSandbox, maxQuiet = time.Millisecond, 250 * time.Millisecond
	// lingerTime is how long a filler waits for the next claim. Until then no claimant has to
	// start another filler.
	lingerTime = time.Minute
	// spawnDelay is the time between a claim and the filler's look at the pool. If there is no
	// filler, the claimant's Runtime starts one after that time, or when it is closed. The
	// claimant has a command to run first.
	spawnDelay = 20 * time.Millisecond
)

// refillDelay returns how long a filler waits for claimants before it refills a pool that keeps so
// many sandboxes, of which ready are there. since is the time since the last claim; low is how
// long half of the pool has been used up, if it is. more is false if no sandbox is missing.
func refillDelay(ready, keeps int, since, low time.Duration) (wait time.Duration, more bool) {
	switch {
	case ready >= keeps:
		return 0, false
	case atHalf(ready, keeps):
		return max(0, min(time.Duration(keeps)*quietPerSandbox-since, maxQuiet-low)), true
	}
	return min(max(0, quietTime-since), quietTime), true
}

// atHalf reports whether half of a pool that keeps so many sandboxes is used up, if ready are
// there.
func atHalf(ready, keeps int) bool { return 2*ready <= keeps }

// FillPool refills a pool as its sandboxes are claimed, until none was claimed for a while, the
// pool ends, or ctx does. If another process does that already, it returns at once. It is for a
// process that does nothing else: the hidden command wolffia pool fill, which a Runtime starts
// after a claim.
func (s *Manager) FillPool(ctx context.Context, shape string) error {
	d := s.dir
	for {
		seen, err := s.watch(ctx, shape)
		if err != nil || ctx.Err() != nil {
			return unlessHeld(err)
		}
		// No other filler replaces a sandbox that was claimed just before the lock was released.
		if claimed, _ := d.used(shape); claimed == seen {
			return nil
		}
	}
}

// watch is FillPool until it releases the filler's lock. It returns how many sandboxes were
// claimed when it last looked.
func (s *Manager) watch(ctx context.Context, shape string) (claimed int64, err error) {
	d := s.dir
	release, err := d.try(shape, watchPart)
	if err != nil {
		return 0, err
	}
	defer release()
	events, err := d.events(ctx)
	if err != nil {
		events = nil // without events watch does not linger
	} else {
		defer events.Close()
	}
	var r *record
	var read statefile.Stamp // of r
	filled := int64(-1)      // the value of claimed at the last refill
	var low time.Time        // since when half are used up; zero: they are not
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
		published, err := s.state.PublishedOf(shape)
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
		// a sandbox that its idle timeout has ended is not replaced
		more = more && claimed != filled
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
func (d dir) events(ctx context.Context) (*poolEvents, error) {
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

// Fillers starts a filler for each pool that a Runtime claims sandboxes of.
type Fillers struct {
	dir
	wolffia string       // the program
	log     *slog.Logger // may be nil

	mu     sync.Mutex
	due    map[string]*time.Timer // by shape; guarded by mu
	closed bool                   // guarded by mu
}

// NewFillers returns the fillers of the pools of a state directory, which run the program wolffia.
// log may be nil. The caller closes them.
func NewFillers(d *statedir.Dir, wolffia string, log *slog.Logger) *Fillers {
	return &Fillers{dir: dirOf(d), wolffia: wolffia, log: log, due: map[string]*time.Timer{}}
}

// Claimed counts a claim of a sandbox of a pool, and has the pool refilled.
func (f *Fillers) Claimed(shape string) {
	if f.countClaim(shape) {
		f.want(shape)
	}
}

// Missed has a pool refilled that had no sandbox ready for a claimant: all have ended by their
// idle timeout, unclaimed. It does nothing if the pool was started, or could not be refilled,
// within keepRetry.
func (f *Fillers) Missed(shape string) {
	if st, err := os.Lstat(f.record(shape)); err == nil && time.Since(st.ModTime()) > keepRetry {
		f.want(shape)
	}
}

// want has a pool refilled. It starts a filler if none runs.
func (f *Fillers) want(shape string) {
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
func (f *Fillers) flush(shape string) {
	f.mu.Lock()
	_, due := f.due[shape]
	delete(f.due, shape)
	f.mu.Unlock()
	if due {
		f.start(shape)
	}
}

// Close starts the fillers that are due.
func (f *Fillers) Close() {
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
// claimant tries again.
func (f *Fillers) start(shape string) {
	_, err := child.Start(&child.Command{
		Path: f.wolffia, Args: []string{"wolffia", "pool", "fill", "--state-dir", f.state.Path(), shape},
		Env: os.Environ(), Attr: &syscall.SysProcAttr{Setsid: true}, Files: []*os.File{nil, nil, nil},
		Slack: timerslack.Coarse,
	})
	if err != nil && f.log != nil {
		f.log.Warn("the pool is not refilled", "pool", shape, "error", err.Error())
	}
}
