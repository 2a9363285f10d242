package fusefs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"wolffia/fusefs/gate"
	"wolffia/perm"
)

// noise returns n bytes that no other part of a file has.
func noise(n int) []byte {
	data := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(data)
	return data
}

// The kernel reads 128 KiB ahead and writes a MiB at once, and the server neither allocates memory
// for a message nor copies what is read.
func TestLargeFilesTakeFewMessages(t *testing.T) {
	const size, ahead = 64 << 20, 128 << 10
	mounted(t, setup{
		Timeout: time.Hour, NoWatch: true,
		Host: func(t *testing.T, dir string) { write(t, dir, "file", string(noise(size))) },
	}, func(t *testing.T, c *client) {
		f, err := os.Open(c.at("file"))
		ok(t, "open", err)
		defer f.Close()
		before, used := c.stats(t), c.load(t)
		n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{f}, make([]byte, 1<<20))
		if err != nil || n != size {
			t.Fatalf("%d bytes, %v", n, err)
		}
		read, after := moved(before, c.stats(t)), c.load(t)
		// The first windows are smaller, and the kernel drops pages when it pleases.
		if got := read["read"]; got < size/ahead/2 || got > size/ahead+size/ahead/8 {
			t.Errorf("%d messages for 64 MiB, want about %d", got, size/ahead)
		}
		if piped := after.Piped - used.Piped; piped < read["read"]*3/4 {
			t.Errorf("%d of %d went through a pipe", piped, read["read"])
		}
		sameAllocs := func(what string, messages uint64, from, to load) {
			if got := to.Allocs - from.Allocs; got > messages/2+200 {
				t.Errorf("%s: %d allocations for %d messages", what, got, messages)
			} else {
				t.Logf("%s: %d allocations for %d messages", what, got, messages)
			}
		}
		sameAllocs("reading", read["read"], used, after)

		w, err := os.Create(c.at("written"))
		ok(t, "create", err)
		defer w.Close()
		chunk := noise(1 << 20)
		before = c.stats(t)
		for range 64 {
			_, err := w.Write(chunk)
			ok(t, "write", err)
		}
		if got := moved(before, c.stats(t))["write"]; got != 64 {
			t.Errorf("%d messages for 64 writes of a MiB", got)
		}
		before, used = c.stats(t), c.load(t)
		for range 2000 {
			_, err := w.Write(chunk[:100])
			ok(t, "write", err)
		}
		sameAllocs("writing", moved(before, c.stats(t))["write"], used, c.load(t))
	})
}

// What is read is what the file has, whatever its size and whichever way the answer takes.
func TestReadsOfAllSizes(t *testing.T) {
	sizes := []int{1, 4095, 4096, 65535, 65536, 65537, 69632, 131072, 131077, 262144, 300001, 1<<20 + 1}
	name := func(n int) string { return fmt.Sprint("file", n) }
	mounted(t, setup{
		Timeout: time.Hour,
		Host: func(t *testing.T, dir string) {
			for _, n := range sizes {
				write(t, dir, name(n), string(noise(n)))
			}
		},
	}, func(t *testing.T, c *client) {
		for _, n := range sizes {
			want := noise(n)
			f, err := os.Open(c.at(name(n)))
			ok(t, "open", err)
			defer f.Close()
			ok(t, "advise", unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_SEQUENTIAL)) // twice the window
			if got, err := io.ReadAll(f); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%d bytes: %d others, %v", n, len(got), err)
			}
			direct, err := os.OpenFile(c.at(name(n)), unix.O_DIRECT, 0)
			ok(t, "open for direct reads", err)
			defer direct.Close()
			for _, size := range []int{100, 70000, 200000, 262144, 262145, 1 << 20, 2 << 20} {
				for _, off := range []int{0, 3, 4096, 65537} {
					got := make([]byte, size)
					m, err := direct.ReadAt(got, int64(off))
					part := want[min(off, n):min(off+size, n)]
					if err != nil && !errors.Is(err, io.EOF) || !bytes.Equal(got[:m], part) {
						t.Errorf("%d bytes, %d at %d: %d others, %v", n, size, off, m, err)
					}
				}
			}
		}
	})
}

// A file that the host shortens meanwhile is read to its new end, or to its old one.
func TestReadsOfAShrinkingFile(t *testing.T) {
	const size = 4 << 20
	data := noise(size)
	mounted(t, setup{Timeout: time.Millisecond}, func(t *testing.T, c *client) {
		path := filepath.Join(c.host, "file")
		for round := range 20 {
			ok(t, "write on the host", os.WriteFile(path, data, 0o644))
			f, err := os.Open(c.at("file"))
			ok(t, "open", err)
			shrunk := make(chan error, 1)
			go func() { shrunk <- os.Truncate(path, int64(size/2+round)) }() // ends by itself
			got, err := io.ReadAll(f)
			if err := errors.Join(err, <-shrunk, f.Close()); err != nil {
				t.Fatal(err)
			}
			if len(got) > size || !bytes.Equal(got[:min(len(got), size/2)], data[:min(len(got), size/2)]) {
				t.Fatalf("round %d: %d bytes, others than were there", round, len(got))
			}
		}
	})
}

// Messages that the kernel does not send are answered with an error, and an interrupt so that it
// sends no more of them.
func TestOddMessages(t *testing.T) {
	tr, err := newTree(&Options{Root: unix.AT_FDCWD, Rules: newFakeRules([]fakeRule{{"x", perm.Read}}), NoWatch: true})
	if err != nil {
		t.Fatal(err)
	}
	defer tr.close()
	b := testBuffers(t)
	broken := new(tree) // without a table
	broken.root, broken.Logger = new(handle), tr.Logger
	for _, test := range []struct {
		what string
		o    gate.Op
		size uint32 // of READ or WRITE
		n    int    // bytes of the message
		tree *tree
		want syscall.Errno
	}{
		{"an interrupt", gate.OpInterrupt, 0, 48, tr, unix.ENOSYS},
		{"a short READ", gate.OpRead, 1, readHeader - 1, tr, unix.EIO},
		{"a READ of too much", gate.OpRead, 1 << 31, readHeader, tr, unix.EIO},
		{"a READ of a directory", gate.OpRead, 1, readHeader, tr, unix.EISDIR},
		{"a READ that panics", gate.OpRead, 1, readHeader, broken, unix.EIO},
		{"a short WRITE", gate.OpWrite, 0, writeHeader - 1, tr, unix.EIO},
		{"a WRITE without its data", gate.OpWrite, 10, writeHeader + 9, tr, unix.EIO},
		{"a WRITE to a directory", gate.OpWrite, 10, writeHeader + 10, tr, unix.EISDIR},
		{"a WRITE that panics", gate.OpWrite, 10, writeHeader + 10, broken, unix.EIO},
	} {
		clear(b.In[:256])
		in := (*fuse.WriteIn)(unsafe.Pointer(&b.In[0])) // READ has its size at the same place
		in.Opcode, in.Unique, in.NodeId, in.Length, in.Size = uint32(test.o), 7, rootID, uint32(test.n), test.size
		tr.respond.tree = test.tree
		size := tr.respond.answer(b, test.n)
		out := (*fuse.OutHeader)(unsafe.Pointer(&b.Out[0]))
		if size != outHeader || out.Length != uint32(size) || out.Unique != 7 || syscall.Errno(-out.Status) != test.want {
			t.Errorf("%s: %d bytes, %+v; want %v", test.what, size, out, test.want)
		}
	}
}

// A message for a name or its attributes takes few allocations.
func TestNamesTakeFewAllocations(t *testing.T) {
	const names = 1000
	mounted(t, setup{Timeout: time.Hour, NoWatch: true}, func(t *testing.T, c *client) {
		before, used := c.stats(t), c.load(t)
		for i := range names {
			if _, err := os.Lstat(c.at(fmt.Sprint("none", i))); !errors.Is(err, os.ErrNotExist) {
				t.Fatal(err)
			}
		}
		lookups, after := moved(before, c.stats(t))["lookup"], c.load(t)
		if lookups != names {
			t.Errorf("%d lookups for %d names", lookups, names)
		}
		// go-fuse would need three more.
		if got := after.Allocs - used.Allocs; got > 10*lookups {
			t.Errorf("%d allocations for %d lookups", got, lookups)
		} else {
			t.Logf("%d allocations for %d lookups", got, lookups)
		}
	})
}
