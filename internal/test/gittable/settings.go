// Package gittable is the table of what git's configuration can do to its user. It is data
// for the tests of what keeps a sandbox from doing it, and not part of the product.
//
// It was made by going through Documentation/config, gitattributes(5), githooks(5),
// gitmodules(5) and the pages of the commands of git 2.55 (1a3e64c, August 2026), and
// the documentation of git-lfs, git-annex, git-svn, git-p4, git-flow and tig.
package gittable

import "strings"

// A Kind is what a setting can do.
type Kind string

// The kinds of settings.
const (
	Runs     Kind = "runs"     // the value is run, or chooses what is
	Includes Kind = "includes" // more settings are read
	Path     Kind = "path"     // the value names a file or a directory that git reads or writes
	URL      Kind = "url"      // the value names or rewrites where git connects to
	Trusts   Kind = "trusts"   // a check is weakened, or something else in the repository is believed
)

// A Setting is a setting that a sandbox must not bring into a configuration that the
// host's git reads. In Sub, Value and More stand
//
//	{mark}    for the path of a program that leaves a mark, and has the setting's Key as its name
//	{file}    for a file with settings, core.fsmonitor={mark} among them
//	{hooks}   for a directory with a program {mark} for each hook
//	{outside} for a directory outside of the codebase
type Setting struct {
	Kind  Kind
	Key   string // section.name, in which the section may have a dot and a subsection behind it
	Value string
	More  string // settings that it takes beside it: lines as in Lines
	Use   string // a shell script with which git 2.39 uses it in the repository of the table's own test, "" for none
}

// Text returns the setting as lines of a configuration, with what fill says for the
// names in braces.
func (s Setting) Text(fill func(string) string) string {
	lines := s.Key + "=" + s.Value
	if s.More != "" {
		lines = s.More + "\n" + lines
	}
	return Lines(fill(lines))
}

// Lines returns lines of the form section.subsection.name=value as a configuration. A
// subsection begins behind the first dot and ends before the last one, or before the
// last one in front of a "=" that follows it: those within "<" and ">" do not count.
func Lines(lines string) string {
	var b strings.Builder
	for line := range strings.SplitSeq(lines, "\n") {
		section, rest, _ := strings.Cut(line, ".")
		sub, name, value := "", rest, ""
		if strings.HasPrefix(rest, "<") {
			sub, rest, _ = strings.Cut(rest[1:], ">.")
			name = rest
		}
		name, value, _ = strings.Cut(name, "=")
		if at := strings.LastIndexByte(name, '.'); sub == "" && at >= 0 {
			sub, name = name[:at], name[at+1:]
		}
		b.WriteString("[" + section)
		if sub != "" {
			b.WriteString(" " + Quote(sub))
		}
		b.WriteString("]\n\t" + name + " = " + Quote(value) + "\n")
	}
	return b.String()
}

// Quote returns s as a string of a configuration, in quotes.
func Quote(s string) string {
	return `"` + strings.NewReplacer("\\", `\\`, `"`, `\"`, "\n", `\n`, "\t", `\t`).Replace(s) + `"`
}

// Settings are the settings of the table.
var Settings = []Setting{
	// What git runs, by whatever name it is called.
	{Runs, "core.fsmonitor", "{mark}", "", "git status"},
	{Runs, "core.fsmonitor", "{mark}", "core.fsmonitorHookVersion=1", "git status"},
	{Runs, "core.editor", "{mark}", "", "git commit --allow-empty"},
	{Runs, "core.pager", "{mark}", "", "script -qec 'git log' /dev/null"},
	{Runs, "core.askPass", "{mark}", "", "printf 'protocol=https\\nhost=h.invalid\\n\\n' | git credential fill"},
	{Runs, "core.sshCommand", "{mark}", "", "git fetch ssh://h.invalid/x"},
	{Runs, "core.sshCommand", "{mark}", "ssh.variant=simple", "git fetch ssh://h.invalid/x"},
	{Runs, "core.gitProxy", "{mark}", "", "git fetch git://h.invalid/x"},
	{Runs, "core.gitProxy", "{mark} for h.invalid", "", "git fetch git://h.invalid/x"},
	{Runs, "core.alternateRefsCommand", "{mark}", "", "git push . HEAD:refs/heads/new"},
	{Runs, "core.hooksPath", "{hooks}", "", "git commit --allow-empty -m x"},
	{Runs, "core.virtualFilesystem", "{mark}", "", ""}, // of microsoft/git
	{Runs, "core.gvfs", "true", "", ""},                // of microsoft/git: runs git-gvfs-helper
	{Runs, "sequence.editor", "{mark}", "", "git rebase -i HEAD~1"},
	{Runs, "rebase.instructionFormat", "%s%nexec {mark}", "", "GIT_SEQUENCE_EDITOR=true git rebase -i HEAD~1"},
	{Runs, "pager.log", "{mark}", "", "script -qec 'git log' /dev/null"},
	{Runs, "pager.status", "{mark}", "", "script -qec 'git status' /dev/null"},
	{Runs, "pager.diff", "{mark}", "", "script -qec 'git diff HEAD~1' /dev/null"},
	{Runs, "alias.st", "!{mark}", "", "git st"},
	{Runs, "alias.st", "-c core.fsmonitor={mark} status", "", "git st"},
	{Runs, "alias.<st>.command", "!{mark}", "", ""},
	{Runs, "alias.<st über>.command", "!{mark}", "", ""},
	{Runs, "hook.mark.command", "{mark}", "hook.mark.event=pre-commit", ""},
	{Runs, "hook.mark.command", "{mark}", "hook.mark.event=post-index-change\nhook.mark.enabled=true\nhook.mark.parallel=true\nhook.jobs=2", ""},
	{Runs, "hook.pre-commit.enabled", "true", "", ""},
	{Runs, "diff.external", "{mark}", "", "git diff HEAD~1"},
	{Runs, "diff.mark.command", "{mark}", "", "git diff HEAD~1"},
	{Runs, "diff.mark.textconv", "{mark}", "", "git diff HEAD~1"},
	{Runs, "diff.mark.textconv", "{mark}", "diff.mark.cachetextconv=true", "git diff HEAD~1"},
	{Runs, "diff.tool", "mark", "difftool.mark.cmd={mark}\ndifftool.prompt=false", ""},
	{Runs, "diff.guitool", "mark", "", ""},
	{Runs, "difftool.mark.cmd", "{mark}", "diff.tool=mark\ndifftool.prompt=false", "git difftool HEAD~1"},
	{Runs, "difftool.vimdiff.path", "{mark}", "diff.tool=vimdiff\ndifftool.prompt=false", "git difftool HEAD~1"},
	{Runs, "merge.tool", "mark", "mergetool.mark.cmd={mark}", ""},
	{Runs, "merge.guitool", "mark", "", ""},
	{Runs, "mergetool.mark.cmd", "{mark}", "merge.tool=mark", "git merge -q side; git mergetool -y"},
	{Runs, "mergetool.vimdiff.path", "{mark}", "merge.tool=vimdiff", "git merge -q side; git mergetool -y"},
	{Runs, "mergetool.vimdiff.layout", "LOCAL; silent !{mark}", "", ""},
	{Runs, "merge.mark.driver", "{mark} %A", "", "git merge -m x side"},
	{Runs, "merge.mark.driver", "{mark} %A", "merge.mark.name=x\nmerge.mark.recursive=mark", "git merge -m x side"},
	{Runs, "filter.mark.clean", "{mark}", "", "touch a.f; git add --renormalize ."},
	{Runs, "filter.mark.smudge", "{mark}", "", "rm a.f; git checkout a.f"},
	{Runs, "filter.mark.process", "{mark}", "filter.mark.required=true", "rm a.f; git checkout a.f"},
	{Runs, "gpg.program", "{mark}", "", "git commit --allow-empty -S -m x"},
	{Runs, "gpg.program", "{mark}", "commit.gpgSign=true\ntag.gpgSign=true", "git commit --allow-empty -m x"},
	{Runs, "gpg.openpgp.program", "{mark}", "commit.gpgSign=true", "git commit --allow-empty -m x"},
	{Runs, "gpg.x509.program", "{mark}", "gpg.format=x509\ncommit.gpgSign=true", "git commit --allow-empty -m x"},
	{Runs, "gpg.ssh.program", "{mark}", "gpg.format=ssh\ncommit.gpgSign=true\nuser.signingKey=/k", "git commit --allow-empty -m x"},
	{Runs, "gpg.ssh.defaultKeyCommand", "{mark}", "gpg.format=ssh\ncommit.gpgSign=true", "git commit --allow-empty -m x"},
	{Runs, "credential.helper", "{mark}", "", "printf 'protocol=https\\nhost=h.invalid\\n\\n' | git credential fill"},
	{Runs, "credential.helper", "!{mark}", "", "printf 'protocol=https\\nhost=h.invalid\\n\\n' | git credential fill"},
	{Runs, "credential.<https://h.invalid>.helper", "{mark}", "", "printf 'protocol=https\\nhost=h.invalid\\n\\n' | git credential fill"},
	{Runs, "interactive.diffFilter", "{mark}", "", "echo >>a; echo q | script -qec 'git add -p' /dev/null"},
	{Runs, "trailer.mark.cmd", "{mark}", "trailer.mark.key=Mark", "echo x | git interpret-trailers --trailer mark=x"},
	{Runs, "trailer.mark.command", "{mark}", "trailer.mark.key=Mark", "echo x | git interpret-trailers --trailer mark=x"},
	{Runs, "submodule.sub.update", "!{mark}", "", "git -C sub checkout -q HEAD~1; git submodule update"},
	{Runs, "uploadpack.packObjectsHook", "{mark}", "", ""}, // git takes it from the user's own configuration only
	{Runs, "remote.origin.uploadpack", "{mark}", "", "git fetch"},
	{Runs, "remote.origin.receivepack", "{mark}", "", "git push origin HEAD:refs/heads/new"},
	{Runs, "remote.origin.vcs", "mark", "", ""},
	{Runs, "remote.<--upload-pack={mark}>.url", "x", "", "git fetch --all"},
	{Runs, "remotes.default", "--upload-pack={mark}", "", "git remote update"},
	{Runs, "remotes.mark", "--upload-pack={mark}", "", "git fetch --multiple mark"},
	{Runs, "branch.main.mergeOptions", "--strategy=mark", "", ""},
	{Runs, "pull.twohead", "mark", "", ""},
	{Runs, "pull.octopus", "mark", "", ""},
	{Runs, "gc.recentObjectsHook", "{mark}", "", ""},
	{Runs, "tar.mark.command", "{mark}", "", "git archive --format=mark HEAD"},
	{Runs, "tar.tar.gz.command", "{mark}", "tar.tar.gz.remote=true", "git archive --format=tar.gz HEAD"},
	{Runs, "receive.procReceiveRefs", "refs/for", "", ""},
	{Runs, "receive.denyCurrentBranch", "updateInstead", "", ""},
	{Runs, "sendemail.smtpServer", "{mark}", "", ""},
	{Runs, "sendemail.sendmailCmd", "{mark}", "", ""},
	{Runs, "sendemail.toCmd", "{mark}", "", ""},
	{Runs, "sendemail.ccCmd", "{mark}", "", ""},
	{Runs, "sendemail.headerCmd", "{mark}", "", ""},
	{Runs, "sendemail.work.sendmailCmd", "{mark}", "sendemail.identity=work", ""},
	{Runs, "imap.tunnel", "{mark}", "imap.folder=x", "printf 'From x Mon Sep 17 00:00:00 2001\\nFrom: a\\nDate: x\\nSubject: x\\n\\nx\\n' | git imap-send"},
	{Runs, "guitool.mark.cmd", "{mark}", "", ""},
	{Runs, "browser.mark.cmd", "{mark}", "web.browser=mark", "git web--browse http://h.invalid/"},
	{Runs, "browser.firefox.path", "{mark}", "web.browser=firefox", "git web--browse http://h.invalid/"},
	{Runs, "web.browser", "mark", "browser.mark.cmd={mark}", "git web--browse http://h.invalid/"},
	{Runs, "help.browser", "mark", "help.format=html\nhelp.htmlPath=http://h.invalid\nbrowser.mark.cmd={mark}", "git help log"},
	{Runs, "man.mark.cmd", "{mark}", "man.viewer=mark", "git help log"},
	{Runs, "man.konqueror.path", "{mark}", "man.viewer=konqueror", "DISPLAY=:0 git help log"},
	{Runs, "man.viewer", "mark", "man.mark.cmd={mark}", "git help log"},
	{Runs, "instaweb.httpd", "{mark}", "instaweb.port=0", "timeout 10 git instaweb"},
	{Runs, "instaweb.browser", "{mark}", "", ""},
	{Runs, "instaweb.modulePath", "{outside}", "", ""},
	{Runs, "help.autoCorrect", "immediate", "", ""},
	{Runs, "init.templateDir", "{outside}", "", ""},
	{Runs, "svn.authorsProg", "{mark}", "", ""},
	{Runs, "svn-remote.svn.url", "svn+mark://h.invalid/", "", ""},
	{Runs, "lfs.customtransfer.mark.path", "{mark}", "lfs.standalonetransferagent=mark", ""},
	{Runs, "lfs.standalonetransferagent", "mark", "", ""},
	{Runs, "lfs.extension.mark.clean", "{mark}", "lfs.extension.mark.smudge={mark}\nlfs.extension.mark.priority=0", ""},
	{Runs, "annex.pre-commit-command", "{mark}", "", ""},
	{Runs, "annex.freezecontent-command", "{mark}", "", ""},
	{Runs, "annex.secure-erase-command", "{mark}", "", ""},
	{Runs, "annex.web-download-command", "{mark}", "", ""},
	{Runs, "annex.http-headers-command", "{mark}", "", ""},
	{Runs, "annex.mark-store-hook", "{mark}", "remote.origin.annex-hooktype=mark", ""},
	{Runs, "remote.origin.annex-start-command", "{mark}", "", ""},
	{Runs, "remote.origin.annex-cost-command", "{mark}", "", ""},
	{Runs, "remote.origin.annex-shell", "{mark}", "", ""},
	{Runs, "remote.origin.annex-rsync-options", "-e {mark}", "", ""},
	{Runs, "remote.origin.annex-externaltype", "mark", "", ""},
	{Runs, "remote.origin.annex-ssh-options", "-o ProxyCommand={mark}", "", ""},
	{Runs, "gitflow.path.hooks", "{hooks}", "", ""},
	{Runs, "tig.bind", "generic x !{mark}", "", ""},
	{Runs, "delta.pager", "{mark}", "", ""},
	{Runs, "git-p4.port", "rsh:{mark}", "", ""},

	// More settings.
	{Includes, "include.path", "{file}", "", "git status"},
	{Includes, "includeIf.<gitdir:**>.path", "{file}", "", "git status"},
	{Includes, "includeIf.<gitdir:/>.path", "{file}", "", "git status"},
	{Includes, "includeIf.<gitdir/i:/>.path", "{file}", "", "git status"},
	{Includes, "includeIf.<onbranch:**>.path", "{file}", "", "git status"},
	{Includes, "includeIf.<hasconfig:remote.*.url:**>.path", "{file}", "", "git status"},
	{Includes, "extensions.worktreeConfig", "true", "core.repositoryFormatVersion=1", ""},

	// Addresses.
	{URL, "remote.origin.url", "ext::{mark}", "protocol.ext.allow=always", "git config --unset remote.origin.url ^../remote; git fetch"},
	{URL, "remote.origin.url", "ext::{mark}", "", ""},
	{URL, "remote.origin.url", "fd::17", "", ""},
	{URL, "remote.origin.url", "mark::x", "", ""},
	{URL, "remote.origin.url", "--upload-pack={mark}", "", ""},
	{URL, "remote.origin.url", "ssh://-oProxyCommand={mark}/x", "", ""},
	{URL, "remote.origin.url", "-oProxyCommand={mark}:x", "", ""},
	{URL, "remote.origin.pushurl", "ext::{mark}", "protocol.allow=always", "git push origin HEAD:refs/heads/new"},
	{URL, "remote.new.url", "ext::{mark}", "protocol.ext.allow=user", "git fetch new"},
	{URL, "remote.<ext::{mark}>.fetch", "x", "", ""},
	{URL, "remote.origin.proxy", "http://h.invalid:1/", "", ""},
	{URL, "remote.origin.promisor", "true", "remote.origin.partialclonefilter=blob:none\nextensions.partialClone=origin", ""},
	{URL, "remote.pushDefault", "ext::{mark}", "protocol.ext.allow=always", "git push"},
	{URL, "branch.main.remote", "ext::{mark}", "protocol.ext.allow=always\nbranch.main.merge=refs/heads/main", "git remote remove origin; git config branch.main.merge refs/heads/main; git fetch"},
	{URL, "branch.main.remote", "ext::{mark}", "", ""},
	{URL, "branch.main.pushRemote", "ext::{mark}", "protocol.ext.allow=always", "git push"},
	{URL, "submodule.sub.url", "ext::{mark}", "protocol.ext.allow=always", ""},
	{URL, "submodule.sub.url", "--upload-pack={mark}", "", ""},
	{URL, "url.<ext::{mark} >.insteadOf", "https://", "protocol.ext.allow=always", "git fetch https://h.invalid/"},
	{URL, "url.<ext::{mark} >.pushInsteadOf", "https://", "protocol.ext.allow=always", "git push https://h.invalid/ main"},
	{URL, "url.<https://h.invalid/>.insteadOf", "https://", "", ""},
	{URL, "http.proxy", "http://h.invalid:1/", "", ""},
	{URL, "http.<https://h.invalid>.proxy", "http://h.invalid:1/", "", ""},
	{URL, "http.curloptResolve", "h.invalid:443:127.0.0.1", "", ""},
	{URL, "http.extraHeader", "X: y", "", ""},
	{URL, "imap.host", "imaps://h.invalid", "", ""},
	{URL, "gitcvs.dbDriver", "Proxy:hostname=h.invalid", "", ""},
	{URL, "bundle.mark.uri", "https://h.invalid/", "bundle.version=1\nbundle.mode=all", ""},
	{URL, "fetch.bundleURI", "https://h.invalid/", "", ""},
	{URL, "transfer.bundleURI", "true", "", ""},
	{URL, "promisor.acceptFromServerUrl", "https://h.invalid/*", "promisor.acceptFromServer=all", ""},
	{URL, "sendemail.smtpServer", "h.invalid", "", ""},
	{URL, "lfs.url", "ssh://-oProxyCommand={mark}/", "", ""},
	{URL, "lfs.pushurl", "https://h.invalid/", "", ""},
	{URL, "remote.origin.lfsurl", "https://h.invalid/", "", ""},
	{URL, "lfs.<https://h.invalid>.locksverify", "true", "", ""},
	{URL, "svn-remote.svn.rewriteRoot", "https://h.invalid/", "", ""},

	// Files and directories.
	{Path, "core.worktree", "{outside}", "", ""},
	{Path, "core.worktree", "../../../../../../../..", "", ""},
	{Path, "core.attributesFile", "{outside}/x", "", ""},
	{Path, "core.excludesFile", "{outside}/x", "", ""},
	{Path, "commit.template", "{outside}/x", "", ""},
	{Path, "blame.ignoreRevsFile", "{outside}/x", "", ""},
	{Path, "mailmap.file", "{outside}/x", "", ""},
	{Path, "diff.orderFile", "{outside}/x", "", ""},
	{Path, "fsck.skipList", "{outside}/x", "", ""},
	{Path, "fetch.fsck.skipList", "{outside}/x", "", ""},
	{Path, "receive.fsck.skipList", "{outside}/x", "", ""},
	{Path, "format.signatureFile", "{outside}/x", "", ""},
	{Path, "format.outputDirectory", "{outside}", "", ""},
	{Path, "branch.main.mergeOptions", "--file={outside}/x", "", ""},
	{Path, "gc.repackFilterTo", "{outside}/x", "gc.repackFilter=blob:none", ""},
	{Path, "gpg.ssh.allowedSignersFile", "{outside}/x", "", ""},
	{Path, "gpg.ssh.revocationFile", "{outside}/x", "", ""},
	{Path, "user.signingKey", "{outside}/x", "gpg.format=ssh", ""},
	{Path, "http.cookieFile", "{outside}/x", "http.saveCookies=true", ""},
	{Path, "http.sslCert", "{outside}/x", "", ""},
	{Path, "http.sslKey", "{outside}/x", "", ""},
	{Path, "http.sslCAInfo", "{outside}/x", "", ""},
	{Path, "http.sslCAPath", "{outside}", "", ""},
	{Path, "http.proxySSLCert", "{outside}/x", "", ""},
	{Path, "http.proxySSLKey", "{outside}/x", "", ""},
	{Path, "http.proxySSLCAInfo", "{outside}/x", "", ""},
	{Path, "http.<https://h.invalid>.sslKey", "{outside}/x", "", ""},
	{Path, "http.pinnedPubkey", "{outside}/x", "", ""},
	{Path, "help.htmlPath", "{outside}", "", ""},
	{Path, "trace2.eventTarget", "{outside}/x", "", ""},
	{Path, "trace2.normalTarget", "{outside}/x", "", ""},
	{Path, "trace2.perfTarget", "{outside}/x", "", ""},
	{Path, "gitcvs.logFile", "{outside}/x", "gitcvs.enabled=true", ""},
	{Path, "gitcvs.dbName", "{outside}/x", "", ""},
	{Path, "sendemail.aliasesFile", "{outside}/x", "sendemail.aliasFileType=mutt", ""},
	{Path, "sendemail.mailmap.file", "{outside}/x", "sendemail.mailmap=true", ""},
	{Path, "sendemail.smtpSSLCertPath", "{outside}/x", "", ""},
	{Path, "sendemail.smtpSSLClientCert", "{outside}/x", "", ""},
	{Path, "sendemail.smtpSSLClientKey", "{outside}/x", "", ""},
	{Path, "fsmonitor.socketDir", "{outside}", "core.fsmonitor=true", ""},
	{Path, "submodule.sub.gitdir", "{outside}/x", "extensions.submodulePathConfig=true\ncore.repositoryFormatVersion=1", ""},
	{Path, "extensions.refStorage", "reftable://{outside}/x", "core.repositoryFormatVersion=1", ""},
	{Path, "extensions.refStorage", "files://{outside}/x", "core.repositoryFormatVersion=1", ""},
	{Path, "svn.authorsFile", "{outside}/x", "", ""},
	{Path, "lfs.storage", "{outside}", "", ""},

	// Checks, and what else is believed.
	{Trusts, "protocol.allow", "always", "", ""},
	{Trusts, "protocol.ext.allow", "always", "", ""},
	{Trusts, "protocol.file.allow", "always", "", ""},
	{Trusts, "safe.directory", "*", "", ""},
	{Trusts, "safe.bareRepository", "all", "", ""},
	{Trusts, "ssh.variant", "simple", "", ""},
	{Trusts, "http.sslVerify", "false", "", ""},
	{Trusts, "http.<https://h.invalid>.sslVerify", "false", "", ""},
	{Trusts, "http.followRedirects", "true", "", ""},
	{Trusts, "http.delegation", "always", "", ""},
	{Trusts, "http.proactiveAuth", "basic", "", ""},
	{Trusts, "http.emptyAuth", "true", "", ""},
	{Trusts, "credential.protectProtocol", "false", "", ""},
	{Trusts, "credential.sanitizePrompt", "false", "", ""},
	{Trusts, "credential.useHttpPath", "false", "", ""},
	{Trusts, "credential.<https://h.invalid>.username", "x", "", ""},
	{Trusts, "sideband.allowControlCharacters", "true", "", ""},
	{Trusts, "core.protectNTFS", "false", "", ""},
	{Trusts, "core.protectHFS", "false", "", ""},
	{Trusts, "core.sharedRepository", "0666", "", ""},
	{Trusts, "attr.tree", "refs/heads/mark", "", ""},
	{Trusts, "mailmap.blob", "refs/heads/mark", "", ""},
	{Trusts, "diff.trustExitCode", "true", "", ""},
	{Trusts, "fsmonitor.allowRemote", "true", "", ""},
	{Trusts, "gpg.minTrustLevel", "undefined", "", ""},
	{Trusts, "imap.sslVerify", "false", "", ""},
	{Trusts, "lfs.<https://h.invalid>.access", "basic", "", ""},
	{Trusts, "sendemail.forbidSendmailVariables", "false", "", ""},
}

// Spellings returns configurations that all set section.name, without a subsection, to
// a value, as git reads them. The value has no character that git's syntax gives a meaning.
func Spellings(section, name, value string) map[string]string {
	up := strings.ToUpper
	return map[string]string{
		"plain":                      "[" + section + "]\n\t" + name + " = " + value + "\n",
		"capitals":                   "[" + up(section) + "]\n" + up(name) + "=" + value + "\n",
		"one line":                   "[" + section + "]" + name + "=" + value,
		"one line with others":       "[user] name = x\n[" + section + "] " + name + " = " + value + "\n",
		"carriage returns":           "[" + section + "]\r\n" + name + " = " + value + "\r\n",
		"byte order mark":            "\ufeff[" + section + "]\n" + name + " = " + value + "\n",
		"other white space":          "\n\t [" + section + "]\n \t " + name + "\t=\t" + value + "\n",
		"quotes in the middle":       "[" + section + "]\n" + name + " = " + value[:1] + `"` + value[1:] + "\"\n",
		"value on the next line":     "[" + section + "]\n" + name + " = \\\n" + value + "\n",
		"value in pieces":            "[" + section + "]\n" + name + " = " + value[:2] + "\\\n" + value[2:] + "\n",
		"comment behind":             "[" + section + "]\n" + name + " = " + value + " # x = \"\n",
		"comment that ends in \\":    "# \\\n[" + section + "]\n" + name + " = " + value + "\n; \\\n",
		"comment behind the header":  "[" + section + "] # [x]\n" + name + " = " + value + "\n",
		"behind a value with quotes": "[user]\nname = \"[user]\\n# \\\" ; \"\n[" + section + "]\n" + name + " = " + value + "\n",
		"behind a continued value":   "[user]\nname = a \\\n b\n[" + section + "]\n" + name + " = " + value + "\n",
		"behind an odd subsection":   "[branch \"a]\\\"\\\\#\"]\nmerge = refs/heads/x\n[" + section + "]\n" + name + " = " + value + "\n",
		"behind a key alone":         "[core]\nbare\n[core]\nbare = false\n[" + section + "]\n" + name + " = " + value + "\n",
		"behind much":                strings.Repeat("# "+strings.Repeat("x", 1000)+"\n", 2000) + "[" + section + "]\n" + name + " = " + value + "\n",
		"behind many sections":       strings.Repeat("[user]\nname = x\n", 20000) + "[" + section + "]\n" + name + " = " + value + "\n",
	}
}
