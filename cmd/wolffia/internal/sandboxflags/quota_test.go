package sandboxflags

import (
	"errors"
	"strings"
	"testing"

	"wolffia/runtime"
	"wolffia/service/quota"
	"wolffia/service/registry"
)

func TestParseQuotas(t *testing.T) {
	got, err := ParseQuotas([]string{"acme/*/zoe=sandboxes:10,memory:8g disk:1024,creates:30,templates:4,volumes:5", "key:*=requests:20"})
	want := []quota.Rule{
		{
			Owner: registry.Owner{OrganizationID: "acme", ProjectID: "*", UserID: "zoe"},
			Quota: quota.Quota{Sandboxes: 10, Memory: 8 << 30, Disk: 1024, Creates: 30, Templates: 4, Volumes: 5},
		},
		{Key: "*", Quota: quota.Quota{Requests: 20}},
	}
	if err != nil || len(got) != len(want) || got[0] != want[0] || got[1] != want[1] {
		t.Errorf("ParseQuotas = %+v, %v, want %+v", got, err, want)
	}
	for text, wrong := range map[string]string{
		"acme=sandboxes:1": "must be ORG", "a/b/c": "no bound", "a/b/c=": "no bound", "a//c=sandboxes:1": "project id", "key:=requests:1": "must be ORG",
		"a/b/c=boxes:1": `unknown bound "boxes"`, "a/b/c=sandboxes:0": "not above 0", "a/b/c=memory:-1": "memory", "a/b/c=sandboxes:many": "sandboxes",
		"a/b/c=requests:3": "key:NAME", "key:x=volumes:3": "for owners",
	} {
		if _, err := ParseQuotas([]string{text}); !errors.Is(err, runtime.ErrInvalid) || !strings.Contains(err.Error(), wrong) {
			t.Errorf("ParseQuotas(%q): %v, want %q", text, err, wrong)
		}
	}
}
