// Package serving makes sandboxes for other programs: the commands serve, mcp.
package serving

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"wolffia/cmd/wolffia/internal/console"
	"wolffia/cmd/wolffia/internal/host"
	"wolffia/cmd/wolffia/internal/sandboxflags"
	"wolffia/fields"
	"wolffia/image/store"
	"wolffia/network"
	"wolffia/runtime"
)

// ServeCommand returns the command serve.
func ServeCommand(h *host.Host) *cobra.Command {
	var flags sandboxflags.Sandbox
	cmd := &cobra.Command{
		Use:   "serve [--listen unix:PATH|HOST:PORT] [flags]",
		Short: "Serve sandboxes to owners, over HTTP on a unix socket or TCP",
		Long: `Serve sandboxes to owners over HTTP: on a unix socket, which only you and root can use,
or on TCP. The flags of create describe each new sandbox; so does --config FILE. Other configuration files are not
read, since they say what you want for yourself, or what a project wants. Requests are logged to standard error, as JSON.

On a loopback address (--listen 127.0.0.1:8080) only processes of yours and of root
are served. Other addresses, and sandboxes with --network host, --add-host, --upstream-proxy or --expose, need API keys: --api-keys FILE, of mode 0600,
has a key in each line, of 16 characters or more. With an owner after it, ORG/PROJECT/USER,
a key is for that owner's sandboxes only. SIGHUP reads it again, and --config. The service speaks
no TLS: put a front end that does before an address that other machines can reach.

The calls of wolffia are below /api/v1/, those of OpenSandbox below /v1/, and /mcp speaks
the Model Context Protocol, for agents.

SIGTERM or SIGINT (and SIGHUP, without --api-keys and --config) stops it: requests that run have --grace to end. A second one
ends it at once. Sandboxes go on, whatever becomes of the service, and the next one
finds them.`,
		Example: `  wolffia serve --codebase . &
  curl --unix-socket ~/.local/state/wolffia/service/sock -H 'Content-Type: application/json' \
    -d '{"organizationId":"acme","projectId":"web","userId":"zoe"}' http://wolffia/api/v1/ensureSandbox`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return serve(cmd, h)
		},
	}
	flags.Add(h, cmd, fields.Serve)
	cmd.AddCommand(installCommand(h), uninstallCommand(h))
	return cmd
}

// serveFlags say where and how to serve.
type serveFlags struct {
	choiceFlags
	grace time.Duration
}

// socketPath returns the path of the socket that --listen names; empty for a TCP address.
func socketPath(listen, stateDir string) (string, error) {
	if listen == "" {
		return filepath.Join(stateDir, "service", "sock"), nil
	}
	path, is := strings.CutPrefix(listen, "unix:")
	switch {
	case !is:
		return "", nil
	case path == "" || strings.HasSuffix(path, "/"):
		return "", runtime.Errorf(runtime.ErrInvalid, "--listen %q: it must be unix:PATH", listen)
	}
	return filepath.Abs(path)
}

// stillValid gives an error in flags that were valid when the service started its class: it
// is not a mistake in the request.
func stillValid(c *runtime.SandboxConfig, err error) (*runtime.SandboxConfig, error) {
	if err != nil {
		return nil, runtime.Errorf(runtime.ErrUnavailable, "the flags of wolffia serve do not describe a valid sandbox any more: %s", err.Error())
	}
	return c, nil
}

// ofRegistry returns an error unless a request may name an image: one in files is of this host,
// and so is what answers at an address that is not public, unless it is one of the allowed
// registries. public says that the image may come from public addresses only, where a name leads
// to others too.
func ofRegistry(image string, allowed []string) (public bool, err error) {
	canonical, err := store.Canonical(image)
	if err != nil || store.Local(image) {
		return true, runtime.Errorf(runtime.ErrInvalid, "image %q: a request can name an image of a registry only", image)
	}
	host, _, _ := strings.Cut(canonical, "/")
	if slices.Contains(allowed, host) {
		return false, nil
	}
	if kind := network.ForbiddenHost(host); kind != "" {
		return true, runtime.Errorf(runtime.ErrDenied, "image %q: the registry has a %s address, and the service lets requests name public registries only; wolffia serve --allow-registry %s permits it", image, kind, host)
	}
	return true, nil
}

// again makes the configuration of a new sandbox from the flags. It scans the codebase each
// time: new git repositories need guarding too.
func again(ctx context.Context, h *host.Host, flags sandboxflags.Sandbox, null *os.File) (*runtime.SandboxConfig, error) {
	// one warning is enough
	quiet := &host.Host{Console: console.New(h.In, &console.Output{File: null}, &console.Output{File: null}), StateDir: h.StateDir}
	c, err := flags.Config(ctx, quiet)
	return c, errors.Join(err, quiet.Close())
}
