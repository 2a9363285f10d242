package opensandbox_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"wolffia/runtime"
	"wolffia/service"
)

// A request can have a copied codebase, as a field or an extension.
func TestCow(t *testing.T) {
	w := newWorld(t)
	for _, body := range []string{
		`{"image":{"uri":"host"},"cow":true}`,
		`{"image":{"uri":"host"},"extensions":{"cow":"true"}}`,
	} {
		status, text := w.call("POST", "/v1/sandboxes", body)
		var made struct{ ID string }
		if status != 202 || json.Unmarshal([]byte(text), &made) != nil {
			t.Fatalf("%s: got status %d, text %s; want status == 202 and json.Unmarshal([]byte(text), &made) == nil", body, status, text)
		}
		if status, text := w.call("POST", "/sandboxes/"+made.ID+"/port/44772/command", `{"command":"echo new > /workspace/new"}`); status != 200 {
			t.Fatalf("command: %d %s", status, text)
		}
		r, err := w.Service.Review(w.Ctx, service.Caller{All: true}, made.ID)
		w.OK(err)
		all, err := r.Changes(w.Ctx, runtime.ChangesOptions{})
		if err != nil || len(all) != 1 || all[0].Path != "new" {
			t.Errorf("%s: changes are %+v, %v", body, all, err)
		}
		if _, err := os.Lstat(filepath.Join(w.Codebase, "new")); !os.IsNotExist(err) {
			t.Errorf("%s: the codebase was changed: %v", body, err)
		}
		if status, text := w.call("POST", "/v1/sandboxes/"+made.ID+"/snapshots", ""); status != 501 || !strings.Contains(text, "--runtime gvisor") {
			t.Errorf("a snapshot: %d %s", status, text)
		}
		status, text = w.call("POST", "/v1/sandboxes/"+made.ID+"/fork", `{"timeout":600}`)
		var fork struct{ ID, ExpiresAt string }
		if status != 202 || json.Unmarshal([]byte(text), &fork) != nil || fork.ID == made.ID || fork.ExpiresAt == "" {
			t.Fatalf("a fork: %d %s", status, text)
		}
		status, text = w.call("POST", "/sandboxes/"+fork.ID+"/port/44772/command", `{"command":"cat /workspace/new"}`)
		if status != 200 || !strings.Contains(text, `"new`) {
			t.Errorf("the fork has not what was changed: %d %s", status, text)
		}
	}
	for _, extension := range []string{`"cow":true,"extensions":{"cow":"false"}`, `"extensions":{"cow":"yes"}`} {
		if status, text := w.call("POST", "/v1/sandboxes", `{"image":{"uri":"host"},`+extension+`}`); status != 400 || !strings.Contains(text, "cow") {
			t.Errorf("%s: got status %d, text %s; want status == 400 and text contains cow", extension, status, text)
		}
	}
}
