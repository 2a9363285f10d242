package fusefs

import (
	"reflect"
	"syscall"
	"testing"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"wolffia/fusefs/backing"
	"wolffia/perm"
)

// Methods without an answer or an effect.
var answerless = map[string]bool{
	"String": true, "SetDebug": true, "Init": true, "OnUnmount": true,
	"Forget": true, "Release": true, "ReleaseDir": true,
}

// hiddenAnswer has each method's errno for a hidden node, or for a hidden name in a directory.
var hiddenAnswer = map[string]syscall.Errno{
	"Lookup": 0, // a negative entry, checked apart
	"Mknod":  unix.EACCES, "Mkdir": unix.EACCES, "Unlink": unix.EACCES, "Rmdir": unix.EACCES,
	"Rename": unix.EACCES, "Symlink": unix.EACCES, "Create": unix.EACCES, "Link": unix.ENOENT,
	"GetAttr": unix.ENOENT, "SetAttr": unix.ENOENT, "Readlink": unix.ENOENT,
	"Read": unix.ENOENT, "Write": unix.ENOENT, "Lseek": unix.ENOENT, "CopyFileRange": unix.ENOENT,
	"Fsync": unix.ENOENT, "Fallocate": unix.ENOENT, "ReadDir": unix.ENOENT,
	"ReadDirPlus": unix.ENOENT, "FsyncDir": unix.ENOENT, "StatFs": unix.ENOENT,
	"Access": unix.ENOSYS, "GetXAttr": unix.ENOSYS, "ListXAttr": unix.ENOSYS,
	"SetXAttr": unix.ENOSYS, "RemoveXAttr": unix.ENOSYS, "Tmpfile": unix.EOPNOTSUPP,
	"Open": unix.ENOSYS, "GetLk": unix.ENOSYS, "SetLk": unix.ENOSYS, "SetLkw": unix.ENOSYS,
	"Writev": unix.ENOSYS, "Ioctl": unix.ENOTTY, "Flush": unix.ENOSYS, "OpenDir": unix.ENOSYS,
	"Statx": unix.ENOSYS,
}

// Every method of the interface is called for a hidden node: none may answer
// as if it were there, and each new one must be thought about.
func TestEveryMethodPassesTheGate(t *testing.T) {
	typ := reflect.TypeFor[fuse.RawFileSystem]()
	for i := range typ.NumMethod() {
		m := typ.Method(i)
		want, ok := hiddenAnswer[m.Name]
		if ok == answerless[m.Name] {
			t.Errorf("%s is neither gated nor listed as refused", m.Name)
			continue
		}
		if answerless[m.Name] {
			continue
		}
		t.Run(m.Name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, dir, "file", "secret")
			tr := testTree(t, dir, hideAll{})
			status, denied := callHidden(t, tr, m)
			if status != want {
				t.Errorf("%s: %v, want %v", m.Name, status, want)
			}
			if refusal := want == unix.ENOSYS || want == unix.ENOTTY || want == unix.EOPNOTSUPP; denied == refusal {
				t.Errorf("%s: reported as a denial: %t", m.Name, denied)
			}
		})
	}
}

// hideAll are Rules by which nothing exists.
type hideAll struct{}

func (hideAll) Root() perm.State                             { return 0 }
func (hideAll) RootLevel() perm.Level                        { return perm.None }
func (hideAll) Enter(perm.State, string) perm.State          { return 0 }
func (hideAll) Child(perm.State, string, bool) perm.Level    { return perm.None }
func (hideAll) Constant(s perm.State) (l perm.Level, b bool) { return perm.None, true }

// testTree returns a tree over dir that no kernel knows of.
func testTree(t *testing.T, dir string, rules Rules) *tree {
	t.Helper()
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	tr, err := newTree(&Options{Root: fd, Rules: rules})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		tr.watch.close()
		tr.close()
	})
	return tr
}

// callHidden calls m with its structures zeroed but for the node they are
// about: a file or directory that the kernel holds though it is hidden.
func callHidden(t *testing.T, tr *tree, m reflect.Method) (syscall.Errno, bool) {
	t.Helper()
	denied := false
	tr.gate.report = func(Denial) { denied = true }
	root := tr.table.get(rootID)
	h, _ := tr.acquire(root, usePath)
	defer h.release()
	obj, errno := tr.Examine(backing.At{FD: h.fd, Name: "file"})
	if errno != 0 {
		t.Fatal(errno)
	}
	e, _ := tr.entry(rootID, "file")
	file := tr.enter(&e, lookupResult{obj: obj, fd: -1}, &fuse.EntryOut{})
	root.setLevel(perm.None, states{})

	onDir := map[string]bool{
		"Lookup": true, "Mknod": true, "Mkdir": true, "Unlink": true, "Rmdir": true, "Rename": true,
		"Link": true, "Symlink": true, "Create": true, "ReadDir": true, "ReadDirPlus": true, "FsyncDir": true,
	}
	id := file.id
	if onDir[m.Name] {
		id = rootID
	}
	var args []reflect.Value
	var lookup *fuse.EntryOut
	for i := range m.Type.NumIn() {
		p := m.Type.In(i)
		switch {
		case p == reflect.TypeFor[*fuse.DirEntryList]():
			args = append(args, reflect.ValueOf(fuse.NewDirEntryList(make([]byte, 4096), 0)))
		case p.Kind() == reflect.Pointer:
			v := reflect.New(p.Elem())
			setField(v.Elem(), "NodeId", id)
			setField(v.Elem(), "Oldnodeid", file.id)
			setField(v.Elem(), "Newdir", rootID)
			setField(v.Elem(), "NodeIdOut", file.id)
			if e, ok := v.Interface().(*fuse.EntryOut); ok {
				*e, lookup = fuse.EntryOut{}, e
			}
			args = append(args, v)
		case p.Kind() == reflect.String:
			args = append(args, reflect.ValueOf("file"))
		default:
			args = append(args, reflect.Zero(p))
		}
	}
	results := reflect.ValueOf(tr).MethodByName(m.Name).Call(args)
	if m.Name == "Lookup" && (lookup.NodeId != 0 || lookup.Ino != 0) {
		t.Errorf("Lookup told of a hidden name: %+v", lookup)
	}
	return syscall.Errno(results[len(results)-1].Interface().(fuse.Status)), denied
}

// setField sets v's field called name, wherever it is embedded.
func setField(v reflect.Value, name string, x uint64) {
	if f := v.FieldByName(name); f.IsValid() && f.Kind() == reflect.Uint64 {
		f.SetUint(x)
	}
}
