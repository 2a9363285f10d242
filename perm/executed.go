package perm

import (
	"iter"
	"slices"
	"strings"
	"sync"
)

// A habit is a pattern of files that programs on the host execute because of their
// names and without being asked to: an editor that opens the directory, or a shell, a
// prompt or a package manager that is started in it. except and reason are as in
// secret.
type habit struct {
	pattern, except string
	reason          string
}

// executed lists the files that are at most read in the presets that hide settings. The rows match
// in the directories that the host's programs are started in: see ExecutedRules.
//
// A row is personal configuration: of a shell, an editor, an agent, a version manager, or of
// hooks. Files that build, test or format the project (package.json, Makefile, build.rs,
// conftest.py, .venv, eslint.config.js) are what a sandbox is for, and have no row; nor do files
// that an agent reads as text (AGENTS.md, CLAUDE.md). .envrc, .npmrc, .yarnrc.yml, .mcp.json,
// .cursor/mcp.json and .aider.conf.yml are among settings, which give no more. Git ignores
// commands in .gitmodules (submodule.NAME.update of git-config(1)), so .gitmodules has no row
// either.
var executed = []habit{
	// Shells, and the programs that they start.
	{".{bashrc,bash_profile,bash_login,bash_logout,bash_aliases,profile,zshrc,zprofile,zshenv,zlogin,zlogout," +
		"kshrc,mkshrc,cshrc,tcshrc,login,logout,inputrc,xprofile,xsessionrc,xsession,xinitrc}", "", "a start file of a shell or session"},
	{".config/{fish,environment.d,autostart,systemd}", "", "start files of a shell or session"},
	{".{tmux.conf,screenrc,lessfilter,mailcap}", "", "commands of a terminal program"},
	{".config/tmux", "", "commands of a terminal program"},
	{".ripgreprc", "", "flags of ripgrep, such as --pre, which runs a program"},
	{".direnv", "", "what direnv puts into the environment at a cd"},
	{"{.shadowenv.d,.rvmrc,.autoenv{,.zsh},.prototools}", "", "what a shell runs, or puts into the environment, at a cd"},

	// Version control, and hooks.
	{".gitconfig", "", "configuration of git, which names programs"},
	{".config/{git,hg,jj,sapling}", "", "configuration of git, Mercurial, Jujutsu or Sapling, which names programs"},
	{".hg/{hgrc,hgrc-not-shared,sharedpath}", "", "configuration of a Mercurial repository, which names programs"},
	{".{hgrc,jjconfig.toml}", "", "configuration of Mercurial or Jujutsu, which names programs"},
	{".jj/{repo/config.toml,workspace-config.toml}", "", "configuration of a Jujutsu repository, which names programs"},
	{".sl/{config,sharedpath}", "", "configuration of a Sapling repository, which names programs"},
	{"{_darcs/prefs/defaults,.pijul/config}", "", "configuration of a Darcs or Pijul repository, which names programs"},
	{".{husky,githooks,git-hooks,lefthook,lefthook-local}", "", "hooks that git runs"},
	{"{.pre-commit-config.{yaml,yml},prek.toml,.overcommit.yml}", "", "says what git's hooks run"},
	{"{captainhook.json,hk.pkl}", "", "says what git's hooks run"},
	{"{,.,.config/}lefthook{,-local}.{yml,yaml,json,jsonc,toml}", "", "says what git's hooks run"},

	// Editors and debuggers.
	{".vscode/*", "{extensions.json,launch.json,*.code-snippets}", "settings and tasks of VS Code, which name programs and start them"},
	{"*.{code-workspace,sublime-project}", "", "settings and tasks of an editor, which name programs and start them"},
	{
		".idea/*", "{codeStyles,inspectionProfiles,dictionaries,copyright,scopes,libraries,.gitignore,.name,modules.xml,vcs.xml,encodings.xml,icon*,*.iml}",
		"settings of a JetBrains IDE, which name programs and start them",
	},
	{"{.zed,.helix,.vim,.externalToolBuilders,.fleet,.nova}", "", "settings of an editor, which name programs and start them"},
	{"{.bsp,buildServer.json,.luarc.{json,jsonc}}", "", "programs that an editor's server starts, and code that it loads"},
	{"{.devcontainer,.devcontainer.json}", "", "commands that an editor runs when it opens a container"},
	{"{.exrc,.vimrc,.gvimrc,.nvimrc,.nvim.lua,.lvimrc}", "", "commands of vim"},
	{".config/{nvim,emacs,helix,zed,Code}", "", "settings of an editor, which name programs and start them"},
	{"{.emacs,.emacs.d,.dir-locals.el,.dir-locals-2.el}", "", "variables and code of Emacs"},
	{".{gdbinit,gdbearlyinit,lldbinit,pdbrc,rdbgrc{,.rb}}", "", "commands of a debugger"},

	// Agents: settings, permissions, hooks, commands and servers of tools.
	{".claude/*", "{CLAUDE.md,CLAUDE.local.md,rules,plans,worktrees,agent-memory,agent-memory-local}", "settings, hooks and commands of an agent"},
	{".cursor/*", "{rules,plans}", "settings, hooks and commands of an agent"},
	{".gemini/*", "{GEMINI.md,styleguide.md,config.yaml}", "settings, hooks and commands of an agent"},
	{".windsurf/*", "rules", "settings, hooks and commands of an agent"},
	{".kiro/*", "{steering,specs}", "settings, hooks and commands of an agent"},
	{".roo/*", "{rules,rules-*}", "settings, hooks and commands of an agent"},
	{".junie/*", "guidelines.md", "settings, hooks and commands of an agent"},
	{".amazonq/*", "rules", "settings, hooks and commands of an agent"},
	{".trae/*", "{rules,documents}", "settings, hooks and commands of an agent"},
	{".{kilocode,kilo}/*", "{rules,rules-*}", "settings, hooks and commands of an agent"},
	{"{.clinerules/hooks,.github/hooks}", "", "hooks of an agent"},
	{".{codex,agents,opencode,continue,amp,qwen,factory,augment,crush,pi,vibe,grok,openhands,qoder,codebuddy,iflow,cody}", "", "settings, hooks and commands of an agent"},
	{"{{,.}opencode.{json,jsonc},kilo.{json,jsonc},{,.}crush.json,conductor.json}", "", "settings, hooks and commands of an agent"},

	// Wolffia itself: what the next sandbox is made with.
	{"{.wolffia.yaml,.config/wolffia}", "", "what wolffia makes sandboxes with"},

	// Version and package managers, and interpreters at their start.
	{"{{,.}mise{,.*}.toml,.mise,mise/config{,.*}.toml,.config/mise{,.*}.toml,.config/mise}", "", "what mise runs and puts into the environment at a cd"},
	{".tool-versions", "", "programs that asdf and mise run in place of a tool at a cd"},
	{"rust-toolchain{,.toml}", "", "programs that rustup runs as cargo and rustc"},
	{".cargo/config{,.toml}", "", "programs that cargo and rust-analyzer run in place of the compiler"},
	{".yarn/{releases,plugins,sdks}", "", "programs that every command of yarn runs, and editors"},
	{".pnpmfile.{cjs,mjs}", "", "code that pnpm runs"},
	{".pdm-plugins", "", "code that pdm runs"},
	{".{Rprofile,Renviron,RData}", "", "code that R and its editors run at their start"},
	{"{.irbrc,irb.rc,_irbrc,$irbrc}", "", "code that an interpreter runs at its start"},
	{".{pryrc,pythonrc,pythonrc.py,ghci,iex.exs,perldb,octaverc,ocamlinit,erlang}", "", "code that an interpreter runs at its start"},
}

// anyExecuted and someExecuted are the Source of AnyExecutedRules and of
// ExecutedRules.
const (
	anyExecuted  = "what the host executes, in any directory"
	someExecuted = "what the host executes"
)

// ToAllow returns the words in front of the flag that allows what a rule of a source has denied: it
// says what the flag gives away if that is more than a file of the codebase.
func ToAllow(source string) string {
	if strings.HasPrefix(source, someExecuted) { // or anyExecuted, or those of package policy
		return "to let the sandbox change " + someExecuted
	}
	return "to allow it"
}

// AnyExecutedRules returns the rules that keep a sandbox from changing or creating
// what the host's programs execute because of its name: at most Read, at
// PrioritySecret, in every directory but those of installed packages (InPackages).
// They are for a codebase in which the directories that such programs are started in
// are unknown; projects that have such files cannot be copied within it.
func AnyExecutedRules() []Rule { return executedRules("", anyExecuted, packages) }

// placesInRule is how many directories are in one pattern of ExecutedRules.
const placesInRule = 8

// ExecutedRules returns the rules of AnyExecutedRules for dirs alone, which are paths relative to
// the root; "." is the root. It skips directories in installed packages (InPackages). Special
// bytes in dirs match only themselves. Package policy finds the directories: the root, the working
// trees of git, and those that have such files already.
func ExecutedRules(dirs []string) (rules []Rule) {
	for prefix := range prefixes(dirs, "") {
		rules = append(rules, executedRules(prefix, someExecuted, "")...)
	}
	return rules
}

// prefixes yields patterns of dirs, with a slash and then suffix at the end of each, several
// directories in one.
func prefixes(dirs []string, suffix string) iter.Seq[string] {
	var all []string
	for _, dir := range dirs {
		switch dir = strings.Trim(dir, "/"); {
		case dir == "." || dir == "":
			all = append(all, "/"+suffix)
		case !InPackages(dir):
			all = append(all, "/"+strings.ReplaceAll(Quote(dir), ",", `\,`)+"/"+suffix)
		}
	}
	return func(yield func(string) bool) {
		for some := range slices.Chunk(all, placesInRule) {
			prefix := some[0]
			if len(some) > 1 {
				prefix = "{" + strings.Join(some, ",") + "}"
			}
			if !yield(prefix) {
				return
			}
		}
	}
}

// executedRules returns the rules of all rows below prefix.
func executedRules(prefix, source, notBelow string) []Rule {
	return rulesOf(executed, executedWays, prefix, source, notBelow)
}

// rulesOf returns the rules of rows below prefix, and a rule against links in the place of the
// directories on the way.
func rulesOf(rows []habit, ways, prefix, source, notBelow string) (rules []Rule) {
	rule := Rule{Level: Read, AtMost: true, NotBelow: notBelow, Priority: PrioritySecret, Source: source}
	for _, h := range rows {
		rule.Pattern, rule.Except = prefix+h.pattern, h.except
		rules = append(rules, rule)
	}
	rule.Pattern, rule.Except, rule.Type = prefix+ways, "", File
	return append(rules, rule)
}

// executedWays are the directories on the way to the names in executed. A link in
// their place would lead elsewhere; a directory cannot be moved there, since other
// rules hold below it.
const executedWays = "{.hg,.jj,.jj/repo,.sl,.vscode,.idea,.claude,.cursor,.gemini,.windsurf,.kiro,.roo,.junie,.amazonq,.trae,.kilocode,.kilo,.clinerules,.github,mise,.cargo,.yarn,_darcs,_darcs/prefs,.pijul}"

// FileWay is on the way too, but can be a regular file: that of Kconfig's settings, which the builds
// of Linux and others write. A file leads nowhere; package fusefs refuses a link.
const FileWay = ".config"

// reasonExecuted returns the reason of the row that r was made from.
func reasonExecuted(r *Rule) string {
	for _, h := range executed {
		if before, is := strings.CutSuffix(r.Pattern, h.pattern); is && h.except == r.Except && (before == "" || before[0] == '/' || before[0] == '{') {
			return h.reason
		}
	}
	return "a link in the place of a directory that the host's programs look into"
}

// ExecutedDirs returns the names of the directories in which editors and agents keep
// settings, such as .vscode. The slice is the caller's.
func ExecutedDirs() []string {
	return []string{
		".vscode", ".idea", ".zed", ".helix", ".devcontainer", ".fleet", ".nova", ".bsp",
		".claude", ".cursor", ".gemini", ".windsurf", ".kiro", ".roo", ".junie", ".amazonq", ".kilocode", ".kilo", ".codex", ".agents", ".opencode", ".continue", ".pi", ".trae",
	}
}

// HomeNames returns the paths, relative to a home directory that is in a codebase, of what the
// host's programs execute there beside the names of ExecutedRules. The slice is the caller's.
func HomeNames() []string { return []string{".local/bin", "bin", ".config/opencode", ".config/kilo"} }

// InPackages reports whether path, relative to the root, is or is below a directory of
// published packages or test data, such as node_modules. The presets' secrets and
// AnyExecutedRules do not apply there.
func InPackages(path string) bool {
	published := published()
	return slices.ContainsFunc(strings.Split(path, "/"), func(name string) bool { return slices.Contains(published, name) })
}

var published = sync.OnceValue(func() []string {
	names, _ := expand(packages) // a test parses it
	return names
})
