package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"wolffia/cmd/wolffia/internal/console"
	"wolffia/cmd/wolffia/internal/host"
	"wolffia/cmd/wolffia/internal/review"
	"wolffia/cmd/wolffia/internal/sandboxflags"
	"wolffia/local"
	"wolffia/runtime"
)

// An inspection is what inspect prints of a sandbox.
type inspection struct {
	listing
	*runtime.SandboxConfig `json:"config"`
	// Rules counts the rules, which config has only if they are asked for.
	Rules   int    `json:"rules"`
	Version string `json:"version,omitempty"` // of wolffia in the shim of a running sandbox

	UID     int                 `json:"uid"`
	GID     int                 `json:"gid"`
	Tree    *local.TreeState    `json:"tree,omitempty"`    // of a running sandbox with a codebase
	Changes *review.ChangeCount `json:"changes,omitempty"` // of a sandbox with cow
	// Limits says what keeps the limits of a running sandbox that has any.
	Limits *runtime.LimitsState `json:"limits,omitempty"`
}

func inspectCommand(h *host.Host) *cobra.Command {
	var asText, asJSON, rules bool
	cmd := &cobra.Command{
		Use:   "inspect SANDBOX...",
		Short: "Print all that is known of sandboxes, as JSON or text",
		Args:  cobra.MinimumNArgs(1),
		RunE: h.Over(func(ctx context.Context, rt *local.Runtime, args []string) error {
			var all []inspection
			for _, ref := range args {
				info, err := rt.Inspect(ctx, ref)
				if err != nil {
					return err
				}
				c := info.Config
				i := inspection{
					listing: listingOf(&info.Sandbox), SandboxConfig: &c, Rules: len(c.Permissions), Version: info.Version,
					UID: info.Sandbox.UID, GID: info.Sandbox.GID, Tree: info.Tree, Limits: info.Limits,
				}
				if info.Sandbox.CopyOnWrite {
					i.Changes = review.New(h, rt).CountChanges(ctx, info.Sandbox.ID)
				}
				if !rules {
					c.Permissions = nil
				}
				all = append(all, i)
			}
			if !asText {
				return h.PrintJSON(all)
			}
			for i := range all {
				if i > 0 {
					fmt.Fprintln(h.Out)
				}
				if err := all[i].print(h.Out); err != nil {
					return err
				}
			}
			return nil
		}),
	}
	cmd.Flags().BoolVar(&asText, "text", false, "print text for people")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, which is what it does")
	cmd.Flags().BoolVar(&rules, "rules", false, "with all rules, in config.permissions")
	cmd.MarkFlagsMutuallyExclusive("text", "json")
	return cmd
}

// networkText returns the network of a sandbox, and how many names it can reach.
func networkText(c *runtime.SandboxConfig) string {
	if c.Network != runtime.NetworkFiltered {
		return cmp.Or(string(c.Network), string(runtime.NetworkNone))
	}
	return fmt.Sprintf("%s: %d rules, see wolffia network show", c.Network, len(c.Egress.Reaches()))
}

// print prints text.
func (s *inspection) print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(name, value string) {
		if value != "" {
			fmt.Fprintf(w, "%s\t%s\n", name, strings.ReplaceAll(console.Printable(value), "\n", " "))
		}
	}
	row("id", s.listing.ID)
	row("name", s.listing.Name)
	row("runtime", s.listing.Runtime)
	row("state", string(s.State))
	row("reason", s.Reason)
	if s.ExpiresAt != 0 {
		row("expires", time.UnixMilli(s.ExpiresAt).Format(time.RFC3339))
	}
	if s.listing.IdleTimeout != 0 {
		row("idle timeout", (time.Duration(s.listing.IdleTimeout) * time.Millisecond).String())
	}
	row("codebase", s.Codebase)
	row("filter", string(s.listing.Filter))
	if s.Changes != nil {
		row("changes", s.Changes.Text(s.listing.ID))
	}
	row("network", networkText(s.SandboxConfig))
	row("image", s.listing.Image)
	row("image id", s.ImageID)
	for i, v := range s.Volumes {
		row([]string{"volumes", ""}[min(i, 1)], v.Name+" at "+v.Target+map[bool]string{true: ", read-only"}[v.ReadOnly])
	}
	row("rules", strconv.Itoa(s.Rules))
	row("labels", labelsText(s.listing.Labels))
	row("wolffia", s.Version)
	user := fmt.Sprintf("%d:%d", s.UID, s.GID)
	if s.listing.Root {
		user += ", root inside"
	}
	row("user", user)
	if l := s.Limits; l != nil {
		row("limits", limitsText(l))
		if l.OOMKills > 0 {
			row("", fmt.Sprintf("killed for the limit of memory: %d processes", l.OOMKills))
		}
	}
	switch t := s.Tree; {
	case t == nil:
	case t.Problem != "":
		row("tree", "unknown: "+t.Problem)
	case t.Static != nil:
		row("tree", sandboxflags.StaticText(t.Static))
	default:
		row("tree", fmt.Sprintf("%d names known, %d descriptors open", t.Nodes, t.FDs))
		if !t.Current {
			row("", "the rules in force are not those above: wolffia policy set them again")
		}
		var counts []string
		for _, op := range slices.Sorted(maps.Keys(t.Messages)) {
			counts = append(counts, fmt.Sprintf("%s %d", op, t.Messages[op]))
		}
		row("messages", strings.Join(counts, ", "))
	}
	return w.Flush()
}

// limitsText puts what keeps limits on one line.
func limitsText(l *runtime.LimitsState) string {
	var all []string
	for _, limit := range []struct {
		name string
		by   runtime.Enforcement
	}{{"memory", l.Memory}, {"cpus", l.CPUs}, {"pids", l.PIDs}} {
		if limit.by != "" {
			all = append(all, limit.name+" by "+string(limit.by))
		}
	}
	return strings.Join(all, ", ")
}
