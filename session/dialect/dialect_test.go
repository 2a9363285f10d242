package dialect

import (
	"slices"
	"strings"
	"testing"
)

func TestReports(t *testing.T) {
	const nonce = "n0nce"
	for name, tt := range map[string]struct {
		packets []string
		want    Report
		ok      bool
	}{
		"whole":               {[]string{"\x00n0nce 7 /usr\x00"}, Report{7, "/usr"}, true},
		"empty directory":     {[]string{"\x00n0nce 0 \x00"}, Report{0, ""}, true},
		"newline":             {[]string{"\x00n0nce 0 /a\n", "b\x00"}, Report{0, "/a\nb"}, true},
		"two newlines":        {[]string{"\x00n0nce 0 /a\n", "\n", "b c\x00"}, Report{0, "/a\n\nb c"}, true},
		"other nonce":         {[]string{"\x00other 0 /\x00"}, Report{}, false},
		"noise before":        {[]string{"noise", "\x00n0nce 1 /\x00"}, Report{1, "/"}, true},
		"half a forgery":      {[]string{"\x00x 0 /", "\x00n0nce 1 /\x00"}, Report{1, "/"}, true},
		"forgery in one":      {[]string{"\x00x 0 /\x00n0nce 2 /\x00"}, Report{2, "/"}, true},
		"status too large":    {[]string{"\x00n0nce 256 /\x00"}, Report{}, false},
		"status not a number": {[]string{"\x00n0nce x /\x00"}, Report{}, false},
		"no status":           {[]string{"\x00n0nce \x00"}, Report{}, false},
		"empty":               {[]string{""}, Report{}, false},
		"only NUL":            {[]string{"\x00"}, Report{}, false},
	} {
		var r Reports
		var got Report
		ok := false
		for _, p := range tt.packets {
			got, ok = r.Add([]byte(p), nonce)
		}
		if got != tt.want || ok != tt.ok {
			t.Errorf("%s: got %+v, %v; want %+v, %v", name, got, ok, tt.want, tt.ok)
		}
	}
	var r Reports
	long := strings.Repeat("x", MaxReport)
	r.Add([]byte("\x00n0nce 3 "+long+"\n"), nonce)
	if got, ok := r.Add([]byte(long+"\x00"), nonce); !ok || got.Status != 3 || len(got.PWD) > MaxReport {
		t.Errorf("a long directory: %v, status %d, %d bytes", ok, got.Status, len(got.PWD))
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
		var r Reports
		for _, p := range [][]byte{a, b} {
			if rep, ok := r.Add(p, nonce); ok {
				t.Fatalf("%+v out of nothing", rep)
			}
			if len(r.buf) > MaxReport {
				t.Fatalf("%d bytes are kept", len(r.buf))
			}
		}
		if rep, ok := r.Add([]byte("\x00n0nce 9 /d\x00"), nonce); !ok || rep != (Report{9, "/d"}) {
			t.Errorf(`Add: got rep %+v, ok %v; want ok and rep == Report{9, "/d"}`, rep, ok)
		}
	})
}

func TestPacketsAreShort(t *testing.T) {
	for _, d := range []Dialect{{}, {POSIX: true}} {
		if n := d.Longest("/run/.w/9999", strings.Repeat("n", 26)); n > MaxPacket {
			t.Errorf("%+v: %d bytes", d, n)
		}
		for _, p := range slices.Concat(d.Start("/d/x", "/d/g"), d.Repair(), []string{d.Run("/d", Streams{}, FIFOs{}, StatusName), d.Report("n")}) {
			if !strings.HasSuffix(p, "\n") || strings.Contains(p, "\x00") {
				t.Errorf("got p %q; want p ends with %q and p does not contain %q", p, "\n", "\x00")
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
		t.Errorf("statements: got %q, want %q", got, want)
	}
}

// FuzzSnapshot: whatever a shell says of its state, nothing breaks.
func FuzzSnapshot(f *testing.F) {
	f.Add([]byte("\x00vars\x00declare -- a=\"1\"\n\x00options\x00set -o errexit\n\x00end\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, d := range []Dialect{{}, {POSIX: true}} {
			if s, ok := ParseSnapshot(d, b); ok {
				for _, why := range []Purpose{AfterExit, AfterKill, ForAttach, AfterError} {
					s.Restore("/d", why)
				}
			}
		}
	})
}

func TestUnattended(t *testing.T) {
	for _, tt := range []struct{ env, want []string }{
		{nil, unattended},
		{[]string{"A=b", "EDITOR=", "PAGER=less"}, []string{"DEBIAN_FRONTEND=noninteractive", "GIT_TERMINAL_PROMPT=0"}},
		{unattended, nil},
	} {
		if got := Unattended(tt.env); !slices.Equal(got, tt.want) {
			t.Errorf("%q: %q, want %q", tt.env, got, tt.want)
		}
	}
}
