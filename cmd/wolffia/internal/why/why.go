// Package why explains commands that have ended, from their history.
package why

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"wolffia/cmd/wolffia/internal/attach"
	"wolffia/cmd/wolffia/internal/history"
	"wolffia/cmd/wolffia/internal/host"
	"wolffia/cmd/wolffia/internal/hostdir"
	"wolffia/internal/pathname"
	"wolffia/internal/shellword"
	"wolffia/local"
	"wolffia/runtime"
)

// Command returns wolffia why.
func Command(h *host.Host) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "why",
		Short: "Explain the last command that failed",
		Long: `Explain the last command of run, exec, shell or an agent of mcp that failed, in the
codebase of the current directory if one did: what the rules and the network denied, which of the
host's programs and files it does not have, and the flag that helps.`,
		Args: cobra.NoArgs,
		RunE: h.Over(func(_ context.Context, rt *local.Runtime, _ []string) error {
			all, err := history.Read(rt.StateDir(), time.Time{})
			if err != nil {
				return err
			}
			here, _ := hostdir.Current()
			e := lastFailed(all, here)
			switch {
			case e == nil && history.Off():
				return runtime.Errorf(runtime.ErrNotFound, "WOLFFIA_HISTORY=off keeps no history of commands: unset it, and run the command again")
			case e == nil:
				return runtime.Errorf(runtime.ErrNotFound, "no command of run, exec, shell or mcp has failed")
			case asJSON:
				return h.PrintJSON(e)
			}
			for _, line := range reasons(e, time.Now()) {
				h.PrintLine(line)
			}
			return nil
		}),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print its entry of the history as JSON")
	return cmd
}

// lastFailed returns the last command that failed, in the codebase around here if one did; nil if
// none failed.
func lastFailed(all []history.Entry, here string) (last *history.Entry) {
	for i := range slices.Backward(all) {
		e := &all[i]
		if e.ExitCode == 0 {
			continue
		}
		if e.Dir == here || e.Codebase != "" && pathname.Within(here, e.Codebase) {
			return e
		}
		if last == nil {
			last = e
		}
	}
	return last
}

// reasons returns lines that explain how a command ended.
func reasons(e *history.Entry, now time.Time) []string {
	lines := []string{
		commandLine(e),
		fmt.Sprintf("in %s, sandbox %s, %s ago: exit code %d%s",
			e.Dir, e.Sandbox, now.Sub(e.Time).Round(time.Second), e.ExitCode, meaning(e.ExitCode)),
	}
	if len(e.Notes) > 0 {
		return append(lines, e.Notes...)
	}
	return append(lines, "Nothing was denied by the rules or refused by the network, and wolffia knows no other cause: "+
		"see what the command itself says.")
}

// meaning returns what an exit code says by itself.
func meaning(code int) string {
	switch {
	case code == 124:
		return " (it reached its time limit)"
	case code == 126:
		return " (it cannot be executed)"
	case code == 127:
		return " (a program was not found)"
	case code > 128 && code < 128+65:
		return " (signal " + strconv.Itoa(code-128) + ", or its own)"
	}
	return ""
}

// commandLine returns the command of an entry as a line for a shell.
func commandLine(e *history.Entry) string {
	if len(e.Command) == 0 {
		return "(a shell)"
	}
	return shellword.Join(e.Command)
}

// Print prints what commands were denied since a time; an empty one means the last command
// that was denied something.
func Print(h *host.Host, state, since string, asJSON bool) error {
	var from time.Time
	if since != "" {
		var ok bool
		if from, ok = parseSince(since, time.Now()); !ok {
			return runtime.Errorf(runtime.ErrInvalid, "--since %q: not a time: use such as 2h, 3d, today, yesterday or 2026-11-29", since)
		}
	}
	all, err := history.Read(state, from)
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(e history.Entry) bool { return len(e.Denied)+e.DeniedMore+len(e.Refused)+e.RefusedMore == 0 })
	if since == "" {
		all = all[max(0, len(all)-1):]
	}
	enc := json.NewEncoder(h.Out)
	for i := range all {
		e := &all[i]
		if asJSON {
			if err := enc.Encode(e); err != nil {
				return err
			}
			continue
		}
		h.PrintLine(fmt.Sprintf("%s  sandbox %s  exit code %d  %s", e.Time.Local().Format(time.DateTime), e.Sandbox, e.ExitCode, commandLine(e)))
		for _, line := range attach.EveryDenial(e) {
			h.PrintLine("  " + line)
		}
	}
	return nil
}

// parseSince returns the time that a text means: a duration before now, also in days, a day's
// name, or a date. Days are of now's time zone.
func parseSince(text string, now time.Time) (time.Time, bool) {
	day := time.Date(now.Year(), now.Month(), now.Day(), 0, 0, 0, 0, now.Location())
	switch text {
	case "today":
		return day, true
	case "yesterday":
		return day.AddDate(0, 0, -1), true
	}
	if days, found := strings.CutSuffix(text, "d"); found {
		if n, err := strconv.Atoi(days); err == nil && n >= 0 {
			return now.AddDate(0, 0, -n), true
		}
	}
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return now.Add(-d), true
	}
	for _, layout := range []string{time.DateOnly, time.DateTime, time.RFC3339} {
		if t, err := time.ParseInLocation(layout, text, now.Location()); err == nil {
			return t, true
		}
	}
	return time.Time{}, false
}
