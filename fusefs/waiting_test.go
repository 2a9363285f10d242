package fusefs

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/hanwen/go-fuse/v2/fuse"

	"wolffia/fusefs/backing"
	"wolffia/fusefs/gate"
	"wolffia/internal/test/wait"
	"wolffia/perm"
)

// A waitingTree is a tree that no kernel knows of, with a file called "big" whose copy lets the
// rules change.
type waitingTree struct {
	*tree
	t   *testing.T
	dir string
	big *node
}

// newWaitingTree returns one of a copied tree, or of a direct one in which big has another name
// outside.
func newWaitingTree(t *testing.T, copied bool, files ...string) *waitingTree {
	t.Helper()
	base := t.TempDir()
	w := &waitingTree{t: t, dir: filepath.Join(base, "host")}
	for _, name := range append(files, "big") {
		write(t, w.dir, name, "content of "+name)
	}
	if err := os.Truncate(filepath.Join(w.dir, "big"), backing.CopyStep+1); err != nil { // a hole, which is copied in no time
		t.Fatal(err)
	}
	opts := Options{Rules: compiled(t, "**=write"), NoWatch: true, Copy: copyOf(t, setup{Copied: copied}, base)}
	if !copied {
		if err := os.Link(filepath.Join(w.dir, "big"), filepath.Join(base, "outside")); err != nil {
			t.Fatal(err)
		}
	}
	root, err := os.Open(w.dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	opts.Root = int(root.Fd())
	if w.tree, err = newTree(&opts); err != nil {
		t.Fatal(err)
	}
	w.kernel.dev.Epochs = true // else a change of rules waits for the kernel
	t.Cleanup(func() {
		w.watch.close()
		w.close()
	})
	w.big = w.table.get(known(t, w.tree, rootID, "big"))
	return w
}

func compiled(t *testing.T, rules ...string) Rules {
	t.Helper()
	p, err := perm.Compile(parseRules(t, rules...))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// begin takes the locks with which a request that changes something begins, end releases them.
func (w *waitingTree) begin() {
	w.changeMu.RLock()
	w.levels.rulesMu.RLock()
}

func (w *waitingTree) end() {
	w.levels.rulesMu.RUnlock()
	w.changeMu.RUnlock()
}

// whileQuiet starts f, which waits for a request that has begun until no other is answered.
func (w *waitingTree) whileQuiet(f func(*Server)) (done chan struct{}) {
	w.t.Helper()
	done = make(chan struct{})
	go func() {
		defer close(done)
		f(&Server{tree: w.tree})
	}()
	wait.Until(w.t, "a writer waits", func() bool {
		free := w.changeMu.TryRLock()
		if free {
			w.changeMu.RUnlock()
		}
		return !free
	})
	return done
}

// Two requests change a large file at once, as the parts of a mapping are written back, and new
// rules or a review wait for both: one of them copies the file, and all end.
func TestCopyHoldsNobodyUp(t *testing.T) {
	for _, name := range []string{"Copied", "Direct"} {
		t.Run(name, func(t *testing.T) {
			w := newWaitingTree(t, name == "Copied")
			change := func() chan struct{} {
				done := make(chan struct{})
				go func() {
					defer close(done)
					defer w.end()
					lock, errno := w.contents.unshare(gate.OpWrite, &fuse.InHeader{}, w.big, all)
					if errno != 0 {
						t.Error(errno)
						return
					}
					lock.RUnlock()
				}()
				return done
			}
			w.begin()
			w.begin()
			quiet := w.whileQuiet(func(s *Server) { _ = s.Quiesce(func() error { return nil }) })
			first := change()
			wait.Until(t, "the file is copied", func() bool {
				lock := w.contents.contentLock(w.big)
				free := lock.TryRLock()
				if free {
					lock.RUnlock()
				}
				return !free
			})
			second := change() // it holds the review up, that the end of the copy
			wait.Receive(t, "the review", quiet)
			wait.Receive(t, "the first change", first)
			wait.Receive(t, "the second change", second)
		})
	}
}

// A request during which the rules have changed, while it copied a file, is finished by the new
// ones.
func TestNewRulesDuringACopy(t *testing.T) {
	in := func(n *node) fuse.InHeader { return fuse.InHeader{NodeId: n.id} }
	root := fuse.InHeader{NodeId: rootID}
	for name, test := range map[string]struct {
		rules []string
		do    func(w *waitingTree) fuse.Status
		want  syscall.Errno
		both  bool // also in a direct tree
	}{
		"write": {[]string{"big=read"}, func(w *waitingTree) fuse.Status {
			_, status := w.Write(nil, &fuse.WriteIn{InHeader: in(w.big), Size: 1}, []byte("x"))
			return status
		}, syscall.EACCES, true},
		"truncate": {[]string{"big=none"}, func(w *waitingTree) fuse.Status {
			i := fuse.SetAttrIn{}
			i.NodeId, i.Valid, i.Size = w.big.id, fuse.FATTR_SIZE, backing.CopyStep+1
			return w.SetAttr(nil, &i, &fuse.AttrOut{})
		}, syscall.ENOENT, true},
		"link": {[]string{"big=none"}, func(w *waitingTree) fuse.Status {
			return w.Link(nil, &fuse.LinkIn{InHeader: root, Oldnodeid: w.big.id}, "mine", &fuse.EntryOut{})
		}, syscall.ENOENT, false},
		"link to": {[]string{"mine=none"}, func(w *waitingTree) fuse.Status {
			return w.Link(nil, &fuse.LinkIn{InHeader: root, Oldnodeid: w.big.id}, "mine", &fuse.EntryOut{})
		}, syscall.EACCES, false},
		"rename": {[]string{"big=none"}, func(w *waitingTree) fuse.Status {
			return w.Rename(nil, &fuse.RenameIn{InHeader: root, Newdir: rootID}, "big", "mine")
		}, syscall.EACCES, false},
		"rename over": {[]string{"other=read"}, func(w *waitingTree) fuse.Status {
			return w.Rename(nil, &fuse.RenameIn{InHeader: root, Newdir: rootID}, "big", "other")
		}, syscall.EACCES, false},
		"copy from": {[]string{"other=none"}, func(w *waitingTree) fuse.Status {
			_, status := w.CopyFileRange(nil, &fuse.CopyFileRangeIn{InHeader: in(w.table.get(known(w.t, w.tree, rootID, "other"))), NodeIdOut: w.big.id, Len: 5})
			return status
		}, syscall.ENOENT, true},
		"copy to": {[]string{"big=read"}, func(w *waitingTree) fuse.Status {
			_, status := w.CopyFileRange(nil, &fuse.CopyFileRangeIn{InHeader: in(w.table.get(known(w.t, w.tree, rootID, "other"))), NodeIdOut: w.big.id, Len: 5})
			return status
		}, syscall.EACCES, true},
	} {
		for _, copied := range []bool{true, false} {
			if !copied && !test.both {
				continue
			}
			t.Run(name+map[bool]string{true: "/Copied", false: "/Direct"}[copied], func(t *testing.T) {
				w := newWaitingTree(t, copied, "other")
				known(w.t, w.tree, rootID, "other")
				w.begin()
				rules := compiled(t, append([]string{"**=write"}, test.rules...)...)
				set := w.whileQuiet(func(s *Server) { s.SetRules(rules) })
				status := test.do(w)
				select {
				case <-set:
				default:
					if status.Ok() {
						t.Error("the copy held the new rules up")
					}
				}
				w.end()
				wait.Receive(t, "the change of rules", set)
				if syscall.Errno(status) != test.want {
					t.Errorf("%v, want %v", syscall.Errno(status), test.want)
				}
				for _, name := range []string{w.dir + "/mine", filepath.Dir(w.dir) + "/upper/mine"} {
					if _, err := os.Lstat(name); err == nil {
						t.Errorf("%s was made", name)
					}
				}
				for name, size := range map[string]int64{"host/other": 16, "host/big": backing.CopyStep + 1, "upper/other": 0} {
					if st, err := os.Lstat(filepath.Join(filepath.Dir(w.dir), name)); err == nil && st.Size() != size {
						t.Errorf("%s has %d bytes", name, st.Size())
					}
				}
			})
		}
	}
}
