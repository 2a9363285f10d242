package cow

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// AttrGit of what the upper layer has as .git is what gitDigest returned of it when it was copied
// from the host.
const AttrGit = "user.wolffia.git"

// IsGit reports whether git takes the entry called name for a repository's directory, or for a
// link to one.
func IsGit(name string) bool { return strings.EqualFold(name, ".git") }

// MarkGit marks what the directory dir has, a .git that was copied from the host and is about to
// be moved to the upper layer: nothing of the host's shows in it, and it is no change as long as
// nothing in it is changed. dir may be open with O_PATH.
func MarkGit(dir int) error {
	root, err := (&Layers{Upper: dir}).readUpper()
	if err != nil {
		return err
	}
	for _, e := range root.children {
		if e.object.isLink() { // it cannot have attributes
			continue
		}
		at := procPath(dir) + "/" + e.name
		err := unix.Setxattr(at, AttrGit, []byte(gitDigest(e)), 0)
		if err == nil && e.object.isDir() {
			err = unix.Setxattr(at, AttrLower, nil, 0)
		}
		if err != nil {
			return fmt.Errorf("mark %s: %w", e.name, err)
		}
	}
	return nil
}

// gitChanged reports whether the sandbox has changed e, a .git in the upper layer's directory dir:
// anything but an index, which git status writes.
func gitChanged(dir int, e *entry) bool {
	if e.object.isLink() {
		return false // git has made none for years
	}
	var was [2 * sha256.Size]byte
	n, err := unix.Lgetxattr(procPath(dir)+"/"+e.name, AttrGit, was[:])
	return err != nil || string(was[:n]) != gitDigest(e)
}

// gitDigest tells states of a git directory apart, but for its indexes, by names, sizes and times.
func gitDigest(git *entry) string {
	var lines []string
	add := func(p string, e *entry) {
		line := fmt.Sprintf("%s\x00%o", p, e.object.typ())
		if e.object.isFile() {
			line += fmt.Sprintf(" %d %d", e.object.Size, e.object.mtime())
		}
		if e.name != "index" {
			lines = append(lines, line+"\x00")
		}
	}
	add("", git)
	git.each("", add)
	slices.Sort(lines)
	sum := sha256.Sum256([]byte(strings.Join(lines, "")))
	return hex.EncodeToString(sum[:])
}
