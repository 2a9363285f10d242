package probe

import (
	"context"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"wolffia/internal/host/cause"
)

func TestAll(t *testing.T) {
	results := All(t.Context())
	var names []Feature
	required := 0
	for _, r := range results {
		names = append(names, r.Feature)
		if r.Required {
			required++
		}
		if r.Allows == "" || r.OK == (r.Found == "") && r.Problem == "" || !r.OK && r.Problem == "" {
			t.Errorf("it does not say enough: %+v", r)
		}
		t.Logf("%+v", r)
	}
	var want []Feature
	for _, f := range features() {
		want = append(want, f.name)
	}
	if !slices.Equal(names, want) || required != 4 {
		t.Errorf("%d required of %q", required, names)
	}
	defer func() {
		if recover() == nil {
			t.Error("a feature that does not exist was probed")
		}
	}()
	Check(t.Context(), "moon")
}

// TestCanceled: a probe that would take longer ends with the context.
func TestCanceled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	block := make(chan struct{})
	defer close(block)
	slow := feature{name: "slow", probe: func(context.Context, *host) Result {
		<-block
		return Result{OK: true}
	}}
	pending := slow.start(ctx, &host{})
	cancel()
	if r := <-pending; r.OK || !strings.Contains(r.Problem, "no answer") || r.Feature != "slow" {
		t.Errorf(`got r %+v; want not r.OK and r.Problem contains "no answer" and r.Feature == "slow"`, r)
	}
	for _, r := range All(ctx) {
		if r.OK && r.Feature != Fuse && r.Problem != "" {
			t.Errorf(`got r %+v; want not r.OK or r.Feature == Fuse or r.Problem == ""`, r)
		}
	}
}

// TestInSandbox probes in a sandbox that allows no user namespaces.
func TestInSandbox(t *testing.T) {
	if os.Getenv("PROBE_INSIDE") != "" {
		r := Check(t.Context(), UserNamespaces)
		if r.OK || !strings.Contains(r.Problem, "allows no more") {
			t.Errorf(`Check: got r %+v; want not r.OK and r.Problem contains "allows no more"`, r)
		}
		r = Check(t.Context(), Bubblewrap)
		if r.OK || !strings.Contains(r.Problem, "feature userns") {
			t.Errorf(`Check: got r %+v; want not r.OK and r.Problem contains "feature userns"`, r)
		}
		r = Check(t.Context(), Fuse)
		if r.OK {
			t.Errorf("Check: got r %+v; want not r.OK", r)
		}
		return
	}
	if r := Check(t.Context(), Bubblewrap); !r.OK {
		t.Skip(r.Problem)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bwrap", "--unshare-user", "--unshare-pid", "--disable-userns", "--die-with-parent",
		"--bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "--setenv", "PROBE_INSIDE", "1", "--",
		os.Args[0], "-test.run=^TestInSandbox$")
	cmd.WaitDelay = time.Second
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("CombinedOutput: got err %v, out %s; want err == nil", err, out)
	}
}

// TestMountStays: what the probe mounts is not seen here.
func TestMountStays(t *testing.T) {
	before := readFile("/proc/self/mountinfo")
	Check(t.Context(), UserNamespaces)
	if after := readFile("/proc/self/mountinfo"); strings.Count(after, " /proc ") != strings.Count(before, " /proc ") {
		t.Errorf("before\n%s\nafter\n%s", before, after)
	}
}

func TestPing(t *testing.T) {
	for _, tt := range []struct{ name, answer, want string }{
		{"Docker", "HTTP/1.0 200 OK\r\nServer: Docker/20.10.24+dfsg1 (linux)\r\n\r\n{\"ServerVersion\": \"20.10.24+dfsg1\", \"SecurityOptions\": [\"name=seccomp,profile=default\"]}", "Docker/20.10.24+dfsg1 (linux)"},
		{"Podman", "HTTP/1.0 200 OK\r\nServer: Libpod/5 (linux)\r\n\r\n{\"ServerVersion\": \"5.1\"}", "Libpod/5 (linux) 5.1"},
		{"nameless", "HTTP/1.1 200 OK\r\n\r\n{}", "an unnamed engine"},
		{"escape", "HTTP/1.1 200 OK\nserver: a\x1b[2Jb\n\n{}", "a[2Jb"},
		{"no JSON", "HTTP/1.1 200 OK\n\nOK", ""},
		{"rootless", "HTTP/1.1 200 OK\nServer: D\n\n{\"SecurityOptions\": [\"name=rootless\"]}", ""},
		{"userns-remap", "HTTP/1.1 200 OK\nServer: D\n\n{\"SecurityOptions\": [\"name=userns\"]}", ""},
		{"refused", "HTTP/1.1 403 Forbidden\r\n\r\n", ""},
		{"other", "SSH-2.0\r\n", ""},
		{"silent", "", ""},
		{"long", "HTTP/1.1 200 " + strings.Repeat("x", 1<<20), ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			sock := filepath.Join(t.TempDir(), "s")
			l, err := net.Listen("unix", sock)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			go func() { // ends with the connection
				c, err := l.Accept()
				if err != nil {
					return
				}
				defer c.Close()
				_, _ = c.Read(make([]byte, 1024))
				_, _ = io.WriteString(c, tt.answer)
			}()
			t.Setenv("DOCKER_HOST", "unix://"+sock)
			r := Check(t.Context(), Docker)
			if r.OK != (tt.want != "") || r.OK && r.Found != tt.want+" at unix://"+sock {
				t.Errorf(`Check: got r %+v; want r.OK == tt.want != "" and (not r.OK or r.Found == %q)`, r, tt.want+" at unix://"+sock)
			}
		})
	}
	t.Setenv("DOCKER_HOST", "ssh://host")
	if r := Check(t.Context(), Docker); r.OK || !strings.Contains(r.Problem, "unix://") {
		t.Errorf(`Check: got r %+v; want not r.OK and r.Problem contains "unix://"`, r)
	}
}

func TestVersion(t *testing.T) {
	for text, want := range map[string][]int{
		"bubblewrap 0.8.0": {0, 8, 0}, "bubblewrap 0.11.0-rc1": {0, 11, 0}, "no": nil, "": nil, "99999999.1": {9999999},
	} {
		if got := version(text); !slices.Equal(got, want) {
			t.Errorf("%q: got %v, want %v", text, got, want)
		}
	}
	if !cause.TooOld([]int{0, 7, 9}) || cause.TooOld([]int{0, 8, 0}) || cause.TooOld([]int{0, 10}) {
		t.Error("versions do not compare")
	}
}
