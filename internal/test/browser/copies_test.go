package browser

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// saves has the page tell what it gives the browser to save.
const saves = `window.__saved = []; const make = URL.createObjectURL;
URL.createObjectURL = (b) => { void b.text().then((t) => window.__saved.push(t)); return make.call(URL, b); }`

// git runs git in the codebase.
func (w *world) git(args ...string) string {
	w.Helper()
	cmd := exec.CommandContext(w.Ctx, "git", append([]string{"-c", "user.name=t", "-c", "user.email=t@example.org"}, args...)...)
	cmd.Dir = w.codebase
	out, err := cmd.CombinedOutput()
	if err != nil {
		w.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// Snapshots, forks, commits and files of a copy are made and taken on the page, and the log is exported.
func TestCopies(t *testing.T) {
	w := newWorld(t, map[string]string{"a.txt": "a\n"})
	w.git("init", "-q", "-b", "main")
	w.git("add", "a.txt")
	w.git("commit", "-q", "-m", "first")
	id := w.wolffia("create", "--cow", "--name", "box")
	w.inside(id, "echo b >a.txt; git -c user.name=i -c user.email=i@example.org commit -qam 'made inside'; echo c >c.txt")
	w.serve()
	p := Start(t).Open(View{}, w.address)

	p.show(place("s", id, "changes", "snapshots"))
	p.Fill("form.filters input", "before"+Enter)
	p.Shows("table[aria-label=Snapshots]", "before")
	w.inside(id, "rm c.txt")
	p.Click("button", "Restore")
	p.Type("before")
	p.Click("dialog button", "Restore")
	p.Until("!document.querySelector('dialog')")
	w.Until("the snapshot is back", func() bool { return w.command("exec", id, "--", "test", "-f", "c.txt").Run() == nil })

	p.Click("button", "Fork now")
	p.Until("location.hash.startsWith('#/s/') && !location.hash.includes(" + Quote(id) + ")")
	fork := strings.Split(Eval[string](p, "location.hash"), "/")[2]
	p.Shows(".word", "running")
	w.inside(fork, "test -f c.txt")

	p.show(place("s", id, "changes", "commits"))
	p.Click("button", "Take as branches")
	p.Shows("dialog", "Take 1 commit")
	p.Click("dialog button.primary", "Take")
	p.Shows("dialog", "wolffia/")
	p.Click("dialog button.primary", "Close")
	if log := w.git("log", "--format=%s", "--branches=wolffia/*"); !strings.Contains(log, "made inside") {
		t.Errorf("the host's branches have %q", log)
	}

	p.show(place("s", id, "files", w.codebase))
	p.Click(".files button.link", "c.txt")
	p.Shows(".output", "c")
	p.Do(saves)
	p.Click("button", "Download")
	p.Until("window.__saved[0] === 'c\\n'")

	p.show("#/audit")
	p.Shows(".audit .kind.export", "export")
	p.Click("button", "Export JSONL")
	p.Until("window.__saved.length === 2")
	kinds := map[string]int{}
	for line := range strings.Lines(Eval[string](p, "window.__saved[1]")) {
		var e struct{ Kind string }
		w.OK(json.Unmarshal([]byte(line), &e))
		kinds[e.Kind]++
	}
	if kinds["export"] != 1 || kinds[""] < 2 {
		t.Errorf("the exported log has %v", kinds)
	}
	w.wolffia("audit", "verify")
	p.quiet()
}

// Names are saved, and what always allows is in the configuration that it says.
func TestAlways(t *testing.T) {
	config := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", config)
	w := newWorld(t, map[string]string{"docs/a.md": "a\n"})
	id := w.wolffia("create", "--name", "box", "--ask", "all", "--rule", "docs/**=read")
	w.serve()
	p := Start(t).Open(View{}, w.address)
	p.Shows(".linkstate", "live")
	wait := w.asked(p, id, "echo always >docs/a.md")
	p.Click(".question button", "Always")
	if _, ok := wait(); !ok {
		t.Error("what was allowed has failed")
	}
	p.Shows(".notice", "reveal /docs/a.md=write is in "+filepath.Join(w.codebase, ".wolffia.yaml")+", which is trusted")
	if text, err := os.ReadFile(filepath.Join(w.codebase, ".wolffia.yaml")); err != nil || !strings.Contains(string(text), "/docs/a.md=write") {
		t.Errorf("the project's file: %q, %v", text, err)
	}
	if out := w.wolffia("run", "--", "sh", "-c", "echo by the file >docs/a.md; cat docs/a.md"); out != "by the file" {
		t.Errorf("another sandbox prints %q", out)
	}

	p.show(place("s", id, "rules"))
	p.Shows("h2", "Network")
	p.Fill("section textarea[rows='4']", "docs.example:443")
	p.Click("button", "Save names")
	p.Shows(".notice", "It may connect to 1 name")
	if out := w.wolffia("network", "show", id); !strings.Contains(out, "docs.example:443") {
		t.Errorf("wolffia network show prints %s", out)
	}
	p.quiet()
}
