package session

import (
	"sync"

	"golang.org/x/sys/unix"

	"wolffia/wire"
)

// maxRemains bounds the remains of all commands in a sandbox, in bytes.
const maxRemains = 32 << 20

// terminalRemains is more than the kernel buffers of a terminal's output, in bytes: 8 KiB and a
// page, twice (drivers/tty/pty.c, n_tty.c).
const terminalRemains = 64 << 10

// Remains are the output of an ended command that PID 1 keeps for a slow reader: the command's
// session is free meanwhile.
type remains struct {
	watcher
	out  [2]head
	size int // bytes that are reserved of maxRemains
}

// reserve takes n bytes of maxRemains. It returns false if fewer are free. A negative n returns
// bytes.
func (m *Manager) reserve(n int) bool {
	if m.remains.Add(int64(n)) <= maxRemains {
		return true
	}
	m.remains.Add(int64(-n))
	return false
}

// retain reads the bytes that the run's streams have buffered, and ends the streams: what other
// processes write from now on belongs to their job. It reports false if reserve has no room: then
// the run waits for its reader.
func (r *run) retain(reserve func(n int) bool) bool {
	k := &remains{watcher: watcher{change: sync.NewCond(new(sync.Mutex))}}
	for _, st := range r.outs {
		k.size += st.left()
	}
	if !reserve(k.size) {
		return false
	}
	for i, st := range r.outs {
		k.out[i] = st.readRest()
	}
	r.remains = k
	return true
}

// left returns how many bytes there may be still to read of a stream whose command is over.
func (st *stream) left() int {
	switch {
	case st.over:
		return 0
	case st.pipe == nil:
		return terminalRemains
	}
	return st.drain.Left()
}

// readRest reads the rest of a stream, and ends the stream.
func (st *stream) readRest() head {
	if st.over {
		return nil
	}
	b := make([]byte, st.left())
	n := 0
	for n < len(b) {
		m, err := read(st.fd, b[n:])
		n += max(m, 0)
		if st.took(m, err, true) {
			break
		}
	}
	st.eof = st.eof || st.pipe != nil && poll(st.fd)&(unix.POLLIN|unix.POLLHUP) == unix.POLLHUP
	st.over = true
	return b[:n]
}

// deliver sends the remains to the call as it gives credit, and then the status. It does not wait.
func (k *remains) deliver(m *Manager, c *Call, status wire.ExitStatus) {
	c.dropInput()
	c.setHandler(k)
	go func() { // ends when all is sent, or when the call is canceled
		defer m.reserve(-k.size)
		var at [2]uint64
		k.change.L.Lock()
		k.follow(c, func() (sent, more bool) { return k.sendHeads(c, &k.out, &at) })
		k.change.L.Unlock()
		c.exit(status)
	}()
}
