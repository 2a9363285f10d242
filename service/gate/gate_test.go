package gate_test

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"wolffia/runtime"
	"wolffia/service"
	"wolffia/service/gate"
	"wolffia/service/registry"
)

const one, two = "0123456789abcdef", "fedcba9876543210-z"

// keyFile writes a key file.
func keyFile(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestReadKeys(t *testing.T) {
	for content, wrong := range map[string]string{
		one:                               "",
		"# a comment\n\n" + one + "\r\n":  "",
		one + " acme/web/zoe\n" + two:     "",
		"":                                "no key",
		"# only this\n":                   "no key",
		"short\n":                         "line 1: a key has",
		one + "\n" + one + " a/b/c\n":     "line 2: the key occurs twice",
		one + " acme/web\n":               "line 1: what follows the key",
		one + " acme//zoe\n":              "line 1: what follows the key",
		strings.Repeat("k", 513):          "line 1: a key has",
		one + "\x00\n":                    "line 1: a key has",
		strings.Repeat("# long\n", 1<<18): "more than",
	} {
		_, err := gate.ReadKeys(keyFile(t, content))
		switch {
		case wrong == "" && err != nil:
			t.Errorf(`%.40q: got err %v; want wrong != "" or err == nil`, content, err)
		case wrong != "" && (runtime.Class(err) != runtime.ErrInvalid || !strings.Contains(err.Error(), wrong)):
			t.Errorf("%.40q: %v, want %q", content, err, wrong)
		case err != nil && strings.Contains(err.Error(), one):
			t.Errorf("the error shows a key: %v", err)
		}
	}
}

func TestKeyFilesOfOthers(t *testing.T) {
	path := keyFile(t, one)
	for _, mode := range []os.FileMode{0o640, 0o604, 0o620, 0o666} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		if _, err := gate.ReadKeys(path); runtime.Class(err) != runtime.ErrInvalid || !strings.Contains(err.Error(), "chmod 600") {
			t.Errorf("mode %v: %v", mode, err)
		}
	}
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	link, fifo := path+".link", path+".fifo"
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, odd := range []string{link, fifo, filepath.Dir(path), path + ".missing"} {
		if _, err := gate.ReadKeys(odd); err == nil {
			t.Errorf("%s is taken", odd)
		}
	}
}

// ask returns what a gate says of a request with these headers.
func ask(g *gate.Gate, host string, headers ...string) (service.Caller, string) {
	r := httptest.NewRequest(http.MethodGet, "/v1/sandboxes", nil)
	r.Host = host
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	c, err := g.Admit(r)
	if err != nil {
		return c, err.(*gate.Refusal).Code
	}
	return c, ""
}

func TestHostAndOrigin(t *testing.T) {
	g := gate.New(nil, true)
	for host, code := range map[string]string{
		"localhost": "", "LOCALHOST:80": "", "3000-a.localhost:80": "", "localhost.": "FOREIGN_HOST", "127.0.0.1:8080": "", "127.1.2.3": "", "[::1]:8080": "", "[::ffff:127.0.0.1]:1": "",
		"evil.example": "FOREIGN_HOST", "evil.example:8080": "FOREIGN_HOST", "": "FOREIGN_HOST", "localhost.evil.example": "FOREIGN_HOST",
		"127.0.0.1.evil.example": "FOREIGN_HOST", "10.0.0.1:8080": "FOREIGN_HOST", "0.0.0.0:8080": "FOREIGN_HOST", "[::1%lo]:8080": "FOREIGN_HOST",
	} {
		if _, got := ask(g, host); got != code {
			t.Errorf("Host %q: %q, want %q", host, got, code)
		}
	}
	for origin, code := range map[string]string{
		"http://127.0.0.1:8080": "", "http://127.0.0.1:3000": "FOREIGN_ORIGIN", "https://127.0.0.1:8080": "FOREIGN_ORIGIN",
		"null": "FOREIGN_ORIGIN", "http://evil.example": "FOREIGN_ORIGIN", "http://localhost:8080": "FOREIGN_ORIGIN", "%": "FOREIGN_ORIGIN",
	} {
		if _, got := ask(g, "127.0.0.1:8080", "Origin", origin); got != code {
			t.Errorf("Origin %q: %q, want %q", origin, got, code)
		}
	}
	if c, got := ask(gate.New(nil, false), "wolffia", "Origin", "http://evil.example"); got != "" || !c.All {
		t.Errorf("on a unix socket: %q, %+v", got, c)
	}
}

func TestKeys(t *testing.T) {
	keys, err := gate.ReadKeys(keyFile(t, one+"\n"+two+" acme/web/zoe\n"))
	if err != nil {
		t.Fatal(err)
	}
	g := gate.New(keys, false)
	for _, c := range []struct{ header, value, code string }{
		{"OPEN-SANDBOX-API-KEY", one, ""},
		{"Authorization", "Bearer " + one, ""},
		{"Authorization", "bearer " + one, ""},
		{"Authorization", "Basic " + one, "MISSING_API_KEY"},
		{"X-API-Key", one, ""},
		{"X-API-Key", one + "0", "INVALID_API_KEY"},
		{"X-Other", one, "MISSING_API_KEY"},
		{"OPEN-SANDBOX-API-KEY", one + "0", "INVALID_API_KEY"},
		{"OPEN-SANDBOX-API-KEY", one[1:], "INVALID_API_KEY"},
		{"OPEN-SANDBOX-API-KEY", "", "MISSING_API_KEY"},
	} {
		if caller, code := ask(g, "any.example", c.header, c.value); code != c.code || caller.All != (code == "") {
			t.Errorf(`%s: %s: got code %q, caller %+v; want code == %q and caller.All == code == ""`, c.header, c.value, code, caller, c.code)
		}
	}
	zoe := registry.Owner{OrganizationID: "acme", ProjectID: "web", UserID: "zoe"}
	caller, code := ask(g, "any.example", "OPEN-SANDBOX-API-KEY", two)
	if code != "" || caller != (service.Caller{Owner: zoe, Key: "acme/web/zoe"}) {
		t.Errorf("a bound key: %q, %+v", code, caller)
	}
	other := zoe
	other.UserID = "yan"
	if !caller.May(zoe) || caller.May(other) || caller.May(registry.Owner{}) || (service.Caller{}).May(registry.Owner{}) {
		t.Error("a bound key may use more or less than its owner's")
	}
	// A key that is removed does not count from then on.
	fewer, err := gate.ReadKeys(keyFile(t, two))
	if err != nil {
		t.Fatal(err)
	}
	g.SetKeys(fewer)
	if _, code := ask(g, "any.example", "OPEN-SANDBOX-API-KEY", one); code != "INVALID_API_KEY" {
		t.Errorf("a removed key: %q", code)
	}
}

// What goes on into a sandbox has no key of the service, and keeps what a server inside wants.
func TestStrip(t *testing.T) {
	for _, c := range []struct{ has, keeps string }{
		{"Open-Sandbox-Api-Key", ""},
		{"Authorization", ""},
		{"X-Api-Key", ""},
		{"Open-Sandbox-Api-Key X-Api-Key Authorization", "X-Api-Key"},
		{"Authorization X-Api-Key", "X-Api-Key"},
		{"X-Other", "X-Other"},
	} {
		h := http.Header{}
		for name := range strings.FieldsSeq(c.has) {
			h.Set(name, "Bearer "+one)
		}
		gate.Strip(h)
		if kept := strings.Join(slices.Sorted(maps.Keys(h)), " "); kept != c.keeps {
			t.Errorf("%s: %q is kept, want %q", c.has, kept, c.keeps)
		}
	}
}
