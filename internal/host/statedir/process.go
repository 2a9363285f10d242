package statedir

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/internal/sys/proc"
	"wolffia/internal/sys/statefile"
	"wolffia/runtime"
)

// A Process identifies a process: the kernel reuses a process number, but not with the
// same start time in the same boot. The zero Process means no process.
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
	boot, err := bootID()
	return Process{PID: pid, Start: strconv.FormatUint(p.Start, 10), BootID: boot}, err
}

// Kill kills the process and waits up to limit until it has ended. It returns nil if the
// process has ended already.
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

// identity returns a short text that tells the state directory from a copy of it.
func (d *Dir) identity() (string, error) {
	var st unix.Stat_t
	if err := unix.Stat(d.path, &st); err != nil {
		return "", runtime.Errorf(runtime.ErrUnavailable, "state directory %s: %w", d.path, err)
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%x-%x", st.Dev, st.Ino))
	return hex.EncodeToString(sum[:4]), nil
}

// Processes is the part of a Record with the processes of a sandbox on the host.
type Processes struct{ rec *Record }

// Processes returns the record of the sandbox's processes.
func (rec *Record) Processes() Processes { return Processes{rec} }

// Tag returns the last argument of the sandbox's processes, by which they are found. It identifies
// the state directory too: a copy of one has the same ids.
func (ps Processes) Tag() (string, error) {
	state, err := ps.rec.dir.identity()
	return ps.rec.id + "-" + state, err
}

// A shimRecord records the processes of a start.
type shimRecord struct {
	Process        // the shim
	Version string `json:"version,omitempty"` // of its program
	// the identity of the state directory; empty: an older version has written the record
	State string    `json:"state,omitempty"`
	Parts []Process `json:"parts,omitempty"`
}

const shimFile = "shim.json"

func (ps Processes) shimRecord() shimRecord {
	var r shimRecord
	if statefile.Read(filepath.Join(ps.rec.path, shimFile), &r) != nil {
		return shimRecord{}
	}
	// after a boot the numbers of devices are others
	if boot, _ := bootID(); r.State == "" || r.BootID != boot {
		return r
	}
	// copied: the processes are those of another sandbox
	if own, err := ps.rec.dir.identity(); err != nil || own != r.State {
		return shimRecord{}
	}
	return r
}

// Shim returns the recorded shim of the last start; or the zero Process.
func (ps Processes) Shim() Process { return ps.shimRecord().Process }

// ShimStamp identifies the record of the last start, which another start replaces. It does not
// read the record.
func (ps Processes) ShimStamp() statefile.Stamp { return statefile.StampOf(ps.file()) }

// ShimVersion returns the version of the program that the recorded shim runs; "" if it is
// unknown.
func (ps Processes) ShimVersion() string { return ps.shimRecord().Version }

// PrepareShim makes ready for SetShim, which then takes less time; it needs not be called.
func (ps Processes) PrepareShim() error { return statefile.Prepare(ps.file()) }

// SetShim records the shim, the version of its program, and the parts for EndParts.
func (ps Processes) SetShim(p *Process, version string, parts ...Process) error {
	state, err := ps.rec.dir.identity()
	if err != nil {
		return err
	}
	return statefile.WritePrepared(ps.file(), shimRecord{*p, version, state, parts})
}

// ForgetShim removes the record of the last start, if any.
func (ps Processes) ForgetShim() error { return removeIfExists(ps.file()) }

func (ps Processes) file() string { return filepath.Join(ps.rec.path, shimFile) }

// EndParts kills the shim and the parts that SetShim has recorded, and waits up to limit
// until they have ended, and with them their mounts: the kernel releases a process's locks
// before its mount namespace, and that before the process counts as ended. recorded
// reports whether parts were recorded. The caller holds the sandbox's lock.
func (ps Processes) EndParts(limit time.Duration) (recorded bool, err error) {
	r := ps.shimRecord()
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
// sandbox's tag as their last argument. An older version's have the id there.
func (ps Processes) KillAll(uid int, limit time.Duration) error {
	return ps.parts(isPart, func(p Process) error { return p.Kill(limit) }, uid, os.Geteuid())
}

// KillLost is KillAll of a sandbox whose directory was deleted by hand, for processes of the
// caller's user; for root, of any user. While there is a directory it does nothing. Processes of
// an older version stay: they may be those of another state directory.
func (d *Dir) KillLost(id string, limit time.Duration) error {
	unlock, err := d.lock() // no process creates it
	if err != nil {
		return err
	}
	defer unlock()
	rec := d.Record(id)
	if _, err := os.Lstat(rec.path); !errors.Is(err, fs.ErrNotExist) {
		return nil // it may exist
	}
	tag, err := rec.Processes().Tag()
	if err != nil {
		return err
	}
	users := []int{os.Geteuid()}
	if users[0] == 0 { // the configuration told to whom root had dropped
		users = nil
	}
	return rec.Processes().named([]string{tag}, isPart, func(p Process) error { return p.Kill(limit) }, users...)
}

// EndKeeper sends SIGTERM to the sandbox's keeper, which runs as the caller's user, so that
// it ends the sandbox's container. It does not wait.
func (ps Processes) EndKeeper() error {
	return ps.parts(isKeeper, func(p Process) error {
		fd, err := proc.Signal(p.PID, unix.SIGTERM, p.lives)
		if fd >= 0 {
			_ = unix.Close(fd)
		}
		return err
	}, os.Geteuid())
}

// KillKeeper kills the sandbox's keeper, which runs as the caller's user, and waits up to
// limit until it has ended. The container stays: the directory Engine records it.
func (ps Processes) KillKeeper(limit time.Duration) error {
	return ps.parts(isKeeper, func(p Process) error { return p.Kill(limit) }, os.Geteuid())
}

// isPart reports whether a command line is that of a shim, tree server, backend or PID 1.
func isPart(program, command string) bool {
	if program == "wolffia" { // runsc and hold execute the backend
		return slices.Contains([]string{"shim", "tree", "runsc", "hold"}, command)
	}
	return slices.Contains([]string{"bwrap", "guest", "runsc", "runsc-sandbox", "runsc-gofer"}, program)
}

func isKeeper(program, command string) bool {
	return strings.HasPrefix(program, "wolffia-") && command == "keep"
}

// parts calls do for each process of one of the users whose command line is accepts and
// ends with the sandbox's tag, or as an older version's with its id.
func (ps Processes) parts(is func(program, command string) bool, do func(Process) error, users ...int) error {
	tag, err := ps.Tag()
	if err != nil {
		return err
	}
	return ps.named([]string{tag, ps.rec.id}, is, do, users...)
}

// named is parts for command lines that end with one of the names. Without users, it is for those
// of all.
func (ps Processes) named(names []string, is func(program, command string) bool, do func(Process) error, users ...int) error {
	boot, err := bootID()
	if err != nil {
		return err
	}
	var errs []error
	for _, found := range proc.Others() {
		// What follows is true of p, if do finds that p still lives.
		p := Process{PID: found.PID, Start: strconv.FormatUint(found.Start, 10), BootID: boot}
		cmdline, err := os.ReadFile("/proc/" + strconv.Itoa(p.PID) + "/cmdline")
		args := strings.Split(strings.TrimSuffix(string(cmdline), "\x00"), "\x00")
		if err != nil || len(args) < 2 || !slices.Contains(names, args[len(args)-1]) || !is(filepath.Base(args[0]), args[1]) {
			continue
		}
		// Not the owner of /proc/PID: that is root if the process is not dumpable.
		words, err := proc.Status(p.PID, "Uid")
		if err != nil || len(words) == 0 {
			continue
		}
		if uid, err := strconv.Atoi(words[0]); err == nil && (len(users) == 0 || slices.Contains(users, uid)) {
			errs = append(errs, do(p))
		}
	}
	return errors.Join(errs...)
}
