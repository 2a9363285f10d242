package pool

import (
	"context"
	"errors"
	goruntime "runtime"

	"golang.org/x/sys/unix"
)

// waitForIdleCPU returns when a processor is idle: when a thread of the class SCHED_IDLE
// (sched(7)) has woken up. What a filler starts then is of the usual class: an unprivileged
// process cannot leave SCHED_IDLE again, and a sandbox would stay in it. The garbage collector may
// wait for that thread, so only a process that fills pools, and does nothing else, may call
// waitForIdleCPU.
func waitForIdleCPU(ctx context.Context) error {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		return err
	}
	thread, awake := make(chan int, 1), make(chan struct{})
	go func() { // ends once the thread runs, after the pipe's end; the thread ends with it
		defer close(awake)
		defer unix.Close(p[0])
		goruntime.LockOSThread() // for good: no other goroutine gets the thread
		thread <- unix.Gettid()
		for {
			if _, err := unix.Read(p[0], make([]byte, 1)); !errors.Is(err, unix.EINTR) {
				return
			}
		}
	}()
	// Not by the thread itself: it would need an idle processor to say that it waits.
	idle := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_IDLE}
	_ = unix.SchedSetAttr(<-thread, &idle, 0) // without it the thread runs at once
	_ = unix.Close(p[1])
	select {
	case <-awake:
	case <-ctx.Done():
	}
	return ctx.Err()
}
