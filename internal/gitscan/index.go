package gitscan

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"wolffia/internal/gitconfig"
)

const (
	maxIndex  = 256 << 20 // bytes of an index
	maxNames  = 64 << 20  // bytes of its paths, about a million; version 4 packs them
	maxName   = 4096      // bytes of one path
	statSize  = 40        // of an entry: times, device, inode, mode, owner, size
	extended  = 0x4000    // flag: two more bytes of flags
	checkSkip = 1 << 12   // entries between checks of the context
)

// An Entry is the entry of an index for one file.
type Entry struct {
	Path string // relative to the top of the working tree
	Mode uint32 // 0100644, 0100755, 0120000 for a link, or 0160000 for a submodule
	ID   []byte // of the object with its content; nil in an unresolved merge

	// Attributes of the file when git last read this content from it: times in
	// nanoseconds since 1970, and the low 32 bits of the inode number and of the size.
	// Zero if git has not read it.
	Ctime, Mtime int64
	Inode, Size  uint32
}

// Tracked returns the entries of the index of t for the paths that want accepts, sorted and each
// once. path is valid until want returns. A missing index has no entries; a damaged or too large
// one is an error.
//
// The format is that of gitformat-index(5), versions 2 to 4. The checksum is not
// verified. Directories of a sparse index are left out. Both parts of a split index are
// read; an entry whose content alone changed since the shared part was written has the
// content of the shared part.
func Tracked(ctx context.Context, t Tree, want func(path []byte) bool) ([]Entry, error) {
	hash := hashSize(t)
	entries, shared, err := readIndex(ctx, filepath.Join(t.Dir, "index"), hash, want)
	if err == nil && shared != "" {
		var more []Entry
		more, _, err = readIndex(ctx, filepath.Join(t.Dir, "sharedindex."+shared), hash, want)
		entries = append(entries, more...)
	}
	if err != nil {
		return nil, fmt.Errorf("index in %q: %w", t.Dir, err)
	}
	slices.SortStableFunc(entries, func(a, b Entry) int { return cmp.Compare(a.Path, b.Path) })
	return slices.CompactFunc(entries, func(a, b Entry) bool { return a.Path == b.Path }), nil
}

// hashSize returns the number of bytes of an object's id in the repository of t: 20 for
// SHA-1, 32 for SHA-256.
func hashSize(t Tree) int {
	text, err := readRegular(filepath.Join(t.Common, "config"))
	if err != nil {
		return sha1.Size
	}
	settings, _ := gitconfig.Parse(string(text))
	for _, s := range settings {
		if s.Section() == "extensions" && s.Key() == "objectformat" && gitconfig.Lower(s.Value) == "sha256" {
			return sha256.Size
		}
	}
	return sha1.Size
}

// readIndex reads an index file; a missing file has no entries.
func readIndex(ctx context.Context, path string, hash int, want func([]byte) bool) (entries []Entry, shared string, err error) {
	f, err := openRegular(path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
		return nil, "", nil
	}
	if err != nil {
		return nil, "", err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, "", err
	}
	if info.Size() > maxIndex {
		return nil, "", errIndexSize
	}
	r := indexReader{hash: hash, want: want, r: bufio.NewReaderSize(io.LimitReader(f, maxIndex), 64<<10)}
	return r.read(ctx)
}

var (
	errIndex     = errors.New("damaged")
	errIndexSize = errors.New("too large")
)

// An indexReader parses one index.
type indexReader struct {
	r    *bufio.Reader
	hash int // bytes of an object id
	want func(path []byte) bool
	err  error
	buf  []byte
	id   [sha256.Size]byte
}

// read returns the entries that want accepts, and the id of the shared index that this
// one extends, or "".
func (x *indexReader) read(ctx context.Context) (entries []Entry, shared string, err error) {
	head := x.bytes(12)
	if x.err != nil || string(head[:4]) != "DIRC" {
		return nil, "", errIndex
	}
	version := binary.BigEndian.Uint32(head[4:])
	count := binary.BigEndian.Uint32(head[8:])
	if version < 2 || version > 4 {
		return nil, "", fmt.Errorf("unknown version %d", version)
	}
	var name []byte
	var e Entry
	total := 0
	for i := range count {
		if i%checkSkip == 0 && ctx.Err() != nil {
			return nil, "", ctx.Err()
		}
		var stage int
		name, stage = x.entry(version, name, &e)
		if x.err != nil {
			return nil, "", x.err
		}
		if total += len(name); total > maxNames {
			return nil, "", errIndexSize
		}
		// Without a name it replaces an entry of the shared index.
		if len(name) == 0 || name[len(name)-1] == '/' || !x.want(name) {
			continue
		}
		if stage > 0 {
			entries = append(entries, Entry{Path: string(name), Mode: e.Mode})
			continue
		}
		e.Path, e.ID = string(name), slices.Clone(e.ID)
		entries = append(entries, e)
	}
	return entries, x.link(), nil
}

// entry reads an entry into e, but for its path. It returns the path, which may reuse
// prev, and the stage, which is 0 outside of a merge. e.ID is valid until the next call.
func (x *indexReader) entry(version uint32, prev []byte, e *Entry) (name []byte, stage int) {
	size := statSize + x.hash + 2
	head := x.bytes(size)
	if x.err != nil {
		return nil, 0
	}
	field := func(i int) uint32 { return binary.BigEndian.Uint32(head[4*i:]) }
	e.Ctime = int64(field(0))*1e9 + int64(field(1))
	e.Mtime = int64(field(2))*1e9 + int64(field(3))
	e.Inode, e.Mode, e.Size = field(5), field(6), field(9)
	e.ID = append(x.id[:0], head[statSize:statSize+x.hash]...)
	flags := binary.BigEndian.Uint16(head[size-2:])
	if flags&extended != 0 && version >= 3 {
		x.bytes(2)
		size += 2
	}
	name = prev[:0]
	if version == 4 {
		cut := x.varint()
		if x.err != nil || cut > uint64(len(prev)) {
			x.err = errIndex
			return nil, 0
		}
		name = prev[:len(prev)-int(cut)]
	}
	for {
		c, err := x.r.ReadByte()
		if err != nil || len(name) > maxName {
			x.err = errIndex
			return nil, 0
		}
		if c == 0 {
			break
		}
		name = append(name, c)
	}
	if version < 4 { // up to a multiple of eight, with at least one NUL
		size += len(name)
		x.bytes(8 - size%8 - 1)
	}
	return name, int(flags >> 12 & 3)
}

// varint reads a number in the encoding of the offsets in packs; gitformat-pack(5).
func (x *indexReader) varint() uint64 {
	var n uint64
	for i := range 5 {
		c, err := x.r.ReadByte()
		if err != nil {
			x.err = errIndex
			return 0
		}
		if i > 0 {
			n++
		}
		n = n<<7 | uint64(c&0x7f)
		if c&0x80 == 0 {
			return n
		}
	}
	x.err = errIndex
	return 0
}

// link returns the id of the shared index, or "", from the extensions, which lie between
// the entries and the checksum.
func (x *indexReader) link() string {
	for {
		head, err := x.r.Peek(8 + x.hash)
		if err != nil {
			return ""
		}
		size := int(binary.BigEndian.Uint32(head[4:]))
		if string(head[:4]) == "link" && size >= x.hash {
			id := head[8:]
			if bytes.Count(id, []byte{0}) == len(id) {
				return ""
			}
			return hex.EncodeToString(id)
		}
		if _, err := x.r.Discard(8 + size); err != nil {
			return ""
		}
	}
}

// bytes reads n bytes, which are valid until the next call.
func (x *indexReader) bytes(n int) []byte {
	x.buf = slices.Grow(x.buf[:0], n)[:n]
	if x.err == nil {
		if _, err := io.ReadFull(x.r, x.buf); err != nil {
			x.err = errIndex
		}
	}
	return x.buf
}
