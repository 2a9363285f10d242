package fanotify

import (
	"encoding/binary"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// told is a handler that records its calls.
type told struct {
	events  []Event
	unknown int
}

func (h *told) Wants(own bool) bool { return !own }
func (h *told) Event(e Event)       { h.events = append(h.events, e) }
func (h *told) Unknown()            { h.unknown++ }

// message returns an event of process pid on the entry called name, as the kernel sends it.
func message(pid int32, mask uint64, name string) []byte {
	const header = int(unsafe.Sizeof(unix.FanotifyEventMetadata{}))
	info := []byte{unix.FAN_EVENT_INFO_TYPE_DFID_NAME, 0, 0, 0}
	info = append(info, make([]byte, 8)...) // the file system
	info = binary.NativeEndian.AppendUint32(info, 3)
	info = binary.NativeEndian.AppendUint32(info, 1)
	info = append(append(info, "key"...), name+"\x00"...)
	binary.NativeEndian.PutUint16(info[2:], uint16(len(info)))
	b := make([]byte, header, header+len(info))
	*(*unix.FanotifyEventMetadata)(unsafe.Pointer(&b[0])) = unix.FanotifyEventMetadata{
		Event_len: uint32(header + len(info)), Metadata_len: uint16(header), Mask: mask, Pid: pid,
	}
	return append(b, info...)
}

// Events are reported with the names that they concern, unwanted events are not, and lost events
// are reported as lost.
func TestEvents(t *testing.T) {
	var h told
	g := &Group{self: 7, handler: &h}
	b := append(message(7, unix.FAN_CREATE, "own"), message(8, unix.FAN_MODIFY, "file")...)
	g.events(append(b, message(8, unix.FAN_Q_OVERFLOW, "")...))
	if len(h.events) != 1 || h.unknown != 1 {
		t.Fatalf("%+v, %d unknown; want one of each", h.events, h.unknown)
	}
	e := h.events[0]
	if e.Key != handleKey(1, []byte("key")) || string(e.Name) != "file" || !e.Entry || e.Own || e.Mask != unix.FAN_MODIFY {
		t.Errorf(`got e %+v; want e.Key == handleKey(1, []byte("key")) and e.Name == "file" and e.Entry and not e.Own and e.Mask == unix.FAN_MODIFY`,
			e)
	}
}

// An event that ends early is reported as lost, or ignored, and is never read beyond its end.
func TestMalformedEvents(t *testing.T) {
	const header = int(unsafe.Sizeof(unix.FanotifyEventMetadata{}))
	whole := message(8, unix.FAN_MODIFY, "file")
	for n := range whole {
		var h told
		g := &Group{self: 7, handler: &h}
		g.events(whole[:n])
		if len(h.events) != 0 || n >= header && h.unknown != 1 {
			t.Errorf("the first %d bytes: %+v, %d unknown", n, h.events, h.unknown)
		}
		short := append([]byte(nil), whole[:n]...)
		if n < header {
			continue
		}
		(*unix.FanotifyEventMetadata)(unsafe.Pointer(&short[0])).Event_len = uint32(n)
		g.events(short)
		if len(h.events) != 0 {
			t.Errorf("an event of %d bytes: %+v", n, h.events)
		}
	}
}
