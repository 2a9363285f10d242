package serving

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestUnitWord(t *testing.T) {
	for word, want := range map[string]string{
		"--memory": "--memory", "2g": "2g", "": `""`, "a b": `"a b"`, "50%": "50%%", "$HOME": "$$HOME", `a"b\`: `"a\"b\\"`, "a'b;": `"a'b;"`, "a\nb": `a\nb`,
		"%d/keys": "%d/keys", "%d": "%%d", "%d/%d/a b": `"%d/%%d/a b"`, "x%d/keys": "x%%d/keys",
	} {
		if got := unitWord(word); got != want {
			t.Errorf("unitWord(%q) = %s, want %s", word, got, want)
		}
	}
}

var update = flag.Bool("update", false, "write the units of the package")

// packageMark begins the units of the package, which install and uninstall leave alone.
const packageMark = `# Of the package wolffia: units of the user's systemd. Their settings are in
# ~/.config/wolffia/serve.yaml. wolffia serve install writes units with other flags, which count more.
`

// The units of the .deb and the .rpm are what install writes, for a place that systemd fills in.
func TestUnitsOfPackage(t *testing.T) {
	u := unit{
		command: []string{"/usr/bin/wolffia", "serve", "--config", "%E/wolffia/serve.yaml"},
		dir:     "%h", reloads: true,
	}
	listening := u
	// %S is another directory before systemd 254.
	listening.listen = "%h/.local/state/wolffia/service/sock"
	for name, text := range map[string]string{"wolffia.service": u.service(), "wolffia.socket": listening.socket()} {
		want := packageMark + strings.ReplaceAll(strings.TrimPrefix(text, unitMark), "%%", "%")
		path := filepath.Join("..", "..", "..", "..", "packaging", name)
		if *update {
			if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		got, err := os.ReadFile(path)
		if err != nil || string(got) != want {
			t.Errorf("%s: got %q, %v; want %q: run this test with -update", name, got, err, want)
		}
	}
}
