package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"wolffia/cmd/wolffia/internal/complete"
	"wolffia/cmd/wolffia/internal/console"
	"wolffia/cmd/wolffia/internal/host"
	"wolffia/cmd/wolffia/internal/sandboxflags"
	"wolffia/cmd/wolffia/internal/usage"
	"wolffia/fields"
	"wolffia/local"
	"wolffia/runtime"
)

func poolCommand(h *host.Host) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "pool",
		Short: "Keep sandboxes started ahead, so that run and create need not wait",
		Long: `Keep sandboxes started ahead, so that run, create, shell and mcp need not wait for one.

A pooled sandbox runs nothing, and has no codebase unless the pool was started with
--tree. The next command that would start a sandbox of its shape claims it, and gives it
the codebase, the rules and all else. It serves that command only, and never goes back
to the pool. A process in the background replaces it. Without a pool nothing is started
ahead.

What makes a shape: the runtime, the system (--image, --rootfs, --toolchains, --mount),
the mount point, --network and the limits; with --tree the codebase and the rules too.
What does not: the environment, labels, name, working directory and lifetime.`,
	}
	cmd.AddCommand(poolStartCommand(h), poolListCommand(h), poolStopCommand(h), poolFillCommand(h))
	return cmd
}

// A poolListing is what --json prints of a pool.
type poolListing struct {
	Shape      string `json:"shape"`
	Runtime    string `json:"runtime"`
	Size       int    `json:"size"`  // how many it keeps ready
	Ready      int    `json:"ready"` // how many are ready now
	Claimed    int64  `json:"claimed"`
	MountPoint string `json:"mountPoint"`
	Image      string `json:"image,omitempty"`
	Codebase   string `json:"codebase,omitempty"` // whose tree is served ahead
	Shell      bool   `json:"shell,omitempty"`    // is started ahead
	Idle       int64  `json:"idleTimeout"`        // ms
	StartedAt  int64  `json:"startedAt"`          // ms since 1970
	UsedAt     int64  `json:"usedAt"`             // ms since 1970
	EndsAt     int64  `json:"endsAt"`             // ms since 1970
	Problem    string `json:"problem,omitempty"`
}

// ahead says what the pooled sandboxes have beside what all have.
func (l *poolListing) ahead() string {
	var has []string
	if l.Shell {
		has = append(has, "shell")
	}
	if l.Codebase != "" {
		has = append(has, "tree")
	}
	return strings.Join(has, ",")
}

func poolListingOf(p *local.Pool) poolListing {
	return poolListing{
		Shape: p.Shape, Runtime: p.Runtime, Size: p.Size, Ready: p.Ready, Claimed: p.Claimed,
		MountPoint: p.Config.MountPointOrDefault(), Image: p.Config.Image, Idle: p.IdleTimeout.Milliseconds(),
		Codebase: p.Config.CodebasePath, Shell: p.Shell, StartedAt: p.StartedAt.UnixMilli(), UsedAt: p.UsedAt.UnixMilli(), EndsAt: p.EndsAt().UnixMilli(), Problem: p.Problem,
	}
}

// sizeFlag is the flag of pool start for the number of sandboxes.
const sizeFlag = "size"

func poolStartCommand(h *host.Host) *cobra.Command {
	var flags sandboxflags.Sandbox
	cmd := &cobra.Command{
		Use:   "start [-n N] [--idle D] [--shell] [--tree] [flags of create]",
		Short: "Start a pool; print its shape when its sandboxes are ready",
		Long: `Start a pool for sandboxes that the flags describe, as run and create in this directory
with the same flags make them; print its shape when its sandboxes are ready. If the pool
exists, it gets the new size and time.

A sandbox that no command claims for the time --idle ends. So does the pool, if no
command claimed one for that long.`,
		Example: `  wolffia pool start -n 2
  wolffia run -- make test
  wolffia pool stop --all`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			opts := local.PoolOptions{Size: int(flags.Whole(sizeFlag)), Shell: flags.Truth("shell"), Tree: flags.Truth("tree")}
			idle := flags.Text(sandboxflags.IdleFlag)
			if opts.IdleTimeout, err = sandboxflags.ParseLifetime(sandboxflags.IdleFlag, idle); err != nil {
				return err
			}
			if opts.IdleTimeout < time.Second {
				return runtime.Errorf(runtime.ErrInvalid, "--%s %q: it must be at least 1s", sandboxflags.IdleFlag, idle)
			}
			if opts.Size < 1 || opts.Size > local.MaxPoolSize {
				return runtime.Errorf(runtime.ErrInvalid, "--%s %d: it must be 1 to %d", sizeFlag, opts.Size, local.MaxPoolSize)
			}
			if flags.Truth("no-codebase") && flags.Text("runtime") != "kubernetes" {
				return runtime.Errorf(runtime.ErrUnsupported, "--no-codebase: only sandboxes with a codebase can be started ahead, and pods")
			}
			rt, err := h.Open(flags.Text("runtime"))
			if err != nil {
				return err
			}
			config, err := flags.Config(cmd.Context(), h)
			if err != nil {
				return err
			}
			p, err := rt.StartPool(cmd.Context(), config, opts)
			if err != nil {
				return err
			}
			if flags.Truth("json") {
				return h.PrintJSON(poolListingOf(p))
			}
			_, err = fmt.Fprintln(h.Out, p.Shape)
			return err
		},
	}
	flags.Add(h, cmd, fields.Pooling)
	return cmd
}

func poolListCommand(h *host.Host) *cobra.Command {
	cmd := &cobra.Command{Use: "ls", Aliases: []string{"list"}, Short: "List the pools", Args: cobra.NoArgs}
	return host.List(h, cmd, &console.Table[poolListing]{
		Head: "SHAPE\tRUNTIME\tREADY\tCLAIMED\tENDS\tAHEAD\tMOUNT POINT\tPROBLEM",
		Row: func(l poolListing) []any {
			return []any{
				l.Shape, cmp.Or(l.Runtime, "-"), fmt.Sprintf("%d/%d", l.Ready, l.Size), l.Claimed, console.Until(l.EndsAt),
				console.Dash(l.ahead()), console.Printable(l.MountPoint), console.Dash(console.OneLine(l.Problem)),
			}
		},
		IDs: "shapes", ID: func(l poolListing) string { return l.Shape },
	}, func(_ context.Context, rt *local.Runtime, _ []string) ([]poolListing, error) {
		all, err := rt.Pools()
		return host.Mapped(all, poolListingOf), err
	})
}

func poolStopCommand(h *host.Host) *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:   "stop [SHAPE...]",
		Short: "End pools and their sandboxes; return when all of them have ended",
		Long: `End pools and their sandboxes; return when all of them have ended. SHAPE is a shape, or
a beginning of one that no other has; it may be left out if there is one pool. --all
ends all pools. A sandbox that a command has claimed does not belong to the pool.`,
		ValidArgsFunction: complete.New(h).Pools,
		RunE: func(cmd *cobra.Command, args []string) error {
			if all && len(args) > 0 {
				return usage.Errorf(cmd, "--all and SHAPE exclude each other: leave one of them out")
			}
			rt, err := h.Open("")
			if err != nil {
				return err
			}
			if all {
				return rt.StopPool(cmd.Context())
			}
			if len(args) == 0 {
				pools, err := rt.Pools()
				if err != nil {
					return err
				}
				if len(pools) == 0 {
					return runtime.Errorf(runtime.ErrNotFound, "there is no pool: wolffia pool start makes one")
				}
				if len(pools) > 1 {
					return usage.Errorf(cmd, "there are %d pools: name one, or use --all", len(pools))
				}
				args = []string{pools[0].Shape}
			}
			for i, ref := range args {
				if args[i], err = rt.FindPool(ref); err != nil {
					return err
				}
			}
			return rt.StopPool(cmd.Context(), args...)
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "end all pools")
	return cmd
}

// poolFillCommand is what a Runtime starts after a claim.
func poolFillCommand(h *host.Host) *cobra.Command {
	return &cobra.Command{
		Use:    "fill SHAPE",
		Short:  "Replace the claimed sandboxes of a pool",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: h.Over(func(ctx context.Context, rt *local.Runtime, args []string) error {
			return rt.FillPool(ctx, args[0])
		}),
	}
}
