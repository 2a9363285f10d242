package opensandbox_test

import (
	"context"
	"flag"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"wolffia/internal/test/servetest"
	"wolffia/internal/test/testenv"
)

var update = flag.Bool("update", false, "write what the commands print into docs/opensandbox.md")

const document = "../../docs/opensandbox.md"

// unstable are the parts of a reply that differ each time, with what stands for them.
var unstable = []struct {
	form  *regexp.Regexp
	stand string
}{
	{regexp.MustCompile(`127\.0\.0\.1:\d+`), "127.0.0.1:8080"},
	{regexp.MustCompile(`"c[a-z2-7]{26}"`), `"cbfvy6ncx5mqr7c2pjs3nd4a5te"`},
	{regexp.MustCompile(`("id":"|sandboxes/)[a-z0-9]{12}\b`), "${1}gwrn75xnt7lg"},
	{regexp.MustCompile(`"timestamp":\d+`), `"timestamp":1795253828799`},
	{regexp.MustCompile(`"(execution_time|durationMs)":\d+`), `"$1":2`},
	{regexp.MustCompile(`"20\d\d-[^"]*Z"`), `"2026-11-22T09:37:08.799Z"`},
	{regexp.MustCompile(`"(owner|group)":"[^"]*"`), `"$1":"ann"`},
	{regexp.MustCompile(`,"message":"the limit[^"]*"`), ""},
}

// The transcript in docs/opensandbox.md is what the commands print.
func TestDocument(t *testing.T) {
	testenv.Tools(t, "curl", "sed", "tee")
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), "```console\n")
	block, after, ok2 := strings.Cut(rest, "```\n")
	if !ok || !ok2 {
		t.Fatal("the document has no block of commands")
	}
	w := &world{servetest.New(t, "")}
	var script, want strings.Builder
	for line := range strings.Lines(block) {
		if command, is := strings.CutPrefix(line, "$ "); is {
			command = strings.ReplaceAll(command, "127.0.0.1:8080", w.Address)
			script.WriteString("printf '%s\\n' " + quote("$ "+strings.TrimSuffix(command, "\n")) + "\n" + command + "\n")
		}
		want.WriteString(line)
	}
	const limit = 2 * time.Minute // a guard against a hang
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", script.String())
	cmd.Dir = t.TempDir()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	got := transcript(string(out))
	if *update {
		if err := os.WriteFile(document, []byte(before+"```console\n"+got+"```\n"+after), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if got != want.String() {
		t.Errorf("the commands print, which go test ./service/opensandbox -run Document -update writes:\n%s", got)
	}
}

// quote quotes a text for a shell.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// transcript returns output without what differs each time, and without empty lines.
func transcript(out string) string {
	for _, u := range unstable {
		out = u.form.ReplaceAllString(out, u.stand)
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
