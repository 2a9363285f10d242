package treeserver

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"wolffia/internal/sys/beneath"
)

// maxMemorySpool bounds a spool in memory, in bytes.
const maxMemorySpool = 64 << 20

// A spool is a file without a name. It is on the disk, and moves to memory if that is full:
// changes are listed and discarded also then.
type spool struct {
	f        *os.File
	size     int64
	inMemory bool
}

// newSpool returns a spool on the file system of the directory dir. The caller closes it.
func newSpool(dir int) (*spool, error) {
	fd, err := beneath.Open(dir, ".", unix.O_TMPFILE|unix.O_RDWR, 0o600)
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		s := &spool{}
		return s, s.toMemory()
	}
	if err != nil {
		return nil, err
	}
	return &spool{f: os.NewFile(uintptr(fd), "answer")}, nil
}

// Write implements io.Writer.
func (s *spool) Write(b []byte) (n int, err error) {
	n, err = s.write(b)
	if (errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT)) && !s.inMemory && s.toMemory() == nil {
		var more int
		more, err = s.write(b[n:])
		n += more
	}
	return n, err
}

func (s *spool) write(b []byte) (n int, err error) {
	if s.inMemory && s.size+int64(len(b)) > maxMemorySpool {
		return 0, unix.ENOSPC
	}
	n, err = s.f.WriteAt(b, s.size)
	s.size += int64(n)
	return n, err
}

// toMemory continues in memory.
func (s *spool) toMemory() error {
	fd, err := unix.MemfdCreate("answer", unix.MFD_CLOEXEC)
	if err != nil {
		return err
	}
	memory := os.NewFile(uintptr(fd), "answer")
	if s.f != nil {
		if _, err := io.Copy(memory, io.NewSectionReader(s.f, 0, s.size)); err != nil {
			return errors.Join(err, memory.Close())
		}
		s.close()
	}
	s.f, s.inMemory = memory, true
	return nil
}

// sendTo writes all to w.
func (s *spool) sendTo(w io.Writer) error {
	if _, err := s.f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	_, err := io.Copy(w, s.f)
	return err
}

func (s *spool) close() { _ = s.f.Close() }
