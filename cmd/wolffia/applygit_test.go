package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"wolffia/internal/test/testenv"
)

// repository makes a git repository of the box's codebase.
func (b *box) repository() {
	b.Helper()
	testenv.Tools(b.TB, "git")
	b.git("init", "-q", "-b", "main", ".")
	b.git("config", "user.name", "Ann")
	b.git("config", "user.email", "ann@example.invalid")
	for _, name := range []string{"one", "two", "three"} {
		b.OK(os.WriteFile(filepath.Join(b.codebase, name), []byte(name+"\n"), 0o666))
	}
	b.git("add", ".")
	b.git("commit", "-qm", "first")
}

// git runs the host's git in the codebase and returns what it prints.
func (b *box) git(args ...string) string {
	b.Helper()
	cmd := exec.CommandContext(b.Ctx, "git", args...)
	cmd.Dir, cmd.Env = b.codebase, append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null")
	out, err := cmd.CombinedOutput()
	if err != nil {
		b.Fatalf("git %q: %v: %s", args, err, out)
	}
	return string(out)
}

// refused is what a command says on the standard error when it fails, as it must.
func (b *box) refused(args ...string) string {
	b.Helper()
	cmd := b.command(args...)
	out, err := cmd.CombinedOutput()
	if !errors.As(err, new(*exec.ExitError)) {
		b.Errorf("%q: %v, want an exit code: %s", args, err, out)
	}
	return string(out)
}

// A copied repository is what it was at the start, whatever git does on the host; and no commit of
// either side is lost.
func TestCopiedRepository(t *testing.T) {
	testenv.Unprivileged(t) // root's git and the sandbox's would be of two users
	b := newBox(t)
	b.repository()
	b.git("branch", "other")
	b.says("create", "--codebase", b.codebase, "--name", "copy", "--cow")
	inside := func(script string) string {
		b.Helper()
		return b.says("exec", "copy", "--", "sh", "-ec", script)
	}
	inside("echo inside >one; git commit -qam inside; echo more >>one")

	b.OK(os.WriteFile(filepath.Join(b.codebase, "two"), []byte("host\n"), 0o666))
	b.git("commit", "-qam", "host")
	b.git("checkout", "-q", "other")
	b.OK(os.WriteFile(filepath.Join(b.codebase, "three"), []byte("other\n"), 0o666))
	b.git("commit", "-qam", "on other")
	b.git("branch", "-D", "main")
	b.git("reflog", "expire", "--expire=now", "--all")
	b.git("branch", "main", "other~1")
	b.git("-c", "gc.auto=0", "gc", "-q", "--prune=now")

	b.Until("the host's edit", func() bool { return inside("cat three") == "other\n" })
	if got, want := inside("git status --porcelain; git log --format=%s; git symbolic-ref HEAD"), " M one\n M three\ninside\nfirst\nrefs/heads/main\n"; got != want {
		b.Errorf("inside: %q, want %q", got, want)
	}
	if got := inside("git fsck --strict --no-dangling 2>&1; git commit -qam again; git gc -q; git fsck --strict --no-dangling 2>&1; git status --porcelain"); got != "" {
		b.Errorf("inside: %q", got)
	}
	head := b.git("rev-parse", "other")
	if out := b.says("apply", "--git", "copy"); !strings.HasPrefix(out, "wolffia/copy/main\t") {
		b.Errorf("apply --git prints %q", out)
	}
	if got := b.git("log", "--format=%s", "wolffia/copy/main"); got != "again\ninside\nfirst\n" {
		b.Errorf("fetched: %q", got)
	}
	b.git("branch", "wolffia/mine", "other")
	inside("git commit -q --allow-empty -m later")
	if out := b.refused("apply", "--git=wolffia/mine", "copy"); !strings.Contains(out, "branch wolffia/mine exists") || b.git("rev-parse", "wolffia/mine") != head {
		b.Errorf("a branch of the user's: %s", out)
	}
	if got := b.git("rev-parse", "HEAD"); got != head {
		b.Errorf("HEAD of the host is %s, want %s", got, head)
	}
	if got := b.git("fsck", "--strict", "--no-dangling") + b.git("status", "--porcelain"); got != "" {
		b.Errorf("the host's repository: %q", got)
	}
}

// hostileGits are programs that a sandbox has in place of git: what they do to list references,
// and in place of pack-objects. The branch bait is at a commit that is malformed.
var hostileGits = []struct{ name, refs, pack, says string }{
	{"ManyBranches", `seq 100001 120000 | sed 's:.*:c0ffee0000000000000000000000000000& refs/heads/b& :'`, `exec $real "$@"`, "more than 10000"},
	{"EndlessList", `yes 'c0ffee0000000000000000000000000000000000 refs/heads/x ' | head -c 70000000`, `exit 1`, "more than a sync reads"},
	{"RefWithColon", `echo 'c0ffee0000000000000000000000000000000000 refs/heads/x:refs/heads/main '`, `exec $real "$@"`, "stay inside: "},
	{"RefWithStar", `echo 'c0ffee0000000000000000000000000000000000 refs/heads/* '`, `exec $real "$@"`, "stay inside: "},
	{"RefUpwards", `echo 'c0ffee0000000000000000000000000000000000 refs/heads/../../../main '`, `exec $real "$@"`, "stay inside: "},
	{"RefWithEscape", `printf 'c0ffee0000000000000000000000000000000000 refs/heads/a\033[31m \n'`, `exec $real "$@"`, "stay inside: "},
	{"RefWithC1", `printf 'c0ffee0000000000000000000000000000000000 refs/heads/a\302\23331m \n'`, `exec $real "$@"`, "stay inside: "},
	{"NoHash", `echo '--upload-pack=touch refs/heads/x '`, `exit 1`, "names a reference as"},
	{"OtherFormat", `printf 'c0ffee00000000000000000000000000000000000000000000000000000000%02d refs/heads/x \n' 1`, `exit 1`, "another format"},
	{"NoPack", `echo 'c0ffee0000000000000000000000000000000000 refs/heads/x '`, `echo text`, "stay inside: "},
	{"Nothing", `echo 'c0ffee0000000000000000000000000000000000 refs/heads/x '`, `:`, "stay inside: "},
	{"DamagedPack", `echo 'c0ffee0000000000000000000000000000000000 refs/heads/x '`, `printf 'PACK\0\0\0\2\0\0\0\1garbage-garbage-garbage'`, "stay inside: "},
	{"EndlessPack", `echo 'c0ffee0000000000000000000000000000000000 refs/heads/x '`, `yes`, "stay inside: "},
	{"OtherCommit", `$real "$@" | sed s/^......../c0ffee00/`, `exec $real "$@"`, "stay inside: "},
	{"MalformedTree", `$real "$@" refs/heads/bait`, `exec $real "$@"`, "the objects inside are refused"},
}

// Whatever git inside says, the host's git executes nothing and takes nothing that is malformed.
func TestHostileCommits(t *testing.T) {
	testenv.Unprivileged(t)
	b := newBox(t)
	b.repository()
	bin, ran := filepath.Join(b.codebase, "bin"), filepath.Join(b.codebase, "ran")
	b.says("create", "--codebase", b.codebase, "--name", "copy", "--cow", "--preset", "full-access", "-e", "PATH="+bin+":"+os.Getenv("PATH"))
	inside := func(script string) {
		b.Helper()
		b.says("exec", "copy", "--", "sh", "-ec", script)
	}
	// What a repository can have executed: by the user's git, if it came out.
	inside(`real=$(command -v git); mkdir bin; echo "$real" >bin/real
mkdir -p .git/hooks; for h in reference-transaction post-checkout post-merge post-rewrite fsmonitor-watchman; do printf '#!/bin/sh\ntouch '"$PWD"'/ran\n' >.git/hooks/$h; chmod +x .git/hooks/$h; done
for k in core.fsmonitor core.pager core.editor core.sshCommand filter.f.smudge filter.f.clean diff.external alias.bundle alias.fetch uploadpack.packObjectsHook gpg.program; do git config $k "touch ran;"; done
git config include.path ../evil.config; printf '[core]\n\thooksPath = hooks\n' >evil.config
echo '* filter=f' >.gitattributes
tree=$({ printf '100644 .git\0'; git rev-parse HEAD:one | xxd -r -p 2>/dev/null || git rev-parse HEAD:one | python3 -c 'import sys; sys.stdout.buffer.write(bytes.fromhex(sys.stdin.read().strip()))'; } | git hash-object -w -t tree --literally --stdin)
git update-ref refs/heads/bait $(git -c core.hooksPath=/dev/null commit-tree -m bait -p HEAD $tree)
git -c core.hooksPath=/dev/null update-ref refs/heads/good $(git commit-tree -m good -p HEAD HEAD^{tree})
rm -f ran`)
	state := func() string {
		b.Helper()
		return b.git("for-each-ref") + b.git("count-objects", "-v") + b.git("status", "--porcelain")
	}
	before := state()
	for _, h := range hostileGits {
		t.Run(h.name, func(t *testing.T) {
			b := *b
			b.TB = t
			inside("cat >bin/git <<'E'\n#!/bin/sh\nread real <" + bin + `/real
while :; do case $1 in -c) shift 2;; --no-replace-objects) shift;; *) break;; esac; done
case $1 in symbolic-ref) echo refs/heads/main;; for-each-ref) ` + h.refs + `;; *) ` + h.pack + `;; esac
E
chmod +x bin/git`)
			said := b.refused("apply", "--git", "copy")
			if !strings.Contains(said, h.says) || strings.ContainsAny(said, "\x1b\u009b") {
				t.Errorf("it says %q, want %q", said, h.says)
			}
			if after := state(); after != before {
				t.Errorf("the host's repository has changed:\n%s\nwas\n%s", after, before)
			}
		})
	}
	// The real git of the sandbox works in its hostile repository, and the good branch comes out.
	inside("rm bin/git; git -c core.hooksPath=/dev/null update-ref -d refs/heads/bait")
	if out := b.says("apply", "--git", "copy"); !strings.HasPrefix(out, "wolffia/copy/good\t") {
		t.Errorf("apply --git prints %q", out)
	}
	if _, err := os.Lstat(ran); err == nil {
		t.Error("something of the sandbox's was executed on the host")
	}
	if _, err := os.Lstat(bin); err == nil {
		t.Error("the sandbox's files are on the host")
	}
}
