package guest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/internal/sys/timerslack"
	"wolffia/internal/sys/tinyprogram"
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

// LimitFiles lowers the hard limit of open files of PID 1, and so of all that it starts, to most.
// The soft limit stays, as far as it can; Go's runtime has raised it for PID 1 if it was lower
// than the hard one.
func LimitFiles(most uint64) error {
	var l unix.Rlimit
	err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l)
	if err == nil && l.Max > most {
		err = unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: min(l.Cur, most), Max: most})
	}
	if err != nil {
		return fmt.Errorf("limit the open files: %w", err)
	}
	return nil
}

// limitTime is how long a process may take to execute the requested program.
const limitTime = 10 * time.Second

// A limiter starts programs with limits. A process sets them for itself, in limitProgram, and then
// executes the program: limits on a running program would come too late, and PID 1 could not raise
// its own again.
//
// No process inside may trace it before that, or write to its memory. Yama allows only its
// ancestors (kernel.yama.ptrace_scope; gVisor has it too). Elsewhere it executes a file that it
// may not read: then the kernel makes it undumpable (would_dump in fs/exec.c; PR_SET_DUMPABLE in
// prctl(2)), as it is before, while it shares PID 1's memory.
type limiter struct {
	Rlimits
	program *os.File
	mode    uint32 // of the program
}

// newLimiter makes a limiter, or nil for no limits.
func newLimiter(limits *Rlimits) (*limiter, error) {
	if limits == nil {
		return nil, nil
	}
	mode := uint32(0o555) // gVisor does not execute a file that it may not read
	if sysctl("kernel/yama/ptrace_scope") < 1 {
		mode = 0o111
		// 1 makes such processes dumpable in spite of that (proc_sys_fs(5)).
		if sysctl("fs/suid_dumpable") == 1 {
			return nil, errors.New("limits of processes can be evaded on this host: set the sysctl kernel.yama.ptrace_scope to 1, or fs.suid_dumpable to 0")
		}
	}
	program, err := tinyprogram.File("limit", limitProgram())
	if err != nil {
		return nil, fmt.Errorf("the program that limits processes: %w", err)
	}
	return &limiter{*limits, program, mode}, nil
}

// sysctl returns a number of the kernel's settings; 0 if it is missing (proc_sys(5)).
func sysctl(name string) int {
	text, _ := os.ReadFile("/proc/sys/" + name)
	n, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	return n
}

// programSlack returns the timer slack that programs are started with: PID 1's own is for itself.
// It is 0 if they have the right one by themselves, as in gVisor and engines.
var programSlack = sync.OnceValue(func() time.Duration {
	if timerslack.Get() == timerslack.Default {
		return 0
	}
	return timerslack.Default
})

// forkExec is syscall.ForkExec for a program that gets the limits first.
func (l *limiter) forkExec(path string, args []string, attr *syscall.ProcAttr) (int, error) {
	if l == nil {
		return timerslack.ForkExec(programSlack(), path, args, attr)
	}
	processes := uint64(0)
	if l.Processes > 0 {
		own, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return 0, err
		}
		processes = l.Processes + uint64(len(own)) // they count
	}
	// A process inside that may open it could change its mode, if not its content.
	if err := unix.Fchmod(int(l.program.Fd()), l.mode); err != nil {
		return 0, err
	}
	answer, theirs, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	defer answer.Close()
	limited := *attr
	limited.Files = append(attr.Files[:len(attr.Files):len(attr.Files)], theirs.Fd(), l.program.Fd())
	pid, err := timerslack.ForkExec(programSlack(), "/proc/self/fd/"+strconv.Itoa(len(attr.Files)+1), append([]string{
		"limit", limitNumber(uint64(len(attr.Files))), limitNumber(processes), limitNumber(l.Data), path,
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
