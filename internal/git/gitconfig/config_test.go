package gitconfig

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"wolffia/internal/test/suite"
)

func FuzzConfig(f *testing.F) {
	f.Add("[core]\n\tx = \"a b\" ; c\n[a \"b\\\"c\"] d=\\\n e\\t\r\n[x.Y]k")
	f.Fuzz(func(t *testing.T, text string) {
		settings, _ := Parse(text)
		for _, s := range settings {
			if s.Section() != Lower(s.Section()) || s.Key() == "" || s.Key() != Lower(s.Key()) {
				t.Errorf(`got s %+v; want s.Section() == Lower(s.Section()) and s.Key() != "" and s.Key() == Lower(s.Key())`, s)
			}
		}
	})
}

func TestConfigLikeGit(t *testing.T) {
	text := "; c\n[a]b=1\n[A \"S b\\\"\\x\"]\n  k-1 = \" x \" y  \\\n z # c\n v = \"a;b\" ; c\n" +
		" e = a\\tb\\n\\\\\\\"\n q = a  b\t\n[a.SUB] k = v\n[c] x\n w =   \n"
	path := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	out := suite.Git(t, filepath.Dir(path), "config", "-z", "-f", path, "--list")
	settings, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for _, s := range settings {
		fmt.Fprintf(&got, "%s\n%s\x00", s.Name, s.Value)
	}
	// git shows a key without a value without the newline.
	if want := strings.Replace(out, "c.x\x00", "c.x\n\x00", 1); got.String() != want {
		t.Errorf("got  %q\nwant %q", got.String(), want)
	}
}
