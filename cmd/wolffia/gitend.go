package main

import (
	"context"
	"errors"
	"fmt"

	"wolffia/local"
	"wolffia/runtime"
)

// noteGit reports on standard error what crossed by git, and what did not.
func (a *app) noteGit(lines []string) {
	if a.quiet {
		return
	}
	for _, line := range lines {
		fmt.Fprintln(a.err, "wolffia:", printable(line))
	}
}

// endGit takes over what git inside has changed last in a sandbox of run whose command has ended,
// and reports whether the sandbox is to be kept, since something stays inside that would be lost
// with it. tell prints that, and is for later, as for review.
func (a *app) endGit(ctx context.Context, rt *local.Runtime, id string) (keep bool, tell func() error, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), destroyLimit)
	defer cancel()
	silent := func() error { return nil }
	r, err := rt.SyncGit(ctx, id)
	if errors.Is(err, runtime.ErrNotFound) {
		return false, silent, nil // its lifetime is over
	}
	if err != nil {
		return true, silent, err
	}
	a.noteGit(r.Lines)
	if r.Pending == "" {
		return false, silent, nil
	}
	return true, func() error {
		fmt.Fprintf(a.err, "wolffia: sandbox %[1]s stays, since it has what would be lost: %[2]s: wolffia shell %[1]s to go on, wolffia rm -f %[1]s to end it\n", id, printable(r.Pending))
		return nil
	}, nil
}

// unsynced returns an error if a sandbox that does not run has something in its git directories
// that would be lost with it.
func unsynced(ctx context.Context, rt *local.Runtime, s *runtime.Sandbox) error {
	r, err := rt.SyncGit(ctx, s.ID)
	if err == nil && r.Pending != "" {
		err = runtime.Errorf(runtime.ErrConflict,
			"sandbox %[1]s has what would be lost: %[2]s: wolffia shell %[1]s; rm -f %[1]s", s.ContainerName(), r.Pending)
	}
	return err
}
