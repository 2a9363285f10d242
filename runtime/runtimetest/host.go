package runtimetest

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"wolffia/internal/test/wait"
	"wolffia/runtime"
)

// The second security invariant: no host path is visible but what is needed to
// run programs and what the user named; and what else is the host's.
var hostTests = []test{
	{"HostFilesInvisible", []Feature{Isolation}, hostFilesInvisible},
	{"RootReadOnly", []Feature{Isolation}, rootReadOnly},
	{"EtcIsMinimal", []Feature{Isolation}, etcIsMinimal},
	{"NoNetwork", []Feature{Isolation}, noNetwork},
	{"SocketsInMounts", []Feature{Isolation, Mounts}, socketsInMounts},
	{"HostNetwork", []Feature{Network}, hostNetwork},
	{"LoopbackWorks", []Feature{Isolation}, loopbackWorks},
	{"SecretsNotInArgv", nil, secretsNotInArgv},
	{"SandboxesApart", []Feature{Isolation}, sandboxesApart},
}

func hostFilesInvisible(e *env) {
	dir := e.dir()
	e.write(dir+"/secret", secretValue)
	e.write(dir+"/code/file", "file\n")
	s := e.start(e.open(dir + "/code"))
	home, _ := os.UserHomeDir()
	wd, err := os.Getwd()
	e.OK(err)
	for _, path := range []string{
		dir, dir + "/secret", filepath.Dir(dir), "/etc/shadow", "/root", "/boot", "/srv", "/media", wd, os.Args[0], "/var/lib/systemd", "/var/lib/apt", "/var/log", "/run/user", "/lost+found",
	} {
		if r := e.sh(s.ID, "ls -d "+path); r.ExitCode == 0 {
			e.Errorf("%s is there", path)
		}
	}
	// Of /var there is what programs of the distribution need.
	const data = " dpkg rpm pacman aspell ispell texmf ghostscript "
	for _, name := range strings.Fields(e.out(s.ID, "ls -A /var/lib 2>/dev/null || true")) {
		if !strings.Contains(data, " "+name+" ") {
			e.Errorf("there is /var/lib/%s", name)
		}
	}
	// Of /home there is the user's own, which is empty.
	e.prints(s.ID, "ls -A /home | wc -l; ls -A $HOME; ls -A /tmp", "1\n")
	if home != "" {
		if r := e.sh(s.ID, "ls -A "+home); len(r.Stdout) > 0 {
			e.Errorf("the caller's home has %q", r.Stdout)
		}
	}
	// the last is an engine's, and empty
	const known = " bin dev etc home lib lib32 lib64 libx32 nix gnu proc run sbin sys tmp usr var workspace .dockerenv "
	for _, name := range strings.Fields(e.out(s.ID, "ls -A /")) {
		if !strings.Contains(known, " "+name+" ") {
			e.Errorf("there is /%s", name)
		}
	}
	mounts := e.out(s.ID, "cat /proc/self/mountinfo")
	if strings.Contains(mounts, dir) {
		e.Errorf("the mount table names the host's paths:\n%s", mounts)
	}
}

func rootReadOnly(e *env) {
	s := e.start(nil)
	for _, dir := range []string{"/", "/usr", "/usr/bin", "/bin", "/lib", "/etc", "/var", "/run", "/run/wolffia", "/home", "/proc"} {
		r := e.sh(s.ID, "echo x >"+dir+"/new")
		if r.ExitCode == 0 {
			e.Errorf("%s is writable", dir)
		}
	}
	for _, script := range []string{
		"mv /usr /usr2", "rm /etc/passwd", "echo x >>/etc/passwd", "rm /usr/bin/env", "echo x >>/usr/bin/env",
		"rmdir /tmp", "mv /bin /bin2", "ln -s x /var/x", "mount -o remount,rw / 2>&1", "mount -o remount,rw,bind /usr 2>&1", "umount /proc 2>&1", "umount /workspace 2>&1",
	} {
		if r := e.sh(s.ID, script); r.ExitCode == 0 {
			e.Errorf("%s works", script)
		}
	}
	for _, dir := range []string{"/tmp", "/var/tmp", "$HOME", "/dev/shm"} {
		e.prints(s.ID, "echo x >"+dir+"/new && cat "+dir+"/new", "x\n")
	}
}

func etcIsMinimal(e *env) {
	s := e.common()
	for _, name := range []string{
		"shadow", "shadow-", "gshadow", "sudoers", "ssh", "ssl/private", "machine-id", "fstab", "crontab",
		"krb5.keytab", "docker", "kubernetes", "wireguard", "NetworkManager", "letsencrypt", "environment", "profile.d", "resolv.conf",
	} {
		if r := e.sh(s.ID, "ls -d /etc/"+name); r.ExitCode == 0 {
			e.Errorf("there is /etc/%s", name)
		}
	}
	for _, line := range strings.Split(strings.TrimSpace(e.out(s.ID, "cat /etc/passwd")), "\n") {
		name, _, _ := strings.Cut(line, ":")
		if self := strings.TrimSpace(e.out(s.ID, "id -un")); name != "root" && name != "nobody" && name != self {
			e.Errorf("/etc/passwd has %q", line)
		}
	}
	if got := e.out(s.ID, "wc -l </etc/passwd"); len(strings.TrimSpace(got)) != 1 {
		e.Errorf("/etc/passwd has %s lines", got)
	}
}

// listen answers each connection with a word, on TCP and on an abstract socket.
func (e *env) listen() (port int, abstract string) {
	e.Helper()
	abstract = "wolffia-test-" + newTag()
	for network, addr := range map[string]string{"tcp": "127.0.0.1:0", "unix": "@" + abstract} {
		l, err := net.Listen(network, addr)
		e.OK(err)
		e.Cleanup(func() { _ = l.Close() })
		if a, ok := l.Addr().(*net.TCPAddr); ok {
			port = a.Port
		}
		go func() { // ends with the listener
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				_, _ = c.Write([]byte("reached\n"))
				_ = c.Close()
			}
		}()
	}
	return port, abstract
}

func connect(port int, abstract string) string {
	return fmt.Sprintf(`
attempt('tcp', lambda: socket.create_connection(('127.0.0.1', %d), 5).recv(9))
attempt('abstract', lambda: socket.socket(socket.AF_UNIX).connect('\0%s'))
`, port, abstract)
}

func noNetwork(e *env) {
	s := e.common()
	var interfaces []string
	for _, line := range strings.Split(e.out(s.ID, "cat /proc/net/dev"), "\n") {
		if name, _, ok := strings.Cut(line, ":"); ok {
			interfaces = append(interfaces, strings.TrimSpace(name))
		}
	}
	if strings.Join(interfaces, " ") != "lo" {
		e.Errorf("interfaces: %v", interfaces)
	}
	port, abstract := e.listen()
	e.refused(s.ID, connect(port, abstract)+`
attempt('somewhere', lambda: socket.create_connection(('192.0.2.1', 80), 5))
attempt('datagram', lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('192.0.2.1', 53)))
attempt('ipv6', lambda: socket.create_connection(('2001:db8::1', 80), 5))
`, 5)
}

func hostNetwork(e *env) {
	port, abstract := e.listen()
	s := e.start(&runtime.SandboxConfig{Network: runtime.NetworkHost})
	if s.Network != runtime.NetworkHost {
		e.Errorf("the network is %q", s.Network)
	}
	if got := e.python(s.ID, connect(port, abstract)); !strings.HasPrefix(got, "tcp works\n") {
		e.Errorf("python: got %q; want got begins with %q", got, "tcp works\n")
	}
}

// A directory in which something of the host's listens is not shown to a sandbox without
// a network, unless the socket is named too. A kernel of the sandbox's own does not
// connect to it.
func socketsInMounts(e *env) {
	dir := e.dir()
	socket := dir + "/s"
	l, err := net.Listen("unix", socket)
	e.OK(err)
	e.Cleanup(func() { _ = l.Close() })
	e.OK(os.Chmod(socket, 0o666))
	shown, named := runtime.Mount{Source: dir, Target: "/mnt/dir"}, runtime.Mount{Source: socket, Target: "/mnt/socket"}
	connect := func(path string) string {
		return fmt.Sprintf("attempt('%s', lambda: socket.socket(socket.AF_UNIX).connect('%[1]s'))\n", path)
	}
	if !e.has(HostKernel) {
		e.refused(e.start(&runtime.SandboxConfig{Mounts: []runtime.Mount{shown}}).ID, connect("/mnt/dir/s"), 1)
		return
	}
	s, err := e.rt.Create(e.Ctx, &runtime.SandboxConfig{Mounts: []runtime.Mount{shown}})
	e.OK(err)
	if err := e.rt.Start(e.Ctx, s.ID); runtime.Class(err) != runtime.ErrInvalid || !strings.Contains(err.Error(), socket) {
		e.Errorf("a sandbox with %s in a mount starts: %v", socket, err)
	}
	e.OK(e.rt.Destroy(e.Ctx, s.ID))
	s = e.start(&runtime.SandboxConfig{Mounts: []runtime.Mount{shown, named}})
	if got, want := e.python(s.ID, connect("/mnt/dir/s")+connect("/mnt/socket")), "/mnt/dir/s works\n/mnt/socket works\n"; got != want {
		e.Errorf("named: %q, want %q", got, want)
	}
	if e.has(Network) {
		s = e.start(&runtime.SandboxConfig{Mounts: []runtime.Mount{shown}, Network: runtime.NetworkHost})
		if got, want := e.python(s.ID, connect("/mnt/dir/s")), "/mnt/dir/s works\n"; got != want {
			e.Errorf("with a network: %q, want %q", got, want)
		}
	}
	// What listens no more is no reason.
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	e.OK(l.Close())
	wait.Until(e, "the socket is dead", func() bool { // a child of this process has a copy until it executes
		c, err := net.Dial("unix", socket)
		if err == nil {
			_ = c.Close()
		}
		return errors.Is(err, syscall.ECONNREFUSED)
	})
	e.start(&runtime.SandboxConfig{Mounts: []runtime.Mount{shown}})
}

func loopbackWorks(e *env) {
	s := e.start(nil)
	e.prints(s.ID, "getent hosts localhost | wc -l", "1\n")
	if got := e.python(s.ID, `
l = socket.create_server(('127.0.0.1', 0))
c = socket.create_connection(l.getsockname(), 5)
l.accept()[0].send(b'hello')
print(c.recv(5))
`); got != "b'hello'\n" {
		e.Errorf("python: got %q, want %q", got, "b'hello'\n")
	}
	// Another sandbox has a loopback of its own.
	p := e.process(s.ID, &runtime.Command{OpenStdin: true, Command: []string{
		"/usr/bin/python3", "-ISBc",
		"import socket; l = socket.create_server(('127.0.0.1', 8765)); print('ready', flush=True); input()",
	}})
	e.Expect(p.Stdout(), "ready\n")
	e.refused(e.start(nil).ID, "attempt('loopback', lambda: socket.create_connection(('127.0.0.1', 8765), 5))\n", 1)
}

// The value of a variable is secret: it is in no command line.
func secretsNotInArgv(e *env) {
	value := "secret-" + newTag()
	s := e.start(&runtime.SandboxConfig{Env: map[string]string{"TOKEN": value}})
	p := e.process(s.ID, &runtime.Command{Command: sh("echo $TOKEN $MORE; read x"), Env: map[string]string{"MORE": value}, OpenStdin: true})
	e.Expect(p.Stdout(), value+" "+value+"\n")
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	e.OK(err)
	for _, f := range files {
		if b, _ := os.ReadFile(f); strings.Contains(string(b), value) {
			e.Errorf("it is on a command line: %q", b)
		}
	}
}

// One sandbox is nothing to another.
func sandboxesApart(e *env) {
	a, b := e.start(nil), e.start(nil)
	e.prints(a.ID, "echo a | tee /tmp/f >$HOME/f; echo a >f; echo a >/dev/shm/f", "")
	e.prints(b.ID, "ls -A /tmp $HOME . /dev/shm | grep -x f; true", "")
	e.OK(e.rt.Destroy(e.Ctx, a.ID))
	e.prints(b.ID, "echo alive", "alive\n")
}
