// Package gitindex reads git's index.
//
// It adds what git would find out by looking at each file of the working tree.
//
// The format is that of gitformat-index(5), versions 2 to 4. Checksums are not verified.
package gitindex

import (
	"bytes"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
)

const (
	headerSize = 12
	statSize   = 40   // of an entry: times, device, inode, mode, owner, size
	maxName    = 4096 // bytes of one path
	maxNames   = 64 << 20

	flagExtended = 0x4000 // two more bytes of flags
	flagStage    = 0x3000 // of an unresolved merge
	longName     = 0xfff  // the other flags: the size of the name, or this if it is longer
	moreIntent   = 0x2000 // of the second flags: git add --intent-to-add
	moreSkip     = 0x4000 // git sparse-checkout

	modeType = 0o170000
	modeLink = 0o160000 // a submodule
)

// MaxSize is the largest index that Parse accepts, in bytes.
const MaxSize = 1 << 30

// ErrDamaged is the error for data that is not an index.
var ErrDamaged = errors.New("the index is damaged")

// A Stat has the attributes of a file when git last read its content, or of a directory when git
// last listed it: the low 32 bits of each. Zero if git has not.
type Stat struct {
	CtimeSec, CtimeNsec, MtimeSec, MtimeNsec, Dev, Ino, Mode, UID, GID, Size uint32
}

// An Index is a parsed index. It is not changed, and so safe for concurrent use.
type Index struct {
	Version int

	data    []byte
	names   []byte // has the paths, each ended by a NUL; data, but in version 4
	hash    int    // bytes of an object's name
	entries []entry
	ends    int // where the entries end
	parts   []part
}

type entry struct {
	stat, name  uint32 // offsets in data and names
	size        uint16 // of the name
	flags, more uint16
}

// A part is an extension.
type part struct {
	signature  string
	begin, end int // of its data
}

// Parse parses an index. It keeps data, which must not be changed. An error is ErrDamaged, or
// names the unknown version.
func Parse(data []byte) (x *Index, err error) {
	for _, hash := range []int{sha1.Size, sha256.Size} { // the index does not say which
		if x, err = parse(data, hash); err == nil {
			return x, nil
		}
	}
	return nil, err
}

func parse(data []byte, hash int) (*Index, error) {
	if len(data) < headerSize+hash || len(data) > MaxSize || string(data[:4]) != "DIRC" {
		return nil, ErrDamaged
	}
	x := &Index{Version: int(binary.BigEndian.Uint32(data[4:])), data: data, names: data, hash: hash}
	if x.Version < 2 || x.Version > 4 {
		return nil, fmt.Errorf("the index has the unknown version %d", x.Version)
	}
	if x.Version == 4 {
		x.names = nil
	}
	count := int(binary.BigEndian.Uint32(data[8:]))
	end := len(data) - hash
	if count > end/(statSize+hash) {
		return nil, ErrDamaged
	}
	x.entries = make([]entry, 0, count)
	at := headerSize
	for range count {
		next, ok := x.entry(at, end)
		if !ok {
			return nil, ErrDamaged
		}
		at = next
	}
	x.ends = at
	for at+8 <= end {
		size := int(binary.BigEndian.Uint32(data[at+4:]))
		if size > end-at-8 {
			return nil, ErrDamaged
		}
		x.parts = append(x.parts, part{string(data[at : at+4]), at + 8, at + 8 + size})
		at += 8 + size
	}
	if at != end {
		return nil, ErrDamaged
	}
	return x, nil
}

// entry parses the entry at an offset, and returns where the next one begins. end is where the
// checksum begins.
func (x *Index) entry(at, end int) (next int, ok bool) {
	fixed := statSize + x.hash + 2
	if end-at < fixed {
		return 0, false
	}
	e := entry{stat: uint32(at), flags: binary.BigEndian.Uint16(x.data[at+fixed-2:])}
	if e.flags&flagExtended != 0 {
		if x.Version < 3 || end-at < fixed+2 {
			return 0, false
		}
		e.more = binary.BigEndian.Uint16(x.data[at+fixed:])
		fixed += 2
	}
	rest := x.data[at+fixed : end]
	var prefix []byte
	from := at + fixed
	if x.Version == 4 {
		cut, n := varint(rest)
		var before []byte
		if len(x.entries) > 0 {
			before = x.Name(len(x.entries) - 1)
		}
		if n == 0 || cut > uint64(len(before)) {
			return 0, false
		}
		prefix, rest, from = before[:len(before)-int(cut)], rest[n:], from+n
	}
	size := bytes.IndexByte(rest[:min(len(rest), maxName+1)], 0)
	if size < 0 || len(prefix)+size > maxName || min(len(prefix)+size, longName) != int(e.flags&longName) {
		return 0, false
	}
	next = from + size + 1
	e.size, e.name = uint16(len(prefix)+size), uint32(from)
	if x.Version == 4 {
		if len(x.names) > maxNames {
			return 0, false
		}
		e.name = uint32(len(x.names))
		x.names = append(append(x.names, prefix...), rest[:size+1]...)
	} else { // up to a multiple of eight, with at least one NUL
		next = at + (fixed+size)/8*8 + 8
	}
	x.entries = append(x.entries, e)
	return next, next <= end
}

// varint reads a number in the encoding of the offsets in packs; gitformat-pack(5). It returns
// how many bytes it has, 0 if it is damaged.
func varint(b []byte) (v uint64, n int) {
	for n < len(b) && n < 9 {
		c := b[n]
		if n > 0 {
			v++
		}
		v = v<<7 | uint64(c&0x7f)
		n++
		if c&0x80 == 0 {
			return v, n
		}
	}
	return 0, 0
}

// appendVarint is the reverse of varint.
func appendVarint(b []byte, v uint64) []byte {
	var text [10]byte
	i := len(text) - 1
	text[i] = byte(v & 0x7f)
	for v >>= 7; v != 0; v >>= 7 {
		v--
		i--
		text[i] = 0x80 | byte(v&0x7f)
	}
	return append(b, text[i:]...)
}

// Len returns the number of entries, which are sorted by name and stage.
func (x *Index) Len() int { return len(x.entries) }

// Name returns the path of entry i, from the top of the working tree; a NUL follows in its
// capacity. The caller must not change it.
func (x *Index) Name(i int) []byte {
	e := &x.entries[i]
	return x.names[e.name : e.name+uint32(e.size)]
}

// ID returns the name of the object that is entry i's content. The caller must not change it.
func (x *Index) ID(i int) []byte {
	at := int(x.entries[i].stat) + statSize
	return x.data[at : at+x.hash]
}

// Stat returns the attributes of entry i.
func (x *Index) Stat(i int) Stat { return statOf(x.data[x.entries[i].stat:], true) }

// Stage returns 0, or 1 to 3 in an unresolved merge.
func (x *Index) Stage(i int) int { return int(x.entries[i].flags & flagStage >> 12) }

// Plain reports whether the attributes of entry i alone tell if its content is unchanged: it is a
// file or a link that git has read, of no unresolved merge.
func (x *Index) Plain(i int) bool {
	e := &x.entries[i]
	mode := binary.BigEndian.Uint32(x.data[e.stat+24:])
	return e.flags&flagStage == 0 && e.more&moreIntent == 0 && mode&modeType != modeLink && e.size > 0 &&
		x.names[e.name+uint32(e.size)-1] != '/'
}

// Absent reports whether entry i is not to be in the working tree, so that git does not look there.
func (x *Index) Absent(i int) bool { return x.entries[i].more&moreSkip != 0 }

// Raw returns the bytes of entry i before its name, in the format of version 2.
func (x *Index) Raw(i int) []byte {
	e := &x.entries[i]
	size := uint32(statSize + x.hash + 2)
	if e.flags&flagExtended != 0 {
		size += 2
	}
	return x.data[e.stat : e.stat+size]
}

// AppendContent appends the parts of entry i without its file's attributes, for a comparison:
// mode, object, stage and flags.
func (x *Index) AppendContent(b []byte, i int) []byte {
	e := &x.entries[i]
	b = append(b, x.data[e.stat+24:e.stat+28]...)
	b = append(b, x.ID(i)...)
	b = binary.BigEndian.AppendUint16(b, e.flags&^longName)
	return binary.BigEndian.AppendUint16(b, e.more)
}

// Extension returns the data of an extension, and whether there is one.
func (x *Index) Extension(signature string) ([]byte, bool) {
	for _, p := range x.parts {
		if p.signature == signature {
			return x.data[p.begin:p.end], true
		}
	}
	return nil, false
}

// Shared returns the name of the shared index that this one extends, a split one
// (sharedindex.NAME beside it), or "".
func (x *Index) Shared() string {
	id, split := x.Extension("link")
	if !split || len(id) < x.hash || bytes.Count(id[:x.hash], []byte{0}) == x.hash {
		return ""
	}
	return hex.EncodeToString(id[:x.hash])
}

// Whole reports whether the index has an entry for each file: it is neither split nor sparse.
func (x *Index) Whole() bool {
	_, split := x.Extension("link")
	_, sparse := x.Extension("sdir")
	return !split && !sparse
}

// statOf decodes a Stat at the beginning of b; one of a directory has no mode.
func statOf(b []byte, mode bool) (s Stat) {
	next := func() uint32 {
		v := binary.BigEndian.Uint32(b)
		b = b[4:]
		return v
	}
	s = Stat{CtimeSec: next(), CtimeNsec: next(), MtimeSec: next(), MtimeNsec: next(), Dev: next(), Ino: next()}
	if mode {
		s.Mode = next()
	}
	s.UID, s.GID, s.Size = next(), next(), next()
	return s
}

// appendStat is the reverse of statOf for a directory.
func appendStat(b []byte, s *Stat) []byte {
	for _, v := range []uint32{s.CtimeSec, s.CtimeNsec, s.MtimeSec, s.MtimeNsec, s.Dev, s.Ino, s.UID, s.GID, s.Size} {
		b = binary.BigEndian.AppendUint32(b, v)
	}
	return b
}
