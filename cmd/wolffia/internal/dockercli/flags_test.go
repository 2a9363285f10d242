package dockercli

import (
	"testing"

	"github.com/spf13/pflag"
)

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
	} {
		f, fl := new(createFlags), pflag.NewFlagSet("run", pflag.ContinueOnError)
		f.add(fl)
		if err := fl.Parse(c.args); err != nil {
			t.Fatal(err)
		}
		got, err := f.config(fl.Args())
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
