package steps

import (
	"errors"
	"strings"
	"testing"

	"github.com/moby/buildkit/frontend/dockerfile/shell"

	"wolffia/internal/image/dockerparse"
	"wolffia/runtime"
)

// Steps become instructions of a Dockerfile, one line each, whatever they have.
func TestSteps(t *testing.T) {
	const hash = "0123456789abcdef0123456789abcdef"
	for _, test := range []struct {
		steps  Request
		want   string // the lines between the first two and the last two; empty: an error
		status int
	}{
		{Request{Steps: []Step{{Type: "ENV", Args: []string{"A", `b "c" $D \`}}}}, `ENV A="b \"c\" \$D \\"`, 0},
		{Request{Steps: []Step{{Type: "WORKDIR", Args: []string{"/a"}}, {Type: "USER", Args: []string{"user"}}}}, "WORKDIR \"/a\"\nUSER root", 0},
		{Request{Steps: []Step{{Type: "COPY", Hash: hash, Args: []string{"a", "/b", "nobody", "0644"}}}}, `COPY --chown=nobody --chmod=0644 ["\"` + hash + `/a\"","\"/b\""]`, 0},
		{Request{Steps: []Step{{Type: "COPY", Hash: strings.Repeat("f", 64), Args: []string{"a", "/b"}}}}, "", 400},
		{Request{Steps: []Step{{Type: "COPY", Hash: "../../..", Args: []string{"a", "/b"}}}}, "", 400},
		{Request{Steps: []Step{{Type: "ENV", Args: []string{"A", "b\nFROM x"}}}}, "", 400},
		{Request{Steps: []Step{{Type: "ENV", Args: []string{"A"}}}}, "", 400},
		{Request{Steps: []Step{{Type: "WORKDIR", Args: []string{"/a\nRUN x"}}}}, "", 400},
		{Request{Steps: []Step{{Type: "USER", Args: []string{"a\nRUN x"}}}}, "", 400},
		{Request{Steps: []Step{{Type: "RUN", Args: []string{"true", "a b"}}}}, "", 400},
		{Request{FromImage: "a\nRUN x"}, "", 400},
		{Request{FromImage: "--platform=x"}, "", 400},
		{Request{Ready: "true"}, "", 501},
		{Request{Registry: []byte(`{"type":"aws"}`)}, "", 501},
		{Request{Steps: []Step{{Type: "ONBUILD"}}}, "", 501},
	} {
		if test.steps.FromImage == "" {
			test.steps.FromImage = "debian:13"
		}
		text, err := test.steps.Dockerfile(func(h string) bool { return h == hash })
		if test.want == "" {
			if !errors.Is(err, map[int]error{400: runtime.ErrInvalid, 501: runtime.ErrUnsupported}[test.status]) {
				t.Errorf("%+v: got %q, %v, want status %d", test.steps, text, err, test.status)
			}
			continue
		}
		if want := "FROM debian:13\nWORKDIR /home/user\n" + test.want + "\nENTRYPOINT []\nCMD []\n"; err != nil || text != want {
			t.Errorf("got %q, %v, want %q", text, err, want)
		}
	}
	run := Request{FromImage: "a", Steps: []Step{{Type: "RUN", Args: []string{"a\nb", "nobody"}}}, Start: "s\n", Ready: "r"}
	text, err := run.Dockerfile(nil)
	if err != nil || strings.Count(text, "\n") != 7 || !strings.Contains(text, "USER nobody\nRUN [") || !strings.Contains(text, `,"a\nb"]`+"\nUSER root\n") ||
		!strings.HasSuffix(text, `CMD ["/bin/bash","-l","-c","s\n","e2b-ready","r"]`+"\n") {
		t.Errorf("got %q, %v", text, err)
	}
}

// BuildKit's parser finds in the Dockerfile what the steps have, and nothing else.
func TestStepsAsParsed(t *testing.T) {
	const hash = "0123456789abcdef0123456789abcdef"
	none := shell.EnvsFromSlice([]string{"HOME=wrong"})
	for _, text := range []string{
		"a b", "it's", `"`, `\`, `\\`, `\n`, "$HOME", "${HOME:-x", "#", "# escape=`", "`", "<<EOF", "a <<EOF b", `["x"]`, "\v\f\t",
		"\u2028", "é", "--from=x", "\ufeff", "FROM x", "*?[", "{}", "&&", "x\\",
	} {
		q := Request{FromImage: "debian:13", Steps: []Step{
			{Type: "WORKDIR", Args: []string{"/" + text}},
			{Type: "ENV", Args: []string{"V", text}},
			{Type: "COPY", Hash: hash, Args: []string{text, "/" + text}},
			{Type: "RUN", Args: []string{text + "\n" + text}},
		}, Start: text, Ready: text}
		made, err := q.Dockerfile(func(string) bool { return true })
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		f, err := dockerparse.Parse([]byte(made))
		if err != nil || len(f.Stages) != 1 || len(f.Stages[0].Steps) != 7 {
			t.Errorf("%q: %+v, %v; of\n%s", text, f, err, made)
			continue
		}
		s := f.Stages[0].Steps
		for want, word := range map[string]string{
			"/" + text: s[1].Value, text: s[2].Pairs[0].Value, hash + "/" + text: s[3].Copy.Sources[0],
		} {
			if got, _, err := shell.NewLex('\\').ProcessWord(word, none); err != nil || got != want {
				t.Errorf("%q: got %q, %v, want %q; of\n%s", text, got, err, want, made)
			}
		}
		if got, _, err := shell.NewLex('\\').ProcessWord(s[3].Copy.Dest, none); err != nil || got != "/"+text {
			t.Errorf("%q: copied to %q, %v", text, got, err)
		}
		if run := s[4].Words; len(run) != 5 || run[4] != text+"\n"+text || s[4].Shell {
			t.Errorf("%q: RUN %q", text, run)
		}
		if cmd := s[6].Words; len(cmd) != 6 || cmd[3] != text || cmd[5] != text {
			t.Errorf("%q: CMD %q", text, cmd)
		}
	}
}
