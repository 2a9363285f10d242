package ops

import "regexp"

const noRoot = "there is no root inside, nor a program that makes one: be root inside with " +
	"--root (elsewhere than on Debian and Ubuntu add --image debian:bookworm-slim), " +
	"or install packages on the host"

// kernelRefusals are what programs print when the kernel refuses what no sandbox gives them. Its
// refusals have no other witness: a system call filter that told of them would cost every call. A
// program can print anything, so the lines are constant, and what they advise opens nothing.
// Where there is root inside, root is the line unless it is empty.
var kernelRefusals = []struct{ says, line, root string }{
	{
		`No usable sandbox!|SUID sandbox helper binary|zygote_host_impl_linux\.cc|` +
			`Failed to move to new namespace`,
		"the browser's own sandbox needs user namespaces, which do not exist inside: " +
			"start it with --no-sandbox, since the command runs in a sandbox already",
		"",
	},
	{
		`(?i)bwrap: (?:no permissions to create (?:a )?new namespace|creating new namespace failed)|` +
			`bwrap: setting up uid map|` +
			`\b(?:unshare|clone|cloning|setns|namespaces?|fork/exec /proc/self/exe)\b[^\n]*` +
			`(?:operation not permitted|EPERM)`,
		"user namespaces do not exist inside: switch off the sandbox that the program makes for itself " +
			"(codex: --sandbox danger-full-access, nix: --option sandbox false), " +
			"since the command runs in a sandbox already; containers cannot be made inside",
		"",
	},
	{
		`(?:EACCES|[Pp]ermission denied|[Oo]peration not permitted)[^\n]*\.husky/_|` +
			`\.husky/_[^\n]*(?:[Pp]ermission denied|[Oo]peration not permitted)`,
		"husky writes hooks, which the host's git would run: switch its set-up off " +
			"with -e HUSKY=0, or npm ci --ignore-scripts; the hooks that are there stay",
		"",
	},
	{
		`(?:chown|changing (?:ownership|group) of) [^\n]*(?:Invalid argument|Operation not permitted)|` +
			`(?:EINVAL|EPERM)[^\n]*chown`,
		"there is no root inside, and no other user: all files are yours, so leave chown out, " +
			"or be root inside: --root with --image",
		"only root changes owners, to ids of your range of subordinate ids: up to 65534 as a rule",
	},
	{
		`ping6?: (?:socket|sock|permission|Lacking)[^\n]*`,
		"ping needs root, which does not exist inside, and networks carry TCP only: try curl",
		"networks carry TCP only, also those of root inside: try curl",
	},
	{
		`System has not been booted with systemd`,
		"no service manager runs inside: start the program itself", "",
	},
	{
		`\b(?:sudo|useradd|adduser|userdel|usermod|groupadd|addgroup)["']?: (?:command )?not found`,
		noRoot,
		"the image does not have it: install its package, as by apt-get install passwd, apk add shadow",
	},
	{
		`sudo: (?:effective uid|a password|a terminal|The "no new privileges")|` +
			`su: (?:Critical error|Authentication failure|cannot set groups)|are you root\?|` +
			`lists/partial is missing|cannot lock /etc/(?:passwd|group)|` +
			`no program makes its caller root here|` +
			`(?i:requires? (?:superuser|root) privilege|need to be root|only root (?:can|may)|` +
			`must be (?:run as |the )?(?:root|superuser))`,
		noRoot,
		"no program gains privileges inside: sudo and su work from root only (wolffia exec without " +
			"--user); and root mounts nothing and sets nothing of the kernel",
	},
	{
		says: `(?i:mknod: [^\n]*operation not permitted|mount: [^\n]*(?:permission denied|operation not permitted))`,
		root: "root inside makes no devices and no mounts: show a directory with --mount or --volume",
	},
}

// KernelHint returns a line about a command that has failed with an output, if that says that the
// kernel has refused it what a sandbox does not give; else an empty string. root reports whether
// there is root inside; it is called only if the line depends on it.
func KernelHint(output string, root func() bool) string {
	for _, r := range kernelRefusals {
		if regexp.MustCompile(r.says).MatchString(output) {
			if r.root != "" && root() {
				return r.root
			}
			return r.line
		}
	}
	return ""
}
