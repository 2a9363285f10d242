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

// A Process is one that cannot be taken for another: a number is given to a
// new process sooner or later, but not with the same start time in the same
// boot.
type Process struct {
	PID    int    `json:"pid"`
	Start  string `json:"start"`  // clock ticks since boot (proc_pid_stat(5), field 22)
	BootID string `json:"bootId"` // /proc/sys/kernel/random/boot_id
}

// ProcessOf describes the living process with this number.
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

// ParentOf is the number of a process's parent.
func ParentOf(pid int) (int, error) {
	p, err := proc.Read(pid)
	return p.Parent, err
}

// Kill ends the process, if it is still the one that p describes, and waits up
// to limit until it is gone. A process that is gone is no error.
func (p Process) Kill(limit time.Duration) error {
	if p.PID <= 0 { // nobody
		return nil
	}
	return proc.Kill(p.PID, time.Now().Add(limit), p.lives)
}

// lives reports whether the process is there.
func (p Process) lives() (bool, error) {
	now, err := ProcessOf(p.PID)
	return err == nil && now == p, nil
}

// A shimRecord is what is recorded of a start.
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

// Shim returns the recorded shim; the zero Process if there is none. Another may
// have taken its place since, if a keeper had it started; so it says also which
// start of the sandbox it was.
func (b *Box) Shim() Process { return b.shimRecord().Process }

// SetShim records the shim, and the parts that EndParts is to end.
func (b *Box) SetShim(p *Process, parts ...Process) error {
	return statefile.Write(filepath.Join(b.path, shimFile), shimRecord{*p, parts})
}

// ForgetShim removes the record of the last start.
func (b *Box) ForgetShim() error {
	err := os.Remove(filepath.Join(b.path, shimFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// EndParts kills the shim and the parts that SetShim has recorded, and waits up to
// limit until they are gone, and with them their mounts: the kernel lets go of a
// process's locks before its mount namespace, and of that before the process
// counts as ended. Those that are gone are no error. recorded is false if there is
// no record of parts. The caller holds the sandbox's lock.
func (b *Box) EndParts(limit time.Duration) (recorded bool, err error) {
	r := b.shimRecord()
	var errs []error
	for end := time.Now().Add(limit); len(r.Parts) > 0; r.Parts = r.Parts[1:] {
		errs = append(errs, r.Parts[0].Kill(time.Until(end)))
		recorded = true
	}
	return recorded, errors.Join(append(errs, r.Kill(limit))...)
}

// Descendants are the children of a process, their children and so on
// (proc_tid_children(5)); some may be missing while they come and go.
func Descendants(pid int) []Process {
	var all []Process
	for _, child := range proc.AllChildren(pid) {
		if p, err := ProcessOf(child); err == nil {
			all = append(append(all, p), Descendants(child)...)
		}
	}
	return all
}

// KillAll ends every process that has the sandbox's id as an argument and runs
// as uid: what is left when a shim was killed. The parts of a sandbox name it
// on their command lines. Those that end meanwhile are no error.
func (b *Box) KillAll(uid int, limit time.Duration) error {
	return b.parts(uid, b.isPart, func(p Process) error { return p.Kill(limit) })
}

// EndKeeper asks the sandbox's keeper, which the caller's own user runs, to end
// what it keeps; it does not wait.
func (b *Box) EndKeeper() error {
	return b.parts(os.Geteuid(), b.isKeeper, func(p Process) error {
		fd, err := proc.Signal(p.PID, unix.SIGTERM, p.lives)
		if fd >= 0 {
			_ = unix.Close(fd)
		}
		return err
	})
}

// KillKeeper ends the sandbox's keeper, which the caller's own user runs. What
// it keeps is left to whoever looks into Engine.
func (b *Box) KillKeeper(limit time.Duration) error {
	return b.parts(os.Geteuid(), b.isKeeper, func(p Process) error { return p.Kill(limit) })
}

// parts does something to each process that is a part of the sandbox.
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

// isPart reports whether a process is a part of the sandbox: shim, tree
// server, backend or PID 1.
func (b *Box) isPart(dir string, uid int) bool {
	program, args, named := b.named(dir)
	switch {
	case !named:
		return false
	case program == "wolffia" && (args[1] == "shim" || args[1] == "tree"):
	case program == "wolffia" && (args[1] == "runsc" || args[1] == "hold"): // on its way to become the backend
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

// named reads a process's command line, and reports whether its last argument is
// the sandbox's id.
func (b *Box) named(dir string) (program string, args []string, named bool) {
	cmdline, err := os.ReadFile(dir + "/cmdline")
	if err != nil {
		return "", nil, false
	}
	args = strings.Split(strings.TrimSuffix(string(cmdline), "\x00"), "\x00")
	return filepath.Base(args[0]), args, len(args) >= 2 && args[len(args)-1] == b.id
}

// realUID is the uid that a process runs as; the owner of its directory is
// root for one that is not dumpable.
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
