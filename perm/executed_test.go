package perm

import (
	"path"
	"slices"
	"strings"
	"testing"
)

// habits are, for each row of executed, names that it guards and names that it
// leaves alone, whatever other rows do.
var habits = map[string]struct{ guarded, open string }{
	executed[0].pattern: {
		".bashrc .bash_profile .bash_logout .bash_aliases .profile .zshrc .zshenv .zlogout .kshrc .tcshrc .login .inputrc .xprofile .xinitrc",
		"bashrc .bashrc.md .config/x",
	},
	".config/{fish,environment.d,autostart,systemd}": {".config/fish .config/fish/config.fish .config/fish/conf.d/x.fish .config/autostart/x.desktop", ".config/app.json fish/config.fish"},
	".{tmux.conf,screenrc,lessfilter,mailcap}":       {".tmux.conf .screenrc .lessfilter", "tmux.conf"},
	".config/tmux": {".config/tmux/tmux.conf", ".config/x"},
	".ripgreprc":   {".ripgreprc", ".rgignore"},
	".direnv":      {".direnv .direnv/bin/git .direnv/flake-profile.rc", "direnv/x"},
	"{.shadowenv.d,.rvmrc,.autoenv{,.zsh},.prototools}": {".shadowenv.d .shadowenv.d/500.lisp .rvmrc .autoenv .autoenv.zsh .prototools", "shadowenv.d/x .rvm"},
	"{_darcs/prefs/defaults,.pijul/config}":             {"_darcs/prefs/defaults .pijul/config", "_darcs/prefs/author .pijul/pristine"},
	"{captainhook.json,hk.pkl}":                         {"captainhook.json hk.pkl", "hk.json"},
	"{.bsp,buildServer.json,.luarc.{json,jsonc}}":       {".bsp .bsp/sbt.json buildServer.json .luarc.json .luarc.jsonc", ".luacheckrc"},
	".trae/*":                                                   {".trae/mcp.json .trae/new", ".trae/rules/x.md"},
	".pdm-plugins":                                              {".pdm-plugins/x.py", ".pdm-python"},
	"{.irbrc,irb.rc,_irbrc,$irbrc}":                             {".irbrc irb.rc _irbrc $irbrc", "irbrc.rb"},
	".gitconfig":                                                {".gitconfig", ".gitignore .gitattributes .gitmodules .gitkeep"},
	".config/{git,hg,jj,sapling}":                               {".config/git/config .config/jj/config.toml .config/sapling/sapling.conf", ".config/github.yml"},
	".sl/{config,sharedpath}":                                   {".sl/config .sl/sharedpath", ".sl/dirstate .sl/store/x"},
	".hg/{hgrc,hgrc-not-shared,sharedpath}":                     {".hg/hgrc .hg/sharedpath", ".hg/dirstate .hg/store/x .hgignore"},
	".{hgrc,jjconfig.toml}":                                     {".hgrc .jjconfig.toml", ".hgtags"},
	".jj/{repo/config.toml,workspace-config.toml}":              {".jj/repo/config.toml .jj/workspace-config.toml", ".jj/repo/store/x .jj/working_copy/checkout"},
	".{husky,githooks,git-hooks,lefthook,lefthook-local}":       {".husky .husky/pre-commit .husky/_/h .githooks/pre-push .lefthook/pre-commit/x.sh", "husky/x hooks/pre-commit"},
	"{.pre-commit-config.{yaml,yml},prek.toml,.overcommit.yml}": {".pre-commit-config.yaml prek.toml .overcommit.yml", ".pre-commit-hooks.yaml"},
	"{,.,.config/}lefthook{,-local}.{yml,yaml,json,jsonc,toml}": {"lefthook.yml .lefthook.yaml lefthook-local.yml .config/lefthook.toml", "lefthook.md"},
	".vscode/*":                          {".vscode/settings.json .vscode/tasks.json .vscode/mcp.json .vscode/new/x", ".vscode/extensions.json .vscode/launch.json .vscode/x.code-snippets vscode/tasks.json"},
	"*.{code-workspace,sublime-project}": {"x.code-workspace x.sublime-project", "x.code"},
	".idea/*":                            {".idea/workspace.xml .idea/startup.xml .idea/watcherTasks.xml .idea/runConfigurations/x.xml .idea/new", ".idea/codeStyles/Project.xml .idea/vcs.xml .idea/modules.xml .idea/x.iml .idea/.gitignore"},
	"{.zed,.helix,.vim,.externalToolBuilders,.fleet,.nova}": {".zed/settings.json .helix/languages.toml .vim/coc-settings.json .externalToolBuilders/x.launch", "zed/x"},
	"{.devcontainer,.devcontainer.json}":                    {".devcontainer .devcontainer/devcontainer.json .devcontainer/a/devcontainer.json .devcontainer.json", "devcontainer.json"},
	"{.exrc,.vimrc,.gvimrc,.nvimrc,.nvim.lua,.lvimrc}":      {".exrc .vimrc .nvim.lua", "vimrc"},
	".config/{nvim,emacs,helix,zed,Code}":                   {".config/nvim/init.lua .config/Code/User/settings.json", ".config/code"},
	"{.emacs,.emacs.d,.dir-locals.el,.dir-locals-2.el}":     {".emacs .emacs.d/init.el .dir-locals.el", "dir-locals.el"},
	".{gdbinit,gdbearlyinit,lldbinit,pdbrc,rdbgrc{,.rb}}":   {".gdbinit .lldbinit .pdbrc .rdbgrc .rdbgrc.rb", ".gdb_history gdbinit"},
	".claude/*":                         {".claude/settings.json .claude/settings.local.json .claude/commands/x.md .claude/agents/x.md .claude/skills/x/SKILL.md .claude/hooks/x.sh", ".claude/CLAUDE.md .claude/rules/x.md .claude/worktrees/x/main.go CLAUDE.md"},
	".cursor/*":                         {".cursor/hooks.json .cursor/commands/x.md .cursor/worktrees.json", ".cursor/rules/x.mdc .cursorignore"},
	".gemini/*":                         {".gemini/settings.json .gemini/commands/x.toml .gemini/extensions/x/y", ".gemini/GEMINI.md GEMINI.md"},
	".windsurf/*":                       {".windsurf/hooks.json .windsurf/workflows/x.md", ".windsurf/rules/x.md"},
	".kiro/*":                           {".kiro/hooks/x .kiro/settings/mcp.json", ".kiro/specs/x/tasks.md .kiro/steering/x.md"},
	".roo/*":                            {".roo/mcp.json .roo/commands/x.md", ".roo/rules/x.md .roo/rules-code/x.md"},
	".junie/*":                          {".junie/mcp/mcp.json", ".junie/guidelines.md"},
	".amazonq/*":                        {".amazonq/mcp.json .amazonq/cli-agents/x.json .amazonq/agents/default.json", ".amazonq/rules/x.md"},
	".{kilocode,kilo}/*":                {".kilocode/mcp.json .kilo/kilo.jsonc .kilo/plugin/x.ts", ".kilocode/rules/x.md .kilocode/rules-code/x.md .kilo/rules/x.md"},
	"{.clinerules/hooks,.github/hooks}": {".clinerules/hooks/PreToolUse .github/hooks/x.json", ".clinerules/x.md .github/workflows/ci.yml"},
	".{codex,agents,opencode,continue,amp,qwen,factory,augment,crush,pi,vibe,grok,openhands,qoder,codebuddy,iflow,cody}": {".codex .codex/config.toml .codex/hooks.json .agents/skills/x .opencode/plugin/x.ts .pi/settings.json .vibe/x", "AGENTS.md codex/x"},
	"{{,.}opencode.{json,jsonc},kilo.{json,jsonc},{,.}crush.json,conductor.json}":                                        {"opencode.json opencode.jsonc .opencode.json kilo.json kilo.jsonc crush.json conductor.json", "opencode.md kilo.md"},
	"{{,.}mise{,.*}.toml,.mise,mise/config{,.*}.toml,.config/mise{,.*}.toml,.config/mise}":                               {"mise.toml .mise.toml mise.local.toml .mise.ci.toml .mise/config.toml .mise/tasks/x mise/config.toml .config/mise.toml .config/mise/config.toml", ".tool-versions mise/x.md .nvmrc"},
	"{.wolffia.yaml,.config/wolffia}": {".wolffia.yaml .config/wolffia/config.yaml .config/wolffia/x", ".wolffia.yml wolffia.yaml"},
	".tool-versions":                  {".tool-versions", ".node-version .nvmrc"},
	"rust-toolchain{,.toml}":          {"rust-toolchain rust-toolchain.toml", "rustfmt.toml"},
	".cargo/config{,.toml}":           {".cargo/config .cargo/config.toml", "Cargo.toml .cargo/audit.toml"},
	".yarn/{releases,plugins,sdks}":   {".yarn/releases .yarn/releases/yarn-4.0.0.cjs .yarn/plugins/x.cjs .yarn/sdks/typescript/bin/tsc", ".yarn/cache/x.zip .yarn/install-state.gz"},
	".pnpmfile.{cjs,mjs}":             {".pnpmfile.cjs", "pnpm-lock.yaml pnpm-workspace.yaml"},
	".{Rprofile,Renviron,RData}":      {".Rprofile .Renviron .RData", "renv/activate.R x.Rproj"},
	".{pryrc,pythonrc,pythonrc.py,ghci,iex.exs,perldb,octaverc,ocamlinit,erlang}": {".pryrc .erlang .ghci .iex.exs .octaverc .ocamlinit", "irbrc.rb .python-version"},
}

// TestExecutedRows: each row alone guards what it is for, also what is not there
// yet, and no more; where it is put, and not below others' packages.
func TestExecutedRows(t *testing.T) {
	places := []string{".", "sub", "odd,[x]*/{a}\xff\n", "a", "b", "c", "d", "e", "f", "g/h", "node_modules/x"}
	rows := append(slices.Clone(executed), habit{executedWays, "", "a link in the place of a directory that the host's programs look into"})
	some, all := ExecutedRules(places), AnyExecutedRules()
	if len(all) != len(rows) || len(some) != 2*len(rows) {
		t.Fatalf("%d rows, %d rules, %d for %d places", len(rows), len(all), len(some), len(places))
	}
	for i, row := range rows {
		ex, ok := habits[row.pattern]
		if !ok && row.pattern != executedWays || row.reason == "" {
			t.Errorf("%s: no reason or no examples", row.pattern)
		}
		base := Rule{Pattern: "**", Level: Write}
		anywhere := mustCompile(t, base, all[i])
		placed := mustCompile(t, base, some[i], some[len(rows)+i])
		for _, r := range []Rule{all[i], some[i], some[len(rows)+i]} {
			if r.Reason() != row.reason || r.Level != Read || !r.AtMost {
				t.Errorf("%v: %q, want %q", r, r.Reason(), row.reason)
			}
		}
		for _, name := range strings.Fields(ex.guarded) {
			for _, dir := range append([]string{"x/y"}, places...) {
				want := [2]Level{Read, Read}
				switch dir {
				case "node_modules/x":
					want = [2]Level{Write, Write}
				case "x/y":
					want[1] = Write
				}
				file := path.Join(dir, name)
				if got := [2]Level{anywhere.Level(file, false), placed.Level(file, false)}; got != want {
					t.Errorf("%s: %q is %v anywhere and %v in places, want %v", row.pattern, file, got[0], got[1], want)
				}
			}
		}
		for _, name := range strings.Fields(ex.open) {
			if anywhere.Level(name, false) != Write || placed.Level(name, false) != Write {
				t.Errorf("%s: %q is guarded", row.pattern, name)
			}
		}
	}
	if len(habits) != len(executed) {
		t.Errorf("examples for %d rows, of %d", len(habits), len(executed))
	}
}

// TestExecutedWays: no link can stand where a row's directory would, and the directory
// itself can be made where the row leaves something in it alone.
func TestExecutedWays(t *testing.T) {
	p := mustCompile(t, append(ExecutedRules([]string{"."}), testRules(t, "**=write")...)...)
	for _, row := range executed {
		names, err := expand(row.pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
				if want := map[bool]Level{true: Write, false: Read}[dir == FileWay]; p.Level(dir, false) != want {
					t.Errorf("a link could be made at %s", dir)
				}
				if p.Level(dir, true) != Write {
					t.Errorf("the directory %s cannot be made", dir)
				}
			}
		}
	}
	for _, dir := range ExecutedDirs() {
		if p.Level(dir+"/new", false) != Read || p.Level(dir, false) != Read {
			t.Errorf("%s is not guarded", dir)
		}
	}
	for _, pair := range [][2]string{{"x", ".vscode"}, {"x", ".husky"}, {".vscode", "x"}, {".config", "x"}, {"x", ".hg"}, {"sub/.vscode", ".vscode"}} {
		from, to := p.Root(), p.Root()
		for _, name := range strings.Split(pair[0], "/") {
			from = p.Enter(from, name)
		}
		for _, name := range strings.Split(pair[1], "/") {
			to = p.Enter(to, name)
		}
		if from == to {
			t.Errorf("%s can be renamed to %s", pair[0], pair[1])
		}
	}
	for _, x := range []struct{ path, remedy string }{
		{".vscode/tasks.json", "--reveal '/.vscode/tasks.json=write'"}, {".husky", "--reveal '/.husky=write'"}, {"src/x", ""},
	} {
		if got := p.Explain(x.path, false).Remedy(Write); got != x.remedy {
			t.Errorf("%s: remedy %q", x.path, got)
		}
	}
}

// TestExecutedOutranksRules: a rule that is about a whole directory does not give
// what is executed in it, and one that reveals it does.
func TestExecutedOutranksRules(t *testing.T) {
	for _, tt := range []struct {
		req  Request
		want Level
	}{
		{Request{}, Read},
		{Request{Opened: []string{"sub"}}, Write},
		{Request{Opened: []string{"."}}, Read},
		{Request{Opened: []string{"."}, Rules: testRules(t, "**=write", ".vscode/=write")}, Read},
		{Request{Opened: []string{"."}, Reveals: testRules(t, "/.vscode/=write")}, Write},
		{Request{Opened: []string{"."}, Rules: testRules(t, "/.vscode/=none")}, None},
		{Request{Opened: []string{"."}, File: &PolicyFile{Rules: testRules(t, "**=write@100")}}, Read},
		{Request{Opened: []string{"."}, Preset: "read-only", Rules: testRules(t, "**=write")}, Read},
		{Request{Opened: []string{"."}, Preset: "development"}, Write},
		{Request{Opened: []string{"."}, Preset: "full-access"}, Write},
	} {
		rules, err := Assemble(&tt.req)
		if err != nil {
			t.Fatal(err)
		}
		p := mustCompile(t, rules...)
		if got := p.Level(".vscode/settings.json", false); got != tt.want {
			t.Errorf("%+v: %v, want %v", tt.req, got, tt.want)
		}
	}
}

// The flag that opens what the host executes says so; the sources of package policy begin alike.
func TestToAllow(t *testing.T) {
	for _, r := range append(AnyExecutedRules(), ExecutedRules([]string{"."})...) {
		if got, want := ToAllow(r.Source), "to let the sandbox change what the host executes"; got != want {
			t.Errorf("ToAllow(%q): got %q, want %q", r.Source, got, want)
		}
	}
	if got := ToAllow("preset agent-safe"); got != "to allow it" {
		t.Errorf("got %q", got)
	}
}
