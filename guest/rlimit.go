package guest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Rlimits are limits on what PID 1 starts (getrlimit(2)). PID 1 does not have
// them itself: the Go runtime ends a process that cannot make a thread, and
// and must be able to end the others. 0 is no limit.
type Rlimits struct {
	Processes uint64 // beside PID 1's own threads; RLIMIT_NPROC
	Data      uint64 // bytes for each process; RLIMIT_DATA
}

// ParseRlimits reads "PROCESSES,DATA".
func ParseRlimits(s string) (*Rlimits, error) {
	processes, data, _ := strings.Cut(s, ",")
	n, err1 := strconv.ParseUint(processes, 10, 63)
	size, err2 := strconv.ParseUint(data, 10, 63)
	if err := errors.Join(err1, err2); err != nil {
		return nil, fmt.Errorf("limits %q: %w", s, err)
	}
	return &Rlimits{n, size}, nil
}

// LimitArg is the first argument of the guest's program when it is to put limits
// on itself and then to become another: limit FD PROCESSES DATA PATH ARG... It
// tells PID 1 by FD what has failed, and has its program open as the next one.
const LimitArg = "limit"

// limitTime is how long a process may take to become what was asked for.
const limitTime = 10 * time.Second

// A limiter starts programs with limits. A process puts them on itself, in the guest's
// own program, and then becomes what was asked for: the limits of one that runs already
// come too late, and PID 1's own could not be raised again.
//
// No process inside may trace it before that, or write to its memory. Yama allows only
// its ancestors (kernel.yama.ptrace_scope; gVisor has it too). Elsewhere it executes a
// file that it may not read: then the kernel makes it undumpable (would_dump in
// fs/exec.c; PR_SET_DUMPABLE in prctl(2)), as it is before, while it shares PID 1's memory.
type limiter struct {
	Rlimits
	program *os.File // the guest's program, or a copy of mode 0111 without a name
}

// newLimiter makes a limiter, or nil for no limits.
func newLimiter(limits *Rlimits) (*limiter, error) {
	if limits == nil {
		return nil, nil
	}
	program, err := os.Open("/proc/self/exe")
	if err == nil && sysctl("kernel/yama/ptrace_scope") < 1 {
		// 1 makes such processes dumpable all the same (proc_sys_fs(5)).
		if sysctl("fs/suid_dumpable") == 1 {
			return nil, errors.New("limits of processes can be evaded on this host: set the sysctl kernel.yama.ptrace_scope to 1, or fs.suid_dumpable to 0")
		}
		readable := program
		program, err = unreadable(readable)
		err = errors.Join(err, readable.Close())
	}
	if err != nil {
		return nil, fmt.Errorf("the guest's own program: %w", err)
	}
	return &limiter{*limits, program}, nil
}

// sysctl returns a number of the kernel's settings; 0 if it is missing (proc_sys(5)).
func sysctl(name string) int {
	text, _ := os.ReadFile("/proc/sys/" + name)
	n, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	return n
}

// unreadable returns a copy of a program that can be executed only. No other process can
// open it, or change its mode: it has no name, and what has it open is undumpable.
func unreadable(program *os.File) (*os.File, error) {
	fd, err := unix.MemfdCreate("guest", unix.MFD_CLOEXEC|unix.MFD_EXEC)
	if errors.Is(err, unix.EINVAL) { // before Linux 6.3, where all can be executed
		fd, err = unix.MemfdCreate("guest", unix.MFD_CLOEXEC)
	}
	if err != nil {
		return nil, fmt.Errorf("memfd_create: %w", err)
	}
	file := os.NewFile(uintptr(fd), "guest")
	_, err = io.Copy(file, program)
	if err == nil {
		err = unix.Fchmod(fd, 0o111)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("copy it: %w", err), file.Close())
	}
	return file, nil
}

// forkExec is syscall.ForkExec for a program that gets the limits first.
func (l *limiter) forkExec(path string, args []string, attr *syscall.ProcAttr) (int, error) {
	if l == nil {
		return syscall.ForkExec(path, args, attr)
	}
	processes := uint64(0)
	if l.Processes > 0 {
		own, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return 0, err
		}
		processes = l.Processes + uint64(len(own)) // they count
	}
	answer, theirs, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	defer answer.Close()
	limited := *attr
	limited.Files = append(attr.Files[:len(attr.Files):len(attr.Files)], theirs.Fd(), l.program.Fd())
	decimal := func(n uint64) string { return strconv.FormatUint(n, 10) }
	pid, err := syscall.ForkExec("/proc/self/fd/"+strconv.Itoa(len(attr.Files)+1), append([]string{
		"guest", LimitArg, strconv.Itoa(len(attr.Files)), decimal(processes), decimal(l.Data), path,
	}, args...), &limited)
	_ = theirs.Close()
	if err != nil {
		return 0, err
	}
	// A process inside could stop it, and so PID 1.
	_ = answer.SetReadDeadline(time.Now().Add(limitTime))
	errno := make([]byte, 4)
	switch n, err := answer.Read(errno); {
	case n == len(errno):
		return 0, syscall.Errno(binary.LittleEndian.Uint32(errno))
	case errors.Is(err, os.ErrDeadlineExceeded):
		_ = unix.Kill(pid, unix.SIGKILL)
		return 0, syscall.EAGAIN
	}
	return pid, nil
}

// Limit is the main of a process that is to be limited. It returns if it fails,
// when it has told PID 1 why.
func Limit(args []string) error {
	if len(args) < 7 {
		return errors.New("this is started by PID 1, not by hand")
	}
	var numbers [3]uint64
	for i := range numbers {
		var err error
		if numbers[i], err = strconv.ParseUint(args[2+i], 10, 63); err != nil {
			return err
		}
	}
	fd := int(numbers[0])
	unix.CloseOnExec(fd)
	unix.CloseOnExec(fd + 1) // the guest's program
	// The processes last: from then on the Go runtime may be refused a thread.
	err := setRlimit(unix.RLIMIT_DATA, numbers[2])
	if err == nil {
		err = setRlimit(unix.RLIMIT_NPROC, numbers[1])
	}
	if err == nil {
		err = syscall.Exec(args[5], args[6:], os.Environ())
	}
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		errno = syscall.EINVAL
	}
	_, _ = unix.Write(fd, binary.LittleEndian.AppendUint32(nil, uint32(errno)))
	return err
}

// setRlimit sets a limit for good; 0 leaves it alone. One that is lower stays.
func setRlimit(resource int, n uint64) error {
	if n == 0 {
		return nil
	}
	var now unix.Rlimit
	if err := unix.Getrlimit(resource, &now); err != nil {
		return err
	}
	n = min(n, now.Max, math.MaxInt64)
	return unix.Setrlimit(resource, &unix.Rlimit{Cur: min(n, now.Cur), Max: n})
}
