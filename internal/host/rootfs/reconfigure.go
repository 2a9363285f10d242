package rootfs

import (
	"os"
	"path/filepath"

	"wolffia/internal/host/boot"
	"wolffia/internal/host/statedir"
)

// Reconfigure changes the files that a pooled sandbox has made for its template into those of the
// configuration c, which is of the same shape. No process inside has seen them.
func Reconfigure(b *boot.Params, c *statedir.Config) error {
	if c.Git != nil {
		files := gitFiles(c.Git)
		for name := range gitFiles(b.Config.Git) {
			if _, stays := files[name]; !stays {
				if err := os.Remove(filepath.Join(at(b, "git"), name)); err != nil {
					return err
				}
			}
		}
		if err := writeGit(at(b, "git"), c.Git); err != nil {
			return err
		}
	}
	if Hostname(c) == Hostname(&b.Config) {
		return nil
	}
	files := etcFiles(kindOf(b), c, nil)
	for _, name := range []string{"hosts", "hostname"} {
		// the same file, which is mounted
		if err := os.WriteFile(filepath.Join(at(b, "etc"), name), []byte(files[name]), 0o644); err != nil {
			return err
		}
	}
	return nil
}
