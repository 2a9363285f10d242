package browser

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// One hunk of two is applied: the host has it, and not the other.
func TestHunk(t *testing.T) {
	w := newWorld(t, map[string]string{"src/cart.js": lines(60), "b.txt": "b\n", "c.txt": "c\n"})
	id := w.wolffia("create", "--cow", "--name", "box")
	w.inside(id, "sed -i '5s/.*/five/; 50s/.*/fifty/' src/cart.js; echo bb >b.txt; echo cc >c.txt")
	w.serve()
	p := Start(t).Open(View{}, w.address)
	p.show(place("s", id, "changes"))
	p.Click(".tree button.link", "cart.js")
	p.Shows(".sides .hunk", "Hunk 2")
	p.Click(".sides .hunk label", "Hunk 1")
	p.Click("button.primary", "Apply 1 hunk")
	p.Click("dialog button.primary", "Apply")
	p.Shows(".notice", "Applied 1 hunk")
	w.host("src/cart.js", strings.Replace(lines(60), "line 5\n", "five\n", 1))
	w.host("b.txt", "b\n")
	// The rest of the file can be applied, and another one discarded.
	p.Click(".line:has(button) label, .line[data-path='b.txt'] input", "")
	p.Click("button.primary", "Apply 1 change")
	p.Click("dialog button.primary", "Apply")
	p.Shows(".notice", "Applied 1 change")
	w.host("b.txt", "bb\n")
	p.Until("![...document.querySelectorAll('.line')].some((e) => e.dataset.path === 'b.txt')")
	p.Click(".line[data-path='c.txt'] input", "")
	p.Click("button.danger", "Discard 1 change")
	p.Click("dialog button", "Discard")
	p.Shows(".notice", "Discarded 1 change")
	w.Until("wolffia diff shows one file", func() bool { // once the page has what it looks for
		text, err := w.command("diff", "--name-status", id).Output()
		return err == nil && string(text) == "M\tsrc/cart.js\n"
	})
	// What both have changed is a conflict, and takes force with the name typed.
	w.OK(os.WriteFile(filepath.Join(w.codebase, "src/cart.js"), []byte("mine\n"), 0o666))
	p.Click("button", "Refresh")
	p.Shows(".tree .tag", "conflict")
	p.Click(".line[data-path='src/cart.js'] input", "")
	p.Click("button.primary", "Apply all")
	p.Shows("dialog", "by force")
	p.Until("document.querySelector('dialog button.danger').disabled")
	p.Type("box")
	p.Click("dialog button.danger", "Apply by force")
	p.Shows(".notice", "Applied all")
	w.host("src/cart.js", strings.NewReplacer("line 5\n", "five\n", "line 50\n", "fifty\n").Replace(lines(60)))
	p.quiet()
}

// host checks the content of a file of the codebase.
func (w *world) host(name, want string) {
	w.Helper()
	got, err := os.ReadFile(filepath.Join(w.codebase, name))
	if err != nil || string(got) != want {
		w.Errorf("the host's %s is %q (%v), want %q", name, got, err, want)
	}
}
