// Package programs finds the programs that wolffia starts: in its own file, else beside it.
//
// The released wolffia carries its companions (guest, shim, tree server, puller, keeper) behind
// its own end: see [Pack]. A wolffia that carries them uses no others, so that an old one beside
// it, or one in PATH that another user has put there, is never executed. A wolffia without them,
// as go build makes it, looks beside itself, then in PATH.
//
// What a wolffia carries belongs to its file and not to the process that reads it: a library,
// or a service whose wolffia has been replaced meanwhile, gets the companions of the wolffia
// that it starts.
//
// A companion has to be a file to be executed, or mounted in a sandbox. It is unpacked once
// into programs/BUILD/NAME below the state directory, which no sandbox can show, and which
// only the user writes; where that cannot be done, into a sealed file in memory.
package programs

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"wolffia/internal/sys/hostpath"
	"wolffia/runtime"
)

// Serve is the program that wolffia becomes for the commands that serve.
const Serve = "wolffia-serve"

// The names of the programs that starts need.
const (
	Guest = "wolffia-guest" // PID 1 of a sandbox
	Box   = "wolffia-box"   // its shim
	Net   = "wolffia-net"   // its shim, if names filter its network
	Tree  = "wolffia-tree"  // its tree server
	OCI   = "wolffia-oci"   // works on images
)

// OwnersArg is the argument of OCI to fill a layer of an image with files of several owners.
const OwnersArg = "owners"

// A Set is a wolffia and its companions. It is safe for concurrent use.
type Set struct {
	// Wolffia is open for reading.
	Wolffia *os.File

	path string // of Wolffia
	dir  string // the state directory
	index
}

// Open opens the wolffia at path. Companions that it carries are unpacked into the directory
// dir, which exists, once they are asked for. The caller closes the Set.
func Open(path, dir string) (*Set, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, runtime.Errorf(runtime.ErrUnavailable, "the wolffia program: %w", err)
	}
	s := &Set{Wolffia: f, path: path, dir: dir}
	if s.index, err = readIndex(f); err != nil {
		return nil, errors.Join(runtime.Errorf(runtime.ErrUnavailable, "the wolffia program %s is damaged (%w): install it again", path, err), f.Close())
	}
	return s, nil
}

// Close closes the Set. Programs that it has returned stay open.
func (s *Set) Close() error { return s.Wolffia.Close() }

// A Program is a companion, open for reading. The caller closes it.
type Program struct {
	*os.File
	// Path is absolute, or empty if the program is in memory only.
	Path string
	// Reason says why a program that is carried is in memory; else nil.
	Reason error
}

// ExecPath returns a path at which this process, and a child that has the descriptor under
// the same number, can execute the program.
func (p *Program) ExecPath() string {
	if p.Path != "" {
		return p.Path
	}
	return "/proc/self/fd/" + strconv.Itoa(int(p.Fd()))
}

// Carries reports whether the file of wolffia has its companions in it.
func (s *Set) Carries() bool { return s.build != "" }

// Check returns the error that Program would return for a companion that does not exist.
func (s *Set) Check(name string) error {
	_, err := s.find(name)
	return err
}

// Program returns the companion of that name. ErrUnavailable: it does not exist.
func (s *Set) Program(name string) (*Program, error) {
	path, err := s.find(name)
	if err != nil {
		return nil, err
	}
	if path == "" {
		return s.unpacked(name)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, runtime.Errorf(runtime.ErrUnavailable, "%s: %w", name, err)
	}
	return &Program{File: f, Path: path}, nil
}

// find returns the absolute path of a companion; empty if it is carried.
func (s *Set) find(name string) (string, error) {
	if s.Carries() {
		if _, ok := s.entries[name]; !ok {
			return "", runtime.Errorf(runtime.ErrUnavailable, "%s does not carry %s: make build makes a wolffia that does", s.path, name)
		}
		return "", nil
	}
	path := filepath.Join(filepath.Dir(s.path), name)
	if _, err := os.Stat(path); err != nil {
		if path, err = hostpath.Look(name); err != nil {
			return "", runtime.Errorf(runtime.ErrUnavailable, "%s is neither in %s nor beside it nor in PATH: install the wolffia that make build makes, which carries it", name, s.path)
		}
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return "", runtime.WithClass(runtime.ErrUnavailable, err)
	}
	return path, nil
}

// The file of a wolffia that carries its companions ends with their contents, an index in
// JSON, the index's length, 8 bytes big endian, and magic.
const (
	magic    = "wolffia programs"
	tailSize = 8 + len(magic)
	maxIndex = 4096 - tailSize // bytes; so that one read has it all
)

// An index says what a file carries.
type index struct {
	build   string // the digest of the index, in hexadecimal; empty: nothing is carried
	entries map[string]entry
}

// An entry is where a program is in the file.
type entry struct {
	Offset int64  `json:"offset"`
	Stored int64  `json:"stored"` // bytes in the file
	Gzip   bool   `json:"gzip,omitempty"`
	Size   int64  `json:"size"` // bytes, not compressed
	SHA256 string `json:"sha256"`
}

// readIndex returns the index of a wolffia; the zero one if it carries nothing.
func readIndex(f *os.File) (index, error) {
	st, err := f.Stat()
	if err != nil {
		return index{}, err
	}
	start := max(0, st.Size()-int64(maxIndex+tailSize))
	b := make([]byte, st.Size()-start)
	if _, err := f.ReadAt(b, start); err != nil && !errors.Is(err, io.EOF) {
		return index{}, err
	}
	n := len(b) - tailSize
	if n < 0 || string(b[n+8:]) != magic {
		return index{}, nil
	}
	size := binary.BigEndian.Uint64(b[n:])
	if size > uint64(n) {
		return index{}, fmt.Errorf("an index of %d bytes", size)
	}
	b = b[n-int(size) : n]
	i := index{build: digest(b)}
	if err := json.Unmarshal(b, &i.entries); err != nil {
		return index{}, err
	}
	return i, nil
}
