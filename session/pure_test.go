package session

import (
	"slices"
	"strings"
	"testing"

	"wolffia/internal/proc"
)

func TestReports(t *testing.T) {
	const nonce = "n0nce"
	for name, tt := range map[string]struct {
		packets []string
		want    report
		ok      bool
	}{
		"whole":               {[]string{"\x00n0nce 7 /usr\x00"}, report{7, "/usr"}, true},
		"empty directory":     {[]string{"\x00n0nce 0 \x00"}, report{0, ""}, true},
		"newline":             {[]string{"\x00n0nce 0 /a\n", "b\x00"}, report{0, "/a\nb"}, true},
		"two newlines":        {[]string{"\x00n0nce 0 /a\n", "\n", "b c\x00"}, report{0, "/a\n\nb c"}, true},
		"other nonce":         {[]string{"\x00other 0 /\x00"}, report{}, false},
		"noise before":        {[]string{"noise", "\x00n0nce 1 /\x00"}, report{1, "/"}, true},
		"half a forgery":      {[]string{"\x00x 0 /", "\x00n0nce 1 /\x00"}, report{1, "/"}, true},
		"forgery in one":      {[]string{"\x00x 0 /\x00n0nce 2 /\x00"}, report{2, "/"}, true},
		"status too large":    {[]string{"\x00n0nce 256 /\x00"}, report{}, false},
		"status not a number": {[]string{"\x00n0nce x /\x00"}, report{}, false},
		"no status":           {[]string{"\x00n0nce \x00"}, report{}, false},
		"empty":               {[]string{""}, report{}, false},
		"only NUL":            {[]string{"\x00"}, report{}, false},
	} {
		var r reports
		var got report
		ok := false
		for _, p := range tt.packets {
			got, ok = r.add([]byte(p), nonce)
		}
		if got != tt.want || ok != tt.ok {
			t.Errorf("%s: %+v, %v", name, got, ok)
		}
	}
	var r reports
	long := strings.Repeat("x", maxReport)
	r.add([]byte("\x00n0nce 3 "+long+"\n"), nonce)
	if got, ok := r.add([]byte(long+"\x00"), nonce); !ok || got.status != 3 || len(got.pwd) > maxReport {
		t.Errorf("a long directory: %v, status %d, %d bytes", ok, got.status, len(got.pwd))
	}
}

// FuzzReports: whatever the packets hold, memory is bounded, and the true
// report that follows is found.
func FuzzReports(f *testing.F) {
	f.Add([]byte("\x00x 0 /\x00"), []byte("\x00"))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		const nonce = "n0nce"
		if strings.Contains(string(a)+string(b), nonce) {
			return
		}
		var r reports
		for _, p := range [][]byte{a, b} {
			if rep, ok := r.add(p, nonce); ok {
				t.Fatalf("%+v out of nothing", rep)
			}
			if len(r.buf) > maxReport {
				t.Fatalf("%d bytes are kept", len(r.buf))
			}
		}
		if rep, ok := r.add([]byte("\x00n0nce 9 /d\x00"), nonce); !ok || rep != (report{9, "/d"}) {
			t.Errorf("%+v, %v", rep, ok)
		}
	})
}

func TestPacketsAreShort(t *testing.T) {
	for _, d := range []dialect{{}, {posix: true}} {
		if n := d.longest("/run/.w/9999", strings.Repeat("n", 18)); n > maxPacket {
			t.Errorf("%+v: %d bytes", d, n)
		}
		for _, p := range slices.Concat(d.start("/d/x", "/d/g"), d.repair(), []string{d.run("/d", streams{}, fifos{}, carryName), d.report("n"), d.settle()}) {
			if !strings.HasSuffix(p, "\n") || strings.Contains(p, "\x00") {
				t.Errorf("%q", p)
			}
		}
	}
}

func TestStatements(t *testing.T) {
	in := "declare -- a=\"1\n2\"\ndeclare -a b=([0]=\"x)\" [1]=$'q\\'\n')\ndeclare -- c=\"\\\"\n\"\n\nalias x='a\n'\\''b'\ndeclare -x d\nopen 'x\n"
	want := []string{
		"declare -- a=\"1\n2\"", "declare -a b=([0]=\"x)\" [1]=$'q\\'\n')", "declare -- c=\"\\\"\n\"",
		"alias x='a\n'\\''b'", "declare -x d",
	}
	if got := statements([]byte(in)); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// FuzzSnapshot: whatever a shell says of its state, nothing breaks.
func FuzzSnapshot(f *testing.F) {
	f.Add([]byte("\x00vars\x00declare -- a=\"1\"\n\x00options\x00set -o errexit\n\x00end\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, d := range []dialect{{}, {posix: true}} {
			if s, ok := parseSnapshot(d, b); ok {
				for _, why := range []purpose{afterExit, afterKill, forAttach, afterError} {
					s.restore("/d", why)
				}
			}
		}
	})
}

func TestBelongs(t *testing.T) {
	const shell = 10
	all := []proc.Process{
		{PID: 10, Parent: 1, Group: 10, Session: 10, Start: 1},
		{PID: 11, Parent: 10, Group: 11, Session: 10, Start: 5},             // a child
		{PID: 12, Parent: 11, Group: 12, Session: 12, Start: 6},             // its child, in another session
		{PID: 13, Parent: 1, Group: 13, Session: 10, Start: 6},              // an orphan in the session
		{PID: 14, Parent: 1, Group: 14, Session: 14, Start: 6},              // a daemon that holds a stream
		{PID: 15, Parent: 1, Group: 15, Session: 15, Start: 6},              // somebody else's
		{PID: 20, Parent: 10, Group: 20, Session: 10, Start: 2},             // an earlier job
		{PID: 21, Parent: 20, Group: 20, Session: 10, Start: 7},             // its new child
		{PID: 22, Parent: 20, Group: 22, Session: 22, Start: 7},             // another, in a session of its own
		{PID: 30, Parent: 10, Group: 30, Session: 10, Start: 9},             // the number of an earlier one, used again
		{PID: 31, Parent: 10, Group: 31, Session: 10, Start: 9, State: 'Z'}, // dead
	}
	s := &scope{
		shell: shell, before: map[int]uint64{20: 2, 30: 3}, groups: map[int]bool{20: true},
		holds: func(pid int) bool { return pid == 14 },
	}
	var got []int
	for _, p := range s.find(all) {
		got = append(got, p.PID)
	}
	if want := []int{11, 12, 13, 14, 30}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
