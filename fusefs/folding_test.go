package fusefs

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"wolffia/internal/sys/beneath"
	"wolffia/internal/test/testenv"
	"wolffia/perm"
)

// A folding is the root of a file system that takes names that differ in case for
// the same.
type folding struct{ fs.Inode }

const foldedIno = 7

func (f *folding) Lookup(ctx context.Context, name string, _ *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	if !strings.EqualFold(name, ".env") {
		return nil, syscall.ENOENT
	}
	return f.NewInode(ctx, &fs.MemRegularFile{Data: []byte("SECRET")}, fs.StableAttr{Mode: syscall.S_IFREG, Ino: foldedIno}), 0
}

func (f *folding) Readdir(context.Context) (fs.DirStream, syscall.Errno) {
	return fs.NewListDirStream([]fuse.DirEntry{{Name: "123"}, {Name: ".env", Mode: syscall.S_IFREG, Ino: foldedIno}}), 0
}

// Where .ENV is .env, rules for .env hide nothing: such a tree is not served.
func TestFoldingIsRefused(t *testing.T) {
	testenv.Root(t) // to mount it
	dir := t.TempDir()
	server, err := fs.Mount(dir, &folding{}, &fs.Options{MountOptions: fuse.MountOptions{DirectMountStrict: true}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := server.Unmount(); err != nil {
			t.Error(err)
		}
	}()
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	tr, err := newTree(&Options{Root: fd, Rules: newFakeRules([]fakeRule{{".env", perm.None}}), NoWatch: true})
	if !errors.Is(err, beneath.ErrFolds) {
		t.Errorf("newTree: got tr %v, err %v; want err is beneath.ErrFolds", tr, err)
	}
}
