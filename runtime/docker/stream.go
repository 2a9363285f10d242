package docker

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"
)

// An engine sends the output of a container without a terminal in frames: a byte for the
// output, three zero bytes, four with the length, then that many bytes (Docker Engine API,
// ContainerAttach).
const (
	frameHeader = 8
	frameStdout = 1
	frameStderr = 2
	frameError  = 3 // a message of the engine
	// maxFrame bounds a frame, in bytes; engines send at most 32 KiB at once.
	maxFrame = 1 << 24
)

// A stream is the connection to a container: it reads from PID 1's standard output, and
// writes to its standard input. One goroutine reads.
type stream struct {
	conn   io.ReadWriteCloser
	stderr io.Writer

	left   int // bytes of the current frame, which is of standard output
	header [frameHeader]byte

	close sync.Once
	over  chan struct{} // closed after the last write to stderr
	ended sync.Once
}

func newStream(conn io.ReadWriteCloser, stderr io.Writer) *stream {
	return &stream{conn: conn, stderr: stderr, over: make(chan struct{})}
}

// Read implements [io.Reader]. An error is final.
func (s *stream) Read(b []byte) (n int, err error) {
	defer func() {
		if err != nil {
			s.ended.Do(func() { close(s.over) })
		}
	}()
	for s.left == 0 {
		if err := s.next(); err != nil {
			return 0, err
		}
	}
	n, err = s.conn.Read(b[:min(len(b), s.left)])
	s.left -= n
	return n, err
}

// next reads a header, and the whole frame if it is not of standard output.
func (s *stream) next() error {
	if _, err := io.ReadFull(s.conn, s.header[:]); err != nil {
		return err
	}
	length := binary.BigEndian.Uint32(s.header[4:])
	if length > maxFrame || s.header[1] != 0 || s.header[2] != 0 || s.header[3] != 0 {
		return fmt.Errorf("the engine sent a frame with the header %x, which is not valid", s.header)
	}
	switch s.header[0] {
	case frameStdout:
		s.left = int(length)
		return nil
	case frameStderr, frameError:
		_, err := io.CopyN(s.stderr, s.conn, int64(length))
		return err
	}
	return fmt.Errorf("the engine sent a frame of the unknown kind %d", s.header[0])
}

func (s *stream) Write(b []byte) (int, error) { return s.conn.Write(b) }

// Close shuts the connection down, for other holders of the socket too, which ends PID 1.
func (s *stream) Close() (err error) {
	s.close.Do(func() {
		if c, ok := s.conn.(*net.UnixConn); ok {
			_ = c.CloseRead() // it may have ended
			_ = c.CloseWrite()
		}
		err = s.conn.Close()
		s.ended.Do(func() { close(s.over) })
	})
	return err
}
