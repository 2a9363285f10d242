package runtimetest

import (
	"errors"
	"io/fs"
	"os"
	"strings"

	"wolffia/perm"
	"wolffia/runtime"
)

var filterTests = []test{
	{"FilterNoRules", []Feature{Filter}, filterNoRules},
	{"FilterHostCreates", []Feature{Filter}, filterHostCreates},
	{"FilterSymlinkOut", []Feature{Filter}, filterSymlinkOut},
	{"FilterHardLink", []Feature{Filter}, filterHardLink},
	{"FilterParents", []Feature{Filter}, filterParents},
	{"FilterRemoveParent", []Feature{Filter}, filterRemoveParent},
	{"FilterAgentSafe", []Feature{Filter}, filterAgentSafe},
	{"FilterReadOnlyPreset", []Feature{Filter}, filterReadOnly},
	{"FilterAllProcesses", []Feature{Filter}, filterAllProcesses},
}

// What no rule matches does not exist.
func filterNoRules(e *env) {
	dir := e.dir()
	e.write(dir+"/file", "host\n")
	s := e.start(&runtime.SandboxConfig{CodebasePath: dir})
	e.prints(s.ID, "ls -A", "")
	for _, script := range []string{"cat file", "stat file", "echo x >file", "echo x >new", "mkdir new"} {
		if r := e.sh(s.ID, script); r.ExitCode == 0 {
			e.Errorf("%s: got r.Stdout %q; want r.ExitCode != 0", script, r.Stdout)
		}
	}
	if got := e.read(dir + "/file"); got != "host\n" {
		e.Errorf("the host's file has %q", got)
	}
}

// Rules hold for what does not exist yet as well.
func filterHostCreates(e *env) {
	dir := e.dir()
	e.write(dir+"/d/old.write", "")
	s := e.start(&runtime.SandboxConfig{CodebasePath: dir, Permissions: rules("**=write", "*.view=view", "*.none=none")})
	e.prints(s.ID, "ls d; cat d/late.write d/late.none d/late.view 2>/dev/null; true", "old.write\n")
	for _, name := range []string{"late.none", "late.view", "late.write"} {
		e.write(dir+"/d/"+name, "late\n")
		e.write(dir+"/new/dir/"+name, "late\n")
	}
	e.Until("files made on the host", func() bool {
		return string(e.sh(s.ID, "ls d new/dir; cat d/late.write").Stdout) ==
			"d:\nlate.view\nlate.write\nold.write\n\nnew/dir:\nlate.view\nlate.write\nlate\n"
	})
	for _, d := range []string{"d", "new/dir"} {
		for name, says := range map[string]string{"late.none": "No such file", "late.view": "Permission denied"} {
			r := e.sh(s.ID, "cat "+d+"/"+name)
			if r.ExitCode == 0 || !strings.Contains(string(r.Stderr), says) {
				e.Errorf("%s/%s: got r.Stdout %q, r.Stderr %q; want r.ExitCode != 0 and r.Stderr contains %v", d, name, r.Stdout, r.Stderr, says)
			}
		}
	}
	e.OK(os.Rename(dir+"/d/late.write", dir+"/d/moved.none"))
	e.Until("the end of a name", func() bool { return string(e.sh(s.ID, "ls d").Stdout) == "late.view\nold.write\n" })
}

// A symbolic link is resolved inside: it leads to nothing of the host's.
func filterSymlinkOut(e *env) {
	dir := e.dir()
	e.write(dir+"/outside/secret", "secret\n")
	e.write(dir+"/code/file", "file\n")
	for link, target := range map[string]string{
		"absolute": dir + "/outside/secret", "dir": dir + "/outside", "relative": "../outside/secret",
		"up": "../..", "shadow": "/etc/shadow", "host": "/proc/1/root/" + dir + "/outside/secret",
	} {
		e.OK(os.Symlink(target, dir+"/code/"+link))
	}
	s := e.start(e.open(dir + "/code"))
	for _, script := range []string{
		"cat absolute", "cat dir/secret", "cat relative", "cat ../outside/secret", "cat up/outside/secret", "cat shadow", "cat host",
		"ln -s " + dir + "/outside/secret mine; cat mine", "cd ..; cat outside/secret", "echo x >absolute",
	} {
		if r := e.sh(s.ID, script); r.ExitCode == 0 || len(r.Stdout) > 0 {
			e.Errorf("%s: got r.Stdout %q; want r.ExitCode != 0 and len(r.Stdout) <= 0", script, r.Stdout)
		}
	}
	if got := e.read(dir + "/outside/secret"); got != "secret\n" {
		e.Errorf("the file outside has %q", got)
	}
	e.prints(s.ID, "readlink relative; cat file", "../outside/secret\nfile\n")
}

// A link to a file that may not be changed is no way to change it.
func filterHardLink(e *env) {
	dir := e.dir()
	e.write(dir+"/a.read", "original\n")
	s := e.start(&runtime.SandboxConfig{CodebasePath: dir, Permissions: rules("**=write", "*.read=read", "*.none=none")})
	for _, script := range []string{"ln a.read b.write", "ln a.read b.read", "mv a.read b.write", "echo x >w; ln w w.none"} {
		if r := e.sh(s.ID, script); r.ExitCode == 0 {
			e.Errorf("%s is allowed", script)
		}
	}
	if got := e.read(dir + "/a.read"); got != "original\n" {
		e.Errorf("the file has %q", got)
	}
	e.OK(os.Link(dir+"/a.read", dir+"/host.none")) // one file, two names
	e.Until("the other name to be hidden", func() bool { return e.sh(s.ID, "cat host.none").ExitCode != 0 })
	e.prints(s.ID, "cat a.read", "original\n")
}

// The way to what can be seen can be seen, and nothing beside it.
func filterParents(e *env) {
	dir := e.dir()
	e.write(dir+"/a/b/c/file", "file\n")
	e.write(dir+"/a/b/secret", "")
	e.write(dir+"/a/secret", "")
	e.write(dir+"/secret", "")
	s := e.start(&runtime.SandboxConfig{CodebasePath: dir, Permissions: rules("/a/b/c/=write")})
	e.prints(s.ID, "find . | sort; cat a/b/c/file; echo x >a/b/c/new", ".\n./a\n./a/b\n./a/b/c\n./a/b/c/file\nfile\n")
	for _, script := range []string{"echo x >a/new", "mkdir a/b/new", "mv a z", "rmdir a/b", "chmod 777 a/b", "touch a/b"} {
		if r := e.sh(s.ID, script); r.ExitCode == 0 {
			e.Errorf("%s is allowed", script)
		}
	}
}

func filterRemoveParent(e *env) {
	dir := e.dir()
	e.write(dir+"/d/file.none", "hidden\n")
	s := e.start(&runtime.SandboxConfig{CodebasePath: dir, Permissions: rules("**=write", "*.none=none")})
	if r := e.sh(s.ID, "rmdir d"); r.ExitCode == 0 || !strings.Contains(string(r.Stderr), "not empty") {
		e.Errorf("rmdir: exit code %d, %q", r.ExitCode, r.Stderr)
	}
	_ = e.sh(s.ID, "rm -rf d")
	if got := e.read(dir + "/d/file.none"); got != "hidden\n" {
		e.Errorf("the hidden file has %q", got)
	}
}

// preset starts a sandbox with a preset over a tree with secrets.
func (e *env) preset(name string) (id, dir string) {
	e.Helper()
	p, err := perm.PresetByName(name)
	e.OK(err)
	dir = e.dir()
	for _, f := range []string{
		".env", "sub/.env.local", ".env.example", "id_rsa", "deep/er/id_ed25519", ".aws/credentials", ".npmrc",
		"src/main.go", "README", "src/environment.go", "src/secrets.go",
	} {
		e.write(dir+"/"+f, "content of "+f+"\n")
	}
	return e.start(&runtime.SandboxConfig{CodebasePath: dir, Permissions: p.Rules}).ID, dir
}

func filterAgentSafe(e *env) {
	id, dir := e.preset("agent-safe")
	e.prints(id, "find . -type f | sort", "./.env.example\n./README\n./src/environment.go\n./src/main.go\n./src/secrets.go\n")
	e.write(dir+"/repo/.git/config", "[core]\n")
	for _, script := range []string{
		"cat .env", "stat .env", "ls sub/.env.local", "cat id_rsa", "cat deep/er/id_ed25519", "cat .aws/credentials",
		"echo x >.env", "echo x >.env.production", "mkdir sub/.env", "mv README .env", "rm .env", "ln README id_rsa",
	} {
		if r := e.sh(id, script); r.ExitCode == 0 {
			e.Errorf("%s is allowed: %q", script, r.Stdout)
		}
	}
	// A .git is the sandbox's own.
	_ = e.sh(id, "echo x >repo/.git/config; mkdir -p repo/.git/hooks fresh/.git; echo x >repo/.git/hooks/pre-commit; echo x >fresh/.git/config")
	if got := e.read(dir + "/repo/.git/config"); got != "[core]\n" {
		e.Errorf("the configuration of git on the host is %q", got)
	}
	for _, name := range []string{"repo/.git/hooks", "fresh/.git"} {
		if _, err := os.Lstat(dir + "/" + name); !errors.Is(err, fs.ErrNotExist) {
			e.Errorf("the host has %s: %v", name, err)
		}
	}
	e.prints(id, "cat .env.example; echo x >src/main.go; rm README; mkdir new; echo y >new/file; cat new/file", "content of .env.example\ny\n")
	if got := e.read(dir + "/.env"); got != "content of .env\n" {
		e.Errorf(".env has %q", got)
	}
	e.write(dir+"/new/.env", "late\n") // a secret that comes later
	e.write(dir+"/new/late", "late\n")
	e.Until("a file made on the host", func() bool { return string(e.sh(id, "ls -A new").Stdout) == "file\nlate\n" })
	if r := e.sh(id, "cat new/.env"); r.ExitCode == 0 {
		e.Errorf("the new secret is %q", r.Stdout)
	}
}

func filterReadOnly(e *env) {
	id, dir := e.preset("read-only")
	e.prints(id, "cat README; find . -name '.env*'", "content of README\n./.env.example\n")
	for _, script := range []string{"echo x >README", "echo x >new", "rm README", "mkdir new", "mv README other", "chmod 777 README", "touch README", "cat .env"} {
		if r := e.sh(id, script); r.ExitCode == 0 {
			e.Errorf("%s is allowed", script)
		}
	}
	if got := e.read(dir + "/README"); got != "content of README\n" {
		e.Errorf("README has %q", got)
	}
}

// There is no second way into the tree.
func filterAllProcesses(e *env) {
	dir := e.dir()
	e.write(dir+"/.env", secretValue)
	s := e.start(&runtime.SandboxConfig{CodebasePath: dir, Permissions: rules("**=write", ".env=none")})
	script := "cat .env /proc/self/cwd/.env /proc/1/cwd/.env /proc/1/root" + runtime.DefaultMountPoint + "/.env ./././.env ../*/.env " + dir + "/.env; find / -xdev -name .env 2>/dev/null; true"
	r := e.exec(s.ID, &runtime.ExecRequest{Command: sh(script)})
	if strings.Contains(string(r.Stdout), secretValue) {
		e.Errorf("exec: got r.Stdout %q; want r.Stdout does not contain secretValue", r.Stdout)
	}
	got, err := e.stream(s.ID, &runtime.ExecRequest{Command: sh(script)})
	if err != nil || strings.Contains(got, secretValue) {
		e.Errorf("stream: got %q, err %v; want err == nil and got does not contain secretValue", got, err)
	}
	p := e.process(s.ID, &runtime.Command{Command: sh(script), TTY: e.has(Terminal)})
	if got := e.All(p.Stdout()); strings.Contains(got, secretValue) {
		e.Errorf("All: got %q; want got does not contain secretValue", got)
	}
	e.wait(p)
}
