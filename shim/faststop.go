package shim

import (
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/internal/host/boot"
	"wolffia/internal/host/statedir"
	"wolffia/internal/sys/step"
	"wolffia/runtime"
	"wolffia/runtime/launch"
)

// fastStopLimit is how long PID 1 may outlive a sandbox after fastStop: long enough for a command
// line to remove the sandbox, and to end. The end of PID 1 disturbs least while another sandbox
// starts, which keeps one processor busy.
const fastStopLimit = 3 * time.Millisecond

// fastStop ends the sandbox for its only client c before its processes end, and reports whether it
// did. It does so if only PID 1 runs inside, for whose end no process needs to wait: the kernel
// takes its threads and its memory down, which keeps all processors busy for a millisecond. The
// shim kills PID 1 after fastStopLimit. Nothing starts meanwhile: c has promised that, and the
// shim accepts no other client.
func (s *shim) fastStop(c *clientConn) bool {
	if !releasesBeforeExit(s.boot) || borrows(&s.boot.Config) || s.group != nil || s.pooled.unclaimed() || s.orphaned.Load() || !s.clients.closeFor(c) || !s.inst.pid1().alone() {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.outcome != nil {
		return false // the sandbox ends already
	}
	s.outcome, s.fastStopped = &statedir.Status{State: runtime.StateStopped}, true
	s.prefetcher.cancel()
	s.record(s.outcome)
	s.close(statedir.Socket(s.boot.Run))
	s.releaseBeforeExit()
	time.AfterFunc(fastStopLimit, func() {
		if !s.inst.kill() {
			_ = s.inst.Kill()
		}
	})
	return true
}

// borrows reports whether a directory or socket of the host is mounted inside that is not the
// system's: the user may want to unmount its file system when the sandbox has ended. The
// codebase's tree belongs to the tree server and does not count, nor do caches that the user did
// not name.
func borrows(c *statedir.Config) bool {
	own := func(m runtime.Mount) bool { return !m.Toolchain }
	named := func(v runtime.VolumeMount) bool { return v.Key == "" }
	return c.Native() || c.Rootfs != "" || slices.ContainsFunc(c.Volumes, named) || len(c.Sockets) > 0 ||
		slices.ContainsFunc(c.Mounts, own)
}

// close ends the sandbox's ways in from outside, except the connections of clients.
func (s *shim) close(socket string) {
	if s.filtered != nil {
		s.filtered.close()
	}
	s.ports.close()
	_ = os.Remove(socket)
	step.Reached("socket gone")
}

// releasesBeforeExit reports whether the shim releases what other processes wait for before it
// exits. The kernel does that for a process that exits, but only after it has taken down its mount
// namespace. A copied codebase, an image's changes and mounts that are not the shim's keep that
// order: the sandbox must not start again while they are mounted.
func releasesBeforeExit(b *boot.Params) bool {
	return !b.Config.CopyOnWrite && len(b.Image) == 0 && b.Can.Has(launch.ShimMounts)
}

// releaseBeforeExit releases what other processes wait for.
func (s *shim) releaseBeforeExit() {
	if s.tree != nil {
		s.tree.hangUp()
	}
	_ = unix.Close(boot.FDLock)
	s.clients.hangUp()
	step.Reached("released")
}
