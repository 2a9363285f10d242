package local

import (
	"maps"
	"testing"
)

func TestMergeEnv(t *testing.T) {
	got := mergeEnv(
		[]string{"PATH=/bin", "A=1", "A=2", "E=", "EQ=a=b", "no value", "=x", "with space=1", "1X=1", "NUL=a\x00b", "BAD=\xff", "HOME=/root", "USER=root", "LOGNAME=root", "SHELL=/bin/ash"},
		map[string]string{"A": "mine", "OWN": "1", "LOGNAME": "mine"})
	want := map[string]string{"PATH": "/bin", "A": "mine", "E": "", "EQ": "a=b", "OWN": "1", "LOGNAME": "mine", "SHELL": "/bin/ash"}
	if !maps.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
