package docker

import (
	"bytes"
	"encoding/binary"
	"net"
	"time"
)

// takeOver continues on a connection that another shim had. That may have read,
// and written, a part of a frame, of the engine's and of PID 1's: so hail is sent,
// and what comes is dropped up to PID 1's answer, echo. Behind it is nothing; so
// what comes next is a frame's first byte. To be called before Read and Write; it
// takes no longer than limit.
func (s *stream) takeOver(conn net.Conn, hail, echo []byte, limit time.Duration) error {
	if err := conn.SetDeadline(time.Now().Add(limit)); err != nil {
		return err
	}
	// PID 1 may be waiting for somebody to read, and does not read before.
	sent := make(chan error, 1)
	go func() { // ends at the deadline
		_, err := conn.Write(hail)
		sent <- err
	}()
	var last []byte
	for buf := make([]byte, 32<<10); !endsWith(last, echo); {
		n, err := conn.Read(buf)
		if err != nil {
			return err
		}
		last = append(last, buf[:n]...)
		last = last[max(0, len(last)-len(echo)*(1+frameHeader)):]
	}
	if err := <-sent; err != nil {
		return err
	}
	return conn.SetDeadline(time.Time{})
}

// endsWith reports whether what an engine has sent ends with said, by PID 1 on
// its standard output, in however many of the engine's frames.
func endsWith(sent, said []byte) bool {
	n := 0 // bytes of said in the frame, so far
	for len(said) > 0 {
		head := len(sent) - frameHeader
		if n > 0 && head >= 0 && bytes.Equal(sent[head:head+4], []byte{frameStdout, 0, 0, 0}) && binary.BigEndian.Uint32(sent[head+4:]) == uint32(n) {
			sent, n = sent[:head], 0
			continue
		}
		last := len(sent) - 1
		if last < 0 || sent[last] != said[len(said)-1] {
			return false
		}
		sent, said, n = sent[:last], said[:len(said)-1], n+1
	}
	return true
}
