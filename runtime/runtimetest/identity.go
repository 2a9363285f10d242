package runtimetest

import (
	"fmt"
	"os"
	"strings"
	"syscall"

	"wolffia/runtime"
)

// The user and groups that a process has inside.
var identityTests = []test{
	{"Identity", []Feature{Isolation}, identity},
	{"IdentityOnHost", []Feature{Isolation}, identityOnHost},
	{"Hostname", []Feature{Isolation}, hostname},
	{"Umask", []Feature{Isolation}, umask},
	{"Home", nil, home},
	{"UserName", []Feature{Isolation}, userName},
}

func identity(e *env) {
	s := e.common()
	if s.UID == 0 || s.GID == 0 {
		e.Errorf("uid %d, gid %d: root is never inside", s.UID, s.GID)
	}
	e.prints(s.ID, "id -u; id -g; id -ru", fmt.Sprintf("%d\n%d\n%d\n", s.UID, s.GID, s.UID))
	e.prints(s.ID, "id -un; whoami", strings.Repeat(strings.TrimSpace(e.out(s.ID, "echo $USER"))+"\n", 2))
}

// Of a caller that is not root the host's files stay the caller's; of root's
// own codebase they stay root's.
func identityOnHost(e *env) {
	dir := e.dir()
	e.write(dir+"/file", "")
	s := e.start(e.open(dir))
	e.prints(s.ID, "stat -c %u:%g . file | sort -u; echo x >new; mkdir newdir; stat -c %u:%g new newdir | sort -u",
		fmt.Sprintf("%d:%d\n%d:%d\n", s.UID, s.GID, s.UID, s.GID))
	for _, name := range []string{"new", "newdir"} {
		st, err := os.Stat(dir + "/" + name)
		e.OK(err)
		if sys, ok := st.Sys().(*syscall.Stat_t); ok && int(sys.Uid) != os.Geteuid() {
			e.Errorf("%s belongs to %d, the codebase to %d", name, sys.Uid, os.Geteuid())
		}
	}
}

func hostname(e *env) {
	for _, c := range []*runtime.SandboxConfig{{ID: runtime.NewID()}, {Name: "Some.name_1"}} {
		s := e.start(c)
		e.prints(s.ID, "uname -n; cat /etc/hostname; getent hosts $(uname -n) | wc -l", s.ContainerName()+"\n"+s.ContainerName()+"\n1\n")
	}
}

// The umask is the usual one, whatever the caller's is, unless the runtime was made with another;
// TestMain of an implementation may well set one for this process.
func umask(e *env) {
	s := e.common()
	e.prints(s.ID, "umask; echo x >f; stat -c %a f", "0022\n644\n")
}

func home(e *env) {
	s := e.start(nil)
	e.prints(s.ID, "ls -A $HOME; echo x >$HOME/f; cat ~/f; stat -c %a $HOME", "x\n700\n")
	if e.has(Isolation) {
		e.prints(s.ID, `echo $HOME`, "/home/"+strings.TrimSpace(e.out(s.ID, "id -un"))+"\n")
	}
}

// A sandbox's user has the name that it was made with, everywhere inside.
func userName(e *env) {
	s := e.start(&runtime.SandboxConfig{UserName: "some-one"})
	e.prints(s.ID, "whoami; echo $USER $LOGNAME; id -gn; cd; pwd; echo x >f && stat -c %U f", "some-one\nsome-one some-one\nsome-one\n/home/some-one\nsome-one\n")
	if s.User != "some-one" || s.Home != "/home/some-one" {
		e.Errorf("user %q, home %q", s.User, s.Home)
	}
	for _, bad := range []string{"root", "a:b", "-x", "A", strings.Repeat("a", 33)} {
		_, err := e.rt.Create(e.Ctx, &runtime.SandboxConfig{UserName: bad})
		e.Wrong("user name "+bad, err, runtime.ErrInvalid)
	}
}
