package child

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// A Piped is a child whose standard streams are pipes, or sockets.
type Piped struct {
	*Child
	Stream io.ReadWriteCloser // the child's standard output and input
	Stderr io.ReadCloser
}

// StartPiped is Start with pipes as descriptors 0, 1 and 2, or sockets as 0 and 1; Files follow
// from 3 on.
func StartPiped(c *Command) (_ *Piped, err error) {
	var ours, theirs []*os.File
	defer func() {
		for _, f := range theirs {
			_ = f.Close()
		}
		for _, f := range ours {
			if err != nil {
				_ = f.Close()
			}
		}
	}()
	for fd := range 3 {
		way := os.Pipe
		if c.Sockets && fd < 2 {
			way = func() (r, w *os.File, err error) { return sockets(1 - fd) }
		}
		r, w, err := way()
		if err != nil {
			return nil, err
		}
		if fd == 1 && !c.Sockets {
			enlarge(r)
		}
		if fd == 0 {
			r, w = w, r
		}
		ours, theirs = append(ours, r), append(theirs, w)
	}
	all := *c
	all.Files = append(theirs[:3:3], c.Files...)
	child, err := Start(&all)
	if err != nil {
		return nil, err
	}
	return &Piped{Child: child, Stream: &stream{ours[1], ours[0]}, Stderr: ours[2]}, nil
}

// roomOfOutput is the size of the pipe of a child's standard output, in bytes: one that is large
// is in the pipe while the next one is made.
const roomOfOutput = 256 << 10

// enlarge gives a pipe room, if the user may have so much (pipe-user-pages-soft in
// proc_sys_fs(5)).
func enlarge(pipe *os.File) {
	if raw, err := pipe.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { _, _ = unix.FcntlInt(fd, unix.F_SETPIPE_SZ, roomOfOutput) })
	}
}

// sockets returns a pipe made of sockets. ours is the end that does not block: 0 to read from, 1
// to write to.
func sockets(ours int) (r, w *os.File, err error) {
	fd, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		err = unix.SetNonblock(fd[ours], true)
	}
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	_ = unix.Shutdown(fd[0], unix.SHUT_WR)
	_ = unix.SetsockoptInt(fd[1], unix.SOL_SOCKET, unix.SO_SNDBUF, roomOfSockets)
	return os.NewFile(uintptr(fd[0]), "|0"), os.NewFile(uintptr(fd[1]), "|1"), nil
}

// roomOfSockets is the size of a pipe of sockets, in bytes. The kernel has a limit of its own
// (net.core.wmem_max).
const roomOfSockets = 1 << 20

// A stream reads from one pipe and writes to another.
type stream struct{ r, w *os.File }

func (s *stream) Read(b []byte) (int, error)  { return s.r.Read(b) }
func (s *stream) Write(b []byte) (int, error) { return s.w.Write(b) }
func (s *stream) Close() error                { return errors.Join(s.w.Close(), s.r.Close()) }
