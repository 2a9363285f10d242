package probe

import (
	"context"
	"errors"
	"fmt"
	"os"

	"wolffia/internal/sys/userns"
)

// probeSubIDs starts a process with subordinate ids.
func probeSubIDs(ctx context.Context, h *host) Result {
	if os.Geteuid() == 0 {
		found := "root gives a sandbox those of the codebase's owner; without one, or over root's own, those of root"
		_, err := userns.Of(0, 0)
		if lack, ok := errors.AsType[*userns.Lack](err); ok {
			found += fmt.Sprintf(", which has none: for these, as root, %s", lack.Fix)
		}
		return Result{OK: true, Found: found}
	}
	ids, err := userns.Of(os.Geteuid(), os.Getegid())
	if err == nil {
		err = ids.Check()
	}
	if err == nil {
		err = trySubIDs(ctx, &ids)
	}
	return decideSubIDs(&ids, err, h)
}

// trySubIDs runs a program as root of the ids.
func trySubIDs(ctx context.Context, ids *userns.IDs) error {
	program, err := openTrue()
	if err != nil {
		return err
	}
	defer program.Close()
	return ids.Run(ctx, program, []string{"true"})
}

// decideSubIDs returns the result for what was tried.
func decideSubIDs(ids *userns.IDs, err error, h *host) Result {
	if lack, ok := errors.AsType[*userns.Lack](err); ok {
		return Result{Problem: lack.Problem, Code: "subids-missing", Fix: h.Sudo(lack.Fix)}
	}
	switch {
	case errors.Is(err, userns.ErrNamespaces):
		return Result{Problem: err.Error(), Code: "subids-refused", Because: UserNamespaces}
	case err != nil:
		return Result{Problem: err.Error(), Code: "subids-refused"}
	}
	return Result{OK: true, Found: fmt.Sprintf("%d users from %d, groups from %d", userns.Count, ids.SubUID, ids.SubGID)}
}
