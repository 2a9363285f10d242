package browser

import (
	"strings"
	"testing"
)

// What was done is found in the log, whose chain is checked.
func TestAudit(t *testing.T) {
	w := newWorld(t, map[string]string{"a.txt": "a\n"})
	id := w.wolffia("create", "--cow", "--name", "box")
	w.inside(id, "echo b >a.txt; echo needle")
	w.inside(id, "echo '<img src=x onerror=window.__pwned=1>'")
	w.serve()
	p := Start(t).Open(View{}, w.address)
	p.show(place("s", id, "changes"))
	p.Shows(".tree", "a.txt")
	p.Click("#everything", "")
	p.Click("button.primary", "Apply all")
	p.Click("dialog button.primary", "Apply")
	p.Shows(".notice", "Applied all")
	p.show("#/audit")
	p.Shows(".audit .kind.apply", "apply")
	p.Shows(".audit .wide", "1 change: a.txt")
	p.Shows(".audit .wide", "<img src=x")
	p.accessible(axe(t), "the audit log")
	p.picture("audit")
	p.Fill(".filters input", "needle"+Enter)
	p.Until("document.querySelectorAll('.audit tbody tr').length === 1")
	p.Shows(".audit .wide", "needle")
	p.Click("button", "Verify the chain")
	p.Shows(".verified .good", "The chain is whole")
	p.Until("document.querySelector('.verified .mono').textContent.length === 16")
	if head := Eval[string](p, "document.querySelector('.verified .mono').textContent"); !strings.Contains(w.wolffia("audit", "verify"), head) {
		t.Errorf("the page shows the head %s, wolffia audit verify another one", head)
	}
	p.quiet()
}
