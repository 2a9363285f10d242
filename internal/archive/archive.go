// Package archive moves files across the boundary of a sandbox. Pack and Unpack move a
// tree, as a tar stream in the PAX format; Get and Put move the content of one file.
// Unpack does not trust the sender: it accepts only what Pack writes, and creates
// nothing but the one tree it was asked for.
//
//	err := archive.Pack(w, "/workspace/out")        // in the sandbox
//	err := archive.Unpack(r, "/home/ann/out", &archive.Options{Umask: proc.Umask()})  // on the host
//
// A stream holds one tree, the parent before its children and the names in each
// directory in ascending order of their bytes:
//
//	top/  top/a  top/b/  top/b/x  top/c
//
// So the receiver needs to remember only the directories it is in. It reaches
// them by descriptors, one name at a time and following no symbolic link, and
// every name can come only once.
//
// The owner, extended attributes, hard links, holes and the setuid, setgid and
// sticky bits are not kept.
package archive

import (
	"crypto/rand"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	// DefaultMaxEntries is the number of entries that Unpack takes.
	DefaultMaxEntries = 1_000_000

	// MaxDepth is the number of directories above a file in a stream, with the
	// top. Both ends hold a descriptor for each.
	MaxDepth = 500

	maxName    = 255 // bytes in one component
	permission = 0o777
	bufferSize = 256 << 10
)

var (
	// ErrInvalid is wrapped by the error for a stream that is damaged,
	// incomplete, or holds what Pack does not write.
	ErrInvalid = errors.New("invalid archive")

	// ErrTooLarge is wrapped by the error for a stream beyond the Options.
	ErrTooLarge = errors.New("archive too large")

	// ErrKind is wrapped by the error for a file that is neither a regular
	// file, nor a directory, nor a symbolic link.
	ErrKind = errors.New("not a regular file, directory or symbolic link")
)

// tempPrefix begins the names of files that are not complete yet.
const tempPrefix = ".wolffia-"

// tempName returns a name that no other file has.
func tempName() string { return tempPrefix + rand.Text() }

// tempLength is the length of a random text, in bytes.
const tempLength = 26

// IsTemporary reports whether name is one that this package gives to files that are not complete
// yet.
func IsTemporary(name string) bool {
	text, ok := strings.CutPrefix(name, tempPrefix)
	return ok && len(text) == tempLength && strings.Trim(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") == ""
}

// split checks the name of an entry and returns its components; dir reports whether it
// ends in a slash.
func split(name string) (parts []string, dir bool, err error) {
	path, dir := strings.CutSuffix(name, "/")
	if strings.Count(path, "/") >= MaxDepth {
		return nil, dir, fmt.Errorf("%w: %.100q...: deeper than %d", ErrInvalid, name, MaxDepth)
	}
	parts = strings.Split(path, "/")
	for _, p := range parts {
		if p == "" || p == "." || p == ".." || len(p) > maxName || strings.IndexByte(p, 0) >= 0 {
			return nil, dir, fmt.Errorf("%w: name %.300q", ErrInvalid, name)
		}
	}
	return parts, dir, nil
}

// again calls f until no signal interrupts it; on FUSE the Go scheduler's own signals
// interrupt calls.
func again(f func() error) error {
	for {
		if err := f(); err != unix.EINTR {
			return err
		}
	}
}

// openat opens name in the directory dir; a symbolic link is an error.
func openat(dir int, name string, flags int, mode uint32) (fd int, err error) {
	err = again(func() error {
		fd, err = unix.Openat(dir, name, flags|unix.O_NOFOLLOW|unix.O_CLOEXEC, mode)
		return err
	})
	return fd, err
}
