package guest

import (
	"os"
	"sync"
	"time"

	"wolffia/wire"
)

// An input carries standard input to a process. The host may be Window bytes
// ahead of what the process has read; so the queue is bounded.
type input struct {
	file *os.File
	tty  bool

	mu     sync.Mutex
	change *sync.Cond   // the queue or closed has changed; uses mu
	queue  []wire.Frame // guarded by mu
	queued int          // bytes in queue or being written; guarded by mu
	closed bool         // no more will come; guarded by mu
}

func newInput(file *os.File, tty bool) *input {
	i := &input{file: file, tty: tty}
	i.change = sync.NewCond(&i.mu)
	return i
}

// put queues a frame and takes it over. It reports false if the host sent
// more than it may.
func (i *input) put(f wire.Frame) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.closed {
		f.Release()
		return true
	}
	i.queued += len(f.Payload())
	i.queue = wire.Enqueue(i.queue, f)
	i.change.Signal()
	return i.queued <= wire.Window
}

// close says that no more input will come.
func (i *input) close() {
	i.mu.Lock()
	i.closed = true
	i.change.Signal()
	i.mu.Unlock()
}

// copy writes what is queued until close, then closes the file. It hands the
// credit back also for what the process did not want, so that the host never
// waits for a process that has closed its input.
func (i *input) copy(channel uint32, w *wire.Writer) {
	for {
		f, ok := i.next()
		if !ok {
			break
		}
		_, _ = i.file.Write(f.Payload()) // EPIPE: the process does not read any more
		n := len(f.Payload())
		f.Release()
		i.mu.Lock()
		i.queued -= n
		i.mu.Unlock()
		_ = w.Send(wire.Credit, channel, wire.AppendCredit(nil, wire.Stdin, n))
	}
	if i.tty {
		_, _ = i.file.Write([]byte{4}) // VEOF, ^D: the end of input on a terminal (termios(3))
		return                         // the terminal's output is still being read
	}
	_ = i.file.Close()
}

func (i *input) next() (wire.Frame, bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for len(i.queue) == 0 {
		if i.closed {
			return wire.Frame{}, false
		}
		i.change.Wait()
	}
	f := i.queue[0]
	i.queue = i.queue[1:]
	return f, true
}

// abandon ends copy even if the process does not read.
func (i *input) abandon() {
	i.close()
	_ = i.file.SetWriteDeadline(time.Unix(0, 0)) // is over
}
