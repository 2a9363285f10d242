package hint

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestIsImage(t *testing.T) {
	for word, want := range map[string]bool{
		"ubuntu": true, "node": true, "node:22": true, "team:1": true, "ghcr.io/team/tool": true, "docker.io/library/x:1": true,
		"make": false, "./run.sh": false, "../a.b/c": false, "bin/tool": false, ":": false, "/usr/bin/x": false, "": false,
	} {
		if got := isImage(word); got != want {
			t.Errorf("isImage(%q): got %v, want %v", word, got, want)
		}
	}
}

// A program that is called as an image got another program, and no file, as its argument.
func TestImageNote(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", "/usr/bin:/bin")
	if err := os.WriteFile(filepath.Join(dir, "ls"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for command, want := range map[string]string{
		"node sh -c x": "node ran, and got sh as its argument: run takes no image in front of the command: leave node out, or write --image node -- sh -c x",
		"node ls":      "", // the file
		"node":         "",
		"node app.js":  "",
		"node -e sh":   "",
		"node /bin/sh": "",
		"make sh":      "",
	} {
		if got := imageNote(strings.Fields(command), dir); got != want {
			t.Errorf("%s: got %q, want %q", command, got, want)
		}
	}
}
