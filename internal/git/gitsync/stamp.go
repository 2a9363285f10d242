package gitsync

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"wolffia/internal/sys/statefile"
)

// tick is the coarsest difference of two times of files on Linux: a change within one tick of the
// last one is not seen by times.
const tick = 20 * time.Millisecond

// A stamp shows whether a git directory has changed: the times of few files, and of each directory
// below refs, which changes with each loose reference.
type stamp struct {
	sum    string
	newest int64  // time, in nanoseconds
	lock   string // a lock that git has at present
	fifo   string // a FIFO, at which git would wait
}

// files are those of a working tree's own directory, and those of the repository.
var (
	ownFiles    = []string{"HEAD", "index"} // and those of operations
	commonFiles = []string{"packed-refs", "config", "info/exclude", "info/attributes", "info/sparse-checkout", "logs/refs/stash", "hooks", "worktrees"}
	ownLocks    = []string{"index.lock", "HEAD.lock"}
	commonLocks = []string{"packed-refs.lock", "config.lock"}
)

// stampOf returns the stamp of a git directory.
func stampOf(own, common tree) (stamp, error) {
	s := stamp{}
	h := sha256.New()
	one := func(t tree, name string) {
		st, err := t.lstat(name)
		fmt.Fprintf(h, "%s\x00", name)
		if err != nil {
			return
		}
		if st.Mode&unix.S_IFMT == unix.S_IFIFO {
			s.fifo = filepath.Join(t.Name(), name)
		}
		_ = binary.Write(h, binary.LittleEndian, []int64{int64(st.Ino), st.Size, st.Mtim.Nano(), st.Ctim.Nano()})
		s.newest = max(s.newest, st.Mtim.Nano(), st.Ctim.Nano())
	}
	locks := func(t tree, names []string) {
		for _, n := range names {
			if s.lock == "" && t.has(n) {
				s.lock = filepath.Join(t.Name(), n)
			}
		}
	}
	for _, n := range ownFiles {
		one(own, n)
	}
	for _, o := range operations {
		one(own, o.file)
	}
	locks(own, ownLocks)
	for _, n := range commonFiles {
		one(common, n)
	}
	locks(common, commonLocks)
	err := common.list("refs", maxRefs, func(dir string, entries []os.DirEntry) error {
		one(common, dir)
		for _, e := range entries {
			if e.Type() == fs.ModeNamedPipe {
				s.fifo = filepath.Join(common.Name(), dir, e.Name())
			}
			if s.lock == "" && strings.HasSuffix(e.Name(), ".lock") {
				s.lock = filepath.Join(common.Name(), dir, e.Name())
			}
		}
		return nil
	})
	s.sum = hex.EncodeToString(h.Sum(nil))
	return s, err
}

// Stamps are what both sides were at when the last sync found nothing, and what stays.
type stamps struct {
	Host    string   `json:"host"`
	Private string   `json:"private"`
	Stays   []string `json:"stays,omitempty"`
	Pending string   `json:"pending,omitempty"`
}

// takeStamps takes the stamps of both sides.
func (p *Pair) takeStamps(private tree) (host, inside stamp, err error) {
	own, err := openTree(p.Host)
	if err != nil {
		return host, inside, err
	}
	defer own.Close()
	common := own
	if b, err := own.read("commondir", 4096); err == nil {
		dir := strings.TrimSuffix(string(b), "\n")
		if !filepath.IsAbs(dir) {
			dir = filepath.Join(p.Host, dir)
		}
		if common, err = openTree(dir); err != nil {
			return host, inside, err
		}
		defer common.Close()
	}
	if host, err = stampOf(own, common); err != nil {
		return host, inside, err
	}
	inside, err = p.stampInside(private)
	return host, inside, err
}

// stampInside takes the stamp of the sandbox's side.
func (p *Pair) stampInside(private tree) (stamp, error) {
	shared, err := p.shared(private)
	if err != nil {
		return stamp{}, err
	}
	defer shared.Close()
	return stampOf(private, shared)
}

// shared opens the copy that has the references.
func (p *Pair) shared(private tree) (tree, error) {
	if p.Common == "" {
		return p.openPrivate(private.Name())
	}
	return p.openPrivate(p.Common)
}

// Unchanged returns the report that a Sync would make without a question to any program, and
// true, if neither side has changed since the last Sync; else false. It costs some calls of
// stat. It does not wait.
func (p *Pair) Unchanged() (Report, bool) {
	private, err := p.openPrivate(p.Private)
	if err != nil {
		return Report{}, false
	}
	defer private.Close()
	taken := time.Now()
	host, in, err := p.takeStamps(private)
	if err != nil {
		return Report{}, false
	}
	var was stamps
	if have, err := p.load(stampFile, &was); !have || err != nil {
		was = stamps{} // no stamp is empty
	}
	if was.same(host, in) {
		return Report{Stays: was.Stays, Pending: was.Pending}, true
	}
	if !p.fresh(private, host, in, was.Host == host.sum) {
		return Report{}, false
	}
	_ = p.mark(host, in, taken, Report{}) // else the next call compares again
	return Report{}, true
}

// PrivateUnchanged reports whether the private copy is as the last Sync, or Begin, left it. It
// reads files alone, and does not need the host's repository. It may report false for one that is:
// of a linked working tree, or while something stays inside.
func (p *Pair) PrivateUnchanged() bool {
	private, err := p.openPrivate(p.Private)
	if err != nil {
		return false
	}
	defer private.Close()
	in, err := p.stampInside(private)
	if err != nil {
		return false
	}
	var was stamps
	if have, err := p.load(stampFile, &was); have && err == nil && was.Private == in.sum {
		return true
	}
	var rec record
	have, err := p.load(stateFile, &rec)
	return have && err == nil && p.Common == "" && busy(private) == "" && private.equals(&rec, nil)
}

// fresh reports whether both sides are as the last sync, or Begin, left them, whatever the times
// of their files. It compares their content; known says that the host's is unchanged. git status
// renews an index, and many files are written in the moment of a sync.
func (p *Pair) fresh(private tree, host, in stamp, known bool) bool {
	var rec record
	have, err := p.load(stateFile, &rec)
	if !have || err != nil || rec.Index == unsettled || host.lock != "" || in.lock != "" || p.interrupted() || p.Common != "" {
		return false
	}
	own, err := openTree(p.Host)
	if err != nil {
		return false
	}
	defer own.Close()
	if own.has("commondir") {
		return false // the next sync tells
	}
	if !known && (busy(own) != "" || !own.equals(&rec, p.Filter)) {
		return false
	}
	return busy(private) == "" && private.equals(&rec, nil) // the filter was applied when the copy was made
}

// equals reports whether a git directory has what both sides had.
func (t tree) equals(rec *record, filter func(string, []byte) []byte) bool {
	now, err := t.table(t)
	if err != nil || now.Head != rec.Base.Head || !maps.Equal(crossing(now.Refs), crossing(rec.Base.Refs)) {
		return false
	}
	if index, err := t.entries(); err != nil || index != rec.Index {
		return false
	}
	list, err := t.stashes()
	if err != nil || !slices.EqualFunc(list, rec.Stash, func(e stash, at string) bool { return e.At == at }) {
		return false
	}
	files, err := t.files(filter)
	return err == nil && maps.Equal(files, rec.Files)
}

// crossing returns those of references that cross.
func crossing(refs map[string]string) map[string]string {
	some := maps.Clone(refs)
	maps.DeleteFunc(some, func(r, _ string) bool { return kind(r) == "" })
	return some
}

// same reports whether the stamps are those that the last sync has left.
func (was *stamps) same(host, in stamp) bool {
	return host.lock == "" && in.lock == "" && was.Host == host.sum && was.Private == in.sum
}

// mark records that both sides need no sync while they have these stamps, which were taken before.
func (p *Pair) mark(host, in stamp, taken time.Time, r Report) error {
	if max(host.newest, in.newest) > taken.Add(-tick).UnixNano() {
		return p.drop(stampFile) // a later change may have the same times
	}
	return statefile.Write(p.path(stampFile), &stamps{host.sum, in.sum, r.Stays, r.Pending})
}
