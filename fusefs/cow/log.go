package cow

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// A Record describes the host's object at a path, when the upper layer first hid it or after a
// later Rebase. The zero Type says that the host had none.
type Record struct {
	Path   string // from the codebase's root; arbitrary bytes
	Type   uint32 // S_IFREG and so on (stat(2))
	Mode   uint32 // permissions, 07777
	Ino    uint64
	Size   int64
	Mtime  int64  // nanoseconds since 1970, as Ctime and Btime
	Ctime  int64  //
	Btime  int64  // when the inode was made; 0 if the file system does not tell, and of a directory
	Links  uint32 // names of the inode; 0 of a directory
	Digest string // of a regular file's content, as of Digest; empty if not known

	Applied bool // the record is Rebase's: the upper layer's object was applied
}

// perms is that of an object with the record.
func (r *Record) perms() uint32 { return permsOf(r.Type, r.Mode) }

// RecordOf returns the record of the host's object st at path.
func RecordOf(path string, st *unix.Statx_t) Record {
	r := Record{
		Path: path, Type: uint32(st.Mode) & unix.S_IFMT, Mode: uint32(st.Mode) & 0o7777, Ino: st.Ino, Size: int64(st.Size),
		Mtime: nanoseconds(st.Mtime), Ctime: nanoseconds(st.Ctime),
	}
	if r.Type != unix.S_IFDIR {
		r.Btime, r.Links = nanoseconds(st.Btime), st.Nlink
	}
	return r
}

// A line is a record in the log.
type line struct {
	Path   string `json:"path,omitempty"`
	Path64 []byte `json:"path64,omitempty"` // if the path is not UTF-8
	Type   uint32 `json:"type,omitempty"`
	Mode   uint32 `json:"mode,omitempty"`
	Ino    uint64 `json:"ino,omitempty"`
	Size   int64  `json:"size,omitempty"`
	Mtime  int64  `json:"mtime,omitempty"`
	Ctime  int64  `json:"ctime,omitempty"`
	Btime  int64  `json:"btime,omitempty"`
	Links  uint32 `json:"links,omitempty"`
	Digest string `json:"digest,omitempty"`
	Is     string `json:"is,omitempty"`
}

// Values of line.Is: without one, the first line of a path counts.
const (
	isHost   = "host"   // replaces the record: the host's present object is known
	isMoved  = "moved"  // replaces the record: the host's object was at another path, or is looked at again
	isNobody = "nobody" // forgets the record: the upper layer does not hide the path any more
)

// Bounds of a log. Each name in the upper layer has about one line.
const (
	maxLine    = 64 << 10 // bytes; a path of PATH_MAX bytes is less in any notation
	maxRecords = 4 << 20
)

// Room after the end of the log, in bytes. What Apply and Discard write finds it there when the
// disk is full; Add keeps it.
const (
	logReserve = 128 << 10
	logChunk   = 64 << 10 // is reserved at a time
)

// A Log is the record of what the host had. It is safe for concurrent use by one process; the
// sandbox's lock keeps others away.
type Log struct {
	mu    sync.Mutex
	f     *os.File
	end   int64               // where the next line goes; guarded by mu
	known map[uint64]struct{} // hashes of paths with a record; guarded by mu
	room  int64               // the file system keeps room up to there; guarded by mu
	seed  maphash.Seed

	syncMu sync.Mutex
	synced int64 // all before it is on the disk; guarded by syncMu
}

// OpenLog opens the log in the regular file f, which it owns from then on. It cuts a torn last
// line off. An equal hash of two paths, of 64 bits with a random seed, loses a record, which shows
// as a conflict.
func OpenLog(f *os.File) (*Log, error) {
	l := &Log{f: f, known: map[uint64]struct{}{}, seed: maphash.MakeSeed()}
	end, err := readLog(f, func(r Record, is string) error {
		if is == isNobody {
			delete(l.known, maphash.String(l.seed, r.Path))
		} else {
			l.known[maphash.String(l.seed, r.Path)] = struct{}{}
		}
		return nil
	})
	var st os.FileInfo
	if err == nil {
		st, err = f.Stat()
	}
	if err == nil && st.Size() != end { // else the room after the end stays
		err = f.Truncate(end)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	l.end = end
	_ = l.reserve(end + logReserve) // else Add tries again
	return l, nil
}

// Close closes the file.
func (l *Log) Close() error { return l.f.Close() }

// Has reports whether the path has a record, so that Add would do nothing.
func (l *Log) Has(path string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, ok := l.known[maphash.String(l.seed, path)]
	return ok
}

// Add writes the record of a path that has none. Call it, and Sync, before the upper layer first
// hides the path, and not for a path that it hides already. A change without a record is always in
// conflict.
func (l *Log) Add(r Record) error { return l.append(r, "") }

// Rebase replaces the record of a path: what the upper layer has there was applied to the host.
func (l *Log) Rebase(r Record) error { return l.append(r, isHost) }

// put replaces the record of a path by the record of another path.
func (l *Log) put(r Record) error {
	if r.Applied {
		return l.append(r, isHost)
	}
	return l.append(r, isMoved)
}

// Forget removes the record of a path that the upper layer does not hide any more.
func (l *Log) Forget(path string) error { return l.append(Record{Path: path}, isNobody) }

func (l *Log) append(r Record, is string) error {
	n := line{Type: r.Type, Mode: r.Mode, Ino: r.Ino, Size: r.Size, Mtime: r.Mtime, Ctime: r.Ctime, Btime: r.Btime, Links: r.Links, Digest: r.Digest, Is: is}
	n.Path, n.Path64 = text(r.Path)
	b, err := json.Marshal(&n)
	if err != nil {
		return err
	}
	b = append(b, '\n')
	l.mu.Lock()
	defer l.mu.Unlock()
	h := maphash.String(l.seed, r.Path)
	_, known := l.known[h]
	switch {
	case is == "" && known, is == isNobody && !known:
		return nil
	case len(l.known) >= maxRecords && !known:
		return unix.EDQUOT
	}
	if is == "" {
		if err := l.reserve(l.end + int64(len(b)) + logReserve); err != nil {
			return fmt.Errorf("write the log of originals: %w", err)
		}
	}
	if _, err := l.f.WriteAt(b, l.end); err != nil {
		return fmt.Errorf("write the log of originals: %w", err) // a part of the line is overwritten by the next
	}
	l.end += int64(len(b))
	if is == isNobody {
		delete(l.known, h)
	} else {
		l.known[h] = struct{}{}
	}
	return nil
}

// reserve has the file system keep room up to an offset. The caller holds mu, or has the only
// reference.
func (l *Log) reserve(end int64) error {
	if end <= l.room {
		return nil
	}
	end += logChunk
	if err := keepRoom(l.f, l.end, end-l.end); err != nil {
		return err
	}
	l.room = end
	return nil
}

// keepRoom makes the file system reserve size bytes of a file from an offset on. The file's size
// does not change. The error is ENOSPC or EDQUOT. A file system that cannot reserve space reserves
// none.
func keepRoom(f *os.File, offset, size int64) error {
	for {
		err := unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, offset, size)
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
			return err
		default:
			return nil
		}
	}
}

// Sync returns when all that was added before is on the disk (fdatasync(2)). Callers at the same
// time share one flush.
func (l *Log) Sync() error {
	l.mu.Lock()
	want := l.end
	l.mu.Unlock()
	l.syncMu.Lock()
	defer l.syncMu.Unlock()
	if l.synced >= want {
		return nil
	}
	l.mu.Lock()
	end := l.end
	l.mu.Unlock()
	if err := unix.Fdatasync(int(l.f.Fd())); err != nil {
		return fmt.Errorf("flush the log of originals: %w", err)
	}
	l.synced = end
	return nil
}

// Records returns the records that count by path.
func (l *Log) Records() (map[string]Record, error) {
	l.mu.Lock()
	end := l.end
	l.mu.Unlock()
	return readRecords(io.NewSectionReader(l.f, 0, end))
}

func readRecords(r io.ReaderAt) (map[string]Record, error) {
	records := map[string]Record{}
	_, err := readLog(r, func(r Record, is string) error {
		switch _, known := records[r.Path]; {
		case is == isNobody:
			delete(records, r.Path)
		case is != "" || !known:
			if !known && len(records) >= maxRecords {
				return errors.New("the log of originals has too many paths")
			}
			records[r.Path] = r
		}
		return nil
	})
	return records, err
}

// readLog calls f for each line, and returns the end of the last whole one. It skips text that is
// not a line: a power cut leaves zeros and parts of lines, of paths that the upper layer did not
// hide yet.
func readLog(r io.ReaderAt, f func(r Record, is string) error) (end int64, err error) {
	b := bufio.NewReaderSize(io.NewSectionReader(r, 0, 1<<62), maxLine)
	for pos := int64(0); ; {
		text, err := b.ReadSlice('\n')
		pos += int64(len(text))
		switch {
		case err == io.EOF:
			return end, nil // a crash has torn the rest
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil:
			return 0, fmt.Errorf("read the log of originals: %w", err)
		}
		end = pos
		var l line
		if json.Unmarshal(text, &l) != nil {
			continue
		}
		if l.Path64 != nil {
			l.Path = string(l.Path64)
		}
		if l.Path != "" && !ValidPath(l.Path) {
			continue
		}
		rec := Record{Path: l.Path, Type: l.Type, Mode: l.Mode, Ino: l.Ino, Size: l.Size, Mtime: l.Mtime, Ctime: l.Ctime, Btime: l.Btime, Links: l.Links, Digest: l.Digest, Applied: l.Is == isHost}
		if err := f(rec, l.Is); err != nil {
			return 0, err
		}
	}
}
