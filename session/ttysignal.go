package session

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// typed are the keys that have the terminal send a signal (termios(3)).
var typed = map[syscall.Signal]int{unix.SIGINT: unix.VINTR, unix.SIGQUIT: unix.VQUIT, unix.SIGTSTP: unix.VSUSP}

// typeSignal has the terminal itself send a signal to the process group that it
// belongs to, as if a key were typed: for a kernel that does not tell which
// group that is (gVisor). Whatever the terminal's mode, the key is one for a
// moment, and is not shown. It reports whether there is such a key.
func (p *shellProcess) typeSignal(sig syscall.Signal) bool {
	key, ok := typed[sig]
	if !ok {
		return false
	}
	saved, err := unix.IoctlGetTermios(p.tty, unix.TCGETS)
	if err != nil {
		return false
	}
	t := *saved
	t.Lflag |= unix.ISIG | unix.NOFLSH
	t.Lflag &^= unix.ECHO
	const char = 3
	for _, k := range typed {
		t.Cc[k] = 0 // none, or another could be meant
	}
	t.Cc[key] = char
	if unix.IoctlSetTermios(p.tty, unix.TCSETS, &t) != nil {
		return false
	}
	n, err := unix.Write(p.tty, []byte{char})
	_ = unix.IoctlSetTermios(p.tty, unix.TCSETS, saved)
	return err == nil && n == 1
}
