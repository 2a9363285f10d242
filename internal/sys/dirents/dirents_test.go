package dirents

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func TestEach(t *testing.T) {
	top := t.TempDir()
	want := map[string]uint8{"d": unix.DT_DIR, "l": unix.DT_LNK}
	err := errors.Join(os.Mkdir(filepath.Join(top, "d"), 0o755), os.Symlink("d", filepath.Join(top, "l")))
	for i := range 100 {
		name := fmt.Sprintf("file-%d", i)
		want[name] = unix.DT_REG
		err = errors.Join(err, os.WriteFile(filepath.Join(top, name), nil, 0o600))
	}
	if err != nil {
		t.Fatal(err)
	}
	fd, err := Open(top, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	got := map[string]uint8{}
	err = Each(fd, make([]byte, 512), func(name []byte, typ uint8) error {
		got[string(name)] = typ
		return nil
	})
	if err != nil || !maps.Equal(got, want) {
		t.Errorf("%d names, want %d; %v", len(got), len(want), err)
	}
	again, err := Open(filepath.Join(top, "d"), unix.O_NOFOLLOW)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(again)
	if err := Each(again, make([]byte, 512), func([]byte, uint8) error { return fs.SkipAll }); err != nil {
		t.Errorf("an empty directory: %v", err)
	}
	for name, want := range map[string]error{"l": unix.ENOTDIR, "file-1": unix.ENOTDIR, "none": unix.ENOENT} {
		if _, err := Open(filepath.Join(top, name), unix.O_NOFOLLOW); err != want {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
	}
	if _, err := unix.Seek(fd, 0, 0); err != nil {
		t.Fatal(err)
	}
	if err := Each(fd, make([]byte, 512), func([]byte, uint8) error { return fs.ErrPermission }); err != fs.ErrPermission {
		t.Errorf("%v, want the error of the function", err)
	}
}
