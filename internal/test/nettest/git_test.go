package nettest

import (
	"context"
	"net"
	"net/http"
	"net/http/cgi"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"wolffia/internal/test/suite"
)

// serveGit makes a bare repository in dir and serves it over HTTP. It returns the repository's path.
func serveGit(t *testing.T, dir string, mux *http.ServeMux) string {
	t.Helper()
	bare := filepath.Join(dir, "git", "repo.git")
	work := filepath.Join(dir, "git", "work")
	suite.Git(t, dir, "init", "-q", "--bare", bare)
	suite.Git(t, dir, "init", "-q", work)
	if err := os.WriteFile(filepath.Join(work, "README"), []byte("cloned\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	suite.Git(t, work, "add", "README")
	suite.Git(t, work, "-c", "user.name=tester", "-c", "user.email=tester@example.invalid", "commit", "-qm", "first")
	suite.Git(t, work, "push", "-q", bare, "HEAD:refs/heads/main")
	suite.Git(t, bare, "symbolic-ref", "HEAD", "refs/heads/main")
	mux.Handle("/git/", &cgi.Handler{
		Path: "/bin/sh", Args: []string{"-c", "exec git http-backend"}, Root: "/git",
		Env: []string{"GIT_PROJECT_ROOT=" + filepath.Dir(bare), "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_GLOBAL=/dev/null", "PATH=" + os.Getenv("PATH")},
	})
	return bare
}

// newSSH makes keys in dir, for a server and for clients, and their files. It returns the server's
// configuration, "" if there is no server.
func newSSH(t *testing.T, dir string) (config string) {
	t.Helper()
	if sshd() == "" || os.Geteuid() == 0 { // root's needs a user and a directory of the system
		return ""
	}
	for _, name := range []string{"host", "user"} {
		out, err := exec.CommandContext(t.Context(), "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", filepath.Join(dir, name)).CombinedOutput()
		if err != nil {
			t.Fatalf("ssh-keygen: %v: %s", err, out)
		}
	}
	public, err := os.ReadFile(filepath.Join(dir, "host.pub"))
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"known_hosts": "* " + string(public),
		"sshd_config": strings.Join([]string{
			"HostKey " + filepath.Join(dir, "host"), "AuthorizedKeysFile " + filepath.Join(dir, "user.pub"),
			"StrictModes no", "UsePAM no", "PasswordAuthentication no", "PidFile none", "",
		}, "\n"),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "sshd_config")
}

// sshd returns the path of the SSH server, "" if it is not installed.
func sshd() string {
	for _, name := range []string{"sshd", "/usr/sbin/sshd"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

// serveSSH serves one connection.
func serveSSH(c net.Conn, config string) {
	tcp, is := c.(*net.TCPConn)
	if config == "" || !is {
		return
	}
	f, err := tcp.File()
	if err != nil {
		return
	}
	defer f.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute) // a guard against a hang
	defer cancel()
	cmd := exec.CommandContext(ctx, sshd(), "-i", "-f", config)
	cmd.Stdin, cmd.Stdout = f, f
	_ = cmd.Run() // the client reports
}
