package userns

import (
	"strings"
	"testing"
)

func TestRanges(t *testing.T) {
	const text = "# of root\nroot:1:65535\n\nann:100000:65536\nbob:165536:1000\nbob:200000:65536\n 1007:300000:65535 \n" +
		"bad\nbad:x:1\nbad:0:65536\nbad:4294967295:65536\nbad:1:99999999999\nzoe:4000:65536\n"
	all := parse(text)
	if len(all) != 6 {
		t.Errorf("%d ranges: %v", len(all), all)
	}
	for _, tt := range []struct {
		name string
		uid  int
		want int // 0: none
	}{
		{"ann", 1000, 100000},
		{"bob", 1001, 200000}, // the first is too small
		{"carl", 1007, 300000},
		{"1007", 1007, 300000},
		{"nobody", 65534, 0},
		{"bad", 1, 0},
		{"zoe", 5000, 0}, // has its own id
		{"zoe", 1000, 4000},
	} {
		got, ok := own(all, tt.name, tt.uid)
		if got != tt.want || ok != (tt.want > 0) {
			t.Errorf("%s, %d: %d, %v, want %d", tt.name, tt.uid, got, ok, tt.want)
		}
	}
	if got := free(all); got != 365535 {
		t.Errorf("free: %d", got)
	}
	if got := free(nil); got != 100000 {
		t.Errorf("free of no ranges: %d", got)
	}
}

// What helps names the user as the program takes it, and ids that no other user has.
func TestFix(t *testing.T) {
	for name, want := range map[string]string{
		"ann":   "usermod --add-subuids 165536-231071 --add-subgids 165536-231071 ann",
		"60990": "sh -c 'echo 60990:165536:65536 | tee -a /etc/subuid /etc/subgid'",
	} {
		if got := fix(name, free(parse("bob:100000:65536"))); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// No directory that a user writes to decides which newuidmap is executed.
func TestHelper(t *testing.T) {
	dirs := helperDirs
	defer func() { helperDirs = dirs }()
	helperDirs = []string{t.TempDir()}
	t.Setenv("PATH", "/usr/bin")
	if path, err := helper("newuidmap"); err == nil || !strings.Contains(err.Error(), "apt-get install uidmap") {
		t.Errorf("%s, %v", path, err)
	}
	helperDirs = []string{"/etc"} // a file of root's, but of no regular kind
	if path, err := helper("alternatives"); err == nil {
		t.Error(path)
	}
}
