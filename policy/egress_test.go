package policy

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestEgress: names of a policy file count; in the codebase, where a sandbox may have written the
// file, only names that lead to public hosts, and For says so.
func TestEgress(t *testing.T) {
	const names = "version: 1\nextends: agent-safe\nnetwork:\n  allow-host: ['@npm', 'a.example:443']\n"
	const address = "  add-host: ['db.internal:127.0.0.1']\n  no-sni-check: [db.internal]\n"
	p := newPlace(t)
	outside := t.TempDir()
	write(t, outside, "p.yaml", names+address)
	write(t, p.root, "names.yaml", names, "address.yaml", names+address)
	if made := p.rules(); made.Egress != nil {
		t.Errorf("without a file: %+v", made.Egress)
	}

	p.o.File = filepath.Join(outside, "p.yaml")
	made := p.rules()
	if e := made.Egress; e == nil || !slices.Equal(e.Allow, []string{"@npm", "a.example:443"}) || e.Hosts["db.internal"] != "127.0.0.1" || !slices.Equal(e.NoNameCheck, []string{"db.internal"}) {
		t.Errorf("outside: %+v", e)
	}
	if notes := made.Notes(); len(notes) > 0 {
		t.Errorf("outside: notes %q", notes)
	}

	p.o.File = filepath.Join(p.root, "names.yaml")
	made = p.rules()
	if notes := strings.Join(made.Notes(), "\n"); made.Egress == nil || !strings.Contains(notes, "which is in the codebase, lets the sandbox reach @npm, a.example:443") {
		t.Errorf("inside: %+v, notes %q", made.Egress, notes)
	}

	o := p.o
	o.File, o.StateDir = filepath.Join(p.root, "address.yaml"), p.state
	_, err := For(t.Context(), p.root, &o)
	if err == nil || !strings.Contains(err.Error(), "address.yaml:5: add-host: the file is in the codebase") {
		t.Errorf("inside with an address: %v", err)
	}
}

// TestEgressErrors: an error names the line.
func TestEgressErrors(t *testing.T) {
	dir := t.TempDir()
	for text, want := range map[string]string{
		"network:\n  allow-host: ['10.0.0.1']":                                          "f:3: allow-host: network rule",
		"network:\n  allow-host: ['@nothing']":                                          "f:3: allow-host: network rule",
		"network:\n  allow-host: ['a.example:1-300']":                                   "f:3: allow-host: network rules: have 300 different ports",
		"network:\n  add-host: [db.internal]":                                           "f:3: add-host: it must be NAME:ADDR",
		"network:\n  add-host:\n    - 'a.example:10.0.0.1'\n    - 'a.example:10.0.0.2'": "f:5: add-host: the name has two addresses",
		"network:\n  no-sni-check: ['a b']":                                             "f:3: no-sni-check: ",
		"network:\n  header: ['a.example:X=@f']":                                        "f:3: unknown field",
		"network: none":                                                                 "f:2: network: want the fields",
		"network:\n  allow-host: x":                                                     "f:3: allow-host: want a list",
	} {
		write(t, dir, "f", "version: 1\n"+text+"\n")
		file, err := ReadFile(filepath.Join(dir, "f"))
		if err == nil {
			_, err = Egress(file, false)
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
