package statedir

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"syscall"

	"wolffia/runtime"
)

// DiskUsage returns how many bytes of the disk the directory of rec takes. What cannot be read
// counts as 0. The content is hostile, and may change meanwhile: nothing outside the directory is
// counted.
func (rec *Record) DiskUsage(ctx context.Context) (total int64, err error) {
	root, err := os.OpenRoot(rec.path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, runtime.Errorf(runtime.ErrNotFound, "no sandbox %q", rec.id)
	}
	if err != nil {
		return 0, runtime.Errorf(runtime.ErrUnavailable, "sandbox %s: %w", rec.id, err)
	}
	defer root.Close()
	err = fs.WalkDir(root.FS(), ".", func(_ string, d fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if d == nil || err != nil {
			return nil
		}
		if info, err := d.Info(); err == nil {
			if st, is := info.Sys().(*syscall.Stat_t); is {
				total += st.Blocks * 512
			}
		}
		return nil
	})
	return total, err
}
