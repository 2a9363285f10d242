package local

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/internal/host/boot"
	"wolffia/internal/host/statedir"
	"wolffia/internal/sys/cgroup"
	"wolffia/internal/sys/proc"
	"wolffia/local/conns"
	"wolffia/runtime"
	"wolffia/runtime/launch"
)

// A limiting is how the limits of a sandbox are kept. While the sandbox runs, the state
// directory has it as JSON.
type limiting struct {
	runtime.LimitsState
	Group *cgroup.Group `json:"group,omitempty"` // nil: none was made

	plan    *cgroup.Plan  // nil: there will be none
	limits  cgroup.Limits // of the group
	rlimits launch.Rlimits
}

// minKernelMemory is about what gVisor's kernel, PID 1 and a shell need, in bytes.
const minKernelMemory = 32 << 20

// limited reports whether a sandbox of a backend on this host may need a control group.
func limited(c *runtime.SandboxConfig) bool {
	return c.Resources.Limited() || c.IdleAction == runtime.IdlePause
}

// planLimits decides how limits are kept on this host, and refuses those that cannot be
// kept; nil if there are no limits. A control group is also needed to pause what has no kernel of
// its own.
func planLimits(c *runtime.SandboxConfig, ownKernel bool) (*limiting, error) {
	want, freeze := &c.Resources, c.IdleAction == runtime.IdlePause && !ownKernel
	if !want.Limited() && !freeze {
		return nil, nil
	}
	if ownKernel && want.Memory > 0 && want.Memory < minKernelMemory {
		return nil, runtime.Errorf(runtime.ErrInvalid, "memory %d: it must be at least %d bytes (%dm): the sandbox's own kernel needs some itself", want.Memory, minKernelMemory, minKernelMemory>>20)
	}
	plan := cgroup.ThisHost().Plan
	l, err := decideLimits(want, ownKernel, plan)
	if err != nil || !freeze {
		return l, err
	}
	l.limits.Freeze = true
	var refused *cgroup.Refusal
	if l.plan, refused = plan(l.limits.Wants()); refused != nil {
		return nil, runtime.Errorf(runtime.ErrUnsupported, "idle action pause: the sandbox needs a control group of its own: %s; wolffia doctor says what helps, and runtime gvisor needs none", refused.Problem)
	}
	return l, nil
}

// decideLimits is planLimits for a host whose control groups plan describes. With
// ownKernel, the sandbox's own kernel counts processes: the host does not see them.
func decideLimits(want *runtime.Resources, ownKernel bool, plan func([]string) (*cgroup.Plan, *cgroup.Refusal)) (*limiting, error) {
	l := &limiting{limits: cgroup.Limits{Memory: want.Memory, CPUs: want.CPUs, PIDs: want.PIDs}}
	if want.PIDs > 0 && ownKernel {
		l.limits.PIDs, l.rlimits.PIDs, l.PIDs = 0, want.PIDs, runtime.ByRlimit
	}
	for len(l.limits.Wants()) > 0 {
		p, refused := plan(l.limits.Wants())
		if refused == nil {
			l.plan = p
			break
		}
		if !want.BestEffort {
			return nil, runtime.Errorf(runtime.ErrUnsupported, "%s cannot be limited exactly here: %s; wolffia doctor says what helps, --limits best-effort does what can be done without", list(refused.Lacking), refused.Problem)
		}
		for _, c := range refused.Lacking {
			l.without(c, want, ownKernel)
		}
	}
	for _, kept := range []struct {
		by *runtime.Enforcement
		on bool
	}{{&l.Memory, l.limits.Memory > 0}, {&l.CPUs, l.limits.CPUs > 0}, {&l.PIDs, l.limits.PIDs > 0}} {
		if kept.on {
			*kept.by = runtime.ByCgroup
		}
	}
	if l.limits.PIDs > 0 {
		l.limits.PIDs += launch.InitThreads
	}
	return l, nil
}

// without replaces the limit of a controller that the host lacks, as far as possible.
func (l *limiting) without(controller string, want *runtime.Resources, ownKernel bool) {
	switch controller {
	case cgroup.Memory:
		l.limits.Memory, l.Memory = 0, runtime.ByNothing
		if !ownKernel { // gVisor counts what comes from brk(2) only
			l.rlimits.Data, l.Memory = want.Memory, runtime.ByRlimit
		}
	case cgroup.CPU:
		l.limits.CPUs, l.CPUs = 0, runtime.ByNothing
	case cgroup.PIDs:
		l.limits.PIDs, l.rlimits.PIDs, l.PIDs = 0, want.PIDs, runtime.ByRlimit
	}
}

// CheckLimits returns the error with which Create refuses the limits of a configuration on this
// host; nil: it does not. What keeps them can change until then. It is safe for concurrent use.
func (s *completer) CheckLimits(config *runtime.SandboxConfig) error {
	backend := s.backend(cmp.Or(config.Runtime, s.backends[0].Name()))
	if backend == nil || !backend.Can.Has(launch.HostCgroup) { // an engine is asked at its start
		return nil
	}
	_, err := planLimits(config, backend.Can.Has(launch.OwnKernel))
	return err
}

// list names what controllers limit.
func list(controllers []string) string {
	return strings.NewReplacer(cgroup.PIDs, "processes", cgroup.CPU, "processors").Replace(strings.Join(controllers, ", "))
}

// groupName returns the name of a sandbox's control group. It identifies the state
// directory too, since ids are unique only within one.
func groupName(id, stateDir string) (string, error) {
	var st unix.Stat_t
	if err := unix.Stat(stateDir, &st); err != nil {
		return "", runtime.Errorf(runtime.ErrUnavailable, "state directory %s: %w", stateDir, err)
	}
	return fmt.Sprintf("wolffia-%s-%x-%x", id, st.Dev, st.Ino), nil
}

// preferred is the oom_score_adj of processes inside, in thousandths of the memory limit
// (proc_pid_oom_score_adj(5)), so that the OOM killer pooled sandboxes the tree server, without
// which the sandbox ends.
const preferred = 500

// enter puts pid, a child of the shim that waits at the start barrier, and the tree servers,
// under the limits; then it opens the barrier. owner is the user of a shim that root has started;
// else 0.
func (l *limiting) enter(ctx context.Context, rec *statedir.Record, stateDir string, shim, pid int, servers []int, owner int, open *os.File) error {
	p, err := proc.Read(pid)
	if err == nil && p.Parent != shim {
		err = errors.New("it is not a child of the shim")
	}
	if err != nil {
		return runtime.Errorf(runtime.ErrUnavailable, "limit process %d: %w", pid, err)
	}
	name, err := groupName(rec.ID(), stateDir)
	if err != nil {
		return err
	}
	if l.limits.Memory > 0 {
		// Its children inherit it. If it cannot be set, the largest process is killed.
		_ = os.WriteFile(fmt.Sprintf("/proc/%d/oom_score_adj", pid), []byte(strconv.Itoa(preferred)), 0)
	}
	if l.Group, err = l.plan.Open(ctx, name, pid, servers...); err == nil {
		err = rec.SetLimits(l)
	}
	if err == nil {
		err = l.Group.Fill(&l.limits, pid, servers...)
	}
	if err == nil && owner != 0 {
		err = l.Group.LetFreeze(owner)
	}
	if err == nil {
		_, err = open.Write([]byte{1})
	}
	if err != nil {
		return runtime.Errorf(runtime.ErrUnavailable, "limit the sandbox: %w", err)
	}
	return nil
}

// blame adds to err, why a start has failed, that the kernel has killed a process for the limit of
// memory, if it has.
func (l *limiting) blame(err error) error {
	if err == nil || l == nil || l.Group == nil || l.Group.OOMKills() == 0 {
		return err
	}
	return fmt.Errorf("the limit of memory, %d bytes, was reached, and the kernel killed a process for it: raise it: %w", l.limits.Memory, err)
}

// unlimit removes the control group of a sandbox that does not run. The caller holds the
// sandbox's lock.
func unlimit(rec *statedir.Record) error {
	l := recordedLimits(rec)
	if l == nil {
		return nil
	}
	own, err := l.owns(rec)
	if err != nil {
		return err
	}
	if own {
		if err := l.Group.Remove(boot.KillLimit); err != nil {
			return runtime.Errorf(runtime.ErrUnavailable, "sandbox %s: %w", rec.ID(), err)
		}
	}
	return rec.RemoveLimits()
}

// owns reports whether the recorded group is the sandbox's. Else the state directory is a copy, and
// the group another sandbox's.
func (l *limiting) owns(rec *statedir.Record) (bool, error) {
	name, err := groupName(rec.ID(), rec.StateDir())
	return err == nil && l.Group != nil && l.Group.Named(name), err
}

// letDie thaws what is left of a sandbox whose shim was killed, perhaps during a pause: frozen
// processes in a control group of version 1 do not end before.
func letDie(rec *statedir.Record) {
	if l := recordedLimits(rec); l != nil {
		if own, err := l.owns(rec); own && err == nil {
			_ = l.Group.Thaw()
		}
	}
}

// recordedLimits returns the record of a running sandbox's limits, or nil. A
// damaged record is from before a crash of the machine, which removed all groups too.
func recordedLimits(rec *statedir.Record) *limiting {
	l := new(limiting)
	err := rec.Limits(l)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return new(limiting)
	}
	return l
}

// Limits returns what keeps the limits of a running sandbox; nil if it has no limits, does
// not run, or does not exist.
func (s *sandboxes) Limits(sandboxID string) *runtime.LimitsState {
	rec, c, err := s.header(sandboxID)
	if err != nil {
		return nil
	}
	return s.limitsState(rec, c)
}

func (s *sandboxes) limitsState(rec *statedir.Record, c *statedir.Config) *runtime.LimitsState {
	if !c.Resources.Limited() {
		return nil
	}
	if b := s.backend(c.Runtime); b != nil && !b.Can.Has(launch.HostCgroup) {
		by := func(asked bool) runtime.Enforcement {
			if asked {
				return runtime.ByEngine
			}
			return ""
		}
		return &runtime.LimitsState{Memory: by(c.Resources.Memory > 0), CPUs: by(c.Resources.CPUs > 0), PIDs: by(c.Resources.PIDs > 0)}
	}
	l := recordedLimits(rec)
	if l == nil {
		return nil
	}
	if l.Group != nil {
		l.OOMKills = l.Group.OOMKills()
		l.MemoryUsed, l.CPUTime = l.Group.Usage()
	}
	return &l.LimitsState
}

// oomKills returns a function that counts the processes killed by a sandbox's memory limit;
// nil if no control group keeps such a limit.
func oomKills(rec *statedir.Record, c *statedir.Config) func() int64 {
	if c.Resources.Memory == 0 {
		return nil
	}
	l := recordedLimits(rec)
	if l == nil || l.Group == nil {
		return nil
	}
	return l.Group.OOMKills
}

// clockTick is the unit of times in /proc/PID/stat, the same on all architectures.
const clockTick = 10 * time.Millisecond

// Usage returns what the running sandboxes use, by their ids. Sandboxes in a container engine are
// left out. It looks at all processes of the host once.
func (s *sandboxes) Usage(ctx context.Context) map[string]runtime.Usage {
	ids, err := s.dir.IDs()
	if err != nil {
		return nil
	}
	all := map[string]runtime.Usage{}
	var tree *proc.Descendants
	for _, id := range ids {
		rec, c, err := s.header(id)
		if err != nil {
			continue
		}
		b := s.backend(c.Runtime)
		if state, _, err := rec.State(); err != nil || !state.Runs() || b == nil || b.Place == launch.InEngine {
			continue
		}
		u := runtime.Usage{}
		if l := recordedLimits(rec); l != nil && l.Group != nil {
			u.Memory, u.CPUTime = l.Group.Usage()
		}
		if tree == nil {
			tree = proc.NewDescendants(proc.Others())
		}
		shim := max(1, rec.Processes().Shim().PID)
		if shim > 1 && b.Can.Has(launch.HostProcesses) {
			u.Running = tree.Running(shim, maxRunning)
		}
		if u.Memory == 0 || u.CPUTime == 0 {
			var use proc.Use
			if shim > 1 {
				use = tree.Use(shim)
			}
			if u.Memory == 0 {
				u.Memory = use.Memory
			}
			if u.CPUTime == 0 {
				u.CPUTime = time.Duration(use.CPU) * clockTick // centuries fit
			}
		}
		if c.Network == runtime.NetworkFiltered {
			u.Sent, u.Received, u.Counted = traffic(ctx, rec)
		}
		all[id] = u
	}
	return all
}

// maxRunning is how many command lines of a sandbox are told.
const maxRunning = 3

// trafficLimit is how long a shim may take to say what it has carried.
const trafficLimit = time.Second

// traffic returns what the network of a sandbox has carried.
func traffic(ctx context.Context, rec *statedir.Record) (sent, received int64, known bool) {
	answer, err := conns.Ask(ctx, rec, &boot.Request{Op: boot.OpEgress, Since: math.MaxInt64}, trafficLimit)
	if err != nil {
		return 0, 0, false
	}
	return answer.Sent, answer.Received, true
}
