package main

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

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

// complete gives the commands of a tree, and their flags, completion of names. It reads the
// state directory, waits for no lock, and is silent about errors.
func (a *app) complete(cmd *cobra.Command) {
	words := strings.Fields(cmd.Use)[1:]
	at := slices.IndexFunc(words, func(w string) bool { return strings.HasPrefix(strings.Trim(w, "["), "SANDBOX") })
	path := strings.TrimPrefix(cmd.CommandPath(), "wolffia ")
	switch {
	case cmd.ValidArgsFunction != nil || cmd.HasSubCommands():
	case path == "cp":
		cmd.ValidArgsFunction = a.completePlaces
	case path == "policy presets":
		cmd.ValidArgsFunction = onlyFirst(completePresets)
	case path == "network lists":
		cmd.ValidArgsFunction = onlyFirst(completeLists)
	case path == "network learn":
		cmd.ValidArgsFunction = nil
	case path == "image rm":
		cmd.ValidArgsFunction = a.completeImages
	case at >= 0:
		cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			switch {
			case len(args) > 0 && reviews(path):
				return a.completeReview(cmd.Context(), path, args), cobra.ShellCompDirectiveNoFileComp
			case len(args) == 0 || strings.Contains(words[at], "..."):
				return a.sandboxNames(wants(path), args), cobra.ShellCompDirectiveNoFileComp
			case strings.HasPrefix(path, "session job ") && len(args) > 1:
				switch {
				case path == "session job start":
					return nil, cobra.ShellCompDirectiveDefault
				case path == "session job ls", path != "session job kill" && len(args) > 2:
					return nil, cobra.ShellCompDirectiveNoFileComp
				}
				return a.jobNames(cmd.Context(), runtime.SessionIn(args[0], args[1]), args[2:]), cobra.ShellCompDirectiveNoFileComp
			case strings.HasPrefix(path, "session ") && path != "session ls":
				return a.sessionNames(cmd.Context(), args[0], args[1:]), cobra.ShellCompDirectiveNoFileComp
			case path == "network deny":
				return a.allowedNames(args[0], args[1:]), cobra.ShellCompDirectiveNoFileComp
			case path == "network allow":
				return completeLists(cmd, args, "")
			case path == "exec":
				return nil, cobra.ShellCompDirectiveDefault
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
		if values := a.flagValues(f.Name); values != nil {
			_ = cmd.RegisterFlagCompletionFunc(f.Name, values) // the flag exists
		}
	})
	for _, sub := range cmd.Commands() {
		a.complete(sub)
	}
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
func (a *app) flagValues(flag string) cobra.CompletionFunc {
	switch flag { // of commands that make no sandbox
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
		return a.completeImages
	case fields.Caches:
		return listOf(func() []string { return append(volume.Caches(), cacheAuto, cacheNone) })
	case fields.Toolchains:
		return listOf(a.toolchainNames)
	case fields.Volumes:
		return a.completeVolumeMounts
	case fields.Homes:
		return a.completeHomes
	case fields.HostLists:
		return completeLists
	case fields.Sandboxes:
		return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return a.sandboxNames(wants(""), nil), cobra.ShellCompDirectiveNoFileComp
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
func (a *app) allowedNames(ref string, given []string) (out []string) {
	dir := a.stateIfExists()
	if dir == nil {
		return nil
	}
	box, err := dir.Find(ref)
	if err != nil {
		return nil
	}
	c, err := box.Config()
	if err != nil {
		return nil
	}
	for _, r := range reaches(c.Egress) {
		if !slices.Contains(given, r.name) {
			out = append(out, printable(r.name)+"\t"+oneLine(r.what+" "+r.value))
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
func (a *app) completeImages(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	dir := a.stateIfExists()
	if dir == nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	all, err := store.Open(dir.Path()).List()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var out []string
	for _, e := range all {
		for name := range e.Names {
			if !slices.Contains(args, name) {
				out = append(out, printable(name)+"\t"+store.Short(e.ID))
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
func (a *app) toolchainNames() []string {
	names := []string{toolchainsAuto, toolchainsNone}
	if found, err := a.toolchains(&runtime.SandboxConfig{}); err == nil {
		for i := range found.Toolchains {
			t := &found.Toolchains[i]
			names = append(names, printable(t.Name)+"\t"+oneLine(strings.Join(t.Dirs, ":")))
		}
	}
	return names
}

// volumeEntries returns the volumes that are not damaged.
func (a *app) volumeEntries() (out []*volume.Entry) {
	dir := a.stateIfExists()
	if dir == nil {
		return nil
	}
	all, err := volume.Open(dir.Path()).List()
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(all, func(e *volume.Entry) bool { return e.Problem != "" })
}

// completeVolumes completes the names of volumes, with what they are. Damaged ones are
// offered too: they can be removed.
func (a *app) completeVolumes(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	dir := a.stateIfExists()
	if dir == nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	all, _ := volume.Open(dir.Path()).List()
	var out []string
	for _, e := range all {
		if slices.Contains(args, e.Name) {
			continue
		}
		what := e.Kind() + " " + oneLine(e.Codebase)
		if e.Problem != "" {
			what = "damaged"
		}
		out = append(out, printable(e.Name)+"\t"+strings.TrimSpace(what))
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

// completeVolumeMounts completes the name in NAME:PATH: of the volumes that a user has named.
func (a *app) completeVolumeMounts(_ *cobra.Command, _ []string, word string) ([]string, cobra.ShellCompDirective) {
	if strings.Contains(word, ":") { // a path inside
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var out []string
	for _, e := range a.volumeEntries() {
		if e.Kind() == "volume" {
			out = append(out, e.Name+":")
		}
	}
	return out, cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveNoFileComp
}

// completeHomes completes the names of homes that stay.
func (a *app) completeHomes(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	var out []string
	for _, e := range a.volumeEntries() {
		if name, is := strings.CutPrefix(e.Name, volume.HomeName("")); is && e.Kind() == "home" {
			out = append(out, name)
		}
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

// completePlaces completes the arguments of cp: sandboxes with a colon, or files.
func (a *app) completePlaces(_ *cobra.Command, _ []string, word string) ([]string, cobra.ShellCompDirective) {
	if strings.ContainsAny(word, ":/.") {
		return nil, cobra.ShellCompDirectiveDefault
	}
	var out []string
	for _, name := range a.sandboxNames(isRunning, nil) {
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
		return func(s runtime.State, c *statedir.Config) bool { return c.CopyOnWrite && s != runtime.StateRunning }
	case path == "fork", reviews(path):
		return func(_ runtime.State, c *statedir.Config) bool { return c.CopyOnWrite }
	case path == "exec", path == "stop", path == "forward", strings.HasPrefix(path, "session "):
		return isRunning
	case path == "start":
		return func(s runtime.State, _ *statedir.Config) bool { return s != runtime.StateRunning }
	}
	return func(runtime.State, *statedir.Config) bool { return true }
}

func isRunning(s runtime.State, _ *statedir.Config) bool { return s == runtime.StateRunning }

// stateIfExists opens the state directory; nil if it does not exist or cannot be used.
func (a *app) stateIfExists() *statedir.Dir {
	path, err := filepath.Abs(a.stateDir)
	if a.stateDir == "" {
		path, err = statedir.Default(os.Getenv, os.Geteuid())
	}
	if err != nil {
		return nil
	}
	if _, err := os.Stat(filepath.Join(path, "sandboxes")); err != nil {
		return nil // Open would make it
	}
	dir, err := statedir.Open(path)
	if err != nil {
		return nil
	}
	return dir
}

// sandboxNames returns the sandboxes that are wanted, with what they are, but for
// those that are given: names, and ids of those without a name.
func (a *app) sandboxNames(wanted choice, given []string) (out []string) {
	dir := a.stateIfExists()
	if dir == nil {
		return nil
	}
	ids, err := dir.IDs()
	if err != nil {
		return nil
	}
	for _, id := range ids {
		box := dir.Box(id)
		c, err := box.Config()
		if err != nil || slices.Contains(given, id) || c.Name != "" && slices.Contains(given, c.Name) {
			continue
		}
		state, _, err := box.State()
		if err != nil || !wanted(state, c) {
			continue
		}
		name := c.Name
		if name == "" {
			name = id
		}
		out = append(out, strings.TrimSpace(name+"\t"+string(state)+" "+c.Runtime+" "+oneLine(c.CodebasePath)))
	}
	slices.Sort(out)
	return out
}

// oneLine makes a path printable on one line.
func oneLine(path string) string {
	return strings.NewReplacer("\n", " ", "\t", " ").Replace(printable(path))
}

// listed returns what list gets of a sandbox within completeLimit, or nothing.
func listed[T any](ctx context.Context, a *app, list func(context.Context, *local.Runtime) ([]T, error)) []T {
	if a.stateIfExists() == nil {
		return nil
	}
	rt, err := a.open("")
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
func (a *app) sessionNames(ctx context.Context, ref string, given []string) (out []string) {
	all := listed(ctx, a, func(ctx context.Context, rt *local.Runtime) ([]*runtime.Session, error) {
		return rt.ListSessions(ctx, ref)
	})
	for _, s := range all {
		if !slices.Contains(given, s.Name) {
			out = append(out, printable(s.Name)+"\t"+oneLine(string(s.State)+" "+s.Cwd))
		}
	}
	return out
}

// jobNames returns the jobs of a session but for those that are given: names, and ids of
// those without a name.
func (a *app) jobNames(ctx context.Context, session runtime.SessionID, given []string) (out []string) {
	all := listed(ctx, a, func(ctx context.Context, rt *local.Runtime) ([]*runtime.Job, error) {
		return rt.SessionJobs(ctx, session)
	})
	for _, j := range all {
		name := cmp.Or(j.Name, j.ID)
		if !slices.Contains(given, name) {
			out = append(out, printable(name)+"\t"+oneLine(j.State+" "+j.Command))
		}
	}
	return out
}
