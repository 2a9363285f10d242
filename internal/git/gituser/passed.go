package gituser

import (
	"slices"
	"strings"
	"unicode/utf8"

	"wolffia/internal/git/gitconfig"
)

// sections are those whose settings apply inside too: git-config(1) of git 2.52. They only change
// what git's commands do, and the programs that they name are executed inside. The others are
// about credentials, mail, and how the host reaches a network, or are of programs that are not
// git.
var sections = set(`add advice alias am apply attr blame branch checkout clean clone color column commit committer author completion
	core diff difftool feature fetch filter format fsck gpg grep help i18n index init interactive lfs log lsrefs mailinfo mailmap
	merge mergetool notes pack pretty protocol pull push rebase remote rerere revert safe showbranch sparse splitindex stash
	status submodule tag tar trailer transfer url user versionsort worktree`)

// subsections are the sections in which a subsection is a driver, a format or a name of the
// user's. In the others it is a part of one repository, or an address.
var subsections = set("alias color diff difftool filter merge mergetool pretty protocol tar trailer url")

// outside are settings of those sections that do not hold inside.
var outside = set(strings.Join([]string{
	"core.editor core.pager interactive.difffilter",        // wait for a person, or only show
	"core.askpass lfs.url lfs.pushurl",                     // have credentials, or ask for them
	"core.sshcommand gpg.program log.showsignature",        // need keys of the host
	"core.gitproxy fetch.bundleuri",                        // are of the host's network
	"core.hookspath init.templatedir lfs.storage",          // are paths of the host
	"core.fsmonitor core.alternaterefscommand",             // ask a process of the host, or start one of its programs
	"core.checkstat core.trustctime core.filemode",         // are of the host's disk
	"core.worktree core.bare core.repositoryformatversion", // are of one repository
}, " "))

// contents are settings that name a file, whose content is passed in.
var contents = set(`core.excludesfile core.attributesfile mailmap.file commit.template blame.ignorerevsfile diff.orderfile
	format.signaturefile gpg.ssh.allowedsignersfile gpg.ssh.revocationfile`)

// signs are settings of users who sign.
var signs = set("commit.gpgsign tag.gpgsign tag.forcesignannotated push.gpgsign gpg.format user.signingkey")

func set(words string) map[string]bool {
	all := map[string]bool{}
	for _, word := range strings.Fields(words) {
		all[word] = true
	}
	return all
}

// passed reports whether a setting of the user's holds inside. agent: the sandbox has the user's
// ssh agent.
func passed(s *gitconfig.Setting, agent bool) bool {
	sub, has := s.Sub()
	switch section := s.Section(); {
	case outside[s.Name], !sections[section], s.Credential(), !utf8.ValidString(s.Name + s.Value), unprintable(sub):
		return false
	case section == "gpg":
		return s.Name == "gpg.format" || s.Name == "gpg.mintrustlevel" || s.Name == "gpg.ssh.defaultkeycommand" && agent
	case section == "remote":
		return s.Name == "remote.pushdefault"
	case section == "url":
		return has && (agent || !ssh(sub))
	}
	return !has || subsections[s.Section()]
}

// ssh reports whether an address, or the beginning of one, leads to ssh: git-fetch(1), "GIT
// URLS".
func ssh(address string) bool {
	scheme, _, found := strings.Cut(address, "://")
	if found {
		return slices.Contains([]string{"ssh", "git+ssh", "ssh+git"}, scheme)
	}
	host, _, found := strings.Cut(address, ":")
	return found && !strings.Contains(host, "/")
}

func unprintable(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f })
}
