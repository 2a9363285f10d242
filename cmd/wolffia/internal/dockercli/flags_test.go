package dockercli

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/pflag"

	"wolffia/runtime"
)

// parsed returns what a command line of run asks for.
func parsed(args ...string) (*creation, error) {
	f, fl := new(creation), pflag.NewFlagSet("run", pflag.ContinueOnError)
	fl.SetInterspersed(false)
	f.add(fl)
	err := fl.Parse(args)
	if err == nil {
		err = f.finish(fl.Args())
	}
	return f, err
}

// What a command line asks for is not dropped, and not weakened.
func TestFlags(t *testing.T) {
	for _, c := range []struct {
		args     []string
		ok       bool
		readOnly bool
	}{
		{[]string{"--mount", "type=bind,src=/a,dst=/b,readonly=TRUE", "x"}, true, true},
		{[]string{"--mount", "type=bind,src=/a,dst=/b,ro", "x"}, true, true},
		{[]string{"--mount", "type=bind,src=/a,dst=/b,ro=false", "x"}, true, false},
		{[]string{"--mount", "type=bind,src=/a,dst=/b,ro=yes", "x"}, false, false},
		{[]string{"--mount", "type=bind,src=/a,dst=/b,bind-propagation=shared", "x"}, false, false},
		{[]string{"--pull", "nevr", "x"}, false, false},
		{[]string{"-v", "data", "x"}, false, false},
		{[]string{"-v", "/data", "x"}, true, false},
		{[]string{"-p", "80-90:80-90", "x"}, false, false},
		{[]string{"--platform", "linux/none", "x"}, false, false},
		{[]string{"--memory", "much", "x"}, false, false},
		{[]string{"--cpus", "many", "x"}, false, false},
	} {
		got, err := parsed(c.args...)
		if (err == nil) != c.ok {
			t.Errorf("%q: %v, want success: %v", c.args, err, c.ok)
		} else if c.ok && len(got.HostConfig.Mounts) > 0 && got.HostConfig.Mounts[0].ReadOnly != c.readOnly {
			t.Errorf("%q: it can be written: %v", c.args, c.readOnly)
		}
	}
	for name, counts := range map[string][2]int{
		"run": {1, 99}, "logs": {1, 1}, "cp": {2, 2}, "port": {1, 2}, "ps": {0, 0}, "images": {0, 1}, "pull": {1, 1},
		"build": {1, 1}, "tag": {2, 2}, "stop": {1, 99}, "rmi": {1, 99}, "version": {0, 0},
	} {
		one := commands[name]
		for _, n := range []int{counts[0] - 1, counts[0], counts[1], counts[1] + 1} {
			ok := n >= counts[0] && (n <= counts[1] || counts[1] == 99)
			if err := one.takes(name, n); (err == nil) != ok {
				t.Errorf("%s with %d arguments: %v, want success: %v", name, n, err, ok)
			}
		}
	}
}

// Each flag sets the field that the API's JSON sets.
func TestConfig(t *testing.T) {
	file := filepath.Join(t.TempDir(), "env")
	if err := os.WriteFile(file, []byte("# none\nA=file\nB=file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := parsed("-it", "--rm", "-e", "A=flag", "--env-file", file, "-m", "1g", "--cpus", "0.5", "--pids-limit", "-1",
		"-l", "k=v", "-p", "[::1]:81:80", "--expose", "90", "--entrypoint", "sh", "--stop-timeout", "3", "-w", "/w", "x", "-c", "true")
	if err != nil {
		t.Fatal(err)
	}
	h := f.HostConfig
	for name, ok := range map[string]bool{
		"image": f.Image == "x" && len(f.Cmd) == 2 && f.Entrypoint[0] == "sh", "streams": f.Tty && f.OpenStdin && f.AttachStdin,
		"limits": h.Memory == 1<<30 && h.NanoCpus == 5e8 && *h.PidsLimit == -1 && *f.StopTimeout == 3,
		"ports":  h.PortBindings["80/tcp"][0].HostIP == "::1" && h.PortBindings["80/tcp"][0].HostPort == "81" && len(f.ExposedPorts) == 2,
		"labels": f.Labels["k"] == "v" && h.AutoRemove && f.WorkingDir == "/w",
		"env":    len(f.Env) == 3 && f.Env[0] == "A=file" && f.Env[2] == "A=flag", // the last one counts
	} {
		if !ok {
			t.Errorf("%s: %+v", name, f.Config)
		}
	}
}

// The file for the id of a container is there before the container, and not without it.
func TestCIDFile(t *testing.T) {
	dir := t.TempDir()
	exists, absent := filepath.Join(dir, "exists"), filepath.Join(dir, "absent")
	if err := os.WriteFile(exists, []byte("id"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{exists, filepath.Join(dir, "none", "id"), absent} {
		f, err := parsed("--cidfile", file, "-v", "/proc/none/x:/y", "x") // no directory can be made there
		if err != nil {
			t.Fatal(err)
		}
		if _, err := new(client).create(f, []string{"x"}); !errors.Is(err, runtime.ErrInvalid) {
			t.Errorf("%s: %v", file, err)
		}
	}
	if text, err := os.ReadFile(exists); err != nil || string(text) != "id" {
		t.Errorf("another container's file: %q, %v", text, err)
	}
	if _, err := os.Lstat(absent); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file without a container: %v", err)
	}
}
