package shim

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/internal/host/boot"
	"wolffia/internal/host/rootfs"
	"wolffia/internal/host/statedir"
	"wolffia/internal/sys/step"
	"wolffia/runtime"
	"wolffia/wire"
)

// end requests the end of the sandbox: PID 1 ends its processes within grace, and is
// killed if it does not. The first outcome stays. end does not wait; the main goroutine
// does the rest.
func (s *shim) end(outcome statedir.Status, grace time.Duration) {
	s.mu.Lock()
	if s.outcome == nil {
		s.outcome = &outcome
	}
	first, fastStopped := *s.outcome, s.fastStopped
	s.mu.Unlock()
	if fastStopped {
		return
	}
	s.prefetcher.cancel() // it would begin when the last client hangs up
	time.AfterFunc(grace+time.Second, func() { _ = s.inst.Kill() })
	if grace == 0 && s.inst.Pause != nil {
		// its kernel does not stand still, and ends them without another step of theirs
	} else if err := s.resume(); err != nil { // what stands still ends by no signal, but by SIGKILL
		fmt.Fprintln(os.Stderr, "end a paused sandbox:", err)
	}
	if grace == 0 && s.inst.kill() {
		s.record(&first) // meanwhile
		return
	}
	if err := s.relay.shutdown(grace); err != nil {
		_ = s.inst.Kill()
	}
}

// record records how the sandbox ends, once. A pooled sandbox leaves no record.
func (s *shim) record(outcome *statedir.Status) {
	if s.pooled.unclaimed() {
		return
	}
	s.recording.Do(func() {
		if err := statedir.SetStatus(s.boot.Run, outcome); err != nil {
			fmt.Fprintln(os.Stderr, "record the end:", err)
		}
	})
}

// expire ends the sandbox at the end of its lifetime, as a stop does. Its status says so
// from now on, though its processes have their grace.
func (s *shim) expire(why runtime.Expiry) {
	outcome := statedir.Status{State: runtime.StateStopped, Reason: why.Reason(), Expired: why}
	s.mu.Lock()
	ending := s.outcome != nil
	if !ending {
		s.outcome = &outcome
		s.record(&outcome)
	}
	s.mu.Unlock()
	if ending {
		return
	}
	fmt.Fprintf(os.Stderr, "the sandbox ends: %s\n", why.Reason())
	s.copy.before(func() { s.end(outcome, boot.StopGrace) })
}

// await waits until PID 1's stream ends, ends all processes, and returns the
// outcome. s.mu is held from then on: nothing can change the outcome any more. It is the
// main goroutine's, whose thread the backend is bound to.
func (s *shim) await() statedir.Status {
	outcome := statedir.Status{State: runtime.StateDead, Reason: "PID 1 has ended"}
	err := <-s.relayed
	if errors.Is(err, wire.ErrProtocol) {
		outcome.Reason = "PID 1 broke the protocol: " + err.Error()
	}
	step.Reached("PID 1 gone")
	outcome.Reason += s.oom()
	s.mu.Lock()
	requested := s.outcome // a request from now on is not the reason
	s.mu.Unlock()
	s.prefetcher.cancel()
	if requested == nil && !errors.Is(err, wire.ErrProtocol) {
		// the backend says how PID 1 has ended, unless it is asked to end
		boot.Within(time.Second, s.inst.gone)
	}
	_ = s.inst.Kill()
	if !boot.Within(boot.KillGrace, s.inst.gone) || s.prefetcher.isWalking() || s.echoer.isRepeating() {
		// A process that waits for a tree server which is stuck cannot be killed.
		_ = unix.Unmount(rootfs.TreeDir(s.boot), unix.MNT_FORCE)
	}
	if !boot.Within(boot.KillLimit, s.inst.gone) {
		outcome.Reason += "; its processes do not end"
	}
	if requested != nil {
		outcome = *requested
	}
	// else the last lines are not needed
	if outcome.State == runtime.StateDead || !s.inst.killed.Load() {
		boot.Within(time.Second, s.inst.drained)
	}
	// Also after the tree server's end: a keeper whose engine has ended unmounts the codebase
	// first.
	if text := s.inst.stderr.String(); text != "" && outcome.State == runtime.StateDead {
		outcome.Reason += ": " + text
	}
	step.Reached("backend gone")
	s.mu.Lock()
	return outcome
}

// finish records the outcome and removes the socket, the control group and, if the sandbox's
// caller has ended, its directory. After fastStop it has none of these: another sandbox may be
// in its place.
func (s *shim) finish(outcome *statedir.Status) {
	if s.fastStopped {
		return
	}
	run := s.boot.Run
	socket := statedir.Socket(run)
	if s.pooled.unclaimed() {
		s.unpublish()
		socket = statedir.PooledSocket(run)
	}
	s.record(outcome)
	step.Reached("end recorded")
	s.close(socket)
	if outcome.State == runtime.StateDead {
		fmt.Fprintln(os.Stderr, "the sandbox is dead:", outcome.Reason)
	}
	limited := false
	if s.group != nil {
		for _, server := range []*treeConn{s.tree, s.system} { // they are in the group, and one has its audit log to write
			if server != nil {
				server.hangUp()
				boot.Within(boot.TreeLimit, server.over)
			}
		}
		limited = s.group.Remove(boot.KillLimit) != nil // it may be root's
	}
	// Otherwise List removes it: the directory may be root's, and an engine or the
	// control group may have something left.
	// What git inside has changed, and the host does not have, keeps the sandbox.
	if _, err := os.Lstat(s.boot.KeeperDir); (s.orphaned.Load() && !hasUnsynced(s.boot) || s.unclaimed.Load()) && !limited && err != nil {
		_ = statedir.RemoveFrom(run)
	}
	if releasesBeforeExit(s.boot) {
		s.releaseBeforeExit()
	}
}
