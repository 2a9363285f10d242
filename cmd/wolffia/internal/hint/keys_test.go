package hint

import (
	"strings"
	"testing"
)

func TestWaitsForKeys(t *testing.T) {
	for command, want := range map[string]bool{
		"vim": true, "vim notes.txt": true, "/usr/bin/vi x": true, "nvim -R x": true, "view --clean x": true,
		"vim -es x": false, "vim -c wq x": false, "vim +q": false, "nvim --headless x": false, "vim --version": false,
		"cat vim": false, "less x": false, "sh -c vim": false, "vimtutor": false,
	} {
		if got := waitsForKeys(strings.Fields(command)); got != want {
			t.Errorf("%s: got %v, want %v", command, got, want)
		}
	}
	if waitsForKeys(nil) {
		t.Error("no command waits")
	}
}
