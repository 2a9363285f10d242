package userns_test

import (
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"

	"wolffia/internal/host/boot"
	"wolffia/internal/host/probe"
	"wolffia/internal/sys/child"
	"wolffia/internal/sys/userns"
	"wolffia/internal/test/testenv"
)

// start has a stage execute a program, and returns what that has printed, and what the stage has reported.
func start(t *testing.T, uid, gid int, path string, args ...string) (out, report string) {
	t.Helper()
	stage, err := userns.Stage()
	if err != nil {
		t.Fatal(err)
	}
	defer stage.Close()
	printed, print, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer printed.Close()
	reported, ready, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer reported.Close()
	files := make([]*os.File, boot.FDReady+1)
	files[userns.FD], files[2], files[boot.FDReady] = stage, print, ready
	_, err = child.Start(&child.Command{
		Path: userns.Path, Args: userns.Args(uid, gid, path, args), Env: []string{"A=b", "PATH=/usr/bin:/bin"}, Files: files,
	})
	if err != nil {
		t.Fatal(err)
	}
	_, _ = print.Close(), ready.Close()
	for to, from := range map[*string]*os.File{&out: printed, &report: reported} {
		b, err := io.ReadAll(from)
		if err != nil {
			t.Fatal(err)
		}
		*to = string(b)
	}
	return out, report
}

// The program is user 0 of namespaces of its own, has its arguments and its environment, and no descriptor of the stage.
func TestStage(t *testing.T) {
	testenv.Need(t, probe.UserNamespaces)
	if os.Geteuid() == 0 {
		t.Skip("local uses no stage for root")
	}
	const script = `echo $0 $1 $A $(id -u) $(id -g) $(cat /proc/self/setgroups /proc/self/uid_map /proc/self/gid_map) $(readlink /proc/self/ns/user /proc/self/ns/mnt /proc/$$/fd/1)>&2`
	out, report := start(t, os.Geteuid(), os.Getegid(), "/bin/sh", "sh", "-c", script, "zero", "one")
	if report != "" {
		t.Errorf("it reports %q", report)
	}
	got := strings.Fields(out)
	want := fmt.Sprintf("zero one b 0 0 deny 0 %d 1 0 %d 1", os.Geteuid(), os.Getegid())
	if len(got) != 15 || strings.Join(got[:12], " ") != want {
		t.Fatalf("%q, want %q and the namespaces", out, want)
	}
	for i, name := range []string{"user", "mnt"} {
		if own, err := os.Readlink("/proc/self/ns/" + name); err != nil || own == got[12+i] {
			t.Errorf("the namespace %s: %s, and this process has %s (%v)", name, got[12+i], own, err)
		}
	}
	if got[14] != "/dev/null" {
		t.Errorf("descriptor 1 is %s", got[14])
	}
}

// A stage that fails says where, and with which error.
func TestStageFails(t *testing.T) {
	testenv.Need(t, probe.UserNamespaces)
	if os.Geteuid() == 0 {
		t.Skip("local uses no stage for root")
	}
	for _, tt := range []struct {
		uid  int
		path string
		want userns.Failure
	}{
		{os.Geteuid() + 1, "/bin/true", userns.Failure{Errno: syscall.EPERM}}, // of another user
		{os.Geteuid(), "/no/such", userns.Failure{Errno: syscall.ENOENT, Exec: true}},
		{os.Geteuid(), "/dev/null", userns.Failure{Errno: syscall.EACCES, Exec: true}},
	} {
		out, report := start(t, tt.uid, os.Getegid(), tt.path, "x")
		got, ok := userns.Failed([]byte(strings.TrimSuffix(report, "\n")))
		if !ok || got != tt.want || out != "" {
			t.Errorf("%d, %s: %q, %+v; printed %q", tt.uid, tt.path, report, got, out)
		}
	}
	for _, line := range []string{"", "!", `{"ready":true}`, "!nab2"} {
		if f, ok := userns.Failed([]byte(line)); ok {
			t.Errorf("%q is taken for a stage's: %+v", line, f)
		}
	}
}
