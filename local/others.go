package local

import (
	"context"
	"os"
	"time"

	"wolffia/internal/host/programs"
	"wolffia/internal/sys/rmtree"
	"wolffia/internal/sys/userns"
)

// removeLimit is how long it may take to delete a tree with files of subordinate ids.
const removeLimit = 10 * time.Minute

// removeOthers has this process delete trees with files of its user's subordinate ids, which a
// sandbox with root inside leaves, by a program of wolffia in a user namespace that has these ids.
func removeOthers(wolffia, stateDir string) {
	rmtree.Others(func(parent *os.File, name string) error {
		ids, err := userns.Of(os.Geteuid(), os.Getegid())
		if err != nil {
			return err
		}
		set, err := programs.Open(wolffia, stateDir)
		if err != nil {
			return err
		}
		defer set.Close()
		box, err := set.Program(programs.Box)
		if err != nil {
			return err
		}
		defer box.Close()
		ctx, cancel := context.WithTimeout(context.Background(), removeLimit)
		defer cancel()
		return ids.Remove(ctx, box.File, parent, name)
	})
}
