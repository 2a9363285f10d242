package gitsync

import (
	"bytes"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io/fs"
)

var errEntries = errors.New("an index that is damaged, split, or of a version that is not known")

// entries identifies what an index of a git directory has: paths, modes, objects, stages and flags,
// but not the times and numbers of files, which each git status renews. Objects have names of size
// bytes. "" is an index that does not exist. The format is that of gitformat-index(5), versions 2
// to 4.
func (t tree) entries(size int) (string, error) {
	b, err := t.read("index", maxIndex)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return entriesOf(b, size)
}

// indexOf returns entriesOf for the repository of t, or unsettled.
func indexOf(b []byte, t table) string {
	got, err := entriesOf(b, t.nameSize())
	if err != nil {
		return unsettled
	}
	return got
}

// nameSize returns how many bytes the names of objects have.
func (t table) nameSize() int {
	for _, at := range t.Refs {
		return len(at) / 2
	}
	return sha1.Size
}

func entriesOf(b []byte, size int) (string, error) {
	const header, stat = 12, 40
	if len(b) < header+size || string(b[:4]) != "DIRC" {
		return "", errEntries
	}
	version, count := binary.BigEndian.Uint32(b[4:]), binary.BigEndian.Uint32(b[8:])
	if version < 2 || version > 4 {
		return "", errEntries
	}
	rest, end := b[header:], len(b)-size // the checksum
	h := sha256.New()
	var name []byte
	for range count {
		begin := rest
		const mode = 24
		fixed := stat + size + 2
		if len(rest) < fixed+2 {
			return "", errEntries
		}
		if binary.BigEndian.Uint16(rest[stat+size:])&0x4000 != 0 {
			fixed += 2 // more flags
		}
		_, _ = h.Write(rest[mode : mode+4])
		_, _ = h.Write(rest[stat : stat+size])
		flags := binary.BigEndian.Uint16(rest[stat+size:]) &^ 0xfff // without the length of the name
		_ = binary.Write(h, binary.BigEndian, flags)
		_, _ = h.Write(rest[stat+size+2 : fixed])
		rest = rest[fixed:]
		if version == 4 {
			cut, n := offset(rest)
			if n == 0 || cut > uint64(len(name)) {
				return "", errEntries
			}
			name, rest = name[:len(name)-int(cut)], rest[n:]
		} else {
			name = name[:0]
		}
		length := bytes.IndexByte(rest, 0)
		if length < 0 {
			return "", errEntries
		}
		name = append(name, rest[:length]...)
		_, _ = h.Write(name)
		_, _ = h.Write([]byte{0})
		if rest = rest[length+1:]; version < 4 {
			used := len(begin) - len(rest)
			pad := (8 - used%8) % 8
			if len(rest) < pad {
				return "", errEntries
			}
			rest = rest[pad:]
		}
	}
	for at := len(b) - len(rest); at+8 <= end; {
		if string(b[at:at+4]) == "link" {
			return "", errEntries
		}
		at += 8 + int(binary.BigEndian.Uint32(b[at+4:]))
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// offset reads a number as of version 4, and returns how many bytes it has; 0: it is not complete.
func offset(b []byte) (v uint64, n int) {
	for n < len(b) && n < 9 {
		c := b[n]
		if n++; n > 1 {
			v++
		}
		if v = v<<7 | uint64(c&0x7f); c&0x80 == 0 {
			return v, n
		}
	}
	return 0, 0
}
