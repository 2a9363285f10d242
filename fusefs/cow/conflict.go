package cow

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"wolffia/internal/sys/beneath"
	"wolffia/perm"
)

// Digest returns the digest of a file's content, from its beginning.
func Digest(f io.ReaderAt) (string, error) {
	h := sha256.New()
	if _, err := io.Copy(h, io.NewSectionReader(f, 0, 1<<62)); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// matches reports whether the host's file, which is at p, has the recorded content. It reads the
// file only if its attributes do not tell.
func (p *plan) matches(rec *Record, host *object, at string) (bool, error) {
	if rec.Type != host.typ() || rec.Size != int64(host.Size) {
		return false, nil
	}
	same := rec.Ino == host.Ino && rec.Mtime == host.mtime()
	if same && rec.Ctime == host.ctime() {
		return true, nil
	}
	same = same && rec.onlyNamed(host)
	if rec.Digest == "" || !host.isFile() {
		return same, nil
	}
	f, err := openFile(p.Root, at)
	if errors.Is(err, unix.EACCES) {
		return same, nil
	}
	if err != nil {
		return false, nil // it is changing
	}
	defer f.Close()
	digest, err := Digest(f)
	return digest == rec.Digest, err
}

// onlyNamed reports whether the host's file, of the recorded inode, size and mtime, has got or
// lost names since, or another mode, so that this is why its ctime is another one; and is no file
// that was made since with a number that was free.
func (r *Record) onlyNamed(host *object) bool {
	return r.Links != 0 && r.Btime == nanoseconds(host.Btime) && (r.Links != host.Nlink || r.Mode != uint32(host.Mode)&0o7777)
}

// changedOnHost returns why the host's object, at the path at, is not the recorded one; empty if
// it is.
func (p *plan) changedOnHost(rec *Record, host *object, at string) (string, error) {
	same, err := p.matches(rec, host, at)
	switch {
	case err != nil:
		return "", fmt.Errorf("read %q: %w", at, err)
	case same:
		return "", nil
	case rec.Type != host.typ():
		return "replaced on the host", nil
	}
	return "changed on the host", nil
}

// goneConflict returns why the host's object, at the path at, must not go: it, or something in it,
// is not what the sandbox has replaced or deleted. up is the state inside of its path in the
// sandbox. Empty: it may go.
func (p *plan) goneConflict(rec *Record, host *object, at string, up perm.State) (string, error) {
	if host.isDir() && rec.Type == unix.S_IFDIR {
		return p.strangers(at, up, p.state(at))
	}
	return p.changedOnHost(rec, host, at)
}

// hasGit is the reason not to delete a directory: a repository has commits that no other place may
// have.
const hasGit = "it has a git repository in it"

// strangers returns why the host's directory dir must not be deleted: something in it is not what
// the sandbox has deleted. up and low are the states of the directory's path inside and of its
// own.
func (p *plan) strangers(dir string, up, low perm.State) (string, error) {
	type level struct {
		dir     string
		up, low perm.State
	}
	var reason string
	seen := 0
	for todo := []level{{dir, up, low}}; len(todo) > 0 && reason == ""; {
		d := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		fd, err := openDir(p.Root, d.dir)
		if errors.Is(err, unix.EACCES) {
			return isShut, nil
		}
		if fd < 0 {
			return "changed on the host", err
		}
		err = names(fd, func(name string) error {
			at := join(d.dir, name)
			o, err := statAt(fd, name)
			if o == nil || err != nil || p.moved[at] != "" {
				return err
			}
			if seen++; seen > maxEntries {
				return errTooMany
			}
			rec, known := p.records[at]
			l := min(p.Rules.Child(d.up, name, o.isDir()), p.Rules.Child(d.low, name, o.isDir()))
			switch {
			case IsGit(name):
				reason = hasGit
			case l < perm.Read:
				reason = "the host has something in it that the rules hide"
			case l < perm.Write:
				reason = fmt.Sprintf("the rules do not allow to delete %s in it", Quote(at))
			case !known || rec.Type == 0:
				reason = fmt.Sprintf("the host has made %s in it", Quote(at))
			case o.isMount():
				reason = "the host has another file system mounted in it"
			case o.isDir() && rec.Type == unix.S_IFDIR:
				todo = append(todo, level{at, p.Rules.Enter(d.up, name), p.Rules.Enter(d.low, name)})
			default:
				same, err := p.matches(&rec, o, at)
				if err != nil {
					return err
				}
				if !same {
					reason = fmt.Sprintf("the host has changed %s in it", Quote(at))
				}
			}
			if reason != "" {
				return io.EOF
			}
			return nil
		})
		unix.Close(fd)
		if errors.Is(err, unix.EACCES) {
			return isShut, nil
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return "", fmt.Errorf("list %q: %w", d.dir, err)
		}
	}
	return reason, nil
}

// stale reports whether the upper layer's file was applied before and has not been changed since.
// It is then not a change, whatever the host has at its path now.
func (p *plan) stale(c *change) (bool, error) {
	o := c.upper.object
	if c.rec == nil || !c.rec.Applied || c.rec.Type != o.typ() || c.rec.Size != int64(o.Size) {
		return false, nil
	}
	if !o.isFile() {
		return c.rec.Mtime == o.mtime(), nil
	}
	if c.upper.lower != "" && c.upper.lower == c.lower {
		return true, nil // it has the content that the host has, which this user may not be able to read
	}
	f, err := p.openUpper(c)
	if err != nil {
		return false, err
	}
	defer f.Close()
	digest, err := Digest(f)
	return digest == c.rec.Digest, err
}

// openUpper opens the content of a regular file of the upper layer.
func (p *plan) openUpper(c *change) (*os.File, error) {
	if c.upper.lower != "" {
		return openFile(p.Root, c.upper.lower)
	}
	return asFile(p.openOwn(p.Upper, c.Path))
}

// equalContent reports whether c, a file or symbolic link that both layers have, has the same
// content in both.
func (p *plan) equalContent(c *change, d *place) (bool, error) {
	name := c.upper.name
	switch {
	case c.upper.object.isLink():
		a, err := p.ownLink(d.upperFD, name)
		if err != nil {
			return false, err
		}
		b, err := beneath.Readlink(d.hostFD, name)
		return a == b && err == nil, nil
	case !c.upper.object.isFile():
		return true, nil
	case c.upper.lower == c.lower && c.lower != "":
		return true, nil
	case c.upper.object.Size != c.host.Size:
		return false, nil
	}
	var a *os.File
	var err error
	if c.upper.lower != "" {
		a, err = openFile(p.Root, c.upper.lower)
	} else {
		a, err = asFile(p.openOwn(d.upperFD, name))
	}
	if err != nil {
		return false, fmt.Errorf("read %q in the upper layer: %w", c.Path, err)
	}
	defer a.Close()
	b, err := openFile(d.hostFD, name)
	if err != nil {
		return false, nil // it shows as changed
	}
	defer b.Close()
	return sameBytes(a, b)
}

// sameBytes reports whether two files have the same content.
func sameBytes(a, b *os.File) (bool, error) {
	const size = 128 << 10
	x, y := make([]byte, 8<<10), make([]byte, 8<<10)
	for {
		n, err := io.ReadFull(a, x)
		if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
			return false, err
		}
		m, errb := io.ReadFull(b, y)
		if errb != nil && errb != io.EOF && errb != io.ErrUnexpectedEOF {
			return false, nil
		}
		if !bytes.Equal(x[:n], y[:m]) {
			return false, nil
		}
		if err != nil {
			return true, nil
		}
		if len(x) < size {
			x, y = make([]byte, size), make([]byte, size)
		}
	}
}
