package gitcopy

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"wolffia/internal/sys/beneath"
)

// maxPacked bounds the bytes of a file packed-refs.
const maxPacked = 256 << 20

// ownRefs are the directories of refs that each working tree has for itself. They are never packed.
var ownRefs = []string{"bisect", "rewritten", "worktree"}

var objectName = regexp.MustCompile("^([0-9a-f]{40}|[0-9a-f]{64})$")

// refs copies the references: those of the working tree of its own git directory, the others of
// the common one. It packs references in files of their own, which can be thousands: packed ones
// are read faster, and one flush has them all on the disk. Like git, it reads the files first: git
// pack-refs on the host can move references to the packed ones meanwhile.
func (p *copying) refs(to int, git, common *os.File) error {
	loose := map[string]string{}
	refs, err := openDir(int(common.Fd()), "refs")
	if err != nil {
		return fmt.Errorf("refs: %w", err)
	}
	defer unix.Close(refs)
	err = p.looseRefs(to, refs, "refs", loose, 0)
	for _, name := range ownRefs {
		if err == nil {
			err = p.part(to, int(git.Fd()), "refs/"+name)
		}
	}
	if err != nil {
		return err
	}
	packed, err := beneath.ReadFile(int(common.Fd()), "packed-refs", maxPacked)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if p.bytes -= int64(len(packed)); p.bytes < 0 {
		return errLarge
	}
	if len(loose) > 0 {
		packed = packRefs(packed, loose)
	}
	if len(packed) == 0 {
		return nil
	}
	return p.put(to, "packed-refs", packed)
}

// looseRefs adds the references in the directory dir of the host, at the path at, to loose, and
// copies the files of those that are not the name of an object.
func (p *copying) looseRefs(to, dir int, at string, loose map[string]string, depth int) error {
	if depth > maxDepth {
		return errLarge
	}
	buf := make([]byte, 128)
	return eachEntry(dir, func(e os.DirEntry) error {
		name := at + "/" + e.Name()
		if p.names--; p.names < 0 {
			return errLarge
		}
		switch {
		case e.IsDir() && depth == 0 && slices.Contains(ownRefs, e.Name()), strings.HasSuffix(name, ".lock"):
			return nil
		case e.IsDir():
			fd, err := openDir(dir, e.Name())
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err != nil {
				return err
			}
			defer unix.Close(fd)
			return p.looseRefs(to, fd, name, loose, depth+1)
		case e.Type().IsRegular():
			fd, err := beneath.Open(dir, e.Name(), unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err != nil {
				return err
			}
			n, err := unix.Read(fd, buf)
			unix.Close(fd)
			if err != nil {
				return err
			}
			if text := strings.TrimRight(string(buf[:n]), "\n"); objectName.MatchString(text) {
				loose[name] = text
				return nil
			}
		}
		// A symbolic one, or a link.
		for end := range len(at) + 1 {
			if end == len(at) || at[end] == '/' {
				if err := unix.Mkdirat(to, at[:end], 0o755); err != nil && err != unix.EEXIST {
					return err
				}
			}
		}
		target, err := openDir(to, at)
		if err != nil {
			return err
		}
		defer unix.Close(target)
		return p.entry(target, dir, e.Name(), 0)
	})
}

// packRefs returns the content of a file packed-refs with other references, which go before those
// of the same names that it has.
func packRefs(packed []byte, others map[string]string) []byte {
	lines := make(map[string]string, len(others)) // without the names; with that of the object behind a tag in a second one
	header, last := "# pack-refs with: sorted \n", ""
	for line := range bytes.Lines(packed) {
		text := strings.TrimRight(string(line), "\n")
		switch at, name, is := strings.Cut(text, " "); {
		case strings.HasPrefix(text, "#"):
			header = string(line)
		case strings.HasPrefix(text, "^"):
			lines[last] += "\n" + text
		case is:
			last = name
			lines[name] = at + " " + name
		}
	}
	for name, at := range others {
		if !strings.HasPrefix(name, "refs/heads/") && !strings.HasPrefix(name, "refs/remotes/") {
			header = "# pack-refs with: sorted \n" // what a tag leads to is not known
		}
		lines[name] = at + " " + name
	}
	names := make([]string, 0, len(lines))
	for name := range lines {
		names = append(names, name)
	}
	slices.Sort(names)
	var b bytes.Buffer
	b.WriteString(header)
	for _, name := range names {
		if name != "" {
			b.WriteString(lines[name] + "\n")
		}
	}
	return b.Bytes()
}
