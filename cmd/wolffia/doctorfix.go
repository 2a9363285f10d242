package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"wolffia/cmd/wolffia/internal/console"
	"wolffia/cmd/wolffia/internal/host"
	"wolffia/internal/host/cause"
	"wolffia/internal/host/probe"
	"wolffia/runtime"
)

// fixesOf returns the scripts of a shell that solve what sandboxes need and this host lacks, or has
// with a risk. What another problem causes has no fix of its own.
func fixesOf(results []probe.Result) (scripts []string) {
	for _, r := range results {
		if r.Required && r.Problem != "" && r.Because == "" && cause.Runnable(r.Fix) {
			scripts = append(scripts, r.Fix)
		}
	}
	return scripts
}

// fixHost shows the fixes, asks, and runs them. Without an answer at a terminal, or yes, it runs
// nothing. ran is whether it has run something.
func fixHost(ctx context.Context, h *host.Host, results []probe.Result, yes bool) (ran bool, err error) {
	scripts := fixesOf(results)
	if len(scripts) == 0 {
		fmt.Fprintln(h.Out, "\nThere is nothing that wolffia doctor --fix can run here.")
		return false, nil
	}
	all := strings.Join(scripts, "\n")
	fmt.Fprintln(h.Out, "\nThese commands change this host:")
	for line := range strings.Lines(console.Printable(all)) {
		fmt.Fprintln(h.Out, "  "+strings.TrimSuffix(line, "\n"))
	}
	if !yes {
		if err := h.Confirm(ctx, "Run them? [y/N] "); err != nil {
			return false, err
		}
	}
	// The programs are the system's: a project may have put others into PATH.
	cmd := exec.CommandContext(ctx, "/bin/sh", "-e", "-c", all)
	cmd.Env = append(os.Environ(), "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = h.In, h.Out, h.Err.File
	err = cmd.Run()
	if exit, is := errors.AsType[*exec.ExitError](err); is {
		return true, runtime.Errorf(runtime.ErrUnavailable, "a command has failed (%w): what is before it was run, what is after it was not", exit)
	}
	return true, err
}
