package statedir

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/internal/proc"
	"wolffia/internal/statefile"
)

// A Process identifies a process: the kernel reuses a process number, but not with the
// same start time in the same boot. The zero Process is no process.
type Process struct {
	PID    int    `json:"pid"`
	Start  string `json:"start"`  // clock ticks since boot (proc_pid_stat(5), field 22)
	BootID string `json:"bootId"` // /proc/sys/kernel/random/boot_id
}

// ProcessOf returns the Process that has this number now.
func ProcessOf(pid int) (Process, error) {
	p, err := proc.Read(pid)
	if err != nil {
		return Process{}, err
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return Process{}, err
	}
	return Process{PID: pid, Start: strconv.FormatUint(p.Start, 10), BootID: strings.TrimSpace(string(boot))}, nil
}

// ParentOf returns the number of a process's parent.
func ParentOf(pid int) (int, error) {
	p, err := proc.Read(pid)
	return p.Parent, err
}

// Kill kills the process and waits up to limit until it is gone. It returns nil if the
// process is gone already.
func (p Process) Kill(limit time.Duration) error {
	if p.PID <= 0 { // no process
		return nil
	}
	return proc.Kill(p.PID, time.Now().Add(limit), p.lives)
}

// lives reports whether the process exists.
func (p Process) lives() (bool, error) {
	now, err := ProcessOf(p.PID)
	return err == nil && now == p, nil
}

// A shimRecord records the processes of a start.
type shimRecord struct {
	Process           // the shim
	Parts   []Process `json:"parts,omitempty"`
}

const shimFile = "shim.json"

func (b *Box) shimRecord() shimRecord {
	var r shimRecord
	if statefile.Read(filepath.Join(b.path, shimFile), &r) != nil {
		return shimRecord{}
	}
	return r
}

// Shim returns the recorded shim of the last start; the zero Process if there is none.
func (b *Box) Shim() Process { return b.shimRecord().Process }

// SetShim records the shim, and the parts for EndParts.
func (b *Box) SetShim(p *Process, parts ...Process) error {
	return statefile.Write(filepath.Join(b.path, shimFile), shimRecord{*p, parts})
}

// ForgetShim removes the record of the last start, if any.
func (b *Box) ForgetShim() error {
	err := os.Remove(filepath.Join(b.path, shimFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// EndParts kills the shim and the parts that SetShim has recorded, and waits up to limit
// until they are gone, and with them their mounts: the kernel releases a process's locks
// before its mount namespace, and that before the process counts as ended. recorded
// reports whether parts were recorded. The caller holds the sandbox's lock.
func (b *Box) EndParts(limit time.Duration) (recorded bool, err error) {
	r := b.shimRecord()
	var errs []error
	for end := time.Now().Add(limit); len(r.Parts) > 0; r.Parts = r.Parts[1:] {
		errs = append(errs, r.Parts[0].Kill(time.Until(end)))
		recorded = true
	}
	return recorded, errors.Join(append(errs, r.Kill(limit))...)
}

// Descendants returns the children of a process, their children and so on
// (proc_tid_children(5)). Some may be missing while processes start and end.
func Descendants(pid int) []Process {
	var all []Process
	for _, child := range proc.AllChildren(pid) {
		if p, err := ProcessOf(child); err == nil {
			all = append(append(all, p), Descendants(child)...)
		}
	}
	return all
}

// KillAll kills the processes that are left of a sandbox whose shim was killed, and waits
// up to limit for each: processes of uid, or of the caller's user, that have the
// sandbox's id as their last argument.
func (b *Box) KillAll(uid int, limit time.Duration) error {
	return b.parts(uid, b.isPart, func(p Process) error { return p.Kill(limit) })
}

// EndKeeper sends SIGTERM to the sandbox's keeper, which runs as the caller's user, so that
// it ends the sandbox's container. It does not wait.
func (b *Box) EndKeeper() error {
	return b.parts(os.Geteuid(), b.isKeeper, func(p Process) error {
		fd, err := proc.Signal(p.PID, unix.SIGTERM, p.lives)
		if fd >= 0 {
			_ = unix.Close(fd)
		}
		return err
	})
}

// KillKeeper kills the sandbox's keeper, which runs as the caller's user, and waits up to
// limit until it is gone. The container stays: the directory Engine records it.
func (b *Box) KillKeeper(limit time.Duration) error {
	return b.parts(os.Geteuid(), b.isKeeper, func(p Process) error { return p.Kill(limit) })
}

// parts calls do for each process for which isPart returns true.
func (b *Box) parts(uid int, isPart func(dir string, uid int) bool, do func(Process) error) error {
	procs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return err
	}
	var errs []error
	for _, dir := range procs {
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil || pid == os.Getpid() || !isPart(dir, uid) {
			continue
		}
		if p, err := ProcessOf(pid); err == nil && isPart(dir, uid) {
			errs = append(errs, do(p))
		}
	}
	return errors.Join(errs...)
}

// isPart reports whether a process is the sandbox's shim, tree server, backend or PID 1.
func (b *Box) isPart(dir string, uid int) bool {
	program, args, named := b.named(dir)
	switch {
	case !named:
		return false
	case program == "wolffia" && (args[1] == "shim" || args[1] == "tree"):
	case program == "wolffia" && (args[1] == "runsc" || args[1] == "hold"): // before it executes the backend
	case program == "bwrap" || program == "guest" || program == "runsc" || program == "runsc-sandbox" || program == "runsc-gofer":
	default:
		return false
	}
	real, err := realUID(dir)
	return err == nil && (real == uid || real == os.Geteuid())
}

// isKeeper reports whether a process is the sandbox's keeper.
func (b *Box) isKeeper(dir string, uid int) bool {
	program, args, named := b.named(dir)
	if !named || !strings.HasPrefix(program, "wolffia-") || args[1] != "keep" {
		return false
	}
	real, err := realUID(dir)
	return err == nil && real == uid
}

// named returns a process's command line, and whether the last argument is the sandbox's
// id.
func (b *Box) named(dir string) (program string, args []string, named bool) {
	cmdline, err := os.ReadFile(dir + "/cmdline")
	if err != nil {
		return "", nil, false
	}
	args = strings.Split(strings.TrimSuffix(string(cmdline), "\x00"), "\x00")
	return filepath.Base(args[0]), args, len(args) >= 2 && args[len(args)-1] == b.id
}

// realUID returns the real uid of a process. The owner of its directory in /proc does not
// tell: that is root if the process is not dumpable.
func realUID(dir string) (int, error) {
	pid, err := strconv.Atoi(filepath.Base(dir))
	if err != nil {
		return 0, err
	}
	words, err := proc.Status(pid, "Uid")
	if err != nil || len(words) == 0 {
		return 0, fmt.Errorf("uid of process %d: %w", pid, cmp.Or(err, errors.ErrUnsupported))
	}
	return strconv.Atoi(words[0])
}
