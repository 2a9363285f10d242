package shim

import (
	"errors"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/internal/host/boot"
	"wolffia/internal/host/inside"
	"wolffia/internal/host/rootfs"
	"wolffia/internal/host/statedir"
	"wolffia/internal/sys/step"
	"wolffia/runtime"
	"wolffia/runtime/launch"
)

// A phase is the state of a pooled sandbox.
type phase int

const (
	pooledWaiting    phase = iota // it is not active
	pooledActivating              // a claimant has sent OpActivate
	pooledActive                  // it is a sandbox like others
	pooledEnding                  // it cannot be activated any more
)

// A pooled is the state of a shim whose sandbox was started ahead. Until it is active, no frame of
// a client reaches PID 1, so that nothing runs inside. It is safe for concurrent use.
type pooled struct {
	shape      string // of the configuration that it was started with
	timer      *time.Timer
	prefetched bool // the kernel knows the names in the tree; it is not set after the start

	mu    sync.Mutex
	phase phase // guarded by mu
}

// to changes the phase to next, if it is from. It reports whether it did.
func (p *pooled) to(from, next phase) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.phase != from {
		return false
	}
	p.phase = next
	return true
}

func (p *pooled) current() phase {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.phase
}

// unclaimed reports whether the sandbox is not active. Then its end is not recorded. A nil pooled
// is active.
func (p *pooled) unclaimed() bool { return p != nil && p.current() != pooledActive }

// activateThreads is how many threads an activation and a first command use beside those that wait
// already.
const activateThreads = 4

// initPooled prepares a pooled sandbox for its activation.
func (s *shim) initPooled() error {
	s.pooled.shape = statedir.Shape(&s.boot.Config, !s.boot.Can.Has(launch.HostProcesses))
	boot.Threads(activateThreads)
	s.inst.pid1()
	if err := s.warmUp(); err != nil {
		return err
	}
	if s.boot.Pooled.Tree {
		s.pooled.prefetched = s.prefetcher.runBeforeClaim()
	}
	return nil
}

// startIdleTimer starts the time after which an unclaimed sandbox ends.
func (s *shim) startIdleTimer() {
	s.pooled.timer = time.AfterFunc(time.Duration(s.boot.Pooled.IdleMS)*time.Millisecond, func() {
		if s.pooled.to(pooledWaiting, pooledEnding) {
			s.terminatePooled()
		}
	})
}

// terminatePooled ends a pooled sandbox that cannot be activated any more. Its directory stays if
// another process has claimed it: that process starts the sandbox anew.
func (s *shim) terminatePooled() {
	s.unpublish()
	s.end(statedir.Status{State: runtime.StateStopped}, 0)
}

// unpublish claims the sandbox, so that no other process can.
func (s *shim) unpublish() {
	if unix.Unlink(s.boot.Pooled.Published) == nil {
		s.unclaimed.Store(true) // no process had claimed it
	}
}

// acceptClaim answers the one request that a client of a pooled sandbox sends. It reports whether
// c has activated the sandbox: then c is served as any client of a sandbox.
func (s *shim) acceptClaim(c *clientConn) bool {
	req, files, err := boot.ReceivePooled(c.conn)
	defer func() {
		for _, f := range files {
			_ = f.Close() // may be nil, or closed already
		}
	}()
	if err != nil {
		return false
	}
	step.Reached("pooled asked")
	answer := func(err error) bool {
		_ = boot.AnswerPooled(c.conn, boot.Report{Failure: boot.Failed(err)}, nil)
		return false
	}
	switch {
	case c.own && req.Op == boot.OpWarmUp:
		return answer(s.dryActivate(req, files[boot.ActivateRules]))
	case req.Op == boot.OpEnd:
		ends := s.pooled.to(pooledWaiting, pooledEnding)
		if !ends && s.pooled.current() != pooledEnding {
			err = runtime.Errorf(runtime.ErrConflict, "sandbox %s is active", s.boot.ID)
		}
		answer(err)
		if ends { // after the answer, since the end does not wait for the client
			s.terminatePooled()
		}
		return false
	case req.Op == boot.OpActivate:
		if !s.pooled.to(pooledWaiting, pooledActivating) {
			return answer(runtime.Errorf(runtime.ErrConflict, "sandbox %s is active, or ends", s.boot.ID))
		}
		s.pooled.timer.Stop()
		// half activated: no process can use it
		if err := s.activate(req, files[boot.ActivateRules]); err != nil {
			s.pooled.to(pooledActivating, pooledEnding)
			s.pooled.to(pooledActive, pooledEnding)
			_ = os.Remove(statedir.Socket(s.boot.Run))
			answer(err)
			s.terminatePooled()
			return false
		}
		l, _ := s.link(c) // if that fails, the client requests a connection itself
		_ = boot.AnswerPooled(c.conn, boot.Report{Ready: true, Version: s.version}, l.theirs)
		_ = l.passFD()
		l.close()
		step.Reached("ready")
		config, alive := files[boot.ActivateConfig], files[boot.ActivateAlive]
		files[boot.ActivateConfig], files[boot.ActivateAlive] = nil, nil
		s.finishStart(req.Config, config, alive)
		return true
	}
	return answer(runtime.Errorf(runtime.ErrUnsupported, "a pooled sandbox does not know the request %q", req.Op))
}

// activate makes the pooled sandbox the sandbox of a request, whose rules are in a file.
func (s *shim) activate(req *boot.PooledRequest, rules *os.File) error {
	b := s.boot
	if err := s.pooled.fits(s.boot, req); err != nil {
		return err
	}
	step.Reached("activate: begun")
	attached := func() error { // of a pod
		err := s.claimed(req.Config)
		if err == nil && req.Lifetime != nil {
			err = s.inst.Renew(req.Lifetime.Deadline(statedir.Now()))
		}
		return err
	}
	if s.tree != nil {
		asked, err := s.tree.send(boot.TreeRequest{Op: boot.AskActivate, Path: req.Config.CodebasePath, Git: boot.TreeGitOf(req.Config)}, rules)
		if err != nil {
			return err
		}
		attached = func() error { _, err := s.tree.await(asked, boot.ActivateLimit); return err }
	}
	own := s.applyConfig(req) // while the tree server works
	if err := errors.Join(own, attached()); err != nil {
		return err
	}
	step.Reached("activate: tree attached")
	if s.tree != nil && !b.Pooled.Tree {
		go prefetchRootAttr(rootfs.TreeDir(b)) // ends with the answer, or with the tree server
	}
	// From now on a client that finds the socket is a client of the sandbox.
	s.pooled.to(pooledActivating, pooledActive)
	if err := unix.Rename(statedir.PooledSocket(b.Run), statedir.Socket(b.Run)); err != nil {
		return runtime.Errorf(runtime.ErrUnavailable, "put the sandbox's socket in its place: %w", err)
	}
	step.Reached("socket in place")
	return nil
}

// fits returns the reason why the pooled sandbox cannot become the sandbox of a request, or nil.
func (p *pooled) fits(b *boot.Params, req *boot.PooledRequest) error {
	if req.Config == nil || req.Config.ID != b.ID {
		return runtime.Errorf(runtime.ErrInvalid, "the request is not for sandbox %s", b.ID)
	}
	if has := b.Config.CodebasePath; b.Pooled.Tree && req.Config.CodebasePath != has {
		return runtime.Errorf(runtime.ErrInvalid, "sandbox %s was started for the codebase %s, and %s is asked for", b.ID, has, req.Config.CodebasePath)
	}
	// The caller has compared the shapes. A mistake there must not give a sandbox rights that its
	// configuration denies.
	if want, has := statedir.Shape(req.Config, !b.Can.Has(launch.HostProcesses)), p.shape; want == "" || want != has {
		return runtime.Errorf(runtime.ErrInvalid, "sandbox %s was started for another configuration: its shape is %q, and %q is asked for", b.ID, has, want)
	}
	return nil
}

// applyConfig does the shim's own part of an activation.
func (s *shim) applyConfig(req *boot.PooledRequest) error {
	c := req.Config
	if s.tree != nil { // a pod has no files of this host
		if err := rootfs.Reconfigure(s.boot, c); err != nil {
			return runtime.WithClass(runtime.ErrUnavailable, err)
		}
	}
	if c.Name != s.boot.Config.Name {
		if err := inside.SetHostname(s.inst.pid1().pid, rootfs.Hostname(c)); err != nil {
			return runtime.WithClass(runtime.ErrUnavailable, err)
		}
	}
	if c.Network == runtime.NetworkFiltered {
		if err := s.filtered.set(c.Egress, &s.asks); err != nil {
			return err
		}
	}
	if err := s.life.begin(req.Lifetime); err != nil {
		return runtime.WithClass(runtime.ErrUnavailable, err)
	}
	return nil
}
