package guest

import (
	"os"
	"time"

	"wolffia/wire"
)

// An input carries standard input to a process. The host may be Window bytes
// ahead of what the process has read.
type input struct {
	queue
	file *os.File
	tty  bool
}

func newInput(file *os.File, tty bool) *input {
	i := &input{file: file, tty: tty}
	i.open(wire.Window)
	return i
}

// copy writes what is queued until CloseInput, then closes the file. It hands the
// credit back also for what the process did not want, so that the host never
// waits for a process that has closed its input.
func (i *input) copy(channel uint32, w *wire.Writer) {
	for f, ok := i.next(); ok; f, ok = i.next() {
		_, _ = i.file.Write(f.Payload()) // EPIPE: the process does not read any more
		_ = w.Send(wire.Credit, channel, i.done(&f))
	}
	if i.tty {
		_, _ = i.file.Write([]byte{4}) // VEOF, ^D: the end of input on a terminal (termios(3))
		return                         // the terminal's output is still being read
	}
	_ = i.file.Close()
}

// abandon ends copy even if the process does not read.
func (i *input) abandon() {
	i.CloseInput()
	_ = i.file.SetWriteDeadline(time.Unix(0, 0)) // is over
}
