package guest

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"unsafe"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"wolffia/internal/sys/coredump"
)

// Threads is how many threads PID 1 makes before the guard is installed, at
// least. The Go runtime keeps threads and takes an idle one before it makes a new
// one; the guest needs four or five at once. In a fresh PID namespace their numbers
// are the first ones, which is what the guard protects. Under Linux that makes
// it complete only, since PID 1 cannot be killed from inside; gVisor lets a
// signal to any thread of PID 1 through that the guard does.
const Threads = 8

// Harden protects PID 1 from what it will start. It must run before anything else in main, and
// [Guard] before the first process. An error of one of them must end the program: without them a
// process inside owns the sandbox's stream.
//
//   - PR_SET_DUMPABLE 0: /proc/1/{fd,mem,environ,...} and ptrace are refused
//     (proc(5), ptrace(2)).
//   - No process dumps core (see [coredump.Off]). Where the sandbox's filter is installed
//     already, the shim has done it, and this changes nothing.
//   - Signals are dropped.
//   - Descriptors that were left open reach no child.
func Harden() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("prctl PR_SET_DUMPABLE: %w", err)
	}
	if err := coredump.Off(); err != nil {
		return err
	}
	const all = ^uint(0) >> 1 & 0xffffffff
	if err := unix.CloseRange(3, uint(all), unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return fmt.Errorf("close_range: %w", err)
	}
	return dropSignals()
}

// Guard protects PID 1 from all processes, and cannot be removed.
//
//   - The guard: see guardFilter.
//   - The sandbox's seccomp filter, if it is not installed already, as a part of the
//     guard: array of struct sock_filter (seccomp(2)); empty where the backend has
//     installed it.
//   - The threads that PID 1 will need exist afterwards: [Threads], and with those of the Go
//     runtime threads in all, if that is more. Where processes are limited and
//     PID 1 counts, PID 1 could not start more later.
func Guard(filter []byte, threads int) error {
	highest, made, err := makeThreads(Threads)
	for n := Threads; err == nil && made < threads; {
		n += threads - made // the runtime has made some of its own
		highest, made, err = makeThreads(n)
	}
	if err != nil {
		return err
	}
	runtime.LockOSThread() // no_new_privs is this thread's until seccomp shares it
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("prctl PR_SET_NO_NEW_PRIVS: %w", err)
	}
	rest := []bpf.Instruction{bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW}}
	if len(filter) > 0 {
		if rest, err = disassemble(filter); err != nil {
			return fmt.Errorf("the sandbox's filter: %w", err)
		}
	}
	return install(guardFilter(highest, rest))
}

// caught are the signals that the runtime of Go has to handle: its own faults, SIGPIPE, which
// would end PID 1 if no channel took it, and those to stop, which it would not reset for
// children.
var caught = []os.Signal{
	unix.SIGILL, unix.SIGTRAP, unix.SIGBUS, unix.SIGFPE, unix.SIGSEGV, unix.SIGPIPE,
	unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU,
}

// kept are the signals that keep their default action: the runtime would not reset them for
// children. They may come ignored. 32 and 34 are libc's.
var kept = []unix.Signal{unix.SIGCHLD, unix.SIGCONT, 32, 34}

// inherited are the signals that the runtime leaves ignored, for children too, if they were at the
// start: a shell starts a command in the background so, and nohup(1) any.
var inherited = []os.Signal{unix.SIGHUP, unix.SIGINT}

// dropSignals makes the kernel drop all signals but those in caught. SIGCHLD keeps its default
// action: the reaper waits for children, and SIG_IGN would reap them. To catch a signal costs two
// changes of threads for each at the start, and two at the end of each child, which takes
// milliseconds in gVisor. The Go runtime does not know that signals are dropped, so it gives every
// child the default actions, as for signals that it catches.
func dropSignals() error {
	drop := make(chan os.Signal, 1)
	signal.Notify(drop, caught...) // a full channel drops what comes
	for _, sig := range inherited {
		if signal.Ignored(sig) {
			signal.Notify(drop, sig) // from now on the runtime resets it for children
		}
	}
	const sigIgnore, last = 1, 64
	for sig := unix.Signal(1); sig <= last; sig++ {
		switch {
		case sig == unix.SIGKILL, sig == unix.SIGSTOP, slices.Contains(caught, os.Signal(sig)):
			continue
		case sig == 33: // the runtime's own
			continue
		}
		action := [4]uint64{sigIgnore} // struct sigaction (rt_sigaction(2))
		if slices.Contains(kept, sig) {
			action[0] = 0 // SIG_DFL
		}
		_, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(sig), uintptr(unsafe.Pointer(&action)), 0, 8, 0, 0)
		if errno != 0 {
			return fmt.Errorf("rt_sigaction %d: %w", sig, errno)
		}
	}
	return nil
}

// makeThreads makes the runtime hold n idle threads, and returns the highest
// number of a thread of this process, and how many there are. In making them the runtime makes some
// more; numbers ascend in a fresh PID namespace, so that all have been given
// out before any child's.
func makeThreads(n int) (highest uint32, made int, err error) {
	var ready, over sync.WaitGroup
	hold := make(chan struct{})
	ready.Add(n)
	for range n {
		over.Go(func() {
			runtime.LockOSThread() // each goroutine gets a thread of its own
			ready.Done()
			<-hold
			runtime.UnlockOSThread() // the thread goes back to the idle ones
		})
	}
	ready.Wait()
	close(hold)
	over.Wait()
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return 0, 0, fmt.Errorf("list the threads: %w", err)
	}
	for _, t := range threads {
		id, err := strconv.ParseUint(t.Name(), 10, 31)
		if err != nil {
			return 0, 0, fmt.Errorf("/proc/self/task has %q", t.Name())
		}
		highest = max(highest, uint32(id))
	}
	return highest, len(threads), nil
}

// disassemble reads an array of struct sock_filter.
func disassemble(filter []byte) ([]bpf.Instruction, error) {
	if len(filter)%unix.SizeofSockFilter != 0 {
		return nil, fmt.Errorf("%d bytes are not an array of struct sock_filter", len(filter))
	}
	var prog []bpf.Instruction
	for b := range slices.Chunk(filter, unix.SizeofSockFilter) {
		prog = append(prog, bpf.RawInstruction{
			Op: binary.NativeEndian.Uint16(b), Jt: b[2], Jf: b[3], K: binary.NativeEndian.Uint32(b[4:]),
		})
	}
	return prog, nil
}

// install gives all threads of the process a seccomp filter (seccomp(2), TSYNC).
func install(filter []bpf.Instruction) error {
	raw, err := bpf.Assemble(filter)
	if err != nil {
		return fmt.Errorf("assemble the seccomp filter: %w", err)
	}
	if len(raw) > unix.BPF_MAXINSNS {
		return fmt.Errorf("a seccomp filter of %d instructions", len(raw))
	}
	// struct sock_filter is what a RawInstruction is (linux/filter.h).
	prog := unix.SockFprog{Len: uint16(len(raw)), Filter: (*unix.SockFilter)(unsafe.Pointer(&raw[0]))}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&prog)))
	if errno != 0 {
		return fmt.Errorf("seccomp: %w", errno)
	}
	return nil
}
