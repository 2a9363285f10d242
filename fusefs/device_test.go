package fusefs

import (
	"testing"
	"unsafe"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"wolffia/fusefs/device"
	"wolffia/fusefs/gate"
	"wolffia/perm"
)

// The reply to the kernel's first message asks for a request timeout if the kernel offers one, and
// the kernel's version decides how names are invalidated.
func TestGreeting(t *testing.T) {
	const inHeader, outHeader = unsafe.Sizeof(fuse.InHeader{}), unsafe.Sizeof(fuse.OutHeader{})
	for _, test := range []struct {
		minor   uint32
		flags   uint64
		timeout uint16
		epochs  bool
	}{
		{minor: 45, flags: fuse.CAP_INIT_EXT | fuse.CAP_REQUEST_TIMEOUT, timeout: device.RequestTimeout, epochs: true},
		{minor: 44, flags: fuse.CAP_INIT_EXT, epochs: true},
		{minor: 31},
	} {
		tr, err := newTree(&Options{Root: unix.AT_FDCWD, Rules: newFakeRules([]fakeRule{{"x", perm.Read}}), NoWatch: true})
		if err != nil {
			t.Fatal(err)
		}
		defer tr.close()
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(pair[0])
		defer unix.Close(pair[1])
		var msg struct {
			fuse.InHeader
			major, minor, readAhead, flags, flags2 uint32
			_                                      [11]uint32
		}
		msg.Length, msg.Opcode, msg.Unique = uint32(unsafe.Sizeof(msg)), 26, 7
		msg.major, msg.minor, msg.readAhead = 7, test.minor, 128<<10
		msg.flags, msg.flags2 = uint32(test.flags), uint32(test.flags>>32)
		if _, err := unix.Write(pair[1], unsafe.Slice((*byte)(unsafe.Pointer(&msg)), inHeader+64)); err != nil {
			t.Fatal(err)
		}
		if err := tr.kernel.dev.Greet(pair[0], tr.respond.proto); err != nil {
			t.Fatal(err)
		}
		answer := make([]byte, 4096)
		n, err := unix.Read(pair[1], answer)
		if err != nil || n != int(outHeader+unsafe.Sizeof(fuse.InitOut{})) {
			t.Fatalf("an answer of %d bytes, %v", n, err)
		}
		out := (*fuse.InitOut)(unsafe.Pointer(&answer[outHeader]))
		if out.RequestTimeout != test.timeout || tr.kernel.dev.Epochs != test.epochs {
			t.Errorf("protocol 7.%d: timeout %d, epochs %v; want %d, %v", test.minor, out.RequestTimeout, tr.kernel.dev.Epochs, test.timeout, test.epochs)
		}
	}
}

// Rules that refuse a sync cannot change while they are asked, and can while the disk writes.
func TestRulesDuringASync(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "file", "content")
	tr := testTree(t, dir, compiled(t, "**=write"))
	ids := map[gate.Op]uint64{gate.OpFsync: known(t, tr, rootID, "file"), gate.OpFsyncdir: rootID}
	b, err := device.NewBuffers()
	if err != nil {
		t.Fatal(err)
	}
	defer b.Free()
	free := func() bool {
		free := tr.levels.rulesMu.TryLock()
		if free {
			tr.levels.rulesMu.Unlock()
		}
		return free
	}
	refused := 0
	tr.gate.report = func(Denial) {
		if refused++; free() {
			t.Error("the rules can change while they are asked")
		}
	}
	for _, l := range []perm.Level{perm.Write, perm.None} {
		for o, id := range ids {
			tr.table.get(id).setLevel(l, tr.table.get(id).getState())
			in := fuse.FsyncIn{InHeader: fuse.InHeader{Opcode: uint32(o), Unique: 7, NodeId: id}}
			in.Length = uint32(unsafe.Sizeof(in))
			n := copy(b.In, unsafe.Slice((*byte)(unsafe.Pointer(&in)), in.Length))
			if size := tr.respond.answer(b, n); size != outHeader {
				t.Errorf("an answer of %d bytes", size)
			}
			if got := (*fuse.OutHeader)(unsafe.Pointer(&b.Out[0])).Status; (got == 0) != (l == perm.Write) {
				t.Errorf("operation %d at %v: %d", o, l, got)
			}
			if !free() {
				t.Fatal("a sync keeps the rules")
			}
		}
	}
	if refused != len(ids) {
		t.Errorf("%d denials", refused)
	}
	tr.levels.rulesMu.RLock()
	defer tr.levels.rulesMu.RUnlock()
	errno := tr.sync(-1, func(int) error {
		if !free() {
			t.Error("the rules cannot change while the disk writes")
		}
		return unix.EIO
	})
	if errno != unix.EIO || free() {
		t.Errorf("%v, or the rules are not held afterwards", errno)
	}
}
