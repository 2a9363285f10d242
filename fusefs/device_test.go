package fusefs

import (
	"testing"
	"unsafe"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

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
		{minor: 45, flags: fuse.CAP_INIT_EXT | fuse.CAP_REQUEST_TIMEOUT, timeout: requestTimeout, epochs: true},
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
		tr.dev.fd = pair[0]
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
		if err := tr.dev.greet(); err != nil {
			t.Fatal(err)
		}
		answer := make([]byte, 4096)
		n, err := unix.Read(pair[1], answer)
		if err != nil || n != int(outHeader+unsafe.Sizeof(fuse.InitOut{})) {
			t.Fatalf("an answer of %d bytes, %v", n, err)
		}
		out := (*fuse.InitOut)(unsafe.Pointer(&answer[outHeader]))
		if out.RequestTimeout != test.timeout || tr.dev.epochs != test.epochs {
			t.Errorf("protocol 7.%d: timeout %d, epochs %v; want %d, %v", test.minor, out.RequestTimeout, tr.dev.epochs, test.timeout, test.epochs)
		}
	}
}
