package usage

import "github.com/spf13/cobra"

// Topics returns the topics of wolffia help that are not commands.
func Topics() []*cobra.Command {
	return []*cobra.Command{
		{
			Use:   "exit-codes",
			Short: "What wolffia exits with",
			Long: `run and exec exit with the command's own exit code, shell, session attach and network
learn with that of their shell or command, or:

  124    the command was ended by --timeout
  125    wolffia failed; standard error says why
  126    the program cannot be executed
  127    the program was not found
  128+n  signal n killed the command, or ended wolffia

All other commands exit with 0 or 125, or with 128+n if signal n ended them; but audit -f,
serve and mcp with 0 then, apply also with 1 (conflicts) or 2 (the rules do not allow a
change), diff --exit-code with 1 (there are changes), and session job wait with the job's
own, or 124 (--timeout). With --json, timedOut and startError tell a program's own 124 to 127 apart, and a failure
of wolffia itself is printed on standard output too:

  {"error": {"class": "notFound", "message": "no sandbox \"box\": ..."}}`,
		},
		{
			Use:   "rules",
			Short: "What a sandbox sees of the codebase",
			Long: `A rule is PATTERN=LEVEL. The levels, each of which includes the ones before it:

  none   it does not exist inside
  view   its name and attributes are seen, its content is not
  read   it can be read
  write  it can be changed

Each .git is the sandbox's own; commits cross to yours, checked by your git.

In a pattern * matches within a name, ** any number of directories; a leading /
anchors it at the codebase's root, a trailing / means a directory and all below it.

  wolffia run --rule 'docs/=read' --rule '/build/**=write' -- make
  wolffia run --reveal .env=read -- npm start  --rule reveals no secrets
  wolffia policy presets agent-safe            the rules of the default preset
  wolffia policy explain .env src/main.go      which rule decides, and why
  wolffia audit SANDBOX                        what was denied, what allows it

Of the rules that match, the one with the highest priority decides: a preset's base
rules 0, a project's configuration 50, a policy file's 100, --rule 200, a preset's
secrets 1000, a project's reveals 1500, --reveal 2000; then
the more specific; then the stricter. What no rule matches is hidden.

wolffia help rules.md says more.`,
		},
	}
}
