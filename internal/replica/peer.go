package replica

import (
	"errors"
	"fmt"
	"io"

	"golang.org/x/sys/unix"

	"wolffia/internal/filecall"
)

// ErrDamaged is wrapped by the error for an answer that no Serve gives.
var ErrDamaged = errors.New("the answer about the pod's files is damaged")

// An Entry is one object of the copy.
type Entry struct {
	Path   string // from the copy's directory
	Target string // of a symbolic link
	Stat   Stat
}

// A Peer asks about a copy. One goroutine at a time calls its methods.
type Peer struct {
	in   *filecall.Receiver
	out  *filecall.Sender
	left int64 // how many bytes of contents are still accepted
}

// NewPeer returns a Peer that reads answers from r and writes requests to w. It accepts most bytes of
// contents.
func NewPeer(r io.Reader, w io.Writer, most int64) *Peer {
	return &Peer{in: filecall.NewReceiver(r), out: filecall.NewSender(w), left: most}
}

// ErrTooLarge is the error for more bytes of contents than a Peer accepts.
var ErrTooLarge = errors.New("the pod has changed more bytes than are accepted at a time")

// Read implements [io.Reader] for the present content.
func (p *Peer) Read(b []byte) (int, error) {
	n, err := p.in.Read(b)
	if p.left -= int64(n); p.left < 0 {
		return 0, ErrTooLarge
	}
	return n, err
}

// reply reads the answer to a request.
func (p *Peer) reply() (reply, error) {
	var r reply
	err := p.in.JSON(&r, maxMessage)
	switch {
	case errors.Is(err, io.EOF):
		return r, io.ErrUnexpectedEOF
	case errors.Is(err, filecall.ErrDamaged):
		return r, fmt.Errorf("%w: %w", ErrDamaged, err)
	case err == nil && (r.Errno > 4095 || r.Stat.Size < 0 || len(r.Target) >= unix.PathMax):
		return r, ErrDamaged
	}
	r.Stat.Mode &= 0o777
	return r, err
}

// List returns all objects of the copy, each directory before what is in it. Objects that are not
// copied are among them. A directory that cannot be read is an error.
func (p *Peer) List() ([]Entry, error) {
	if err := p.out.JSON(request{Op: opList}); err != nil {
		return nil, err
	}
	var all []Entry
	seen := map[string]uint32{"": unix.S_IFDIR}
	text := 0
	for {
		r, err := p.reply()
		if err != nil {
			return nil, err
		}
		if r.End {
			return all, nil
		}
		path := string(r.Path)
		if r.Errno != 0 {
			return nil, fmt.Errorf("the pod's directory %q cannot be read: %w", path, r.Errno)
		}
		if err := checkPath(path); err != nil {
			return nil, fmt.Errorf("%w: path %.300q: %w", ErrDamaged, path, err)
		}
		dir, _ := parentOf(path)
		link := r.Stat.Type == unix.S_IFLNK
		if seen[dir] != unix.S_IFDIR || seen[path] != 0 || r.Stat.Type == 0 || link == (len(r.Target) == 0) {
			return nil, fmt.Errorf("%w: path %.300q is out of order, or comes twice", ErrDamaged, path)
		}
		if text += len(path) + len(r.Target); len(all) == MaxNames || text > maxText {
			return nil, fmt.Errorf("the pod has more than %d files in the workspace: remove some there", MaxNames)
		}
		seen[path] = r.Stat.Type
		all = append(all, Entry{Path: path, Target: string(r.Target), Stat: r.Stat})
	}
}

// Many makes requests without waiting for the answer to each: ask calls Put, Remove and Get of the
// Asker, in its goroutine; Many reads the answers meanwhile. Each is passed to the function that came
// with its request. An error of such a function, or of ask, ends Many; the Peer is then of no use.
func (p *Peer) Many(ask func(*Asker) error) error {
	const ahead = 1 << 10
	asked := make(chan func() error, ahead)
	over := make(chan struct{})
	done := make(chan error, 1)
	go func() { // ends with ask, whose writes fail when the connection is closed
		err := ask(&Asker{p, asked, over})
		close(asked)
		done <- err
	}()
	var err error
	for read := range asked {
		if err = read(); err != nil {
			break
		}
	}
	if err != nil {
		close(over)
		return err
	}
	return <-done
}

// An Asker makes requests for Many.
type Asker struct {
	p     *Peer
	asked chan<- func() error
	over  <-chan struct{}
}

// errOver ends an ask whose answers are not read any more.
var errOver = errors.New("the answers are not read any more")

// expect has Many call read for the next answer.
func (a *Asker) expect(read func() error) error {
	select {
	case a.asked <- read:
		return nil
	case <-a.over:
		return errOver
	}
}

// Put makes or replaces the object e, in place of old, and calls put with what it is then; an errno
// is why it was not done, [unix.ESTALE] that another object than old is there. Of a regular file
// content has the bytes; nil: it has e.Stat.Size bytes that nobody reads.
func (a *Asker) Put(e Entry, old Stat, content io.Reader, put func(Stat, unix.Errno) error) error {
	r := request{Op: opPut, Path: []byte(e.Path), Target: []byte(e.Target), Stat: e.Stat, Old: old}
	r.Blank = content == nil && e.Stat.Type == unix.S_IFREG
	if err := a.p.out.JSON(r); err != nil {
		return err
	}
	if err := a.expect(a.answer(put)); err != nil {
		return err
	}
	if e.Stat.Type != unix.S_IFREG || r.Blank {
		return nil
	}
	if _, err := io.Copy(a.p.out, content); err != nil {
		return err
	}
	return a.p.out.End()
}

// Remove removes the object old, which may be an empty directory.
func (a *Asker) Remove(path string, old Stat, removed func(Stat, unix.Errno) error) error {
	if err := a.p.out.JSON(request{Op: opRemove, Path: []byte(path), Old: old}); err != nil {
		return err
	}
	return a.expect(a.answer(removed))
}

func (a *Asker) answer(f func(Stat, unix.Errno) error) func() error {
	return func() error {
		r, err := a.p.reply()
		if err != nil {
			return err
		}
		return f(r.Stat, r.Errno)
	}
}

// Get calls got with the regular file at path: with what it was before its content was read, which
// got need not read; or with the reason why there is none.
func (a *Asker) Get(path string, got func(st Stat, content io.Reader, errno unix.Errno) error) error {
	if err := a.p.out.JSON(request{Op: opGet, Path: []byte(path)}); err != nil {
		return err
	}
	return a.expect(func() error {
		r, err := a.p.reply()
		if err != nil {
			return err
		}
		if r.Errno == 0 && r.Stat.Type != unix.S_IFREG {
			return ErrDamaged
		}
		if r.Errno != 0 {
			return got(Stat{}, nil, r.Errno)
		}
		a.p.in.Begin()
		if err := got(r.Stat, a.p, 0); err != nil || a.p.in.Ended() {
			return err
		}
		_, err = io.Copy(io.Discard, struct{ io.Reader }{a.p})
		return err
	})
}
