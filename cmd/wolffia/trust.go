package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"wolffia/internal/config"
	"wolffia/internal/host/statedir"
	"wolffia/runtime"
)

func (a *app) trustCommand() *cobra.Command {
	var yes, list bool
	var f format
	cmd := &cobra.Command{
		Use:   "trust [DIR]",
		Short: "Read a project's configuration file, and let it count",
		Long: `Print the configuration file (.wolffia.yaml) of DIR, by default the current directory,
ask, and remember its content as trusted. A file that changes is not trusted any more.
A trusted file cannot loosen what your own configuration file sets.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if list {
				return a.listTrusted(f)
			}
			return a.trust(cmd.Context(), append(args, ".")[0], yes)
		},
	}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	cmd.Flags().BoolVar(&list, "list", false, "list what is trusted")
	f.flags(cmd)
	return cmd
}

// trust shows the file of a project, asks, and records that it is trusted. The bytes that
// are shown are those whose checksum is recorded.
func (a *app) trust(ctx context.Context, dir string, yes bool) error {
	name := filepath.Join(dir, config.ProjectName)
	data, err := config.ReadProject(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return runtime.Errorf(runtime.ErrNotFound, "%s: no such file: wolffia init writes one", name)
	}
	if err != nil {
		return runtime.Errorf(runtime.ErrInvalid, "%s: %w", name, err)
	}
	path, sum, err := identify(dir, data)
	if err != nil {
		return err
	}
	request, err := a.checkProject(name, path, data)
	if err != nil {
		return runtime.WithClass(runtime.ErrInvalid, err)
	}
	for line := range strings.Lines(string(data)) {
		fmt.Fprintf(a.out, "  %s\n", printable(strings.TrimRight(line, "\r\n")))
	}
	for _, s := range config.Widens(request) {
		fmt.Fprintf(a.out, "%s: gives more than sandboxes have by default: %s: %s\n",
			printable(s.Source.String()), s.Key, printable(strings.Join(s.Values, " ")))
	}
	if !yes {
		if err := a.confirm(ctx, fmt.Sprintf("Trust %s? [y/N] ", printable(filepath.Join(path, config.ProjectName)))); err != nil {
			return err
		}
	}
	state, err := a.openState()
	if err != nil {
		return err
	}
	return state.Trust(&statedir.Trust{Path: path, SHA256: sum, TrustedAt: time.Now().UnixMilli()})
}

// checkProject parses a project's file, and merges it with the user's own: an error there
// would be one of each later command.
func (a *app) checkProject(name, dir string, data []byte) (*config.Request, error) {
	c := &configuration{app: a}
	c.home, _ = os.UserHomeDir() // as in configuration
	c.known()
	if err := c.user(); err != nil {
		return nil, err
	}
	var err error
	c.request.Project, err = config.Parse(c.request.Keys, config.Place{Name: name, Dir: dir, Home: c.home, Project: true}, data)
	if err != nil {
		return nil, err
	}
	_, err = config.Merge(&c.request)
	return &c.request, err
}

// errNotConfirmed is the answer no.
var errNotConfirmed = errors.New("not confirmed: nothing was changed")

// confirm asks a question on the terminal. Any answer but yes is an error.
func (a *app) confirm(ctx context.Context, question string) error {
	if !term.IsTerminal(int(a.in.Fd())) {
		return runtime.Errorf(runtime.ErrInvalid, "standard input is not a terminal to ask on: use --yes")
	}
	fmt.Fprint(a.err, question)
	answers := make(chan string, 1)
	go func() { // ends with the answer, or with the program
		answer, _ := bufio.NewReader(io.LimitReader(a.in, 1024)).ReadString('\n') // no answer is no
		answers <- answer
	}()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case answer := <-answers:
		switch strings.ToLower(strings.TrimSpace(answer)) {
		case "y", "yes":
			return nil
		}
		return errNotConfirmed
	}
}

func (a *app) openState() (*statedir.Dir, error) {
	path, err := a.statePath()
	if err != nil {
		return nil, err
	}
	return statedir.Open(path)
}

func (a *app) listTrusted(f format) error {
	state, err := a.openState()
	if err != nil {
		return err
	}
	records, err := state.Trusts()
	if err != nil {
		return err
	}
	type trusted struct {
		statedir.Trust
		State string `json:"state"` // of the file: trusted, changed, missing, unreadable
	}
	all := []trusted{}
	for _, r := range records {
		all = append(all, trusted{r, stateOfFile(&r)})
	}
	t := table[trusted]{head: "DIRECTORY\tFILE\tTRUSTED", row: func(t trusted) []any {
		return []any{printable(t.Path), t.State, since(time.UnixMilli(t.TrustedAt))}
	}}
	return t.print(a, f, all)
}

// stateOfFile compares a record with the file that exists now.
func stateOfFile(r *statedir.Trust) string {
	data, err := config.ReadProject(r.Path)
	_, sum, identifyErr := identify(r.Path, data)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "missing"
	case err != nil || identifyErr != nil:
		return "unreadable"
	case sum != r.SHA256:
		return "changed"
	}
	return "trusted"
}

func (a *app) untrustCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "untrust [DIR]",
		Short: "Do not trust a project's configuration file any more",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			dir, err := filepath.Abs(append(args, ".")[0])
			if err != nil {
				return err
			}
			if real, err := filepath.EvalSymlinks(dir); err == nil { // else the directory is gone
				dir = real
			}
			state, err := a.openState()
			if err != nil {
				return err
			}
			return state.Distrust(dir)
		},
	}
}
