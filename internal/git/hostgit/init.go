package hostgit

import (
	"context"
	"errors"
)

// Init makes an empty repository with files for its references in the directory path, which is
// absolute, empty and the caller's own. format is that of the names of its objects: "sha256", or
// "" for git's usual one. It has nothing of the user's template. The caller closes it. empty and
// the errors are as in OpenDir.
func Init(ctx context.Context, path, empty, format string) (*Dir, error) {
	d, err := OpenDir(ctx, path, empty)
	if err != nil {
		return nil, err
	}
	args := []string{"-c", "init.defaultRefFormat=files", "init", "-q", "--template="}
	if format != "" {
		args = append(args, "--object-format="+format)
	}
	if _, _, err = d.Run(ctx, Command{Args: args}); err == nil {
		// The working tree is not the empty directory that git has seen; 5 is that of no setting.
		_, _, err = d.Run(ctx, Command{Args: []string{"config", "--unset", "core.worktree"}, Status: 5})
	}
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}
