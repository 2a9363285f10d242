package statedir

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"syscall"

	"wolffia/runtime"
)

// deepest is how deep DiskUsage looks: for each level it has two open files.
const deepest = 200

// DiskUsage returns how many bytes of the disk the directory of rec takes. What cannot be read counts as 0. all is
// false if ctx ended before, or if a tree is too deep: then it takes at least as much. The content is hostile, and
// may change meanwhile: nothing outside the directory is counted.
func (rec *Record) DiskUsage(ctx context.Context) (bytes int64, all bool, err error) {
	root, err := os.OpenRoot(rec.path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, false, runtime.Errorf(runtime.ErrNotFound, "no sandbox %q", rec.id)
	}
	if err != nil {
		return 0, false, runtime.Errorf(runtime.ErrUnavailable, "sandbox %s: %w", rec.id, err)
	}
	defer root.Close()
	c := counting{ctx: ctx, all: true}
	c.count(root, deepest)
	return c.bytes, c.all, nil
}

// A counting is a DiskUsage that runs.
type counting struct {
	ctx   context.Context
	bytes int64
	all   bool
}

// count counts a directory, and what is below it as deep as left says. It reads names in parts: there may be millions.
func (c *counting) count(dir *os.Root, left int) {
	f, err := dir.Open(".")
	if err != nil {
		return
	}
	defer f.Close()
	for err == nil {
		var names []string
		names, err = f.Readdirnames(256)
		for _, name := range names {
			if c.ctx.Err() != nil {
				c.all = false
				return
			}
			info, err := dir.Lstat(name)
			if err != nil {
				continue
			}
			c.bytes += info.Sys().(*syscall.Stat_t).Blocks * 512
			if !info.IsDir() {
				continue
			}
			if left == 0 {
				c.all = false
			} else if below, err := dir.OpenRoot(name); err == nil {
				c.count(below, left-1)
				_ = below.Close()
			}
		}
	}
}
