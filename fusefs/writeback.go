package fusefs

import (
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// writebackStep is after how many bytes of a file the disk begins to write. Most files are
// smaller: files that are deleted soon, as by compilers, are not written for nothing. 8 MiB saves
// no more, and 4 MiB nothing.
const writebackStep = 16 << 20

// A writeback makes the kernel write large files to the disk while they are written. Writing
// through a tree takes longer than in a plain directory. Without a writeback the disk would be
// idle meanwhile, and a sync at the end would wait for all of it. The zero value is ready for use,
// by several goroutines.
type writeback struct {
	busy atomic.Bool // one is being started: that waits for a slow disk
}

// wrote starts to write the new bytes of the file fd, up to the offset to, if the bytes since the
// offset from have completed a step. Errors are ignored: a sync returns them.
func (w *writeback) wrote(fd int, from, to int64) {
	if from/writebackStep == to/writebackStep || !w.busy.CompareAndSwap(false, true) {
		return // the next step includes this one
	}
	fd, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		w.busy.Store(false)
		return
	}
	go func() { // ends when the disk has accepted the work
		defer w.busy.Store(false)
		_ = unix.SyncFileRange(fd, 0, to/writebackStep*writebackStep, unix.SYNC_FILE_RANGE_WRITE)
		unix.Close(fd)
	}()
}
