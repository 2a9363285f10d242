package gitguard

import (
	"slices"
	"strconv"
	"strings"

	"wolffia/internal/gitconfig"
)

// A valid reports whether the value of a setting is harmless.
type valid func(*gitconfig.Setting) bool

// free are the settings of a user that hold inside, too; * stands for a subsection. They
// name no program, path, address or driver; git-config(1) of git 2.52.
var free = map[string]valid{
	"user.name": text, "user.email": text,
	"author.name": text, "author.email": text, "committer.name": text, "committer.email": text,
	"user.useconfigonly": boolean,

	"core.repositoryformatversion": oneOf("0", "1"),
	"core.autocrlf":                oneOf("true", "false", "input", ""), "core.eol": oneOf("lf", "crlf", "native"),
	"core.safecrlf": oneOf("true", "false", "warn", ""), "core.quotepath": boolean, "core.abbrev": oneOf("auto", "no", "off", "7", "8", "9", "10", "11", "12", "16", "40"),
	"core.sparsecheckout": boolean, "core.sparsecheckoutcone": boolean, "core.untrackedcache": oneOf("true", "false", "keep", ""),
	"core.splitindex": boolean, "core.preloadindex": boolean, "core.commitgraph": boolean, "core.multipackindex": boolean,
	"core.commentchar": oneOf("#", "auto"), "core.longpaths": boolean,
	"extensions.worktreeconfig": boolean,
	"index.version":             number, "index.sparse": boolean, "index.threads": number,

	"init.defaultbranch": text,
	"branch.*.merge":     ref, "branch.*.rebase": oneOf("true", "false", "merges", ""), "branch.*.description": text,
	"branch.*.vscode-merge-base": text, "branch.*.gh-merge-base": text, "branch.*.github-pr-owner-number": text,
	"branch.autosetupmerge": oneOf("true", "false", "always", "inherit", "simple", ""), "branch.autosetuprebase": oneOf("never", "local", "remote", "always"),

	"push.default": oneOf("nothing", "current", "upstream", "simple", "matching"), "push.autosetupremote": boolean, "push.followtags": boolean,
	"pull.rebase": oneOf("true", "false", "merges", ""), "pull.ff": oneOf("true", "false", "only", ""),
	"fetch.prune": boolean, "fetch.prunetags": boolean, "fetch.writecommitgraph": boolean,
	"merge.conflictstyle": oneOf("merge", "diff3", "zdiff3"), "merge.ff": oneOf("true", "false", "only", ""),
	"merge.renames": boolean, "merge.renamelimit": number, "merge.log": boolean, "merge.stat": boolean,
	"rebase.autostash": boolean, "rebase.autosquash": boolean, "rebase.updaterefs": boolean, "rebase.stat": boolean,
	"diff.algorithm": oneOf("default", "myers", "minimal", "patience", "histogram"), "diff.renames": oneOf("true", "false", "copies", "copy", ""),
	"diff.renamelimit": number, "diff.context": number, "diff.mnemonicprefix": boolean, "diff.noprefix": boolean, "diff.colormoved": text,
	"log.decorate": oneOf("true", "false", "short", "full", "auto", ""), "log.follow": boolean, "log.abbrevcommit": boolean, "log.date": oneOf("relative", "local", "default", "iso", "iso-strict", "rfc", "short", "raw", "human", "unix"),
	"status.short": boolean, "status.branch": boolean, "status.showuntrackedfiles": oneOf("no", "normal", "all", "true", "false"), "status.relativepaths": boolean,
	"color.ui": oneOf("true", "false", "auto", "always", "never", ""), "column.ui": text,
	"gc.auto": number, "gc.autopacklimit": number, "gc.pruneexpire": text, "gc.reflogexpire": text, "gc.autodetach": boolean, "gc.writecommitgraph": boolean,
	"maintenance.auto": boolean, "pack.threads": number, "pack.windowmemory": number, "pack.writebitmaps": boolean,
	"commit.verbose": boolean, "commit.status": boolean, "tag.sort": text, "branch.sort": text, "versionsort.suffix": text,
	"help.autocorrect": oneOf("0", "never"), "grep.linenumber": boolean, "grep.patterntype": oneOf("default", "basic", "extended", "fixed", "perl"),
	"lfs.repositoryformatversion": number,
	"submodule.*.active":          boolean, "submodule.*.branch": text, "submodule.active": text,
	"submodule.*.update": oneOf("checkout", "rebase", "merge", "none"), "submodule.*.ignore": oneOf("all", "dirty", "untracked", "none"),
}

// text accepts any value; Harmless has refused control characters.
func text(s *gitconfig.Setting) bool { return len(s.Value) <= 1000 }

func boolean(s *gitconfig.Setting) bool {
	if s.Bare {
		return true
	}
	return slices.Contains([]string{"true", "false", "yes", "no", "on", "off", "1", "0", ""}, strings.ToLower(s.Value))
}

func number(s *gitconfig.Setting) bool {
	_, err := strconv.ParseInt(strings.TrimRight(strings.ToLower(s.Value), "kmg"), 10, 32)
	return err == nil
}

func ref(s *gitconfig.Setting) bool { return strings.HasPrefix(s.Value, "refs/") }

func oneOf(values ...string) valid {
	return func(s *gitconfig.Setting) bool { return slices.Contains(values, s.Value) }
}
