package gitscan

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

const (
	maxIndex  = 256 << 20 // bytes of an index, about two million paths
	maxNames  = 512 << 20 // bytes of its paths; version 4 packs them
	maxName   = 4096      // bytes of one path
	statSize  = 40        // of an entry: times, device, inode, mode, owner, size
	extended  = 0x4000    // flag: two more bytes of flags
	checkSkip = 1 << 12   // entries between looks at the context
)

// Tracked returns the paths that git tracks in the repository whose working
// tree is root, relative to it and sorted; a path that ends in a slash is a
// whole directory of a sparse index. Without a repository, or an index in it,
// there are none. A damaged or enormous index is an error.
//
// The format is that of gitformat-index(5), versions 2 to 4. Its checksum is
// not verified.
func Tracked(ctx context.Context, root string) ([]string, error) {
	dir := filepath.Join(root, ".git")
	if target, ok := pointer(dir); ok {
		dir = target
	}
	hash := 20
	if text, err := readRegular(filepath.Join(common(dir), "config")); err == nil {
		for _, s := range parseConfig(string(text)) {
			if s.section == "extensions" && s.key == "objectformat" && lower(s.value) == "sha256" {
				hash = 32
			}
		}
	}
	names, shared, err := readIndex(ctx, filepath.Join(dir, "index"), hash)
	if err == nil && shared != "" {
		var more []string
		more, _, err = readIndex(ctx, filepath.Join(dir, "sharedindex."+shared), hash)
		names = append(names, more...)
	}
	if err != nil {
		return nil, fmt.Errorf("index of %q: %w", root, err)
	}
	slices.Sort(names)
	return slices.Compact(names), nil // a conflict has up to three entries
}

// readIndex reads an index file. A file that is not there is empty.
func readIndex(ctx context.Context, path string, hash int) (names []string, shared string, err error) {
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
	r := indexReader{hash: hash, r: bufio.NewReaderSize(io.LimitReader(f, maxIndex), 64<<10)}
	return r.read(ctx)
}

var (
	errIndex     = errors.New("damaged")
	errIndexSize = errors.New("too large")
)

// An indexReader reads one index.
type indexReader struct {
	r    *bufio.Reader
	hash int // bytes of an object id
	err  error
	buf  []byte
}

// read returns the paths in the index, and the id of the shared index that it
// builds on, or "".
func (x *indexReader) read(ctx context.Context) (names []string, shared string, err error) {
	head := x.bytes(12)
	if x.err != nil || string(head[:4]) != "DIRC" {
		return nil, "", errIndex
	}
	version := binary.BigEndian.Uint32(head[4:])
	count := binary.BigEndian.Uint32(head[8:])
	if version < 2 || version > 4 {
		return nil, "", fmt.Errorf("version %d is not known", version)
	}
	var name []byte
	total := 0
	for i := range count {
		if i%checkSkip == 0 && ctx.Err() != nil {
			return nil, "", ctx.Err()
		}
		name = x.entry(version, name)
		if x.err != nil {
			return nil, "", x.err
		}
		if total += len(name); total > maxNames {
			return nil, "", errIndexSize
		}
		if len(name) > 0 { // without a name it replaces one of the shared index
			names = append(names, string(name))
		}
	}
	return names, x.link(), nil
}

// entry reads an entry and returns its path, which may reuse prev.
func (x *indexReader) entry(version uint32, prev []byte) []byte {
	size := statSize + x.hash + 2
	head := x.bytes(size)
	if x.err != nil {
		return nil
	}
	if binary.BigEndian.Uint16(head[size-2:])&extended != 0 && version >= 3 {
		x.bytes(2)
		size += 2
	}
	name := prev[:0]
	if version == 4 {
		cut := x.varint()
		if x.err != nil || cut > uint64(len(prev)) {
			x.err = errIndex
			return nil
		}
		name = prev[:len(prev)-int(cut)]
	}
	for {
		c, err := x.r.ReadByte()
		if err != nil || len(name) > maxName {
			x.err = errIndex
			return nil
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
	return name
}

// varint reads a number as in the offsets of packs; gitformat-pack(5).
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

// link looks in the extensions for the id of a shared index; what follows the
// entries and is not an extension is the checksum.
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

// bytes reads n bytes, which are good until the next call.
func (x *indexReader) bytes(n int) []byte {
	x.buf = slices.Grow(x.buf[:0], n)[:n]
	if x.err == nil {
		if _, err := io.ReadFull(x.r, x.buf); err != nil {
			x.err = errIndex
		}
	}
	return x.buf
}
