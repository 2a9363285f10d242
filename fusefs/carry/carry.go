// Package carry sends what a tree shows to where it cannot be mounted, as in a pod. It takes the
// changes that are made there too.
//
// They go into the upper layer as if programs had changed a mounted tree, by the same gate. All that
// a pod says is hostile.
package carry

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/fusefs"
	"wolffia/fusefs/cow"
	"wolffia/internal/replica"
	"wolffia/internal/sys/beneath"
)

// MaxBytes bounds what is sent to a pod at a time, or taken from it, and what the changes take on the
// disk.
const MaxBytes = 16 << 30

// A copied path is what tree and pod have at it since the last exchange.
type carried struct {
	host fusefs.Shown
	pod  replica.Stat
	// refused says that the pod has something there that the tree does not take.
	refused bool
}

// Known is what the tree and a pod had after the last exchange, by path; nil: nothing was sent.
type Known map[string]carried

// A Pod has a copy of a tree. One goroutine at a time calls its methods.
type Pod struct {
	Tree *fusefs.Offline
	Log  *cow.Log // of the tree's upper layer
	Work int      // a directory for temporary files
	// Known is changed as objects are taken and sent, and stays true after an error.
	Known Known
	Peer  *replica.Peer
	buf   []byte // of receive
}

// fatal reports whether an error is one of the host, which ends an exchange; another one is a refusal
// of what the pod has made.
func fatal(err error) bool {
	errno, ok := errors.AsType[syscall.Errno](err)
	if !ok {
		return true
	}
	switch errno {
	case unix.EDQUOT, unix.ENOSPC, unix.EIO, unix.EMFILE, unix.ENFILE, unix.ENOMEM:
		return true
	}
	return false
}

// carries reports whether a pod gets objects of that kind.
func carries(s fusefs.Shown) bool {
	return s.Type == unix.S_IFREG || s.Type == unix.S_IFDIR || s.Type == unix.S_IFLNK
}

// look returns what the tree shows at a path now.
func (p *Pod) look(at string) (fusefs.Shown, error) {
	is, err := p.Tree.Stat(at)
	if err != nil && fatal(err) {
		return is, err
	}
	return is, nil
}

// Adopt recognizes what a pod has of an earlier exchange, of which nothing is known: a file with the
// size, mode and time of the tree's is as it was sent. What else is there was made by the pod, from
// what the tree shows now. What is missing there is sent again.
func (p *Pod) Adopt() error {
	list, err := p.Peer.List()
	if err != nil {
		return err
	}
	for _, e := range list {
		is, err := p.look(e.Path)
		if err != nil {
			return err
		}
		if is.Type == 0 {
			continue
		}
		c := carried{host: is, pod: replica.Stat{Type: e.Stat.Type}}
		sent := e.Stat.Type == is.Type && e.Stat.Mode == is.Mode
		if is.Type == unix.S_IFREG {
			sent = sent && e.Stat.Size == is.Size && e.Stat.Mtime == is.Mtime
		}
		if is.Type == unix.S_IFLNK {
			target, _ := p.Tree.Readlink(e.Path)
			sent = e.Stat.Type == is.Type && target == e.Target
		}
		if sent {
			c.pod = e.Stat
		}
		p.Known[e.Path] = c
	}
	return nil
}

// Take makes the pod's changes in the tree. Their order: what is gone, from the deepest on; what is
// new, from the top; then contents; then the modes of directories.
func (p *Pod) Take() error {
	list, err := p.Peer.List()
	if err != nil {
		return err
	}
	now := make(map[string]replica.Entry, len(list))
	for _, e := range list {
		now[e.Path] = e
	}
	var gone []string
	for at, was := range p.Known {
		if e := now[at]; was.pod.Type != 0 && (e.Stat.Type == 0 || e.Stat.Type != was.pod.Type) {
			gone = append(gone, at)
		}
	}
	slices.Sort(gone)
	for _, at := range slices.Backward(gone) {
		if err := p.gone(at); err != nil {
			return err
		}
	}
	var files []string
	var dirs []replica.Entry
	for _, e := range list {
		if e.Stat.Same(p.Known[e.Path].pod) {
			continue
		}
		switch e.Stat.Type {
		case unix.S_IFREG:
			files = append(files, e.Path)
		case unix.S_IFDIR:
			dirs = append(dirs, e)
			err = p.made(e, p.dir)
		case unix.S_IFLNK:
			err = p.made(e, p.link)
		default:
			p.Known[e.Path] = carried{pod: e.Stat, refused: true}
		}
		if err != nil {
			return err
		}
	}
	if err := p.noteAll(files); err != nil {
		return err
	}
	err = p.Peer.Many(func(a *replica.Asker) error {
		for _, at := range files {
			if err := a.Get(at, func(st replica.Stat, content io.Reader, errno unix.Errno) error {
				if errno != 0 {
					return nil // it has changed again, or cannot be read
				}
				return p.file(replica.Entry{Path: at, Stat: st}, content)
			}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, e := range slices.Backward(dirs) {
		if err := p.made(e, func(e replica.Entry, _ fusefs.Shown) error { return p.chmod(e) }); err != nil {
			return err
		}
	}
	return p.Log.Sync()
}

// gone removes from the tree what the pod has no more, or as another kind of object.
func (p *Pod) gone(at string) error {
	is, err := p.look(at)
	if err != nil {
		return err
	}
	was := p.Known[at]
	if is.Type != 0 {
		if err := p.note(at, is); err != nil {
			return err
		}
		err = p.writable(at, func() error { return p.Tree.Remove(at, is.Type == unix.S_IFDIR) })
		if err != nil && fatal(err) {
			return fmt.Errorf("remove %q: %w", at, err)
		}
	}
	switch {
	case err == nil, errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTEMPTY): // the host has made something there
		delete(p.Known, at)
	default:
		p.Known[at] = carried{was.host, replica.Stat{}, true}
	}
	return nil
}

// made calls do, which makes e in the tree that shows is at its path, and records what came of it.
func (p *Pod) made(e replica.Entry, do func(e replica.Entry, is fusefs.Shown) error) error {
	was := p.Known[e.Path]
	is, err := p.look(e.Path)
	if err == nil {
		err = p.note(e.Path, is)
	}
	if err == nil {
		err = p.writable(e.Path, func() error { return do(e, is) })
	}
	if err != nil && fatal(err) {
		return fmt.Errorf("%q: %w", e.Path, err)
	}
	if err != nil {
		p.Known[e.Path] = carried{was.host, e.Stat, true}
		return nil
	}
	is, err = p.look(e.Path)
	p.Known[e.Path] = carried{host: is, pod: e.Stat}
	return err
}

// writable calls f, which changes the name of a path, and once more with a directory that its owner
// may change if that is why it failed: a program of the pod has made it so too.
func (p *Pod) writable(at string, f func() error) error {
	err := f()
	dir := path.Dir(at)
	if !errors.Is(err, unix.EACCES) || dir == "." {
		return err
	}
	a, serr := p.Tree.Stat(dir)
	if serr != nil || a.Mode&0o300 == 0o300 || p.Tree.Chmod(dir, a.Mode|0o700) != nil {
		return err
	}
	return errors.Join(f(), p.Tree.Chmod(dir, a.Mode))
}

// note has a change of the host since the last exchange be a conflict of what the pod has made of
// what was before: is is what the tree shows now at a path.
func (p *Pod) note(at string, is fusefs.Shown) error {
	was := p.Known[at].host
	if is.Same(was) || is.Type == unix.S_IFDIR && was.Type == 0 || ownGit(at) || p.Log.Has(at) {
		return nil
	}
	if err := p.Log.Add(hostRecord(at, was)); err != nil {
		return err
	}
	return p.Log.Sync()
}

// noteAll records what the host has of files that are about to be changed, and has the records on
// the disk: else each file would wait for the disk. What the tree records of each by itself is the
// same.
func (p *Pod) noteAll(files []string) error {
	for _, at := range files {
		was := p.Known[at].host
		is, err := p.look(at)
		if err == nil {
			err = p.note(at, is)
		}
		if err != nil {
			return err
		}
		if is.Type != unix.S_IFREG || !is.Same(was) || ownGit(at) || p.Log.Has(at) {
			continue
		}
		r := hostRecord(at, is)
		if is.Size <= smallFile {
			// one that cannot be read has none
			_ = p.Tree.Read(at, func(content io.ReaderAt) (err error) {
				r.Digest, err = cow.Digest(io.NewSectionReader(content, 0, is.Size))
				return err
			})
		}
		if err := p.Log.Add(r); err != nil {
			return err
		}
	}
	return p.Log.Sync()
}

func hostRecord(at string, s fusefs.Shown) cow.Record {
	return cow.Record{Path: at, Type: s.Type, Mode: s.Mode, Ino: s.Ino, Size: s.Size, Mtime: s.Mtime, Ctime: s.Ctime}
}

// ownGit reports whether a path is in a git directory, which is the sandbox's own.
func ownGit(at string) bool { return slices.Contains(strings.Split(at, "/"), ".git") }

// dir makes a directory that can be filled.
func (p *Pod) dir(e replica.Entry, is fusefs.Shown) error {
	switch is.Type {
	case unix.S_IFDIR:
		return p.Tree.Chmod(e.Path, e.Stat.Mode|0o700)
	case 0:
		return p.Tree.Mkdir(e.Path, e.Stat.Mode|0o700)
	}
	return unix.ENOTDIR
}

// chmod gives a directory its mode.
func (p *Pod) chmod(e replica.Entry) error {
	if p.Known[e.Path].host.Mode == e.Stat.Mode {
		return nil
	}
	return p.Tree.Chmod(e.Path, e.Stat.Mode)
}

// link makes a symbolic link.
func (p *Pod) link(e replica.Entry, is fusefs.Shown) error {
	if is.Type != 0 {
		if err := p.Tree.Remove(e.Path, is.Type == unix.S_IFDIR); err != nil {
			return err
		}
	}
	if err := p.Tree.Symlink(e.Path, e.Target); err != nil {
		return err
	}
	return p.Tree.Chtime(e.Path, time.Unix(0, e.Stat.Mtime))
}

// file makes a regular file. All of the content is here before the tree is changed.
func (p *Pod) file(e replica.Entry, content io.Reader) error {
	all, done, err := p.receive(content)
	if err != nil {
		return err
	}
	defer done()
	return p.made(e, func(e replica.Entry, is fusefs.Shown) error {
		switch is.Type {
		case 0:
			if err := p.Tree.Create(e.Path, e.Stat.Mode|0o600); err != nil {
				return err
			}
		case unix.S_IFREG:
			if is.Mode&0o600 != 0o600 {
				if err := p.Tree.Chmod(e.Path, e.Stat.Mode|0o600); err != nil {
					return err
				}
			}
		default:
			return unix.EISDIR
		}
		return p.Tree.Write(e.Path, io.NewSectionReader(all, 0, math.MaxInt64), e.Stat.Mode, time.Unix(0, e.Stat.Mtime))
	})
}

// smallFile is how many bytes of a content are kept in memory.
const smallFile = 256 << 10

// receive reads all of a content. The caller calls done.
func (p *Pod) receive(content io.Reader) (all io.ReaderAt, done func(), err error) {
	if p.buf == nil {
		p.buf = make([]byte, smallFile)
	}
	for n := 0; n < smallFile; {
		more, err := content.Read(p.buf[n:])
		n += more
		switch { // not io.ReadFull, whose error would be that of a content that is cut off
		case errors.Is(err, io.EOF):
			return bytes.NewReader(p.buf[:n]), func() {}, nil
		case err != nil:
			return nil, nil, err
		}
	}
	fd, err := beneath.Open(p.Work, ".", unix.O_TMPFILE|unix.O_RDWR, 0o600)
	if err != nil {
		return nil, nil, err
	}
	temp := os.NewFile(uintptr(fd), "content")
	if _, err = temp.Write(p.buf); err == nil {
		_, err = io.Copy(temp, content)
	}
	if err != nil {
		_ = temp.Close()
		return nil, nil, err
	}
	return temp, func() { _ = temp.Close() }, nil
}

// An item is what is to be sent of a path.
type item struct {
	path string
	is   fusefs.Shown
	old  replica.Stat // what the pod has
}

const hide = ": hide what the sandbox does not need (--hide)"

// Send sends what the tree shows otherwise than at the last exchange. What the pod has changed since,
// or what was refused of it, stays.
func (p *Pod) Send() error {
	var puts []item
	seen := map[string]bool{}
	size := int64(0)
	err := p.walk("", 0, func(at string, is fusefs.Shown) error {
		seen[at] = true
		if len(seen) > replica.MaxNames {
			return fmt.Errorf("the codebase shows more than %d files"+hide, replica.MaxNames)
		}
		was := p.Known[at]
		if was.refused || was.host.Same(is) {
			return nil
		}
		if size += is.Size; size > MaxBytes {
			return fmt.Errorf("the codebase shows more than %d GiB"+hide, MaxBytes>>30)
		}
		puts = append(puts, item{at, is, was.pod})
		return nil
	})
	if err != nil {
		return err
	}
	var gone []string
	for at, was := range p.Known {
		if !seen[at] && was.host.Type != 0 && was.pod.Type != 0 && !was.refused {
			gone = append(gone, at)
		}
	}
	slices.Sort(gone)
	slices.Reverse(gone)
	old := make([]replica.Stat, len(gone))
	for i, at := range gone {
		old[i] = p.Known[at].pod
	}
	return p.Peer.Many(func(a *replica.Asker) error {
		for i, at := range gone {
			if err := a.Remove(at, old[i], func(_ replica.Stat, errno unix.Errno) error {
				if errno == 0 {
					delete(p.Known, at)
				}
				return nil
			}); err != nil {
				return err
			}
		}
		var dirs []item
		for _, it := range puts {
			if it.is.Type == unix.S_IFDIR {
				filling := it
				filling.is.Mode |= 0o700
				dirs = append(dirs, it)
				it = filling
			}
			if err := p.put(a, it); err != nil {
				return err
			}
		}
		for _, it := range slices.Backward(dirs) {
			it.old = replica.Stat{Type: unix.S_IFDIR, Mode: it.is.Mode | 0o700}
			if err := p.put(a, it); err != nil {
				return err
			}
		}
		return nil
	})
}

// put sends one object.
func (p *Pod) put(a *replica.Asker, it item) error {
	e := replica.Entry{Path: it.path, Stat: replica.Stat{
		Type: it.is.Type, Mode: it.is.Mode, Size: it.is.Size, Mtime: it.is.Mtime,
	}}
	done := func(st replica.Stat, errno unix.Errno) error {
		switch errno {
		case 0:
			p.Known[it.path] = carried{host: it.is, pod: st}
		case unix.ESTALE, unix.ENOENT, unix.ENOTDIR, unix.ELOOP: // a program of the pod has changed it
		default:
			return fmt.Errorf("write %q in the pod: %w", it.path, errno)
		}
		return nil
	}
	switch it.is.Type {
	case unix.S_IFDIR:
		return a.Put(e, it.old, nil, done)
	case unix.S_IFLNK:
		target, err := p.Tree.Readlink(it.path)
		if err == nil {
			e.Target = target
			return a.Put(e, it.old, nil, done)
		}
		e.Stat.Type, e.Stat.Mode = unix.S_IFREG, 0 // its name is seen, and no more
		return a.Put(e, it.old, nil, done)
	}
	sent := false
	err := p.Tree.Read(it.path, func(content io.ReaderAt) error {
		sent = true
		return a.Put(e, it.old, io.NewSectionReader(content, 0, MaxBytes), done)
	})
	switch {
	case sent || err == nil:
		return err
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM): // its name is seen, and no more
		e.Stat.Mode &^= 0o777
		return a.Put(e, it.old, nil, done)
	case fatal(err):
		return fmt.Errorf("read %q: %w", it.path, err)
	}
	return nil // it is gone
}

// walk calls f with all that the tree shows below a directory, each directory before what is in it.
func (p *Pod) walk(dir string, depth int, f func(at string, is fusefs.Shown) error) error {
	names, err := p.Tree.Names(dir)
	if err != nil {
		if fatal(err) || dir == "" {
			return fmt.Errorf("list %q: %w", dir, err)
		}
		return nil
	}
	slices.Sort(names)
	for _, name := range names {
		at := strings.TrimPrefix(dir+"/"+name, "/")
		is, err := p.look(at)
		if err != nil {
			return fmt.Errorf("%q: %w", at, err)
		}
		if !carries(is) || depth >= replica.MaxDepth {
			continue
		}
		if err := f(at, is); err != nil {
			return err
		}
		if is.Type == unix.S_IFDIR {
			if err := p.walk(at, depth+1, f); err != nil {
				return err
			}
		}
	}
	return nil
}
