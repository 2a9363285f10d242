package opensandbox_test

import (
	"flag"
	"regexp"
	"testing"

	"wolffia/internal/test/servetest"
	"wolffia/internal/test/testenv"
	"wolffia/internal/test/transcript"
)

var update = flag.Bool("update", false, "write what the commands print into docs/opensandbox.md")

// unstable are the parts of a reply that differ each time, with what stands for them.
var unstable = []struct {
	form  *regexp.Regexp
	stand string
}{
	{regexp.MustCompile(`127\.0\.0\.1:\d+`), "127.0.0.1:8080"},
	{regexp.MustCompile(`"c[a-z2-7]{26}"`), `"cbfvy6ncx5mqr7c2pjs3nd4a5te"`},
	{regexp.MustCompile(`"p[a-z2-7]{26}"`), `"pbfvy6ncx5mqr7c2pjs3nd4a5te"`},
	{regexp.MustCompile(`("id":"|sandboxes/|"sandboxId":"|"sandbox )[a-z0-9]{12}\b`), "${1}gwrn75xnt7lg"},
	{regexp.MustCompile(`"timestamp":\d+`), `"timestamp":1795253828799`},
	{regexp.MustCompile(`"(execution_time|durationMs)":\d+`), `"$1":2`},
	{regexp.MustCompile(`"20\d\d-[^"]*Z"`), `"2026-11-22T09:37:08.799Z"`},
	{regexp.MustCompile(`"(owner|group)":"[^"]*"`), `"$1":"ann"`},
	{regexp.MustCompile(`,"message":"the limit[^"]*"`), ""},
	{regexp.MustCompile(`("type":"std(?:out|err)".*\n)(?:\{"type":"ping".*\n)+`), "$1"}, // of a machine that takes its time
	{regexp.MustCompile(`(?:(\{"type":"ping".*\n))+`), "$1"},
}

// The transcript in docs/opensandbox.md is what the commands print.
func TestDocument(t *testing.T) {
	testenv.Tools(t, "curl", "sed", "tee")
	d := &transcript.Document{Path: "../../docs/opensandbox.md", Place: "127.0.0.1:8080", Address: servetest.New(t, "").Address}
	for _, u := range unstable {
		d.Unstable = append(d.Unstable, transcript.Unstable{Form: u.form, Stand: u.stand})
	}
	d.Check(t, *update)
}
