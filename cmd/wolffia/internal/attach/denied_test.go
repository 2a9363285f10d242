package attach

import (
	"strings"
	"testing"

	"wolffia/runtime"
)

func TestDeniedNotes(t *testing.T) {
	one := runtime.Denial{Op: "write", Path: "a.md", Rule: "*.md=read", Source: "--rule", Allow: "--rule '/a.md=write'"}
	for _, tt := range []struct {
		denied *runtime.Result
		want   string
	}{
		{&runtime.Result{}, ""},
		{
			&runtime.Result{ExitCode: 1, Denied: []runtime.Denial{one, {Op: "unlink", Path: "b"}, {Op: "mkdir", Path: "c"}, {Op: "mkdir", Path: "d", Rule: "d=read"}}},
			"denied by the rules: mkdir d (rule \"d=read\")\ndenied by the rules: mkdir c\ndenied by the rules: unlink b; 1 more: wolffia audit box",
		},
		{&runtime.Result{Denied: []runtime.Denial{{Op: "unlink", Path: "b"}, {Op: "mkdir", Path: "c"}}}, "denied by the rules: unlink b\ndenied by the rules: mkdir c"},
		{&runtime.Result{Denied: []runtime.Denial{one}}, `denied by the rules: write a.md (rule "*.md=read" of --rule); to allow it: wolffia policy add box --rule '/a.md=write'`},
		{&runtime.Result{Denied: []runtime.Denial{one, one}, DeniedMore: 3}, `denied by the rules: write a.md (rule "*.md=read" of --rule); to allow it: wolffia policy add box --rule '/a.md=write'; 4 more: wolffia audit box`},
		{&runtime.Result{Denied: []runtime.Denial{{Op: "link", Path: "x", Reason: "it is git's"}}}, `denied by the rules: link x: it is git's`},
	} {
		if got := strings.Join(deniedNotes(tt.denied, "wolffia policy add box ", "wolffia audit box"), "\n"); got != tt.want {
			t.Errorf("got  %s\nwant %s", got, tt.want)
		}
	}
}
