// Package usage explains to the user how commands are used: help, errors of flags or arguments.
package usage

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"wolffia/cmd/wolffia/internal/console"
	"wolffia/docs"
	"wolffia/fields"
	"wolffia/internal/shellword"
	"wolffia/runtime"
)

// Explain gives the commands of a tree errors that say how each is used, and help in which flags
// are grouped. It calls misread when flags could not be read. The flags called empty may be empty.
func Explain(root *cobra.Command, c *console.Console, misread func(), empty ...string) {
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		misread()
		if args := cmd.Flags().Args(); cmd.HasSubCommands() && len(args) > 0 {
			return unknownCommand(cmd, args[0])
		}
		return runtime.Errorf(runtime.ErrInvalid, "%w%s; see %s --help", valueProblem(err), flagHint(cmd, err), cmd.CommandPath())
	})
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) {
		width := 0
		if c.Out != nil {
			width = c.Out.Width()
		}
		all := slices.Equal(cmd.Flags().Args(), []string{"all"})
		heading := func(text string) string { return c.Paint(console.Bold, text) }
		_, _ = io.WriteString(cmd.OutOrStdout(), help(cmd, width, all, heading))
	})
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	refuseEmpty(root.PersistentFlags(), empty)
	var each func(cmd *cobra.Command)
	each = func(cmd *cobra.Command) {
		cmd.SuggestionsMinimumDistance = 2
		refuseEmpty(cmd.Flags(), empty)
		switch {
		case cmd.Parent() == root && cmd.Name() == "help":
			ofCommand := cmd.Run
			cmd.Use = "help [COMMAND | PAGE | WORD...]"
			cmd.Short = "Help about a command, or what the documents say of a word"
			cmd.Long = "Print the help of a command, a page of the documents, or the sections that have some words."
			cmd.Example = "  wolffia help run\n  wolffia help faq\n  wolffia help share cache"
			cmd.Args, cmd.RunE = cobra.ArbitraryArgs, func(cmd *cobra.Command, args []string) error {
				return answerHelp(cmd, args, func() { ofCommand(cmd, args) })
			}
			completeCommands := cmd.ValidArgsFunction
			cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
				words, directive := completeCommands(cmd, args, begun)
				if len(args) == 0 {
					words = append(words, pageNames(docs.Pages, begun)...)
				}
				return words, directive
			}
		case cmd.HasSubCommands() && !cmd.Runnable(): // cobra would print the help for an unknown word, and report no error
			cmd.Args = cobra.NoArgs
			cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		}
		if check := cmd.Args; check != nil {
			cmd.Args = func(cmd *cobra.Command, args []string) error {
				err := cmp.Or(exclusive(cmd), check(cmd, args))
				if err == nil || errors.Is(err, runtime.ErrInvalid) {
					return err
				}
				if cmd.ArgsLenAtDash() == 0 && !cmd.HasParent() {
					return commandAlone(cmd, args)
				}
				if cmd.HasSubCommands() && len(args) > 0 {
					return unknownCommand(cmd, args[0])
				}
				return Errorf(cmd, "%s", OperandProblem(cmd, args))
			}
		}
		for _, sub := range cmd.Commands() {
			each(sub)
		}
	}
	each(root)
}

// refuseEmpty has flags with a text refuse an empty one: of a variable that a script has not set.
// The default may be weaker than what was meant.
func refuseEmpty(flags *pflag.FlagSet, but []string) {
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Value.Type() == "string" && !slices.Contains(but, f.Name) {
			f.Value = text{f.Value}
		}
	})
}

// A text is the value of a flag that is not empty if it is given.
type text struct{ pflag.Value }

// Set implements [pflag.Value].
func (t text) Set(s string) error {
	if s == "" {
		return errors.New("it must not be empty: leave it out for the default")
	}
	return t.Value.Set(s)
}

// Errorf returns an error about the arguments of a command, with its usage.
func Errorf(cmd *cobra.Command, format string, args ...any) error {
	line := cmd.Use
	if cmd.HasParent() {
		line = cmd.Parent().CommandPath() + " " + line
	}
	return runtime.Errorf(runtime.ErrInvalid, "%s: %w; usage: %s", cmd.CommandPath(), fmt.Errorf(format, args...), line)
}

// OperandProblem returns what is wrong with the number of a command's arguments.
func OperandProblem(cmd *cobra.Command, args []string) string {
	var all, needed []string
	value := false // the word before is a flag that has one
	for _, word := range strings.Fields(cmd.Use)[1:] {
		name := strings.TrimSuffix(strings.Trim(word, "[]"), "...")
		flag := strings.HasPrefix(name, "-")
		if value || flag || name == "|" || name != strings.ToUpper(name) {
			value = flag && !strings.HasSuffix(word, "]")
			continue
		}
		if all = append(all, name); !strings.HasPrefix(word, "[") {
			needed = append(needed, name)
		}
	}
	switch {
	case len(args) < len(needed):
		return "needs " + strings.Join(needed, " and ")
	case len(args) <= len(all):
		return "has other arguments"
	case len(all) == 0:
		return fmt.Sprintf("takes no arguments, and %q is one", args[0])
	default:
		return fmt.Sprintf("takes %s only, and %q is one argument too many", strings.Join(all, " and "), args[len(all)])
	}
}

// helpTopic returns an error if the arguments of help do not name a command or a topic.
func helpTopic(help *cobra.Command, args []string) error {
	cmd := help.Root()
	for _, word := range args {
		next, _, err := cmd.Find([]string{word})
		switch {
		case err != nil || next == cmd && cmd.HasSubCommands():
			return unknownCommand(cmd, word)
		case next == cmd: // help prints that of the command
			return nil
		}
		cmd = next
	}
	return nil
}

// unknownCommand is the error for a word that is not a command of cmd.
func unknownCommand(cmd *cobra.Command, word string) error {
	hint := fmt.Sprintf("see %s --help", cmd.CommandPath())
	if use := OtherWords[word]; use != "" && !cmd.HasParent() {
		if hint = use; strings.HasPrefix(use, "wolffia ") {
			hint = "use " + use
		}
	} else if program(word) && !cmd.HasParent() {
		hint = "to run it in a sandbox: wolffia run -- " + word + " ..."
	} else if near := nearCommands(cmd, word); len(near) > 0 {
		for i := range near {
			near[i] = cmd.CommandPath() + " " + near[i]
		}
		hint = "did you mean " + strings.Join(near, " or ") + "?"
	}
	return runtime.Errorf(runtime.ErrInvalid, "%q is not a command of %s: %s", word, cmd.CommandPath(), hint)
}

// nearCommands returns the commands whose names are like a word.
func nearCommands(cmd *cobra.Command, word string) []string {
	cmd.SuggestionsMinimumDistance = distance(word)
	return cmd.SuggestionsFor(word)
}

// program reports whether a word is a program of PATH.
func program(word string) bool {
	_, err := exec.LookPath(word)
	return err == nil && !strings.Contains(word, "/")
}

// commandAlone is the error for a command line that is a command to run: it is what follows --.
func commandAlone(cmd *cobra.Command, args []string) error {
	return runtime.Errorf(runtime.ErrInvalid, "%s needs a command before --: use wolffia run -- %s",
		cmd.CommandPath(), console.Printable(shellword.Join(args)))
}

// OtherWords are commands of other programs, and what does the same here.
var OtherWords = map[string]string{
	"compose": "wolffia create, for each service",
	"system":  "wolffia prune, or wolffia doctor",
	"upgrade": "install the new release as the old one was; wolffia version says which this is",
	"update":  "install the new release as the old one was; wolffia version says which this is",
	"attach":  "wolffia shell SANDBOX, or wolffia session attach SANDBOX NAME",
	"bash":    "wolffia shell",
	"copy":    "wolffia cp",
	"delete":  "wolffia rm",
	"destroy": "wolffia rm -f",
	"enter":   "wolffia shell SANDBOX",
	"history": "wolffia why, wolffia audit --last, or wolffia image ls, which shows parents",
	"images":  "wolffia image ls",
	"info":    "wolffia doctor, or wolffia inspect SANDBOX",
	"kill":    "wolffia stop, or wolffia rm -f to remove the sandbox too",
	"port":    "wolffia forward SANDBOX [LOCAL:]PORT",
	"ps":      "wolffia ls",
	"save":    "wolffia image export IMAGE FILE",
	"export":  "wolffia image export IMAGE FILE, or wolffia cp SANDBOX:PATH FILE",
	"load":    "wolffia image import FILE",
	"import":  "wolffia image import FILE",
	"push":    "wolffia image export --format oci IMAGE FILE, then skopeo copy oci-archive:FILE docker://NAME",
	"tag":     "wolffia image tag IMAGE NAME",
	"buildx":  "wolffia build",
	"login":   "wolffia shell SANDBOX, or docker login for a registry: its credentials count here",
	"pull":    "wolffia image pull",
	"remove":  "wolffia rm",
	"restart": "wolffia stop, then wolffia start",
	"rmi":     "wolffia image rm",
	"setup":   "wolffia doctor, or wolffia init",
	"sh":      "wolffia shell",
	"ssh":     "wolffia shell SANDBOX",
	"stats":   "wolffia inspect --text SANDBOX, or wolffia exec SANDBOX -- top",
	"top":     "wolffia exec SANDBOX -- top",
	"up":      "wolffia create",
	"wait":    "wolffia session job wait, or wolffia exec",
}

// making are the commands that describe a sandbox.
var making = []string{"run", "create", "shell", "serve"}

// OtherFlags are flags of other programs, and what does the same here.
var OtherFlags = []struct {
	names []string
	On    []string // the commands that it is about
	Use   string
}{
	{[]string{"m"}, making, "--memory SIZE"},
	{[]string{"internet"}, making, "--allow-host NAME for each host, or --network host for all"},
	{[]string{"hostname", "h"}, making, "each sandbox has a host name of its own, which cannot be chosen"},
	{[]string{"tmpfs"}, making, "/tmp and the home directory are the sandbox's own, and vanish with it"},
	{[]string{"restart"}, making, "nothing restarts a sandbox by itself: wolffia start"},
	{[]string{"gpus", "device"}, making, "a sandbox has no devices of the host"},
	{[]string{"v"}, making, "--mount SRC[:DST][:ro|rw]"},
	{[]string{"bind", "dir", "directory"}, making, "--codebase DIR, or --mount SRC[:DST][:ro|rw]"},
	{[]string{"allow-domain", "allow-net"}, making, "--allow-host NAME[:PORTS], or *.DOMAIN"},
	{[]string{"hide", "exclude", "ignore"}, making, "--rule 'PATTERN=none'"},
	{[]string{"ro", "read-only"}, making, "--preset read-only"},
	{[]string{"dns"}, making, "--allow-host NAME, or --add-host NAME:ADDR"},
	{[]string{"no-network", "offline"}, making, "a sandbox has no network unless --network or --allow-host gives it one"},
	{[]string{"privileged", "cap-add"}, making, "no sandbox can do more than your user"},
	{[]string{"entrypoint"}, []string{"run"}, "name the command after --"},
	{[]string{"dry-run"}, []string{"run"}, "--cow, which leaves the host's files as they are"},
	{[]string{"verbose", "debug"}, making, "see wolffia logs SANDBOX and wolffia audit SANDBOX"},
	{[]string{"net"}, making, "--network"},
	{[]string{"p", "port", "ports"}, []string{"run", "create", "shell"}, "--publish [ADDR:]LOCAL:PORT"},
	{[]string{"env-file"}, []string{"run", "create", "shell", "serve", "exec"}, "-e K=V for each variable"},
	{[]string{"user", "u"}, []string{"serve"}, "commands run as your user, or as the codebase's owner if you are root"},
	{[]string{"detach", "d"}, []string{"run"}, "wolffia create, then wolffia exec"},
	{[]string{"detach", "d"}, []string{"exec"}, "--session NAME with a command that ends in &"},
	{[]string{"detach", "d"}, []string{"create", "shell"}, "a sandbox that wolffia create makes stays"},
	{[]string{"rm"}, []string{"run"}, "run always destroys its sandbox"},
	{[]string{"rm"}, []string{"create", "shell"}, "wolffia run, or --ttl D"},
	{[]string{"workdir", "w"}, []string{"run", "create", "shell", "serve", "exec"}, "--cwd DIR"},
	{[]string{"interactive", "i", "tty", "t"}, []string{"create"}, "wolffia shell, or wolffia exec -it"},
	{[]string{"interactive", "i", "tty", "t"}, []string{"shell"}, "shell always has a terminal"},
	{[]string{"archive", "a", "R"}, []string{"cp"}, "cp always copies what is below a directory"},
}

// valueProblem returns what is wrong with the value of a flag, if err is about one; else err.
func valueProblem(err error) error {
	var invalid *pflag.InvalidValueError
	if !errors.As(err, &invalid) {
		return err
	}
	kind := invalid.GetFlag().Value.Type()
	var number *strconv.NumError
	switch cause := errors.Unwrap(invalid); {
	case !errors.As(cause, &number):
		err = cause
	case errors.Is(number, strconv.ErrRange):
		err = errors.New("the number is out of range")
	case kind == "bool":
		err = errors.New("it must be true or false")
	case strings.HasPrefix(kind, "float"):
		err = errors.New("it must be a number, such as 1.5")
	default:
		err = errors.New("it must be a whole number")
	}
	return fmt.Errorf("--%s %q: %w", invalid.GetFlag().Name, invalid.GetValue(), err)
}

// exclusive returns an error if two flags are given of which cobra knows that they exclude each
// other; its own says "if any flags in the group [a b] are set none of the others can be".
func exclusive(cmd *cobra.Command) (err error) {
	given := map[string]string{} // flags by group
	cmd.Flags().Visit(func(f *pflag.Flag) {
		for _, group := range f.Annotations["cobra_annotation_mutually_exclusive"] {
			if first, has := given[group]; has && err == nil {
				err = Errorf(cmd, "--%s and --%s exclude each other: leave one of them out", first, f.Name)
			}
			given[group] = f.Name
		}
	})
	return err
}

// flagHint returns what follows an error about an unknown flag; empty if nothing helps.
func flagHint(cmd *cobra.Command, err error) string {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return ""
	}
	name := unknown.GetSpecifiedName()
	for _, f := range OtherFlags {
		if slices.Contains(f.names, name) && slices.Contains(f.On, cmd.Name()) {
			if strings.HasPrefix(f.Use, "-") || strings.HasPrefix(f.Use, "wolffia ") {
				return ": use " + f.Use
			}
			return ": " + f.Use
		}
	}
	if near := nearFlags(cmd, name); len(name) > 1 && len(near) > 0 {
		return ": did you mean " + strings.Join(near, " or ") + "?"
	}
	return ""
}

// nearFlags returns flags of cmd whose names are like name.
func nearFlags(cmd *cobra.Command, name string) []string {
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	near := Near(names, name)
	for i := range near {
		near[i] = "--" + near[i]
	}
	return near
}

// manyFlags is the number of flags of a command from which on help groups them.
const manyFlags = 12

// common are the flags that the help of a command with many shows unless it is asked for all.
var common = []string{
	"codebase", "cow", "rule", "reveal", "mount", "image", "cache",
	"network", "allow-host", "publish", "env", "timeout", "memory", "home",
}

// help returns the help of a command for a terminal of width columns; 0: it is none. all is
// whether it has all of many flags.
func help(cmd *cobra.Command, width int, all bool, heading func(string) string) string {
	var b strings.Builder
	if about := strings.TrimSpace(cmp.Or(cmd.Long, cmd.Short)); width > 0 {
		b.WriteString(console.WrapText(about, width) + "\n")
	} else {
		b.WriteString(about + "\n")
	}
	if !cmd.Runnable() && !cmd.HasSubCommands() { // a topic
		return b.String()
	}
	b.WriteString("\n" + heading("Usage:"))
	if cmd.Runnable() {
		fmt.Fprintf(&b, "\n  %s", cmd.UseLine())
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "\n  %s COMMAND", cmd.CommandPath())
	}
	if len(cmd.Aliases) > 0 {
		fmt.Fprintf(&b, "\n\nAlso: %s", strings.Join(cmd.Aliases, ", "))
	}
	if cmd.HasExample() {
		fmt.Fprintf(&b, "\n\n%s\n%s", heading("Examples:"), cmd.Example)
	}
	list := func(title string, listed func(*cobra.Command) bool) {
		for _, sub := range cmd.Commands() {
			if listed(sub) {
				if title != "" {
					b.WriteString("\n\n" + heading(title))
					title = ""
				}
				name := fmt.Sprintf("  %-*s ", sub.NamePadding(), sub.Name())
				indent := strings.Repeat(" ", len(name))
				b.WriteString("\n" + name + console.Wrap(sub.Short, width-len(name), indent))
			}
		}
	}
	list("Commands:", func(c *cobra.Command) bool { return c.IsAvailableCommand() || c.Name() == "help" })
	list("Help topics:", (*cobra.Command).IsAdditionalHelpTopicCommand)
	count, hidden := 0, 0
	for _, g := range GroupsOf(cmd) {
		flags := g.Flags
		if !all && slices.Contains(making, cmd.Name()) {
			flags = pflag.NewFlagSet(g.Title, pflag.ContinueOnError)
			g.Flags.VisitAll(func(f *pflag.Flag) {
				if count++; slices.Contains(common, f.Name) {
					flags.AddFlag(f)
				} else {
					hidden++
				}
			})
		}
		if flags.HasFlags() {
			fmt.Fprintf(&b, "\n\n%s\n%s", heading(g.Title+":"), flagLines(flags, width))
		}
	}
	if hidden > 0 {
		fmt.Fprintf(&b, "\n\n%s --help all shows all %d flags.", cmd.CommandPath(), count)
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "\n\n%s COMMAND --help says more of a command.", cmd.CommandPath())
		if !cmd.HasParent() {
			fmt.Fprintf(&b, "\n%s help WORD finds a word in the documents; help faq answers questions.", cmd.Name())
		}
	}
	if page := pageAbout(cmd); page != "" {
		fmt.Fprintf(&b, "\n\nwolffia help %s says more.", page)
	}
	return b.String() + "\n"
}

// flagLines returns the lines about flags. pflag does not break what follows a word that is wider
// than its column.
func flagLines(flags *pflag.FlagSet, width int) string {
	lines := strings.Split(strings.TrimRight(flags.FlagUsagesWrapped(width), " \n"), "\n")
	for i, line := range lines {
		if text := strings.TrimLeft(line, " "); width > 0 && len(line) > width {
			indent := line[:len(line)-len(text)]
			lines[i] = indent + console.Wrap(text, width-len(indent), indent)
		}
	}
	return strings.Join(lines, "\n")
}

// A groupOfFlags has the flags of a group that a command has.
type groupOfFlags struct {
	Title string
	Flags *pflag.FlagSet
}

// GroupsOf returns the flags of a command as help shows them: in the groups of the table of
// settings if there are many. What is in none of them is the command's own, and comes first.
func GroupsOf(cmd *cobra.Command) (out []groupOfFlags) {
	byGroup := map[fields.Group]*pflag.FlagSet{}
	local, inherited := cmd.LocalFlags(), cmd.InheritedFlags()
	count := 0
	local.VisitAll(func(*pflag.Flag) { count++ })
	for _, set := range []*pflag.FlagSet{local, inherited} {
		set.VisitAll(func(f *pflag.Flag) {
			if f.Hidden {
				return
			}
			g := fields.Rest
			if count >= manyFlags {
				g = fields.GroupOf(f.Name)
			}
			if byGroup[g] == nil {
				byGroup[g] = pflag.NewFlagSet(g.String(), pflag.ContinueOnError)
			}
			byGroup[g].AddFlag(f)
		})
	}
	for _, g := range fields.Groups() {
		if flags := byGroup[g]; flags != nil {
			out = append(out, groupOfFlags{g.String(), flags})
		}
	}
	if last := len(out) - 1; last > 0 && out[last].Title == fields.Rest.String() {
		out = append(out[last:], out[:last]...)
	}
	return out
}
