package gitindex

import (
	"bytes"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"strconv"
)

// Signatures of extensions.
const (
	monitored = "FSMN" // which entries the file system monitor vouches for
	untracked = "UNTR" // which directories have nothing that is untracked
	endOf     = "EOIE" // where the entries end
)

// FirstToken is the token with which git asks the file system monitor first, of an index that
// With has made.
const (
	FirstToken = "1"
	firstTime  = 1
)

// A Directory is one with tracked files.
type Directory struct {
	Name string // "" is the top of the working tree
	Stat Stat
	// Clean says that all names in the directory are tracked. It then has Stat.
	Clean  bool
	Ignore []byte // the object of its .gitignore in the index; nil: not in the index
	Dirs   []*Directory
}

// A Cache has the untracked names: git's untracked cache.
type Cache struct {
	// Top is the path of the working tree, as git sees it.
	Top string
	// Info and Excludes are IgnoreID of $GIT_DIR/info/exclude and of core.excludesFile; nil: the
	// file does not exist.
	Info, Excludes []byte
	InfoStat       Stat // of the former, as git sees it; zero: git reads it
	Root           *Directory
}

// With returns an index with the same entries, for a git that has a file system monitor: git asks
// the monitor with FirstToken for changes, and takes all other entries for unchanged. A git
// without a monitor ignores the extension. c may be nil: git then finds untracked names by itself.
// With omits x's untracked names: the host's git has seen names that rules hide.
func (x *Index) With(c *Cache) []byte {
	b := slices.Grow(slices.Clone(x.data[:x.ends]), len(x.data)-x.ends+4096)
	headers := x.digest()
	add := func(signature string, data []byte) {
		header := binary.BigEndian.AppendUint32([]byte(signature), uint32(len(data)))
		headers.Write(header)
		b = append(append(b, header...), data...)
	}
	for _, p := range x.parts {
		if p.signature != monitored && p.signature != endOf && p.signature != untracked {
			add(p.signature, x.data[p.begin:p.end])
		}
	}
	if c != nil {
		add(untracked, x.cache(c))
	}
	data := binary.BigEndian.AppendUint32(nil, 1)         // git before 2.26 complains of version 2
	data = binary.BigEndian.AppendUint64(data, firstTime) // that this is in place of
	none := appendBitmap(nil, nil)
	data = binary.BigEndian.AppendUint32(data, uint32(len(none)))
	add(monitored, append(data, none...))
	// It has the sum of all headers before it, and must be the last.
	end := binary.BigEndian.AppendUint32(nil, uint32(x.ends))
	add(endOf, headers.Sum(end))
	sum := x.digest()
	sum.Write(b)
	return sum.Sum(b)
}

func (x *Index) digest() hashing {
	if x.hash == sha256.Size {
		return sha256.New()
	}
	return sha1.New()
}

type hashing interface {
	Write(b []byte) (int, error)
	Sum(b []byte) []byte
}

// cache encodes c.
func (x *Index) cache(c *Cache) []byte {
	ident := "Location " + c.Top + ", system Linux\x00"
	b := append(appendVarint(nil, uint64(len(ident))), ident...)
	b = appendStat(appendStat(b, &c.InfoStat), new(Stat)) // git reads the other
	const otherDirectories, noEmpty = 1 << 1, 1 << 2      // as for git status
	b = binary.BigEndian.AppendUint32(b, otherDirectories|noEmpty)
	for _, id := range [][]byte{c.Info, c.Excludes} {
		b = append(b, slices.Concat(id, make([]byte, x.hash-len(id)))...)
	}
	b = append(b, ".gitignore\x00"...)
	var names, stats, ids []byte
	var clean, only, ignores []bool
	var write func(d *Directory)
	write = func(d *Directory) {
		clean, only, ignores = append(clean, d.Clean), append(only, false), append(ignores, d.Ignore != nil)
		if d.Clean {
			stats = appendStat(stats, &d.Stat)
		}
		ids = append(ids, d.Ignore...)
		names = appendVarint(appendVarint(names, 0), uint64(len(d.Dirs)))
		names = append(append(names, d.Name...), 0)
		for _, below := range d.Dirs {
			write(below)
		}
	}
	write(c.Root)
	b = append(appendVarint(b, uint64(len(clean))), names...)
	for _, bits := range [][]bool{clean, only, ignores} {
		b = appendBitmap(b, bits)
	}
	return append(append(append(b, stats...), ids...), 0)
}

// Listed calls f for each directory whose untracked names git believes to know, with its path from
// the top of the working tree, "" for the top itself, and its attributes at that time. It returns
// ErrDamaged for a cache that cannot be read; f may have been called then. An index without a
// cache lists none.
func (x *Index) Listed(f func(path string, s Stat)) error {
	b, ok := x.Extension(untracked)
	if !ok {
		return nil
	}
	size, n := varint(b)
	fixed := 36 + 36 + 4 + 2*x.hash
	if n == 0 || size > uint64(len(b)-n) || len(b)-n-int(size) < fixed {
		return ErrDamaged
	}
	b = b[n+int(size)+fixed:]
	end := bytes.IndexByte(b, 0)
	if end < 0 {
		return ErrDamaged
	}
	b = b[end+1:]
	count, n := varint(b)
	if n == 0 || count > uint64(len(b)) {
		return ErrDamaged
	}
	b = b[n:]
	if count == 0 {
		return nil
	}
	r := cacheReader{rest: b}
	r.directory("", 0)
	if r.bad || uint64(len(r.paths)) != count {
		return ErrDamaged
	}
	valid, b := bitmap(r.rest, len(r.paths))
	if b == nil {
		return ErrDamaged
	}
	for range 2 { // the other bitmaps
		if _, b = bitmap(b, 0); b == nil {
			return ErrDamaged
		}
	}
	for i, path := range r.paths {
		if !valid[i] {
			continue
		}
		if len(b) < 36 {
			return ErrDamaged
		}
		f(path, statOf(b, false))
		b = b[36:]
	}
	return nil
}

// A cacheReader reads the directories of an untracked cache.
type cacheReader struct {
	rest  []byte
	paths []string
	size  int // of the paths
	bad   bool
}

// directory reads one, and those below.
func (r *cacheReader) directory(above string, depth int) {
	names, dirs := r.number(), r.number()
	path := r.text()
	if above != "" {
		path = above + "/" + path
	}
	r.paths = append(r.paths, path)
	r.size += len(path)
	for ; names > 0 && !r.bad; names-- {
		r.text()
	}
	r.bad = r.bad || depth > maxName/2 || r.size > maxNames
	for ; dirs > 0 && !r.bad; dirs-- {
		r.directory(path, depth+1)
	}
}

func (r *cacheReader) number() uint64 {
	v, n := varint(r.rest)
	r.bad = r.bad || n == 0
	r.rest = r.rest[n:]
	return v
}

func (r *cacheReader) text() string {
	end := bytes.IndexByte(r.rest, 0)
	if r.bad || end < 0 {
		r.bad = true
		return ""
	}
	s := string(r.rest[:end])
	r.rest = r.rest[end+1:]
	return s
}

// IgnoreID returns what a Cache has of a file of patterns with that content: the object that it
// would be with one more end of a line.
func (x *Index) IgnoreID(content []byte) []byte {
	if len(content) > 0 {
		content = append(slices.Clip(content), '\n')
	}
	sum := x.digest()
	sum.Write(append(strconv.AppendInt([]byte("blob "), int64(len(content)), 10), 0))
	sum.Write(content)
	return sum.Sum(nil)
}
