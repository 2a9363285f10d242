package defaults

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"wolffia/fusefs/cow"
	"wolffia/internal/host/statedir"
)

// CanCopy returns an error if the file system of the state directory cannot hold the copied
// codebase that c asks for.
func CanCopy(rec *statedir.Record, c *statedir.Config) error {
	if !c.CopyOnWrite {
		return nil
	}
	work, err := os.OpenFile(filepath.Join(statedir.Cow(rec.Run()), statedir.CowWork), unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer work.Close()
	if err := cow.Probe(int(work.Fd())); err != nil {
		return fmt.Errorf("the file system cannot hold a copied codebase: %w; choose another state directory with --state-dir or WOLFFIA_STATE_DIR, or leave cow out", err)
	}
	return nil
}
