package forward

import (
	"io"
	"slices"
	"strings"
	"testing"
)

func TestAddresses(t *testing.T) {
	for text, want := range map[string][]address{
		"  Local:   http://localhost:\x1b[1m5173\x1b[22m/\n":                     {{"http", 5173}},
		"Serving HTTP on 0.0.0.0 port 8000 (http://0.0.0.0:8000/) ...":           {{"http", 8000}},
		"https://[::1]:8443 and http://127.0.0.1:80\n":                           {{"https", 8443}, {"http", 80}},
		"Listening on port 3000\n":                                               {{"", 3000}},
		"listening on 127.0.0.1:4000\n":                                          {{"", 4000}},
		"http://example.com:80/ http://localhost/ http://localhost:99999/ x://y": nil,
		"http://localhost:51":                                                    nil, // the rest may follow
	} {
		if got := addresses([]byte(text)); !slices.Equal(got, want) {
			t.Errorf("%q: got %v, want %v", text, got, want)
		}
	}
}

// An address that comes in pieces is found, and once.
func TestWatcher(t *testing.T) {
	a := &Auto{seen: map[int]bool{80: true, 5173: true}}
	w := &watcher{auto: a, w: io.Discard}
	for _, text := range []string{"http://local", "host:51", "73/\n", "http://localhost:80/\n"} {
		if n, err := w.Write([]byte(text)); n != len(text) || err != nil {
			t.Errorf("write %q: %d, %v", text, n, err)
		}
	}
	long := strings.Repeat("x", 5000)
	w2 := &watcher{}
	for text, want := range map[string]bool{long + "http://local": false, "host:5173/" + long: true, long + "http://localhost:5173/" + long: true} {
		_ = w2.look([]byte(long))
		if strings.HasPrefix(text, "host") {
			_ = w2.look([]byte(long + "http://local"))
		}
		if got := slices.Contains(w2.look([]byte(text)), address{"http", 5173}); got != want {
			t.Errorf("an address in a long write: %v, want %v", got, want)
		}
	}
	if got := addresses(append(w.rest, '\n')); !slices.Equal(got, []address{{"http", 5173}, {"http", 80}}) {
		t.Errorf("the end of the stream has %v", got)
	}
}
