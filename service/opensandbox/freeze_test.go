package opensandbox_test

import (
	"encoding/json"
	"strings"
	"testing"

	"wolffia/internal/host/probe"
	"wolffia/internal/test/servetest"
	"wolffia/internal/test/testenv"
	"wolffia/internal/test/wait"
)

// Where the backend can, a pause by any interface has the processes stand still, and all say so.
// A resume by any has them go on with what they had in memory.
func TestFreeze(t *testing.T) {
	testenv.Need(t, probe.Runsc)
	w := &world{servetest.NewProcess(t, keyAll+"\n"+keyZoe+" acme/web/zoe\n", "--runtime", "gvisor").World}
	zoe := []string{"OPEN-SANDBOX-API-KEY", keyZoe, "X-API-KEY", keyZoe}
	var made sandbox
	w.OK(json.Unmarshal([]byte(w.is("POST", "/sandboxes", `{"autoPause":true,"timeout":3600}`, 201, "sandboxID", zoe...)), &struct {
		ID *string `json:"sandboxID"`
	}{&made.ID}))
	path := "/v1/sandboxes/" + made.ID
	native := func(name, more string, status int, part string) string {
		t.Helper()
		owner := `{"organizationId":"acme","projectId":"web","userId":"zoe","sandboxId":"` + made.ID + `"`
		got, text := w.native(name, owner+more+"}", "Authorization", "Bearer "+keyZoe)
		if got != status || !strings.Contains(text, part) {
			t.Fatalf("%s: %d %s, want %d %s", name, got, text, status, part)
		}
		return text
	}
	bash := func(command, part string) string {
		t.Helper()
		return native("executeBash", `,"command":"`+command+`"`, 200, part)
	}
	bash("A=kept; (n=0; while :; do n=$((n+1)); echo $n >/tmp/count; done) & echo $!", `"exitCode":0`)
	for _, door := range []struct{ pause, resume func() }{
		{
			func() { w.is("POST", path+"/pause", "", 202, "", zoe...) },
			func() { w.is("POST", path+"/resume", "", 202, "", zoe...) },
		},
		{
			func() { w.is("POST", "/sandboxes/"+made.ID+"/pause", "", 204, "", zoe...) },
			func() { w.is("POST", "/sandboxes/"+made.ID+"/connect", `{"timeout":60}`, 201, made.ID, zoe...) },
		},
		{
			func() { native("pauseSandbox", "", 200, made.ID) },
			func() { native("resumeSandbox", "", 200, made.ID) },
		},
	} {
		door.pause()
		w.is("GET", path, "", 200, `"state":"Paused","reason":"FROZEN"`, zoe...)
		w.is("GET", "/sandboxes/"+made.ID, "", 200, `"state":"paused"`, zoe...)
		native("executeBash", `,"command":"true"`, 409, "is paused")
		native("pauseSandbox", "", 409, "is paused")
		door.resume()
		w.is("GET", path, "", 200, `"state":"Running"`, zoe...)
		w.is("GET", "/sandboxes/"+made.ID, "", 200, `"state":"running"`, zoe...)
		native("resumeSandbox", "", 200, made.ID)
		before := bash("echo $A; cat /tmp/count", `"stdout":"kept\n`)
		wait.Until(t, "the counter goes on", func() bool { return bash("echo $A; cat /tmp/count", `kept\n`) != before })
	}
	w.is("DELETE", path, "", 204, "", zoe...)
	native("resumeSandbox", "", 404, "")
}
