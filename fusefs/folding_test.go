package fusefs

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

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
	if !errors.Is(err, ErrFolds) {
		t.Errorf("%v, %v", tr, err)
	}
}

func TestNativeDirectoriesDoNotFold(t *testing.T) {
	for _, names := range [][]string{{}, {"1", "2"}, {"Readme"}, {"readme", "README"}, {"1", "é", ".env"}} {
		dir := t.TempDir()
		for _, name := range names {
			if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := CheckNames(fd); err != nil {
			t.Errorf("%q: %v", names, err)
		}
		unix.Close(fd)
	}
}
