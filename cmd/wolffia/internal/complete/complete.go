// Package complete completes words of a command line for a shell.
package complete

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"wolffia/cmd/wolffia/internal/console"
	"wolffia/cmd/wolffia/internal/host"
	"wolffia/cmd/wolffia/internal/review"
	"wolffia/cmd/wolffia/internal/sandboxflags"
	"wolffia/fields"
	"wolffia/image/store"
	"wolffia/internal/host/statedir"
	"wolffia/local"
	"wolffia/network"
	"wolffia/perm"
	"wolffia/runtime"
	"wolffia/runtime/backends"
	"wolffia/volume"
)

// completeLimit is how long completion waits for the answer of a sandbox.
const completeLimit = 300 * time.Millisecond

// A Completer completes words of a command line. It reads the state directory, waits for no lock,
// and is silent about errors.
type Completer struct{ *host.Host }

// New returns a Completer.
func New(h *host.Host) *Completer { return &Completer{h} }

// Complete gives the commands of a tree, and their flags, completion of names. It reads the
// state directory, waits for no lock, and is silent about errors.
func (c *Completer) Complete(cmd *cobra.Command) {
	words := strings.Fields(cmd.Use)[1:]
	at := slices.IndexFunc(words, func(w string) bool { return strings.HasPrefix(strings.Trim(w, "["), "SANDBOX") })
	path := strings.TrimPrefix(cmd.CommandPath(), "wolffia ")
	switch {
	case cmd.ValidArgsFunction != nil || cmd.HasSubCommands():
	case path == "cp":
		cmd.ValidArgsFunction = c.completePlaces
	case path == "policy presets":
		cmd.ValidArgsFunction = onlyFirst(completePresets)
	case path == "network lists":
		cmd.ValidArgsFunction = onlyFirst(completeLists)
	case path == "run", path == "network learn":
		cmd.ValidArgsFunction = c.completeCommand
	case path == "image rm":
		cmd.ValidArgsFunction = c.completeImages
	case at >= 0:
		cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, w string) ([]string, cobra.ShellCompDirective) {
			switch {
			case len(args) > 0 && reviews(path):
				return c.completeReview(cmd.Context(), path, args), cobra.ShellCompDirectiveNoFileComp
			case len(args) == 0 || strings.Contains(words[at], "..."):
				return c.sandboxNames(wants(path), args), cobra.ShellCompDirectiveNoFileComp
			case strings.HasPrefix(path, "session job ") && len(args) > 1:
				switch {
				case path == "session job start":
					return nil, cobra.ShellCompDirectiveDefault
				case path == "session job ls", path != "session job kill" && len(args) > 2:
					return nil, cobra.ShellCompDirectiveNoFileComp
				}
				return c.jobNames(cmd.Context(), runtime.SessionIn(args[0], args[1]), args[2:]), cobra.ShellCompDirectiveNoFileComp
			case strings.HasPrefix(path, "session ") && path != "session ls":
				return c.sessionNames(cmd.Context(), args[0], args[1:]), cobra.ShellCompDirectiveNoFileComp
			case path == "network deny":
				return c.allowedNames(args[0], args[1:]), cobra.ShellCompDirectiveNoFileComp
			case path == "network allow":
				return completeLists(cmd, args, "")
			case path == "exec":
				if args = args[1:]; len(args) > 0 && args[0] == "--" {
					args = args[1:]
				}
				return c.completeCommand(cmd, args, w)
			}
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
	case !slices.ContainsFunc(words, func(w string) bool { return strings.ToUpper(w) == w && !strings.HasPrefix(w, "[-") }):
		cmd.ValidArgsFunction = cobra.NoFileCompletions
	}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if _, has := cmd.GetFlagCompletionFunc(f.Name); has {
			return
		}
		if values := c.flagValues(f.Name); values != nil {
			_ = cmd.RegisterFlagCompletionFunc(f.Name, values) // the flag exists
		}
	})
	for _, sub := range cmd.Commands() {
		c.Complete(sub)
	}
}

// systemPath are the directories of programs that sandboxes on the host's system show.
var systemPath = []string{"/usr/local/bin", "/usr/bin", "/bin"}

// completeCommand completes a command to run inside: its program, of the system and of the
// toolchains that the sandbox shows, and then files. What an image has is not known.
func (c *Completer) completeCommand(cmd *cobra.Command, args []string, begun string) (
	[]string, cobra.ShellCompDirective,
) {
	image := cmd.Flags().Lookup("image")
	if len(args) > 0 || strings.Contains(begun, "/") || image != nil && image.Changed {
		return nil, cobra.ShellCompDirectiveDefault
	}
	dirs := slices.Clone(systemPath)
	if found, err := c.Toolchains(&runtime.SandboxConfig{}); err == nil {
		for i := range found.Toolchains {
			dirs = append(dirs, found.Toolchains[i].Dirs...)
		}
	}
	return programs(dirs, begun), cobra.ShellCompDirectiveDefault
}

// programs returns the programs of directories whose names begin so.
func programs(dirs []string, begun string) (out []string) {
	for _, dir := range dirs {
		entries, _ := os.ReadDir(dir)
		for _, e := range entries {
			if !strings.HasPrefix(e.Name(), begun) {
				continue
			}
			name := filepath.Join(dir, e.Name())
			if st, err := os.Stat(name); err == nil && st.Mode().IsRegular() && st.Mode()&0o111 != 0 {
				out = append(out, console.OneLine(e.Name()))
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// onlyFirst completes the first argument only.
func onlyFirst(f cobra.CompletionFunc) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return f(cmd, args, word)
	}
}

// flagValues returns what completes the value of a flag; nil if that is the shell's matter.
func (c *Completer) flagValues(flag string) cobra.CompletionFunc {
	switch flag { // of commands that make no sandbox
	case sandboxflags.FlagProfile:
		return c.completeProfile
	case "address":
		return cobra.NoFileCompletions
	case "signal":
		return fixedValues("TERM", "INT", "HUP", "KILL", "STOP", "CONT", "USR1", "USR2")
	}
	f := fields.Flag(flag)
	if f == nil || f.Kind == fields.Truth {
		return nil
	}
	switch f.Names {
	case fields.NoNames:
		return cobra.NoFileCompletions
	case fields.Presets:
		return completePresets
	case fields.Backends:
		return fixedValues(backends.Names()...)
	case fields.Images:
		return c.completeImages
	case fields.Caches:
		return listOf(func() []string { return append(volume.Caches(), sandboxflags.CacheAuto, sandboxflags.CacheNone) })
	case fields.Toolchains:
		return listOf(c.toolchainNames)
	case fields.Volumes:
		return c.completeVolumeMounts
	case fields.Homes:
		return c.completeHomes
	case fields.HostLists:
		return completeLists
	case fields.Sandboxes:
		return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return c.sandboxNames(wants(""), nil), cobra.ShellCompDirectiveNoFileComp
		}
	case fields.Directories:
		return cobra.FixedCompletions(nil, cobra.ShellCompDirectiveFilterDirs)
	case fields.YAMLFiles:
		return cobra.FixedCompletions([]string{"yaml", "yml"}, cobra.ShellCompDirectiveFilterFileExt)
	case fields.ShellNames:
	}
	var values []string
	for _, v := range f.Values {
		values = append(values, strings.TrimSuffix(v.Name+"\t"+v.Doc, "\t"))
	}
	if values == nil {
		return nil
	}
	return fixedValues(values...)
}

// fixedValues completes one of the values.
func fixedValues(values ...string) cobra.CompletionFunc {
	return cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)
}

// completeLists completes the named lists of hosts.
func completeLists(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	var out []string
	for _, l := range network.Lists() {
		out = append(out, "@"+l.Name+"\t"+l.Reason)
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

// allowedNames returns what a sandbox can reach by name, but for what is given.
func (c *Completer) allowedNames(ref string, given []string) (out []string) {
	dir := c.StateIfExists()
	if dir == nil {
		return nil
	}
	rec, err := dir.Find(ref)
	if err != nil {
		return nil
	}
	config, err := rec.Config()
	if err != nil {
		return nil
	}
	for _, r := range config.Egress.Reaches() {
		if !slices.Contains(given, r.Name) {
			out = append(out, console.Printable(r.Name)+"\t"+console.OneLine(r.What+" "+r.Value))
		}
	}
	return out
}

func completePresets(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	var out []string
	for _, p := range perm.Presets() {
		out = append(out, p.Name+"\t"+p.Doc)
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

// completeImages completes the names of images in the store.
func (c *Completer) completeImages(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	dir := c.StateIfExists()
	if dir == nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	all, _ := store.Open(dir.Path()).List()
	var out []string
	for _, e := range all {
		for name := range e.Names {
			if !slices.Contains(args, name) {
				out = append(out, console.Printable(name)+"\t"+store.Short(e.ID))
			}
		}
	}
	slices.Sort(out)
	return out, cobra.ShellCompDirectiveNoFileComp
}

// listOf completes the last name of a list with commas: the shell takes the list for one
// word. What the list has already is left out.
func listOf(names func() []string) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, word string) ([]string, cobra.ShellCompDirective) {
		given := word[:strings.LastIndexByte(word, ',')+1]
		var out []string
		for _, name := range names() {
			if bare, _, _ := strings.Cut(name, "\t"); !slices.Contains(strings.Split(given, ","), bare) {
				out = append(out, given+name)
			}
		}
		return out, cobra.ShellCompDirectiveNoFileComp
	}
}

// toolchainNames returns the values of --toolchains: those of this PATH too.
func (c *Completer) toolchainNames() []string {
	names := []string{sandboxflags.ToolchainsAuto, sandboxflags.ToolchainsNone}
	if found, err := c.Toolchains(&runtime.SandboxConfig{}); err == nil {
		for i := range found.Toolchains {
			t := &found.Toolchains[i]
			names = append(names, console.Printable(t.Name)+"\t"+console.OneLine(strings.Join(t.Dirs, ":")))
		}
	}
	return names
}

// volumeEntries returns the volumes.
func (c *Completer) volumeEntries() []*volume.Entry {
	dir := c.StateIfExists()
	if dir == nil {
		return nil
	}
	all, _ := volume.Open(dir.Path()).List()
	return all
}

// Volumes completes the names of volumes, with what they are. Damaged ones are
// offered too: they can be removed.
func (c *Completer) Volumes(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	var out []string
	for _, e := range c.volumeEntries() {
		if slices.Contains(args, e.Name) {
			continue
		}
		what := e.Kind() + " " + console.OneLine(e.Codebase)
		if e.Problem != "" {
			what = "damaged"
		}
		out = append(out, console.Printable(e.Name)+"\t"+strings.TrimSpace(what))
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

// completeVolumeMounts completes the name in NAME:PATH: of the volumes that a user has named.
func (c *Completer) completeVolumeMounts(_ *cobra.Command, _ []string, word string) ([]string, cobra.ShellCompDirective) {
	if strings.Contains(word, ":") { // a path inside
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var out []string
	for _, e := range c.volumeEntries() {
		if e.Kind() == "volume" && e.Problem == "" {
			out = append(out, e.Name+":")
		}
	}
	return out, cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveNoFileComp
}

// completeHomes completes the names of homes that stay.
func (c *Completer) completeHomes(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	var out []string
	for _, e := range c.volumeEntries() {
		if name, is := strings.CutPrefix(e.Name, volume.HomeName("")); is && e.Kind() == "home" && e.Problem == "" {
			out = append(out, name)
		}
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

// completePlaces completes the arguments of cp: sandboxes with a colon, or files.
func (c *Completer) completePlaces(_ *cobra.Command, _ []string, word string) ([]string, cobra.ShellCompDirective) {
	if strings.ContainsAny(word, ":/.") {
		return nil, cobra.ShellCompDirectiveDefault
	}
	var out []string
	for _, name := range c.sandboxNames(isRunning, nil) {
		name, what, _ := strings.Cut(name, "\t")
		out = append(out, name+":\t"+what)
	}
	return out, cobra.ShellCompDirectiveNoSpace
}

// A choice reports whether a command is for a sandbox.
type choice func(runtime.State, *statedir.Config) bool

// wants returns which sandboxes a command is for.
func wants(path string) choice {
	switch {
	case path == "snapshot restore":
		return func(s runtime.State, c *statedir.Config) bool { return c.CopyOnWrite && !s.Runs() }
	case path == "fork", reviews(path):
		return func(_ runtime.State, c *statedir.Config) bool { return c.CopyOnWrite }
	case path == "stop", path == "resume":
		return func(s runtime.State, _ *statedir.Config) bool {
			return s == runtime.StatePaused || s == runtime.StateHibernated || path == "stop" && s.Runs()
		}
	case path == "exec", path == "pause", path == "forward", strings.HasPrefix(path, "session "):
		return isRunning
	case path == "start":
		return func(s runtime.State, _ *statedir.Config) bool { return !s.Runs() }
	}
	return func(runtime.State, *statedir.Config) bool { return true }
}

func isRunning(s runtime.State, _ *statedir.Config) bool { return s == runtime.StateRunning }

// sandboxNames returns the sandboxes that are wanted, with what they are, but for
// those that are given: names, and ids of those without a name.
func (c *Completer) sandboxNames(wanted choice, given []string) (out []string) {
	dir := c.StateIfExists()
	if dir == nil {
		return nil
	}
	ids, _ := dir.IDs()
	for _, id := range ids {
		rec := dir.Record(id)
		c, err := rec.Config()
		if err != nil || slices.Contains(given, id) || c.Name != "" && slices.Contains(given, c.Name) {
			continue
		}
		state, _, err := rec.State()
		if err != nil || !wanted(state, c) {
			continue
		}
		name := c.Name
		if name == "" {
			name = id
		}
		out = append(out, strings.TrimSpace(name+"\t"+string(state)+" "+c.Runtime+" "+console.OneLine(c.CodebasePath)))
	}
	slices.Sort(out)
	return out
}

// listed returns what list gets of a sandbox within completeLimit, or nothing.
func listed[T any](ctx context.Context, h *host.Host, list func(context.Context, *local.Runtime) ([]T, error)) []T {
	if h.StateIfExists() == nil {
		return nil
	}
	rt, err := h.Open("")
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, completeLimit)
	defer cancel()
	all, err := list(ctx, rt)
	if err != nil {
		return nil
	}
	return all
}

// sessionNames returns the sessions of a running sandbox but for those that are given.
func (c *Completer) sessionNames(ctx context.Context, ref string, given []string) (out []string) {
	all := listed(ctx, c.Host, func(ctx context.Context, rt *local.Runtime) ([]*runtime.Session, error) {
		return rt.ListSessions(ctx, ref)
	})
	for _, s := range all {
		if !slices.Contains(given, s.Name) {
			out = append(out, console.Printable(s.Name)+"\t"+console.OneLine(string(s.State)+" "+s.Cwd))
		}
	}
	return out
}

// jobNames returns the jobs of a session but for those that are given: names, and ids of
// those without a name.
func (c *Completer) jobNames(ctx context.Context, session runtime.SessionID, given []string) (out []string) {
	all := listed(ctx, c.Host, func(ctx context.Context, rt *local.Runtime) ([]*runtime.Job, error) {
		return rt.SessionJobs(ctx, session)
	})
	for _, j := range all {
		name := cmp.Or(j.Name, j.ID)
		if !slices.Contains(given, name) {
			out = append(out, console.Printable(name)+"\t"+console.OneLine(j.State+" "+j.Command))
		}
	}
	return out
}

// Pools completes shapes of pools, with what they are.
func (c *Completer) Pools(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	var out []string
	if c.StateIfExists() != nil {
		if rt, err := c.Open(""); err == nil {
			all, _ := rt.Pools()
			for _, p := range all {
				if !slices.Contains(args, p.Shape) {
					out = append(out, fmt.Sprintf("%s\t%s %d/%d", p.Shape, p.Runtime, p.Ready, p.Size))
				}
			}
		}
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

func (c *Completer) completeProfile(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	profiles, err := sandboxflags.Profiles(c.Host, cmd.Flags())
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var out []string
	for _, p := range profiles {
		out = append(out, p.Name+"\t"+console.Printable(p.Description))
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

// reviews reports whether a command is about the changes of a sandbox, and takes more than its
// name.
func reviews(path string) bool {
	return path == "diff" || path == "apply" || path == "discard" || strings.HasPrefix(path, "snapshot ")
}

// completeReview completes what follows the name of a sandbox: paths that have changed, or a
// snapshot.
func (c *Completer) completeReview(ctx context.Context, path string, args []string) []string {
	ref, given := args[0], args[1:]
	switch path {
	case "diff", "apply", "discard":
		return c.changedPaths(ctx, ref, given)
	case "snapshot restore", "snapshot rm":
		if path == "snapshot rm" || len(given) == 0 {
			return c.snapshotNames(ctx, ref, given)
		}
	}
	return nil
}

// changedPaths returns the changes of a sandbox but for git's own and those that are given. The
// names are the sandbox's, and a shell obeys what is completed: one with another character than
// those of most names is left out.
func (c *Completer) changedPaths(ctx context.Context, ref string, given []string) (out []string) {
	all := listed(ctx, c.Host, func(ctx context.Context, rt *local.Runtime) ([]runtime.Change, error) {
		return rt.Changes(ctx, ref, runtime.ChangesOptions{})
	})
	all, _ = review.WithoutGit(all)
	for i := range all {
		c := &all[i]
		if plainPath(c.Path) && !slices.Contains(given, c.Path) {
			out = append(out, c.Path+"\t"+string(c.Kind))
		}
	}
	return out
}

// plainPath reports whether a path has only characters that no shell and no option parser gives a
// meaning.
func plainPath(p string) bool {
	for _, c := range []byte(p) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && !strings.ContainsRune("/._-+@", rune(c)) {
			return false
		}
	}
	return p != "" && p[0] != '-'
}

// snapshotNames returns the snapshots of a sandbox but for those that are given.
func (c *Completer) snapshotNames(ctx context.Context, ref string, given []string) (out []string) {
	all := listed(ctx, c.Host, func(ctx context.Context, rt *local.Runtime) ([]runtime.Snapshot, error) {
		return rt.Snapshots(ctx, ref)
	})
	for _, s := range all {
		if !slices.Contains(given, s.Name) {
			out = append(out, s.Name+"\t"+console.Age(s.CreatedAt))
		}
	}
	return out
}
