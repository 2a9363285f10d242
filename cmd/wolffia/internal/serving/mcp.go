package serving

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"wolffia/cmd/wolffia/internal/console"
	"wolffia/cmd/wolffia/internal/host"
	"wolffia/cmd/wolffia/internal/review"
	"wolffia/cmd/wolffia/internal/sandboxflags"
	"wolffia/fields"
	"wolffia/internal/shellword"
	"wolffia/local"
	"wolffia/policy"
	"wolffia/runtime"
)

// MCPCommand returns the command mcp.
func MCPCommand(h *host.Host) *cobra.Command {
	m := &mcpServer{Host: h}
	cmd := &cobra.Command{
		Use:   "mcp [--sandbox NAME] [flags]",
		Short: "Serve a sandbox to an MCP client, such as a coding agent",
		Long: `Serve a sandbox to an MCP client, such as a coding agent, on standard input and
output. The flags are those of create, without --worktree. The client gets tools for a shell that keeps
its state, background jobs, and files, all of them in one sandbox over the
project, and tools that describe the sandbox and explain its rules.

The sandbox ends with the client. With --sandbox NAME it stays: the next client that
names it has the same shell. With --cow it stays, stopped, if it has changes that were not
applied: the last line on standard error says how to look at them.`,
		Example: `  claude mcp add wolffia -- wolffia mcp
  claude mcp add wolffia -- wolffia mcp --preset read-only --toolchains auto
  wolffia mcp --codebase ~/src/web --sandbox web`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			m.name, m.session = m.flags.Text("sandbox"), m.flags.Text("session")
			h.Resume = m.flags.Truth("resume")
			return m.serve(cmd)
		},
	}
	m.flags.Add(h, cmd, fields.MCP)
	return cmd
}

// An mcpServer makes the sandbox of an MCP server.
type mcpServer struct {
	*host.Host
	rt      *local.Runtime
	flags   sandboxflags.Sandbox
	name    string   // of a sandbox that stays; "" for one that ends with us
	session string   // name
	given   []string // that describe the sandbox: names, and as labelMCP has them
	digest  string

	mu   sync.Mutex
	made []string // ids of sandboxes that end with us
}

// labelMCP is the label of a sandbox that wolffia mcp --sandbox has made: a digest of the flags
// and, after a dash, one of the rules. So other flags, and other rules in files, are not silently
// without effect. A sandbox of an older wolffia lacks the second.
const labelMCP = "wolffia.mcp"

// describe records which flags describe the sandbox.
func (m *mcpServer) describe(cmd *cobra.Command) {
	hash := sha256.New()
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Changed || cmd.InheritedFlags().Lookup(f.Name) != nil {
			return
		}
		switch f.Name {
		case "sandbox", "session", "quiet", "pull", "codebase", sandboxflags.FlagProfile, sandboxflags.FlagNoConfig:
			return // codebase is compared by itself
		}
		m.given = append(m.given, "--"+f.Name)
		fmt.Fprintf(hash, "%s=%q\n", f.Name, f.Value.String())
	})
	m.digest = hex.EncodeToString(hash.Sum(nil)[:12])
}

// open returns the id of a running sandbox.
func (m *mcpServer) open(ctx context.Context) (string, error) {
	flags := m.flags // config changes them
	config, err := flags.Config(ctx, m.Host)
	if err != nil {
		return "", flags.Located(err)
	}
	if m.name != "" {
		return m.openNamed(ctx, config, digestRules(config, flags.FromFile))
	}
	config.BoundToCaller = true
	id, err := sandboxflags.CreateAndStart(ctx, m.Host, m.rt, config)
	if err != nil {
		return "", err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.made = append(m.made, id)
	return id, nil
}

// digestRules returns a digest of what the user has chosen for the rules of a new sandbox,
// wherever it is written, and of its network if that is a policy file's. What depends on the
// codebase's content, or on the version of wolffia, is left out.
func digestRules(config *runtime.SandboxConfig, networkOfFile bool) string {
	hash := sha256.New()
	// a sandbox without a codebase has no rules, and so no choice
	if c, err := policy.ChoiceOf(config.Permissions); err == nil {
		fmt.Fprintf(hash, "%q\n", c.Preset)
		for _, r := range c.Rules {
			fmt.Fprintf(hash, "%q %d\n", r.String(), r.Priority)
		}
	}
	if networkOfFile {
		_ = json.NewEncoder(hash).Encode(config.Egress) // of strings and numbers
	}
	return hex.EncodeToString(hash.Sum(nil)[:12])
}

// openNamed returns the id of the sandbox that stays: it makes or starts it.
func (m *mcpServer) openNamed(ctx context.Context, config *runtime.SandboxConfig, rules string) (string, error) {
	s, err := m.rt.Get(ctx, m.name)
	if errors.Is(err, runtime.ErrNotFound) {
		config.Name = m.name
		config.Labels[labelMCP] = m.digest + "-" + rules
		id, err := sandboxflags.CreateAndStart(ctx, m.Host, m.rt, config)
		if !errors.Is(err, runtime.ErrExists) {
			return id, err
		}
		s, err = m.rt.Get(ctx, m.name) // another client has made it meanwhile
		if err != nil {
			return "", err
		}
	} else if err != nil {
		return "", err
	}
	if err := m.fits(s, config, rules); err != nil {
		return "", err
	}
	if !s.State.Runs() {
		if err := m.rt.Start(ctx, s.ID); err != nil && !errors.Is(err, runtime.ErrConflict) {
			return "", err
		}
	}
	return s.ID, nil
}

// fits returns an error if a sandbox that exists is not the one that the flags and files describe.
func (m *mcpServer) fits(s *runtime.Sandbox, config *runtime.SandboxConfig, rules string) error {
	again := fmt.Sprintf("remove it (%s rm -f %s), or name another one with --sandbox", m.Self(), shellword.Quote(m.name))
	label, ours := s.Labels[labelMCP]
	flags, madeWith, told := strings.Cut(label, "-")
	switch {
	case s.CodebasePath != config.CodebasePath && (ours || m.flags.Text("codebase") != "" || m.flags.Truth("no-codebase")):
		return runtime.Errorf(runtime.ErrConflict, "sandbox %s shows %s, and this server is for %s: %s", m.name, console.Dash(s.CodebasePath), console.Dash(config.CodebasePath), again)
	case ours && flags != m.digest:
		return runtime.Errorf(runtime.ErrConflict, "sandbox %s was made with other flags: %s", m.name, again)
	case told && madeWith != rules:
		return runtime.Errorf(runtime.ErrConflict, "sandbox %s was made with other rules of configuration files or of a policy file: %s", m.name, again)
	case !ours && len(m.given) > 0:
		return runtime.Errorf(runtime.ErrConflict, "%s describe a new sandbox, and sandbox %s exists: leave them out, or %s", strings.Join(m.given, ", "), m.name, again)
	}
	return nil
}

// copied reports whether the sandbox has a copied codebase, or will have one.
func (m *mcpServer) copied(ctx context.Context) bool {
	if m.name != "" {
		if s, err := m.rt.Get(ctx, m.name); err == nil {
			return s.CopyOnWrite
		}
	}
	return m.flags.Truth("cow")
}

// end destroys the sandboxes that end with us, but keeps those with changes that were not applied,
// or snapshots.
func (m *mcpServer) end(ctx context.Context) (err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, id := range m.made {
		err = errors.Join(err, m.endOne(context.WithoutCancel(ctx), id))
	}
	return err
}

func (m *mcpServer) endOne(ctx context.Context, id string) error {
	var keep bool
	var err error
	tell := func() error { return nil }
	if m.flags.Truth("cow") {
		keep, tell, err = review.New(m.Host, m.rt).Review(ctx, id, &review.Flags{Apply: review.ApplyNever}, false)
	}
	ctx, cancel := context.WithTimeout(ctx, review.DestroyLimit)
	defer cancel()
	if keep {
		stopped := m.rt.Stop(ctx, id)
		return errors.Join(err, stopped, tell())
	}
	if derr := m.rt.Destroy(ctx, id); !errors.Is(derr, runtime.ErrNotFound) {
		err = errors.Join(err, derr)
	}
	return err
}
