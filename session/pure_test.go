package session

import (
	"slices"
	"strings"
	"testing"
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
		if n := d.longest("/run/.w/9999", strings.Repeat("n", 26)); n > maxPacket {
			t.Errorf("%+v: %d bytes", d, n)
		}
		for _, p := range slices.Concat(d.start("/d/x", "/d/g"), d.repair(), []string{d.run("/d", streams{}, fifos{}, statusName), d.report("n")}) {
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

// A signal reaches the shell of a job before what it waits for.
func TestEldestFirst(t *testing.T) {
	starts := map[int]uint64{12: 7, 9: 8, 11: 7, 3: 9, 10: 8} // 3: numbers begin anew
	for range 20 {                                            // a map has no order
		if got, want := eldestFirst(starts), []int{11, 12, 9, 10, 3}; !slices.Equal(got, want) {
			t.Fatalf("%v, want %v", got, want)
		}
	}
}
