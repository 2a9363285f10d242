// Package transcript runs the commands of a document's transcripts, as tests.
package transcript

import (
	"context"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"wolffia/internal/test/wait"
)

// An Unstable is a part of an output that differs each time, with what stands for it in the
// document.
type Unstable struct {
	Form  *regexp.Regexp
	Stand string
}

// A Document is a file whose first block of ```console has lines of commands, which begin with
// "$ ", and what they print.
type Document struct {
	Path string
	// Place is what stands in the commands for the address of a service, Address the address.
	Place, Address string
	Unstable       []Unstable
}

// Check runs the commands, in one shell, in a directory of its own. With update it writes what
// they print into the document; else it must be that of the document.
func (d *Document) Check(t *testing.T, update bool) {
	t.Helper()
	text, err := os.ReadFile(d.Path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), "```console\n")
	block, after, ok2 := strings.Cut(rest, "```\n")
	if !ok || !ok2 {
		t.Fatal("the document has no block of commands")
	}
	var script, want strings.Builder
	for line := range strings.Lines(block) {
		if command, is := strings.CutPrefix(line, "$ "); is {
			command = strings.ReplaceAll(command, d.Place, d.Address)
			script.WriteString("printf '%s\\n' " + quote("$ "+strings.TrimSuffix(command, "\n")) + "\n" + command + "\n")
		}
		want.WriteString(line)
	}
	ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", script.String())
	cmd.Dir = t.TempDir()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("CombinedOutput: got err %v, out %s; want err == nil", err, out)
	}
	got := d.settle(string(out))
	if update {
		if err := os.WriteFile(d.Path, []byte(before+"```console\n"+got+"```\n"+after), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if got != want.String() {
		t.Errorf("the commands of %s print, which -update writes:\n%s", d.Path, got)
	}
}

// quote quotes a text for a shell.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// settle returns output without what differs each time, and without empty lines.
func (d *Document) settle(out string) string {
	for _, u := range append(d.Unstable, Unstable{regexp.MustCompile(regexp.QuoteMeta(d.Address)), d.Place}) {
		out = u.Form.ReplaceAllString(out, u.Stand)
	}
	var b strings.Builder
	for line := range strings.Lines(out) {
		line = strings.TrimSuffix(line, "\n")
		for at := strings.Index(line, "$ "); at > 0; at = -1 { // a reply without a newline at its end
			b.WriteString(line[:at] + "\n")
			line = line[at:]
		}
		if line != "" {
			b.WriteString(line + "\n")
		}
	}
	return b.String()
}
