package gitsync

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"wolffia/internal/sys/beneath"
	"wolffia/internal/sys/statefile"
	"wolffia/runtime"
)

// maxRefs bounds the references of a repository.
const maxRefs = 1 << 20

// maxStashLog bounds the bytes of the list of stashes.
const maxStashLog = 64 << 20

// maxIndex bounds the bytes of an index.
const maxIndex = 1 << 30

// Begin records in the directory state, which it makes, the state of the private copy: the base of
// the first Sync. Call it after the copy is complete and before the sandbox can change it. It
// reads only the copy's files (HEAD, packed-refs, refs, logs/refs/stash, index): it runs no
// program and does not need the host's repository. It replaces an earlier base. The references of
// a linked working tree are those of the directory two levels above. The error is of class
// runtime.ErrInvalid if the copy cannot be synchronised, such as one with reftable.
func Begin(private, state string) error {
	dir, err := openTree(private)
	if err != nil {
		return err
	}
	defer dir.Close()
	common := dir
	if linked(dir) {
		if common, err = openTree(filepath.Join(private, "../..")); err != nil {
			return err
		}
		defer common.Close()
	}
	var st record
	if st.Base, err = dir.table(common); err != nil {
		return err
	}
	if st.Files, err = dir.files(nil); err != nil {
		return err
	}
	if st.Upstreams, err = common.upstreams(); err != nil {
		return err
	}
	list, _ := dir.stashes() // stashes that cannot be read count as none
	for _, s := range list {
		st.Stash = append(st.Stash, s.At)
	}
	if err := os.MkdirAll(state, 0o700); err != nil {
		return err
	}
	index, err := dir.read("index", maxIndex)
	switch {
	case err == nil:
		err = statefile.Write(filepath.Join(state, indexBase), statefile.Text(index))
		st.StagedUnknown, st.Index = true, indexOf(index)
	case errors.Is(err, fs.ErrNotExist):
		err = nil
	}
	if err != nil {
		return err
	}
	return (&Pair{State: state}).begin(&st)
}

// A tree is a directory whose content a sandbox may change at any time.
type tree struct{ *os.File }

// openPrivate opens the sandbox's git directory, or for a linked working tree that of the
// repository.
func (p *Pair) openPrivate(path string) (tree, error) {
	if p.Store == "" {
		return openTree(path)
	}
	store, err := openTree(p.Store)
	if err != nil {
		return tree{}, err
	}
	defer store.Close()
	rel, err := filepath.Rel(p.Store, path)
	if err != nil {
		return tree{}, err
	}
	fd, err := beneath.Open(int(store.Fd()), rel, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return tree{}, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return tree{os.NewFile(uintptr(fd), path)}, nil
}

func openTree(path string) (tree, error) {
	// No link leads there: a sandbox can change the parent directories.
	f, err := beneath.OpenPlain(path, unix.O_PATH|unix.O_DIRECTORY)
	return tree{f}, err
}

// read returns the content of a regular file of at most that many bytes.
func (t tree) read(name string, most int64) ([]byte, error) {
	b, err := beneath.ReadFile(int(t.Fd()), name, most)
	if failed, is := errors.AsType[*os.PathError](err); is {
		failed.Path = filepath.Join(t.Name(), name)
	}
	return b, err
}

// lstat returns the attributes of a name, which is not followed.
func (t tree) lstat(name string) (st unix.Stat_t, err error) {
	fd, err := beneath.Open(int(t.Fd()), name, unix.O_PATH|unix.O_NOFOLLOW, 0)
	if err != nil {
		return st, err
	}
	defer unix.Close(fd)
	return st, unix.Fstat(fd, &st)
}

// has reports whether a name exists.
func (t tree) has(name string) bool {
	_, err := t.lstat(name)
	return err == nil
}

// list calls do for each directory below and with name, and the names in it, up to a number of
// names in all. A directory that does not exist has none.
func (t tree) list(name string, most int, do func(dir string, entries []os.DirEntry) error) error {
	left := most
	todo := []string{name}
	for len(todo) > 0 {
		at := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		fd, err := beneath.Open(int(t.Fd()), at, unix.O_RDONLY|unix.O_DIRECTORY, 0)
		if err != nil {
			continue // it was removed, or is a link
		}
		d := os.NewFile(uintptr(fd), at)
		entries, err := d.ReadDir(left + 1)
		_ = d.Close()
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if left -= len(entries); left < 0 {
			return fmt.Errorf("%s has more than %d names", filepath.Join(t.Name(), name), most)
		}
		if err := do(at, entries); err != nil {
			return err
		}
		for _, e := range entries {
			if e.IsDir() {
				todo = append(todo, at+"/"+e.Name())
			}
		}
	}
	return nil
}

// linked reports whether a git directory is that of a linked working tree in the same copy.
func linked(t tree) bool {
	b, err := t.read("commondir", 4096)
	return err == nil && strings.TrimRight(string(b), "\n") == "../.."
}

// table reads HEAD from the files of a git directory, and references from those of its repository.
func (t tree) table(common tree) (table, error) {
	got := table{Refs: make(map[string]string)}
	if common.has("reftable") {
		return got, errReftable(common.Name())
	}
	var err error
	if got.Head, err = t.head(); err != nil {
		return got, err
	}
	t = common
	packed, err := t.read("packed-refs", 1<<30)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return got, err
	}
	for line := range bytes.Lines(packed) {
		at, name, is := strings.Cut(strings.TrimSuffix(string(line), "\n"), " ")
		if is && objectName.MatchString(at) && strings.HasPrefix(name, "refs/") {
			got.Refs[name] = at
		}
	}
	err = t.list("refs", maxRefs, func(dir string, entries []os.DirEntry) error {
		for _, e := range entries {
			if !e.Type().IsRegular() || strings.HasSuffix(e.Name(), ".lock") {
				continue
			}
			b, err := t.read(dir+"/"+e.Name(), 4096)
			if err != nil {
				return err
			}
			name := dir + "/" + e.Name()
			if at := strings.TrimRight(string(b), "\n"); objectName.MatchString(at) {
				got.Refs[name] = at
			} else {
				delete(got.Refs, name) // a symbolic one
			}
		}
		return nil
	})
	return got, err
}

// head returns what the file HEAD names.
func (t tree) head() (string, error) {
	b, err := t.read("HEAD", 4096)
	if err != nil {
		return "", err
	}
	head, err := parseHead(b)
	if err != nil {
		err = fmt.Errorf("%s: %w", t.Name(), err)
	}
	return head, err
}

func errReftable(dir string) error {
	return runtime.Errorf(runtime.ErrInvalid,
		"the references of %s are in a reftable, which is not synchronised: git refs migrate --ref-format=files", dir)
}

// parseHead returns what the content of a file HEAD names.
func parseHead(b []byte) (string, error) {
	text := strings.TrimRight(string(b), "\n")
	if name, is := strings.CutPrefix(text, "ref:"); is {
		text = strings.TrimLeft(name, " \t")
	}
	if strings.HasPrefix(text, heads) && !strings.ContainsAny(text, " \n\x00") || objectName.MatchString(text) {
		return text, nil
	}
	return "", runtime.Errorf(runtime.ErrInvalid, "HEAD is %.100q, which names neither a branch nor a commit", text)
}

// A stash is an entry of the list of stashes.
type stash struct {
	At   string `json:"at"`
	Said string `json:"said"`
}

// stashes returns the list of stashes of a repository, the newest first.
func (t tree) stashes() (list []stash, err error) {
	b, err := t.read("logs/refs/stash", maxStashLog)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	for line := range bytes.Lines(b) {
		fields, said, _ := strings.Cut(strings.TrimSuffix(string(line), "\n"), "\t")
		if f := strings.Fields(fields); len(f) > 1 && objectName.MatchString(f[1]) {
			list = append(list, stash{f[1], said})
		}
	}
	slices.Reverse(list)
	return list, err
}
