package cow

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"wolffia/internal/sys/beneath"
	"wolffia/perm"
)

// Bounds of the bytes that are written before files are put in place, and how many flushes the
// disk gets at a time.
const (
	maxBatch      = 4 * flushers // files, whose directories are open
	maxBatchBytes = 64 << 20     // bytes, after which a batch ends
	flushers      = 16
)

// errTempTaken is the error for a temporary file that another process of the host has changed.
var errTempTaken = errors.New("another process has changed the temporary file of the apply")

// A draft is a file of Apply that waits under a temporary name.
type draft struct {
	*change
	dir    int // the host's directory
	name   string
	temp   string
	object *object // the temporary file
	digest string
	host   *object // the object that it replaces; may be nil
}

// applyFiles applies changes of files and symbolic links, a batch at a time: all are written and
// flushed, and then put in place one by one.
func (a *applying) applyFiles(todo []*change) {
	most := batchSize()
	for len(todo) > 0 && a.canContinue() {
		n, size := 0, int64(0)
		for n < len(todo) && n < most && size < maxBatchBytes {
			if todo[n].content {
				size += todo[n].Size
			}
			n++
		}
		a.applyBatch(todo[:n])
		todo = todo[n:]
	}
}

// batchSize returns how many files a batch may have within this process's limit of open files,
// which its user may have set low (ulimit -n).
func batchSize() int {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return 1
	}
	return batchWithin(limit.Cur)
}

// batchWithin takes an eighth of the limit: a directory for each file of a batch, and as many
// flushes. The tree takes half of it, and the rest of the process needs some dozens.
func batchWithin(openFiles uint64) int { return int(max(1, min(openFiles/16, maxBatch))) }

func (a *applying) applyBatch(batch []*change) {
	var drafts []*draft
	defer func() {
		for _, d := range drafts {
			unix.Close(d.dir)
		}
	}()
	var steps []step
	for _, c := range batch {
		if d := a.draft(c); d != nil {
			drafts = append(drafts, d)
			if c.content {
				steps = append(steps, step{Op: stepMake, Dir: []byte(parentOf(c.Path)), Temp: []byte(d.temp)})
			}
		}
		if a.failure != nil {
			return
		}
	}
	if err := a.undo.begin(steps...); err != nil {
		a.fail(batch[0], err)
		return
	}
	a.reached("apply: files noted")
	var written []*draft
	for _, d := range drafts {
		if !a.canContinue() {
			break
		}
		if !d.content {
			a.applyMode(d)
		} else if err := a.write(d); errors.Is(err, errTempTaken) {
			a.conflict(d.change, err.Error())
		} else if err != nil {
			a.fail(d.change, err)
		} else {
			written = append(written, d)
			a.reached("apply: file written")
		}
	}
	if a.failure == nil {
		a.place(batch[0], written)
	}
	for _, d := range drafts {
		if a.state[d.change] != applied && d.object != nil {
			if o, err := statAt(d.dir, d.temp); err == nil && o != nil && o.Ino == d.object.Ino {
				_ = unix.Unlinkat(d.dir, d.temp, 0)
			}
		}
	}
}

// draft opens the directory of c, and stats the object that the host has there now. It returns nil
// if c is skipped.
func (a *applying) draft(c *change) *draft {
	dir, name, err := a.parent(c.Path)
	if errors.Is(err, unix.ENOENT) {
		if a.force && a.remakeParents(c) {
			dir, name, err = a.parent(c.Path)
		}
		if err != nil && a.failure == nil {
			a.conflict(c, "its directory was deleted on the host")
			return nil
		}
	}
	if err != nil {
		a.fail(c, err)
		return nil
	}
	d := &draft{change: c, dir: dir, name: name, temp: a.undo.temp()}
	d.host, err = statAt(dir, name)
	switch {
	case err != nil:
		a.fail(c, err)
	case makesGit(dir, name):
		c.Denied = becomesGit
		a.skip(c)
	case d.host == nil && c.host != nil && c.host.isDir(): // it was replaced, or moved away
		return d
	case (d.host == nil) != (c.host == nil), d.host != nil && !d.host.unchanged(c.host):
		a.conflict(c, "changed on the host")
	default:
		// A change of the inode's mode would show under its other names as well, which the rules
		// may forbid.
		c.content = c.content || d.host != nil && d.host.isFile() && d.host.Nlink > 1
		return d
	}
	unix.Close(dir)
	return nil
}

// remakeParents makes the host's directories above c that were deleted there.
func (a *applying) remakeParents(c *change) bool {
	for i := range len(c.Path) {
		if c.Path[i] != '/' {
			continue
		}
		dir, name, err := a.parent(c.Path[:i])
		if err != nil {
			return false
		}
		release, err := Claim(dir, name)
		if err != nil || a.Rules.Child(a.plan.state(parentOf(c.Path[:i])), name, true) < perm.Write || makesGit(dir, name) {
			release()
			unix.Close(dir)
			a.conflict(c, "a directory above it was deleted on the host, and the rules do not allow to make it")
			return false
		}
		err = unix.Mkdirat(dir, name, 0o755)
		release()
		unix.Close(dir)
		if err != nil && !errors.Is(err, unix.EEXIST) {
			a.fail(c, err)
			return false
		}
	}
	return true
}

// applyMode gives a file of the host's another mode.
func (a *applying) applyMode(d *draft) {
	fd, err := beneath.Open(d.dir, d.name, unix.O_PATH|unix.O_NOFOLLOW, 0)
	if err != nil {
		a.fail(d.change, err)
		return
	}
	defer unix.Close(fd)
	o, err := statAt(fd, "")
	if err == nil && !o.unchanged(d.host) {
		a.conflict(d.change, "changed on the host")
		return
	}
	var digest string
	if err == nil { // before: the new mode can forbid to read it
		digest, err = a.digest(d.change)
	}
	if err == nil {
		err = unix.Fchmodat(unix.AT_FDCWD, procPath(fd), d.NewMode, 0)
	}
	if err == nil {
		o, err = statAt(fd, "")
	}
	if err != nil {
		a.fail(d.change, err)
		return
	}
	a.rebase(d.change, o, digest)
	if a.state[d.change] == pending {
		a.finish(d.change)
	}
}

// write makes the temporary file of d.
func (a *applying) write(d *draft) error {
	if d.upper.object.isLink() {
		var target string
		err := a.inOwn(d.Path, func(dir int, name string) (err error) { target, err = beneath.Readlink(dir, name); return err })
		if err == nil {
			err = unix.Symlinkat(target, d.dir, d.temp)
		}
		if err == nil {
			_ = unix.UtimesNanoAt(d.dir, d.temp, times(d.upper.object), unix.AT_SYMLINK_NOFOLLOW)
			if d.object, err = statAt(d.dir, d.temp); err == nil && d.object == nil {
				err = errTempTaken
			}
		}
		return err
	}
	from, mode, err := a.contentOf(d.change)
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := beneath.Create(d.dir, d.temp, 0o600)
	if err != nil {
		return err
	}
	defer to.Close()
	fd := int(to.Fd())
	if d.object, err = statAt(fd, ""); err != nil {
		return err
	}
	sum := sha256.New()
	if err := copyContent(to, from, sum); err != nil {
		return err
	}
	d.digest = hex.EncodeToString(sum.Sum(nil))
	if d.host != nil && d.host.isFile() {
		a.keepAttributes(d, to)
	}
	if err := unix.Fchmod(fd, mode); err != nil {
		return err
	}
	if d.part != nil { // nowhere else is this content
		d.object, err = statAt(fd, "")
		return err
	}
	// The times are as in the sandbox, so that a build knows which files are newer.
	if err := unix.UtimesNanoAt(unix.AT_FDCWD, procPath(fd), times(d.upper.object), 0); err != nil {
		return err
	}
	d.object, err = statAt(fd, "")
	return err
}

// contentOf opens what is applied of c, with the mode that it gets: of a part that of the host.
func (a *applying) contentOf(c *change) (io.ReadCloser, uint32, error) {
	if c.part != nil {
		return io.NopCloser(bytes.NewReader(c.part.content)), c.OldMode, nil
	}
	f, err := a.openUpper(c)
	return f, c.NewMode, err
}

func times(o *object) []unix.Timespec {
	return []unix.Timespec{{Sec: o.Atime.Sec, Nsec: int64(o.Atime.Nsec)}, {Sec: o.Mtime.Sec, Nsec: int64(o.Mtime.Nsec)}}
}

// keepAttributes gives a file the owner and the extended attributes, ACLs among them, of the one
// that it replaces, as far as this user may.
func (a *applying) keepAttributes(d *draft, to *os.File) {
	if d.host.Uid != d.object.Uid || d.host.Gid != d.object.Gid {
		_ = to.Chown(int(d.host.Uid), int(d.host.Gid))
	}
	old, err := openFile(d.dir, d.name)
	if err != nil {
		return
	}
	defer old.Close()
	list := make([]byte, 64<<10)
	n, err := unix.Flistxattr(int(old.Fd()), list)
	if err != nil || n == 0 {
		return
	}
	value := make([]byte, 64<<10)
	for start, i := 0, 0; i < n; i++ {
		if list[i] != 0 {
			continue
		}
		attr := string(list[start:i])
		start = i + 1
		if size, err := unix.Fgetxattr(int(old.Fd()), attr, value); err == nil {
			_ = unix.Fsetxattr(int(to.Fd()), attr, value[:size], 0)
		}
	}
}

// copyContent writes the content of from to to and sum, without its zeros of whole blocks.
func copyContent(to *os.File, from io.Reader, sum hash.Hash) error {
	buf := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	size, hole := int64(0), false
	for {
		n, err := io.ReadFull(from, *buf)
		if n > 0 {
			b := (*buf)[:n]
			sum.Write(b)
			if hole = n == len(*buf) && allZero(b); !hole {
				if _, err := to.WriteAt(b, size); err != nil {
					return err
				}
			}
			size += int64(n)
		}
		switch {
		case err == io.EOF, err == io.ErrUnexpectedEOF:
			if hole {
				return to.Truncate(size)
			}
			return nil
		case err != nil:
			return err
		}
	}
}

var buffers = sync.Pool{New: func() any { b := make([]byte, 128<<10); return &b }}

func allZero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}
