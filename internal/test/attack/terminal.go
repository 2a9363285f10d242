package attack

import (
	"errors"
	"unsafe"

	"golang.org/x/sys/unix"
)

func ptr(b []byte) unsafe.Pointer { return unsafe.Pointer(&b[0]) }

// typed is a row about an ioctl on the terminal that a command runs on.
func typed(id, tries, source string, request uintptr, arg ...byte) Row {
	return Row{ID: "tty." + id, Tries: tries, Source: source, In: Terminal, Want: all(Refused), Do: func(*World) string {
		_, err := unix.IoctlGetTermios(0, unix.TCGETS)
		if err != nil {
			return "there is no terminal"
		}
		arg := append(arg, make([]byte, 16)...)
		_, err = sys(unix.SYS_IOCTL, 0, request, uintptr(ptr(arg)))
		if errors.Is(err, unix.EINVAL) {
			return "refused EINVAL"
		}
		return said(err)
	}}
}

func terminalRows() []Row {
	return []Row{
		typed("sti", "type a command for the user of the terminal (TIOCSTI)", "CVE-2017-5226", unix.TIOCSTI, 'x'),
		typed("sti-high", "the same with high bits set in the request", "CVE-2019-10063", 1<<32|unix.TIOCSTI, 'x'),
		typed("linux", "paste into the console (TIOCLINUX)", "CVE-2023-28100", unix.TIOCLINUX, 3),
		typed("linux-high", "the same with high bits set in the request", "CVE-2019-10063", 1<<40|unix.TIOCLINUX, 3),
		typed("console", "take the console's output (TIOCCONS)", "tty_ioctl(4)", unix.TIOCCONS),
		typed("discipline", "load a line discipline's module (TIOCSETD)", "CVE-2017-2636", unix.TIOCSETD, 13),
		{ID: "tty.own", Tries: "type into a terminal of its own, which another process reads", Source: "CVE-2017-5226", Want: all(Refused), Do: func(*World) string {
			fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY, 0)
			if err != nil {
				return said(err)
			}
			x := []byte("x")
			_, err = sys(unix.SYS_IOCTL, uintptr(fd), unix.TIOCSTI, uintptr(ptr(x)))
			return said(err)
		}},
		{ID: "tty.group", Tries: "have ^C on the terminal go to PID 1", Source: "PID 1", In: Terminal, Want: all(Refused), Do: does(func(*World) error {
			return unix.IoctlSetPointerInt(0, unix.TIOCSPGRP, 1)
		})},
	}
}
