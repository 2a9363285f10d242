package guest

import (
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"unsafe"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// threads is how many threads PID 1 makes before the guard is installed. The
// Go runtime keeps threads and takes an idle one before it makes a new one;
// the guest needs four or five at once. In a fresh PID namespace their numbers
// are the first ones, which is what the guard protects.
const threads = 8

// Harden protects PID 1 from what it will start. It must run before anything
// else in main, and an error must end the program: without it a process
// inside owns the sandbox's stream.
//
//   - PR_SET_DUMPABLE 0: /proc/1/{fd,mem,environ,...} and ptrace are refused
//     (proc(5), ptrace(2)).
//   - The guard: see guardFilter. It holds for every process, for ever.
//   - Signals are caught and dropped.
//   - Descriptors that somebody left open do not reach any child.
func Harden() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("prctl PR_SET_DUMPABLE: %w", err)
	}
	const all = ^uint(0) >> 1 & 0xffffffff
	if err := unix.CloseRange(3, uint(all), unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return fmt.Errorf("close_range: %w", err)
	}
	drop := make(chan os.Signal, 1)
	signal.Notify(drop) // a full channel drops what comes
	highest := makeThreads(threads)
	runtime.LockOSThread() // no_new_privs is this thread's until seccomp shares it
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("prctl PR_SET_NO_NEW_PRIVS: %w", err)
	}
	return install(guardFilter(highest))
}

// makeThreads makes the runtime hold n idle threads and returns the highest
// thread number among them. Numbers ascend in a fresh PID namespace, so no
// thread that the runtime made before has a higher one.
func makeThreads(n int) (highest uint32) {
	var ready, over sync.WaitGroup
	var mu sync.Mutex
	hold := make(chan struct{})
	ready.Add(n)
	for range n {
		over.Go(func() {
			runtime.LockOSThread() // each goroutine gets a thread of its own
			mu.Lock()
			highest = max(highest, uint32(unix.Gettid()))
			mu.Unlock()
			ready.Done()
			<-hold
			runtime.UnlockOSThread() // the thread goes back to the idle ones
		})
	}
	ready.Wait()
	close(hold)
	over.Wait()
	return highest
}

// install gives all threads of the process the filter (seccomp(2), TSYNC).
func install(filter []bpf.Instruction) error {
	raw, err := bpf.Assemble(filter)
	if err != nil {
		return fmt.Errorf("assemble the guard: %w", err)
	}
	prog := unix.SockFprog{Len: uint16(len(raw)), Filter: (*unix.SockFilter)(unsafe.Pointer(&raw[0]))}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&prog)))
	if errno != 0 {
		return fmt.Errorf("seccomp: %w", errno)
	}
	return nil
}
