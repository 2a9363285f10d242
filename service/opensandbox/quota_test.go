package opensandbox_test

import (
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"wolffia/internal/test/servetest"
	"wolffia/service"
	"wolffia/service/quota"
	"wolffia/service/registry"
)

// However many requests come at once, no owner and no key gets more than its quota, also by a fork,
// and what is destroyed makes room. Other owners do not notice.
func TestQuotas(t *testing.T) {
	const keyBob = "bob-0123456789abcdef"
	w := &world{servetest.New(t, keyAll+" name=team\n"+keyZoe+" acme/web/zoe\n"+keyBob+" acme/web/bob\n", func(o *service.Options) {
		o.Quotas = []quota.Rule{
			{Owner: registry.Owner{OrganizationID: "acme", ProjectID: "web", UserID: "zoe"}, Quota: quota.Quota{Sandboxes: 2}},
			{Key: "team", Quota: quota.Quota{Sandboxes: 1}},
		}
	})}
	create := func(key string) (status int, id string) {
		status, _, text := w.Do("POST", "/v1/sandboxes", strings.NewReader(`{"image":{"uri":"host"},"extensions":{"cow":"true"}}`),
			"OPEN-SANDBOX-API-KEY", key, "Content-Type", "application/json")
		_, id, _ = strings.Cut(text, `"id":"`)
		if status == http.StatusForbidden && !strings.Contains(text, "quota: ") {
			t.Errorf("refused: %s", text)
		}
		return status, id[:min(12, len(id))]
	}
	var made atomic.Int32
	var some atomic.Value
	var wait sync.WaitGroup
	for range 6 {
		wait.Go(func() {
			switch status, id := create(keyZoe); status {
			case http.StatusAccepted:
				made.Add(1)
				some.Store(id)
			case http.StatusForbidden:
			default:
				t.Errorf("status %d", status)
			}
		})
	}
	wait.Wait()
	if n := made.Load(); n != 2 {
		t.Errorf("%d of 6 concurrent creates succeeded, want 2", n)
	}
	zoe := `{"organizationId":"acme","projectId":"web","userId":"zoe","sandboxId":"` + some.Load().(string) + `"}`
	status, _, text := w.Do("POST", "/api/v1/forkSandbox", strings.NewReader(zoe), "OPEN-SANDBOX-API-KEY", keyZoe, "Content-Type", "application/json")
	if status != http.StatusForbidden || !strings.Contains(text, "quota: ") {
		t.Errorf("a fork: %d %s", status, text)
	}
	if status, _ := create(keyBob); status != http.StatusAccepted {
		t.Errorf("another owner: status %d", status)
	}
	if status, _ := create(keyAll); status != http.StatusAccepted {
		t.Errorf("the key's first sandbox: status %d", status)
	}
	if status, _ := create(keyAll); status != http.StatusForbidden {
		t.Errorf("the key's second sandbox: status %d", status)
	}
	w.is("DELETE", "/v1/sandboxes/"+some.Load().(string), "", 204, "", "OPEN-SANDBOX-API-KEY", keyZoe)
	if status, _ := create(keyZoe); status != http.StatusAccepted {
		t.Errorf("after one was destroyed: status %d", status)
	}
	_, _, text = w.Do("POST", "/api/v1/listOwners", strings.NewReader("{}"), "OPEN-SANDBOX-API-KEY", keyZoe, "Content-Type", "application/json")
	if !strings.Contains(text, `"userId":"zoe","sandboxes":2,"running":2`) || strings.Contains(text, "bob") {
		t.Errorf("listOwners: %s", text)
	}
}

// A key that asks too often gets 429 with the time to wait, on each front end, and others do not
// notice.
func TestRates(t *testing.T) {
	w := &world{servetest.New(t, keyAll+" name=team\n"+keyZoe+" acme/web/zoe\n", func(o *service.Options) {
		o.Quotas = []quota.Rule{{Key: "team", Quota: quota.Quota{Requests: 1}}, {Key: "*", Quota: quota.Quota{Creates: 1}}}
	})}
	for _, path := range []string{"/v1/sandboxes", "/metrics", "/mcp"} {
		var refused bool
		for range 20 { // the first ones may be on time
			status, header, _ := w.Do("GET", path, nil, "OPEN-SANDBOX-API-KEY", keyAll)
			if refused = status == http.StatusTooManyRequests && header.Get("Retry-After") == "1"; refused {
				break
			}
		}
		if !refused {
			t.Errorf("%s: no request of 20 was refused", path)
		}
	}
	zoe := []string{"OPEN-SANDBOX-API-KEY", keyZoe, "Content-Type", "application/json"}
	for _, want := range []int{http.StatusAccepted, http.StatusTooManyRequests} {
		w.is("POST", "/v1/sandboxes", `{"image":{"uri":"host"}}`, want, "", zoe...)
	}
	w.is("GET", "/v1/sandboxes", "", 200, "", zoe...)
}
