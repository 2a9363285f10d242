package fusefs

import (
	"syscall"
	"testing"
	"unsafe"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"wolffia/fusefs/device"
	"wolffia/fusefs/gate"
	"wolffia/perm"
)

// testBuffers returns buffers that live as long as the test.
func testBuffers(t *testing.T) *device.Buffers {
	t.Helper()
	b, err := device.NewBuffers()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Free)
	return b
}

// A tree without its directory answers for the attributes of its root, which count for no time,
// and refuses the rest. It gets its directory once.
func TestBlank(t *testing.T) {
	tr, err := emptyTree(&Options{NoWatch: true, Owner: Owner{7, 8}})
	if err != nil {
		t.Fatal(err)
	}
	defer tr.close()
	b := testBuffers(t)
	const outHeader = int(unsafe.Sizeof(fuse.OutHeader{}))
	ask := func(opcode uint32, node uint64) (size int, errno syscall.Errno) {
		clear(b.Out[:4096])
		*(*fuse.InHeader)(unsafe.Pointer(&b.In[0])) = fuse.InHeader{Length: 4096, Opcode: opcode, Unique: 9, NodeId: node}
		size = tr.respond.answer(b, 4096)
		return size, syscall.Errno(-(*fuse.OutHeader)(unsafe.Pointer(&b.Out[0])).Status)
	}
	silent := map[uint32]bool{uint32(gate.OpForget): true, uint32(gate.OpBatchForget): true, uint32(gate.OpInterrupt): true}
	for opcode := range uint32(100) {
		size, errno := ask(opcode, rootID)
		switch {
		case silent[opcode]:
			if size != 0 {
				t.Errorf("opcode %d: an answer of %d bytes", opcode, size)
			}
		case opcode == uint32(gate.OpGetattr):
			a := (*fuse.AttrOut)(unsafe.Pointer(&b.Out[outHeader]))
			if errno != 0 || a.AttrValid != 0 || a.AttrValidNsec != 0 || a.Mode != unix.S_IFDIR|0o755 || a.Uid != 7 || a.Gid != 8 || size != outHeader+int(unsafe.Sizeof(*a)) {
				t.Errorf("the root: %v, %+v", errno, a)
			}
		case opcode == uint32(gate.OpStatfs):
			if errno != 0 {
				t.Errorf("statfs: %v", errno)
			}
		case errno == 0 || size != outHeader:
			t.Errorf("opcode %d: %d bytes, %v", opcode, size, errno)
		case gate.Refuses(gate.Op(opcode)) && errno != gate.Check(gate.Op(opcode), perm.None): // some count for the whole life of the mount
			t.Errorf("opcode %d: %v, and later %v", opcode, errno, gate.Check(gate.Op(opcode), perm.None))
		}
	}
	if _, errno := ask(uint32(gate.OpGetattr), 2); errno == 0 {
		t.Error("it knows another node")
	}

	s := &Server{tree: tr}
	rules := newFakeRules([]fakeRule{{"a", perm.Read}})
	if err := s.Attach(-1, rules, nil, false); err == nil || tr.root != nil {
		t.Errorf("it took what is no directory: %v", err)
	}
	dir := t.TempDir()
	write(t, dir, "a", "content")
	root, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(root)
	if err := s.Attach(root, rules, nil, false); err != nil {
		t.Fatal(err)
	}
	if tr.watch != nil {
		t.Error("the host is watched, and was not to be")
	}
	if err := s.Attach(root, rules, nil, false); err == nil {
		t.Error("it took a second directory")
	}
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		t.Fatal(err)
	}
	_, errno := ask(uint32(gate.OpGetattr), rootID)
	if a := (*fuse.AttrOut)(unsafe.Pointer(&b.Out[outHeader])); errno != 0 || a.Ino != st.Ino {
		t.Errorf("the root is %v, %+v; the host's is %d", errno, a, st.Ino)
	}
}

// A copy is not served before its directory is known, and nothing is left open.
func TestBlankCopy(t *testing.T) {
	if _, err := ServeEmpty(t.Context(), nil, &Options{Copy: &Copy{}}); err == nil {
		t.Error("it is served")
	}
}
