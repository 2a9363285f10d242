package gitsync

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"path"

	"wolffia/internal/git/hostgit"
)

const (
	// maxNames bounds the names that a commit adds to a working tree.
	maxNames = 2_000_000
	// maxDepth bounds the directories in each other.
	maxDepth = 500
	// maxTree bounds the bytes of one directory.
	maxTree = 512 << 20
)

// A blockedError is the reason why a branch cannot move now.
type blockedError struct{ reason string }

func (e blockedError) Error() string { return e.reason }

func blockedf(format string, args ...any) error { return blockedError{fmt.Sprintf(format, args...)} }

// An entry is a name in a directory.
type entry struct {
	name, object string
	dir          bool
}

// A comparison finds what one tree has that another one does not. Each tree is read once, however
// often it is named: a few of them can stand for 10^10 names.
type comparison struct {
	get   func(tree string) (hostgit.Object, error)
	most  int            // names
	below map[string]int // new tree to the names in and below it
	read  map[string][]entry
}

func compare(get func(tree string) (hostgit.Object, error), most int) *comparison {
	return &comparison{get: get, most: most, below: make(map[string]int), read: make(map[string][]entry)}
}

// tree returns the entries of a tree; "" has none.
func (c *comparison) tree(name string) ([]entry, error) {
	if list, have := c.read[name]; have || name == "" {
		return list, nil
	}
	o, err := c.get(name)
	if err != nil {
		return nil, err
	}
	if o.Type != "tree" || o.Data == nil {
		return nil, blockedf("a commit has %.12s, which is not a tree or too large", name)
	}
	list, err := parseTree(o.Data, len(name)/2)
	if err != nil {
		return nil, err
	}
	c.read[name] = list
	return list, nil
}

func parseTree(b []byte, size int) (list []entry, err error) {
	for len(b) > 0 {
		head, rest, is := bytes.Cut(b, []byte{0})
		mode, name, isName := bytes.Cut(head, []byte(" "))
		if !is || !isName || len(rest) < size {
			return nil, errors.New("a tree of the repository is malformed")
		}
		list = append(list, entry{string(name), hex.EncodeToString(rest[:size]), string(mode) == "40000"})
		b = rest[size:]
	}
	return list, nil
}

// isGitDir reports whether the entries of a directory are those of a git directory.
func isGitDir(list []entry) bool {
	found := 0
	for _, e := range list {
		if e.name == "HEAD" || e.dir && (e.name == "objects" || e.name == "refs") {
			found++
		}
	}
	return found == 3
}

// added checks what the tree to adds to the tree from, which may be "": not too many names, and no
// directory that looks like a git directory. It returns how many names are in trees that differ.
func (c *comparison) added(from, to, at string, depth int) (n int, err error) {
	if from == to {
		return 0, nil
	}
	if n, have := c.below[to]; have && from == "" {
		return n, nil
	}
	if depth > maxDepth {
		return 0, blockedf("a commit has directories more than %d deep", maxDepth)
	}
	was, now, err := c.both(from, to)
	if err != nil {
		return 0, err
	}
	if isGitDir(now) && !isGitDir(was) {
		return 0, blockedf("%s in a commit looks like a git directory", cmp.Or(at, "the top"))
	}
	before := dirs(was)
	for _, e := range now {
		more := 1
		if e.dir {
			if more, err = c.added(before[e.name], e.object, path.Join(at, e.name), depth+1); err != nil {
				return 0, err
			}
		}
		if n += more; n > c.most || len(c.below) > c.most {
			return 0, blockedf("a commit has more than %d names", c.most)
		}
	}
	if from == "" {
		c.below[to] = n
	}
	return n, nil
}

// both returns the entries of two trees. Of the old one nothing need be there, as in a partial
// clone.
func (c *comparison) both(from, to string) (was, now []entry, err error) {
	if was, err = c.tree(from); err != nil && !errors.Is(err, hostgit.ErrMissing) {
		return nil, nil, err
	}
	now, err = c.tree(to)
	return was, now, err
}

func dirs(list []entry) map[string]string {
	m := make(map[string]string)
	for _, e := range list {
		if e.dir {
			m[e.name] = e.object
		}
	}
	return m
}

// walk calls do for each file that the tree to has and the tree from does not, or not as a file.
// Call it after added, which bounds them.
func (c *comparison) walk(from, to, at string, do func(path string) error) error {
	if from == to {
		return nil
	}
	was, now, err := c.both(from, to)
	if err != nil {
		return err
	}
	before, files := dirs(was), make(map[string]bool)
	for _, e := range was {
		files[e.name] = !e.dir
	}
	for _, e := range now {
		name := path.Join(at, e.name)
		switch {
		case e.dir:
			err = c.walk(before[e.name], e.object, name, do)
		case !files[e.name]:
			err = do(name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
