package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"wolffia/cmd/wolffia/internal/host"
	"wolffia/runtime"
)

// mcpClients are the files, in a project, that tell clients of the Model Context Protocol of their
// servers, and the member that has them.
var mcpClients = map[string]struct{ file, servers string }{
	"claude": {".mcp.json", "mcpServers"},
	"cursor": {".cursor/mcp.json", "mcpServers"},
	"gemini": {".gemini/settings.json", "mcpServers"},
	"vscode": {".vscode/mcp.json", "servers"},
}

func initMCPCommand(h *host.Host) *cobra.Command {
	var client string
	names := strings.Join(slices.Sorted(maps.Keys(mcpClients)), ", ")
	cmd := &cobra.Command{
		Use:   "mcp [--client NAME] [-- FLAGS OF mcp]",
		Short: "Tell an agent's or editor's configuration of this project to use wolffia mcp",
		Long: `Add wolffia mcp to the file in which a client of the Model Context Protocol has the servers of this
project. What else the file has stays. The clients are ` + names + `.`,
		Example: `  wolffia init mcp
  wolffia init mcp --client vscode -- --preset read-only --allow-host @npm`,
		RunE: func(_ *cobra.Command, args []string) error {
			c, known := mcpClients[client]
			if !known {
				return runtime.Errorf(runtime.ErrInvalid, "--client %q: want one of %s", client, names)
			}
			err := editFile(projectOf(nil), c.file, func(old []byte) ([]byte, error) {
				return withServer(old, c.servers, append([]string{"mcp"}, args...))
			})
			if err != nil {
				return runtime.Errorf(runtime.ErrInvalid, "%s: %w: add the server by hand, as docs/mcp.md says", c.file, err)
			}
			h.Say(c.file + " has the server wolffia; switch the client's own shell and file tools off")
			return nil
		},
	}
	cmd.Flags().StringVar(&client, "client", "claude", "whose file: "+names)
	return cmd
}

// editFile replaces the content of a file in a project, which need not exist. It follows no link: what
// is there may be a sandbox's.
func editFile(project, name string, edit func(old []byte) ([]byte, error)) error {
	root, err := os.OpenRoot(project)
	if err != nil {
		return err
	}
	defer root.Close()
	if dir := filepath.Dir(name); dir != "." {
		if err := root.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		at, err := root.Lstat(dir)
		if err != nil || !at.IsDir() {
			return errors.Join(err, fmt.Errorf("%s is not a directory", dir))
		}
	}
	f, err := root.OpenFile(name, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	if at, err := f.Stat(); err != nil || !at.Mode().IsRegular() {
		return errors.Join(err, errors.New("it is not a regular file"))
	}
	old, err := io.ReadAll(f)
	if err != nil {
		return err
	}
	text, err := edit(old)
	if err != nil {
		return err
	}
	if _, err = f.WriteAt(text, 0); err == nil {
		err = f.Truncate(int64(len(text)))
	}
	return err
}

// withServer returns the JSON of a client's file, which may be empty, with wolffia as a server.
func withServer(old []byte, member string, args []string) ([]byte, error) {
	file, servers := map[string]json.RawMessage{}, map[string]json.RawMessage{}
	if len(bytes.TrimSpace(old)) > 0 {
		if err := json.Unmarshal(old, &file); err != nil {
			return nil, err
		}
	}
	if has := file[member]; has != nil {
		if err := json.Unmarshal(has, &servers); err != nil {
			return nil, err
		}
	}
	var err error
	if servers["wolffia"], err = json.Marshal(map[string]any{"command": "wolffia", "args": args}); err != nil {
		return nil, err
	}
	if file[member], err = json.Marshal(servers); err != nil {
		return nil, err
	}
	text, err := json.MarshalIndent(file, "", "  ")
	return append(text, '\n'), err
}
