package gitsync

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"wolffia/internal/git/gitindex"
	"wolffia/internal/sys/beneath"
)

var errSplit = errors.New("the index is split")

// entries identifies what an index of a git directory has: paths, modes, objects, stages and flags,
// but not the times and numbers of files, which each git status renews. "" is an index that does
// not exist.
func (t tree) entries() (string, error) {
	b, err := t.read("index", maxIndex)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return entriesOf(b)
}

// indexVersion returns what distinguishes one version of the index from others, as refreshScript
// prints it: the checksum at its end. "" is an index that does not exist, and "?" one that cannot
// be read. With index.skipHash git writes zeros as the checksum: all versions are then the same.
func (t tree) indexVersion() string {
	f, err := beneath.OpenFile(int(t.Fd()), "index")
	if errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	if err != nil {
		return "?"
	}
	defer f.Close()
	sum := make([]byte, 20)
	end, err := f.Seek(-int64(len(sum)), io.SeekEnd)
	if err == nil {
		_, err = f.ReadAt(sum, end)
	}
	if err != nil {
		return "?"
	}
	return fmt.Sprintf("% x", sum)
}

// indexOf returns entriesOf, or unsettled.
func indexOf(b []byte) string {
	got, err := entriesOf(b)
	if err != nil {
		return unsettled
	}
	return got
}

func entriesOf(b []byte) (string, error) {
	x, err := gitindex.Parse(b)
	if err != nil {
		return "", err
	}
	if _, split := x.Extension("link"); split {
		return "", errSplit
	}
	h := sha256.New()
	var content []byte
	for i := range x.Len() {
		name := x.Name(i)
		content = x.AppendContent(content[:0], i)
		_, _ = h.Write(content)
		_, _ = h.Write(name[:len(name)+1]) // with its NUL
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
