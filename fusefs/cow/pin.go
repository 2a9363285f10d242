package cow

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"sync"

	"golang.org/x/sys/unix"

	"wolffia/internal/beneath"
)

// gitDir is what Pin pins.
const gitDir = ".git"

// live are the directories of a git repository that Pin leaves to the host: what they have does not
// change, or a sandbox may not change it.
var live = map[string]bool{"objects": true, "hooks": true, "lfs": true, "annex": true}

// Bounds of what Pin copies.
const (
	maxPinned      = 200_000 // names
	maxPinnedBytes = 2 << 30
)

// errPin is the error for a repository whose own files are beyond the bounds.
var errPin = fmt.Errorf("git's own files, without objects, are more than %d or have more than %d bytes", maxPinned, int64(maxPinnedBytes))

// A pin copies a git repository's own files.
type pin struct {
	*Layers
	left   int        // names that may be copied yet
	bytes  int64      // that may be copied yet
	copies []*os.File // that are not on the disk yet

	records []Record // of what was copied
}

// Pin copies git's own files of the repository at the top of the codebase into the upper layer, but for
// its objects and hooks, unless the upper layer has a .git already. Without it the sandbox would see an index
// of its own beside references that the host goes on to change. What git worktree and git submodule keep in
// the repository is pinned with it. It must not be called while the tree is served.
func (l *Layers) Pin() error {
	if have, err := look(l.Upper, gitDir); have != nil || err != nil {
		return err
	}
	p, err := l.copyGit()
	if p == nil || err != nil {
		return err
	}
	if err := p.record(); err != nil {
		return err
	}
	p.reached("pin: copied")
	if err := p.place(unix.RENAME_NOREPLACE); err != nil {
		return err
	}
	p.reached("pin: in place")
	return nil
}

// pinTemp is the name of a copy in Layers.Work.
const pinTemp = "pin"

// copyGit makes the copy of Pin, on the disk but not in place; nil if the host has no repository at the top.
func (l *Layers) copyGit() (_ *pin, err error) {
	host, err := look(l.Root, gitDir)
	if err != nil || host == nil || !host.isDir() || host.isMount() {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("pin %s: %w", gitDir, err)
		}
	}()
	if err := l.removeWork(pinTemp); err != nil { // of a call that has failed
		return nil, err
	}
	from, err := openDir(l.Root, gitDir)
	if from < 0 {
		return nil, err
	}
	defer unix.Close(from)
	if err := unix.Mkdirat(l.Work, pinTemp, 0o700); err != nil {
		return nil, err
	}
	to, err := openDir(l.Work, pinTemp)
	if to < 0 {
		return nil, errors.Join(err, unix.ESTALE)
	}
	defer unix.Close(to)
	p := &pin{Layers: l, left: maxPinned, bytes: maxPinnedBytes}
	if err := errors.Join(p.directory(from, to, gitDir, host), p.flush()); err != nil {
		return nil, errors.Join(err, l.removeWork(pinTemp))
	}
	p.records = append(p.records, RecordOf(gitDir, &host.Statx_t))
	return p, nil
}

// record writes the records of what was copied to the log, and flushes it.
func (p *pin) record() error {
	for _, r := range p.records {
		write := p.Log.Add
		if p.Log.Has(r.Path) { // a Pin that was killed has recorded it, and the host may have gone on
			write = p.Log.put
		}
		if err := write(r); err != nil {
			return err
		}
	}
	return p.Log.Sync()
}

// place puts the copy in place, with flags of renameat2(2).
func (p *pin) place(flags uint) error {
	// A rename into the top of the upper layer changes its times, which the sandbox sees.
	top, err := look(p.Upper, "")
	if err != nil {
		return err
	}
	if err := unix.Renameat2(p.Work, pinTemp, p.Upper, gitDir, flags); err != nil {
		return fmt.Errorf("pin %s: %w", gitDir, err)
	}
	return unix.UtimesNanoAt(unix.AT_FDCWD, procPath(p.Upper), times(top), 0)
}

// renew puts the copy in the place of what the upper layer has as .git, which gets the name temp in Layers.Work. It is drop
// for that, after which a sandbox that runs would see the host's references go on beside an index of its own.
func (p *pin) renew(from *plan, temp string) error {
	if p.Taken != nil {
		p.Taken(gitDir)
	}
	if err := errors.Join(from.forget(gitDir), p.record()); err != nil { // before: until it is in place, .git shows as changed
		return err
	}
	p.reached("discard: forgotten")
	err := p.inOwn(gitDir, func(dir int, name string) error {
		return p.onOwn(dir, name, func(int) error { return p.place(unix.RENAME_EXCHANGE) })
	})
	if err != nil {
		return err
	}
	p.reached("discard: taken away")
	return unix.Renameat(p.Work, pinTemp, p.Work, temp)
}

// directory copies what is in from, the directory of the host's at the path at, into to.
func (p *pin) directory(from, to int, at string, host *object) error {
	if err := SetLower(to, Own, ""); err != nil {
		return err
	}
	repository := false
	if head, err := look(from, "HEAD"); err != nil {
		return err
	} else if objects, err := look(from, "objects"); err != nil {
		return err
	} else {
		repository = head != nil && objects != nil && objects.isDir()
	}
	err := names(from, func(name string) error {
		o, err := look(from, name)
		if o == nil || o.isMount() || !o.isKnownKind() {
			return err
		}
		if p.left--; p.left < 0 {
			return errPin
		}
		below := path.Join(at, name)
		switch {
		case repository && live[name] && o.isDir():
			return p.leave(to, name, below, o)
		case o.isDir():
			return p.below(from, to, name, below, o)
		case o.isLink():
			target, err := readLink(from, name)
			if err != nil {
				return err
			}
			return unix.Symlinkat(target, to, name)
		case path.Ext(name) == ".lock": // of a git that is at work on the host
			return nil
		}
		return p.file(from, to, name, below)
	})
	if err != nil {
		return err
	}
	return p.attributes(to, host)
}

// below copies the directory called name.
func (p *pin) below(from, to int, name, at string, o *object) error {
	if err := unix.Mkdirat(to, name, 0o700); err != nil {
		return err
	}
	source, err := openDir(from, name)
	if err != nil {
		return err
	}
	if source < 0 {
		return nil // removed meanwhile
	}
	defer unix.Close(source)
	target, err := openDir(to, name)
	if err != nil {
		return err
	}
	defer unix.Close(target)
	return p.directory(source, target, at, o)
}

// leave makes a directory that shows what the host has at the path at.
func (p *pin) leave(to int, name, at string, o *object) error {
	if err := unix.Mkdirat(to, name, 0o700); err != nil {
		return err
	}
	fd, err := openDir(to, name)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := SetLower(fd, Moved, at); err != nil {
		return err
	}
	return p.attributes(fd, o)
}

// file copies the file called name, and adds the record of the host's.
func (p *pin) file(from, to int, name, at string) (err error) {
	source, err := openFile(from, name)
	if err != nil {
		if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EACCES) {
			return nil // removed meanwhile, or not this user's
		}
		return err
	}
	defer source.Close()
	o, err := look(int(source.Fd()), "")
	if err != nil {
		return err
	}
	if p.bytes -= int64(o.Size); p.bytes < 0 {
		return errPin
	}
	fd, err := beneath.Open(to, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	target := os.NewFile(uintptr(fd), name)
	if p.copies = append(p.copies, target); len(p.copies) == maxCopies {
		defer func() { err = errors.Join(err, p.flush()) }()
	}
	if _, err := io.Copy(target, io.LimitReader(source, maxPinnedBytes)); err != nil {
		return err
	}
	if err := p.attributes(fd, o); err != nil {
		return err
	}
	p.reached("pin: file copied")
	p.records = append(p.records, RecordOf(at, &o.Statx_t))
	return nil
}

// maxCopies bounds the files that are open at once, as maxBatch does.
const maxCopies = maxBatch

// flush makes the copies last through a power cut: an empty index in place of the host's would be taken for deletions.
func (p *pin) flush() error {
	errs := make([]error, len(p.copies))
	var wg sync.WaitGroup
	next := make(chan int, len(p.copies))
	for i := range p.copies {
		next <- i
	}
	close(next)
	for range min(flushers, len(p.copies)) {
		wg.Go(func() {
			for i := range next {
				errs[i] = errors.Join(unix.Fdatasync(int(p.copies[i].Fd())), p.copies[i].Close())
			}
		})
	}
	wg.Wait()
	p.copies = nil
	return errors.Join(errs...)
}

// attributes gives the copy fd the permissions and times of o.
func (p *pin) attributes(fd int, o *object) error {
	if err := unix.Fchmodat(unix.AT_FDCWD, procPath(fd), o.perms(), 0); err != nil {
		return err
	}
	return unix.UtimesNanoAt(unix.AT_FDCWD, procPath(fd), times(o), 0)
}
