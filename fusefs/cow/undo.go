package cow

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"wolffia/runtime"
)

// A step describes an operation of Apply with a temporary name in a directory of the host. Apply
// writes a step to Layers.Undo before the operation, so that the next Apply or Discard recovers
// from a crash.
type step struct {
	Op   string `json:"op"`
	Dir  []byte `json:"dir"`            // the host's directory
	Temp []byte `json:"temp"`           // a name in it that nothing else has
	Name []byte `json:"name,omitempty"` // the other name
	Home []byte `json:"home,omitempty"` // of stepStage: the directory of Name

	New uint64 `json:"new,omitempty"` // inode of the object that is put in place
	Old *old   `json:"old,omitempty"` // what must come out
}

// old is what the host is expected to have.
type old struct {
	Ino   uint64 `json:"ino"`
	Type  uint32 `json:"type"`
	Size  uint64 `json:"size"`
	Mtime int64  `json:"mtime"`
}

func oldOf(o *object) *old { return &old{o.Ino, o.typ(), o.Size, o.mtime()} }

func (e *old) is(o *object) bool {
	return e != nil && o.Ino == e.Ino && o.typ() == e.Type && (o.isDir() || o.Size == e.Size && o.mtime() == e.Mtime)
}

// The steps.
const (
	stepMake   = "make"   // make Temp
	stepSwap   = "swap"   // exchange Temp, which is New, and Name, which is Old
	stepPlace  = "place"  // rename Temp, which is New, to Name
	stepRemove = "remove" // rename Name, which is Old, to Temp, and delete it
	stepStage  = "stage"  // rename Name, in Home, to Temp temporarily
)

// An undoLog writes steps.
type undoLog struct {
	f      *os.File
	prefix string
	n      int
	w      *bufio.Writer
}

func (l *Layers) newUndoLog() (*undoLog, error) {
	var b [6]byte
	if _, err := rand.Read(b[:]); err != nil {
		return nil, err
	}
	return &undoLog{f: l.Undo, prefix: TempPrefix + hex.EncodeToString(b[:]) + "-", w: bufio.NewWriter(nil)}, nil
}

// temp returns a new temporary name.
func (u *undoLog) temp() string {
	u.n++
	return u.prefix + strconv.Itoa(u.n)
}

// begin writes steps.
func (u *undoLog) begin(steps ...step) error {
	end, err := u.f.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	u.w.Reset(io.NewOffsetWriter(u.f, end))
	enc := json.NewEncoder(u.w)
	for i := range steps {
		if err := enc.Encode(&steps[i]); err != nil {
			return err
		}
	}
	if err := u.w.Flush(); err != nil {
		return fmt.Errorf("write the undo log: %w", err)
	}
	return nil
}

// flush makes written data durable.
func (u *undoLog) flush() error { return unix.Fdatasync(int(u.f.Fd())) }

// undoReserve is the room for steps, in bytes: Apply finds it when the disk is full.
const undoReserve = 128 << 10

// emptyUndo empties a file of steps.
func emptyUndo(f *os.File) error {
	if err := f.Truncate(0); err != nil {
		return err
	}
	ReserveUndo(f)
	return nil
}

// ReserveUndo has the file system keep room in Layers.Undo, so that Apply works when the disk is
// full. Call it before the layers are used first.
func ReserveUndo(f *os.File) { _ = keepRoom(f, 0, undoReserve) } // without room Apply returns the error

// Recover undoes or finishes the steps that a killed Apply has left on the host. The tree may be
// served.
func (l *Layers) Recover() (err error) {
	st, err := l.Undo.Stat()
	if err != nil || st.Size() == 0 {
		return err
	}
	l.alone(func() {
		l.moved()
		err = l.recover()
	})
	return err
}

// recover is Recover while nothing reads the layers.
func (l *Layers) recover() error {
	steps := map[string][]step{} // the last one of each temporary name counts
	var order []string
	dec := json.NewDecoder(io.NewSectionReader(l.Undo, 0, 1<<62))
	for {
		var s step
		if err := dec.Decode(&s); err != nil {
			break // the end, or torn: then it was not begun
		}
		if len(s.Dir) > 0 && !ValidPath(string(s.Dir)) || len(s.Home) > 0 && !ValidPath(string(s.Home)) || !isName(s.Temp) || len(s.Name) > 0 && !isName(s.Name) {
			continue
		}
		key := string(s.Temp)
		if _, known := steps[key]; !known {
			order = append(order, key)
		}
		steps[key] = append(steps[key], s)
	}
	var staged []step
	for i := len(order) - 1; i >= 0; i-- {
		all := steps[order[i]]
		last := &all[len(all)-1]
		if last.Op == stepStage {
			last.Home = l.homeOf(all)
		}
		err := l.undo(last)
		if errors.Is(err, errTaken) {
			staged = append(staged, *last)
		} else if err != nil {
			return fmt.Errorf("recover an earlier apply in %q: %w", last.Dir, err)
		}
	}
	l.staged = nil
	if len(staged) > 0 {
		if err := l.finishStaged(staged); err != nil {
			return fmt.Errorf("continue an earlier apply: %w", err)
		}
	}
	return l.forgetSteps()
}

// errTaken is the error of undo for a directory whose name another object has.
var errTaken = errors.New("its name is taken")

// forgetSteps empties Undo, unless a directory of the host still has a temporary name.
func (l *Layers) forgetSteps() error {
	if len(l.staged) > 0 {
		return nil
	}
	return emptyUndo(l.Undo)
}

// stillStaged returns the steps, of steps of stepStage, whose directory still has its temporary
// name.
func (l *Layers) stillStaged(steps []step) []step {
	return slices.DeleteFunc(slices.Clone(steps), func(s step) bool {
		o, err := statAt(l.Root, string(s.Temp))
		return o == nil && err == nil
	})
}

// finishStaged renames directories that a killed Apply has staged to the names that the sandbox
// gives them. It also renames the directories that have these names on the host by now, as the
// sandbox does. Changes that are in conflict, or denied, remain for the next Apply.
func (l *Layers) finishStaged(staged []step) error {
	p, err := l.reconciledPlan()
	if err != nil {
		return err
	}
	var some []*change
	for _, c := range p.changes {
		if c.Kind == runtime.ChangeRenamed && slices.ContainsFunc(staged, func(s step) bool { return c.src == string(s.Temp) }) {
			some = append(some, c)
		}
	}
	l.staged = staged
	a := &applying{plan: p, staged: staged, state: map[*change]outcome{}}
	all := p.withNeeded(some)
	if conflict, denied := a.rule(all); conflict+denied == 0 {
		if a.undo, err = l.newUndoLog(); err != nil {
			return err
		}
		a.makeTrees(slices.DeleteFunc(all, func(c *change) bool { return !isTree(c) }))
	}
	if len(l.staged) > 0 {
		l.warn("an apply was killed, and the name of a directory cannot be restored: apply again", "directory", string(l.staged[0].Temp))
	}
	return errors.Join(a.failure, l.Log.Sync())
}

// homeOf returns the last directory of steps that exists: it may have been renamed after the one
// before was written, or not have been any more.
func (l *Layers) homeOf(steps []step) []byte {
	for _, s := range slices.Backward(steps) {
		if fd, err := openDir(l.Root, string(s.Home)); err == nil && fd >= 0 {
			unix.Close(fd)
			return s.Home
		}
	}
	return nil
}

func isName(b []byte) bool { return ValidPath(string(b)) && bytes.IndexByte(b, '/') < 0 }

// undo ends or takes back one step.
func (l *Layers) undo(s *step) error {
	dir, err := openDir(l.Root, string(s.Dir))
	if dir < 0 {
		return err
	}
	defer unix.Close(dir)
	temp, name := string(s.Temp), string(s.Name)
	o, err := statAt(dir, temp)
	if o == nil || err != nil {
		return err // not begun, or ended
	}
	switch {
	case s.Op == stepMake, (s.Op == stepPlace || s.Op == stepSwap) && o.Ino == s.New,
		(s.Op == stepRemove || s.Op == stepSwap) && s.Old.is(o):
		return removeTemp(dir, temp, o)
	case s.Op == stepSwap:
		in, err := statAt(dir, name)
		if err != nil {
			return err
		}
		if in != nil && in.Ino == s.New {
			if err := unix.Renameat2(dir, temp, dir, name, unix.RENAME_EXCHANGE); err != nil {
				return err
			}
			return removeTemp(dir, temp, in)
		}
	}
	if s.Op == stepStage {
		home, err := openDir(l.Root, string(s.Home))
		if err != nil || home < 0 {
			return errors.Join(err, unix.ENOENT)
		}
		defer unix.Close(home)
		return l.unstage(s, dir, home)
	}
	release, err := Claim(dir, name)
	if err != nil {
		return err
	}
	defer release()
	if makesGit(dir, name) { // with what another sandbox has made since
		l.warn("an apply was killed, and "+becomesGit+": move the file by hand", "directory", string(s.Dir), "from", temp, "to", name)
		return nil
	}
	err = unix.Renameat2(dir, temp, dir, name, unix.RENAME_NOREPLACE)
	if errors.Is(err, unix.EEXIST) {
		l.warn("an apply was killed, and its name has been taken since: move the file by hand", "directory", string(s.Dir), "from", temp, "to", name)
		return nil
	}
	return err
}

// unstage undoes a step of stepStage: it restores the name of the host's directory in home, a
// directory's descriptor. If another object has the name by now, unstage leaves the directory, and
// returns errTaken.
func (l *Layers) unstage(s *step, dir, home int) error {
	temp, name := string(s.Temp), string(s.Name)
	p := &plan{Layers: l}
	var err error
	if p.records, err = l.Log.Records(); err != nil {
		return err
	}
	if p.root, err = l.readUpper(); err != nil {
		return err
	}
	release, err := Claim(home, name)
	if err != nil {
		return err
	}
	defer release()
	if o, err := statAt(home, name); err != nil {
		return err
	} else if o != nil || makesGit(home, name) { // with what another sandbox has made since
		return errTaken
	}
	upper := ""
	p.root.each("", func(at string, e *entry) {
		if e.half == Moved && e.lower == temp {
			upper = at
		}
	})
	if err := p.relocateTo(temp, join(string(s.Home), name), upper); err != nil {
		return err
	}
	return unix.Renameat2(dir, temp, home, name, unix.RENAME_NOREPLACE)
}

func removeTemp(dir int, name string, o *object) error {
	if o.isDir() {
		return unix.Unlinkat(dir, name, unix.AT_REMOVEDIR)
	}
	return unix.Unlinkat(dir, name, 0)
}

func (l *Layers) warn(text string, args ...any) {
	if l.Logger != nil {
		l.Logger.Warn(text, args...)
	}
}
