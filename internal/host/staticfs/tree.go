package staticfs

import (
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"wolffia/internal/sys/beneath"
)

// A tree is an open directory of the codebase.
type tree struct{ f *os.File }

// openTree opens a directory for listing; an empty name is dir itself.
func openTree(dir int, name string) (*tree, error) {
	if name == "" {
		name = "."
	}
	fd, err := beneath.Open(dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	return &tree{os.NewFile(uintptr(fd), name)}, nil
}

func (t *tree) close() { _ = t.f.Close() }

// entries implements directory. It returns one more than maxSeen at most.
func (t *tree) entries() ([]entry, error) {
	listed, err := t.f.ReadDir(maxSeen + 1)
	if err != nil && err != io.EOF { // which an empty directory returns
		return nil, err
	}
	all := make([]entry, 0, len(listed))
	for _, e := range listed {
		all = append(all, entry{e.Name(), objectOf(e.Type())})
	}
	return all, nil
}

func objectOf(mode fs.FileMode) object {
	switch mode.Type() {
	case fs.ModeDir:
		return folder
	case fs.ModeSymlink:
		return link
	case fs.ModeNamedPipe:
		return fifo
	case fs.ModeSocket:
		return socket
	}
	return file
}

// enter implements directory.
func (t *tree) enter(name string) (directory, error) {
	sub, err := openTree(int(t.f.Fd()), name)
	if err != nil {
		return nil, err
	}
	return sub, nil
}

// target implements directory.
func (t *tree) target(name string) (string, error) { return beneath.Readlink(int(t.f.Fd()), name) }
