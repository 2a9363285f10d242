package steps

import (
	"errors"
	"strings"
	"testing"

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
		{Request{Steps: []Step{{Type: "WORKDIR", Args: []string{"/a"}}, {Type: "USER", Args: []string{"user"}}}}, "WORKDIR /a\nUSER root", 0},
		{Request{Steps: []Step{{Type: "COPY", Hash: hash, Args: []string{"a", "/b", "nobody", "0644"}}}}, `COPY --chown=nobody --chmod=0644 ["` + hash + `/a","/b"]`, 0},
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
