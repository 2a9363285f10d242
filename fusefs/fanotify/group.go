// Package fanotify reports changes of marked files, or in marked directories. It tells which of
// them this process has made.
package fanotify

import (
	"bytes"
	"encoding/binary"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// dirMask are the changes that are noticed: of the entries of a directory, their content
// and attributes. FAN_CLOSE_WRITE covers writes through a memory mapping.
const dirMask = unix.FAN_CREATE | unix.FAN_DELETE | unix.FAN_DELETE_SELF | unix.FAN_MOVED_FROM | unix.FAN_MOVED_TO |
	unix.FAN_MODIFY | unix.FAN_ATTRIB | unix.FAN_CLOSE_WRITE | unix.FAN_ONDIR | unix.FAN_EVENT_ON_CHILD

// fileMask are the changes of dirMask to a file itself.
const fileMask = unix.FAN_MODIFY | unix.FAN_ATTRIB | unix.FAN_CLOSE_WRITE

// NameMask are the changes of an entry itself.
const NameMask = unix.FAN_CREATE | unix.FAN_DELETE | unix.FAN_MOVED_FROM | unix.FAN_MOVED_TO

// An Event is one change.
type Event struct {
	Mask  uint64 // fanotify(7)
	Key   string // of the directory or file: see [Key]
	Name  []byte // of the entry that was changed, "." for the directory itself; valid until Handler.Event returns
	Entry bool   // Key is that of the directory that has the entry, else of a file
	Own   bool   // of this process
}

// A Handler receives events, from one goroutine at a time.
type Handler interface {
	// Wants is called for each event, and reports whether it is for Event.
	Wants(own bool) bool
	Event(e Event)
	// Unknown reports that anything may have changed.
	Unknown()
}

// A Group is an unprivileged fanotify group (fanotify_init(2), Linux 5.13), which unlike inotify
// tells whose a change is. Its methods are safe for concurrent use.
type Group struct {
	FD      int // of the group
	stop    int // eventfd that ends Run
	proc    int
	self    int32
	handler Handler
	done    chan struct{}

	reading sync.Mutex // held while events are read and handled
}

// New returns a group, nil if the kernel is too old or the user has too many. proc is a descriptor
// of /proc/self/fd, which files are marked through; the caller closes it after the group.
func New(proc int, h Handler) *Group {
	fd, err := unix.FanotifyInit(unix.FAN_CLASS_NOTIF|unix.FAN_CLOEXEC|unix.FAN_NONBLOCK|
		unix.FAN_REPORT_DFID_NAME|unix.FAN_REPORT_FID, unix.O_RDONLY|unix.O_CLOEXEC)
	if err != nil {
		return nil
	}
	stop, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		unix.Close(fd)
		return nil
	}
	return &Group{FD: fd, stop: stop, proc: proc, self: int32(os.Getpid()), handler: h, done: make(chan struct{})}
}

// Key returns how events name the inode that is open as fd.
func Key(fd int) (string, error) {
	const flags = unix.AT_EMPTY_PATH
	h, _, err := unix.NameToHandleAt(fd, "", flags)
	if err == syscall.EOPNOTSUPP {
		const atHandleFID = 0x200 // linux/fcntl.h; Linux 6.5, for overlayfs
		h, _, err = unix.NameToHandleAt(fd, "", flags|atHandleFID)
	}
	if err != nil {
		return "", err
	}
	return handleKey(h.Type(), h.Bytes()), nil
}

func handleKey(typ int32, b []byte) string {
	return string(append(binary.NativeEndian.AppendUint32(nil, uint32(typ)), b...))
}

// Mark has changes reported of the directory or file that is open as fd, Unmark no longer.
func (g *Group) Mark(fd int, dir bool) error { return g.mark(unix.FAN_MARK_ADD, fd, dir) }

// Unmark undoes Mark.
func (g *Group) Unmark(fd int, dir bool) error { return g.mark(unix.FAN_MARK_REMOVE, fd, dir) }

func (g *Group) mark(change uint, fd int, dir bool) error {
	if dir {
		return unix.FanotifyMark(g.FD, change|unix.FAN_MARK_ONLYDIR, dirMask, fd, ".")
	}
	return unix.FanotifyMark(g.FD, change, fileMask, g.proc, strconv.Itoa(fd))
}

// watchPause is how long events are collected before they are read. Most operations of the
// sandbox cause one: to wake up for each would cost more than the operation.
const watchPause = 5 * time.Millisecond

// Run reads events until Close. Go's network poller would wake a thread for each event, also during
// the pause.
func (g *Group) Run() {
	defer close(g.done)
	buf := make([]byte, 64<<10)
	fds := []unix.PollFd{{Fd: int32(g.FD), Events: unix.POLLIN}, {Fd: int32(g.stop), Events: unix.POLLIN}}
	for {
		if _, err := unix.Poll(fds, -1); err != nil && err != unix.EINTR || fds[1].Revents != 0 {
			return
		}
		n, err := g.read(buf)
		switch err {
		case nil:
		case unix.EINTR, unix.EAGAIN:
			continue
		default:
			return
		}
		if n < len(buf)/2 {
			time.Sleep(watchPause)
		}
	}
}

// read reads events, which buf has room for, and handles them.
func (g *Group) read(buf []byte) (int, error) {
	g.reading.Lock()
	defer g.reading.Unlock()
	n, err := unix.Read(g.FD, buf)
	if err == nil {
		g.events(buf[:n])
	}
	return n, err
}

// Drain handles all events so far.
func (g *Group) Drain() {
	buf := make([]byte, 64<<10)
	for {
		if _, err := g.read(buf); err != nil && err != unix.EINTR {
			return // EAGAIN: no event is queued
		}
	}
}

// Close ends Run, which was started, and frees the group.
func (g *Group) Close() {
	unix.Write(g.stop, []byte{1, 0, 0, 0, 0, 0, 0, 0})
	<-g.done
	g.Free()
}

// Free closes the group. Run has ended, or was not started.
func (g *Group) Free() {
	unix.Close(g.FD)
	unix.Close(g.stop)
}

// events handles the events in b, as read from the group (fanotify(7)).
func (g *Group) events(b []byte) {
	const header = int(unsafe.Sizeof(unix.FanotifyEventMetadata{}))
	for len(b) >= header {
		m := (*unix.FanotifyEventMetadata)(unsafe.Pointer(&b[0]))
		size := int(m.Event_len)
		if size < header || size > len(b) {
			g.handler.Unknown() // malformed
			return
		}
		switch own := m.Pid == g.self; {
		case m.Mask&unix.FAN_Q_OVERFLOW != 0:
			g.handler.Unknown()
		case g.handler.Wants(own):
			g.event(m.Mask, b[int(m.Metadata_len):size], own)
		}
		b = b[size:]
	}
}

// event handles the mask and the information records of one event: of an entry of a directory, and
// of the file itself. own says that this process caused it.
func (g *Group) event(mask uint64, records []byte, own bool) {
	const header, fsid, handle = 4, 8, 8
	for len(records) >= header {
		kind, size := records[0], int(binary.NativeEndian.Uint16(records[2:]))
		if size < header || size > len(records) {
			return
		}
		info := records[header:size]
		records = records[size:]
		if len(info) < fsid+handle || kind != unix.FAN_EVENT_INFO_TYPE_DFID_NAME && kind != unix.FAN_EVENT_INFO_TYPE_FID {
			continue
		}
		info = info[fsid:]
		size = int(binary.NativeEndian.Uint32(info))
		typ := int32(binary.NativeEndian.Uint32(info[4:]))
		if len(info) < handle+size {
			continue
		}
		key := handleKey(typ, info[handle:handle+size])
		name, _, _ := bytes.Cut(info[handle+size:], []byte{0})
		g.handler.Event(Event{Mask: mask, Key: key, Name: name, Entry: kind == unix.FAN_EVENT_INFO_TYPE_DFID_NAME, Own: own})
	}
}
