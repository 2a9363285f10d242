package fusefs

import (
	"errors"
	"slices"
	"sync"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"wolffia/internal/gitguard"
	"wolffia/perm"
)

// Bounds of beginnings: a sandbox can leave as many writes unfinished as it likes.
const (
	maxBeginnings = 16
	maxOnce       = unix.PathMax + 100 // bytes of a file that is written once
)

// A beginning is the first part of a write to a node, which the kernel has sent in parts: it does
// so if it cannot copy all pages at once, as those of a program in gVisor.
type beginning struct {
	id   uint64 // of the node
	text string
}

// beginnings are texts that are not in their files yet, since they may become allowed or refused
// ones. Beyond maxBeginnings it forgets the oldest, so that the rest of the write is refused. Its
// methods are safe for concurrent use.
type beginnings struct {
	mu   sync.Mutex
	kept []beginning // oldest first; guarded by mu
}

// take removes and returns the beginning of the node id; empty if it has none.
func (b *beginnings) take(id uint64) (text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if i := slices.IndexFunc(b.kept, func(x beginning) bool { return x.id == id }); i >= 0 {
		text = b.kept[i].text
		b.kept = slices.Delete(b.kept, i, i+1)
	}
	return text
}

// keep records the beginning of the node id.
func (b *beginnings) keep(id uint64, text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.kept = append(b.kept, beginning{id, text})
	if len(b.kept) > maxBeginnings {
		b.kept = slices.Delete(b.kept, 0, 1)
	}
}

// writeOnce writes data to h, a file that gitguard.Part.Once is true for: as a whole, when it is
// allowed, so that the host sees no beginning of it.
func (t *tree) writeOnce(in *fuse.WriteIn, h *handle, p gitguard.Part, data []byte) (uint32, fuse.Status) {
	t.renameMu.Lock() // excludes a second first write
	defer t.renameMu.Unlock()
	text, err := t.once(in, h, data)
	path := t.table.path(h.node, "")
	if err == nil {
		err = p.Content(path, t.shown, text)
	}
	if err == nil {
		err = t.follow(path, "", text)
	}
	switch {
	case err == nil:
	case text != "" && in.Offset+uint64(len(data)) == uint64(len(text)) && p.Begins(t.shown, text) && t.empty(h):
		t.beginnings.keep(h.node.id, text)
		return uint32(len(data)), fuse.OK
	default:
		return 0, fuse.Status(t.deny(opWrite, &in.InHeader, h.node, "", perm.Checked, unix.EACCES, err.Error()))
	}
	grown, errno := t.quota.grow(h.node, h.fd, 0, int64(len(text)))
	if errno != 0 {
		return 0, fuse.Status(errno)
	}
	defer grown()
	if n, err := unix.Pwrite(h.fd, []byte(text), 0); err != nil {
		return 0, fuse.Status(errnoOf(err))
	} else if n != len(text) {
		return 0, fuse.EIO
	}
	return uint32(len(data)), fuse.OK
}

// once returns the text of the file h after a write of data: data itself, or data behind the
// beginning that h has, or behind the first line of h, if that does not end.
func (t *tree) once(in *fuse.WriteIn, h *handle, data []byte) (string, error) {
	before := t.beginnings.take(h.node.id)
	if !t.empty(h) {
		buf := make([]byte, maxOnce)
		n, err := unix.Pread(h.fd, buf, 0)
		if err != nil {
			return "", err
		}
		before = string(buf[:n])
	} else if in.Offset == 0 {
		before = ""
	}
	if in.Offset != uint64(len(before)) || len(before)+len(data) > maxOnce || before != "" && before[len(before)-1] == '\n' {
		return "", errors.New("it is written in one piece, once")
	}
	return before + string(data), nil
}

// empty reports whether the file h is empty.
func (t *tree) empty(h *handle) bool {
	var st unix.Stat_t
	return unix.Fstat(h.fd, &st) == nil && st.Size == 0
}
