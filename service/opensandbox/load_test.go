package opensandbox_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// Many clients at once, in one sandbox and its sessions: each gets its own output.
func TestLoad(t *testing.T) {
	w := newWorld(t)
	_, execd := w.create("")
	var all sync.WaitGroup
	failed := make(chan string, 1000)
	for n := range 32 {
		all.Go(func() {
			path := execd + "/command"
			if n%2 == 1 {
				var s struct {
					ID string `json:"session_id"`
				}
				status, _, text := w.Do(http.MethodPost, execd+"/session", nil)
				if status != 200 || json.Unmarshal([]byte(text), &s) != nil {
					failed <- text
					return
				}
				path = execd + "/session/" + s.ID + "/run"
			}
			for round := range 5 {
				want := fmt.Sprintf("%d-%d", n, round)
				status, _, text := w.Do(http.MethodPost, path, strings.NewReader(`{"command":"echo `+want+`; seq 300"}`), "Content-Type", "application/json")
				if status != 200 || !strings.Contains(text, `"text":"`+want+`"`) || strings.Count(text, `"type":"stdout"`) != 301 || !strings.Contains(text, "execution_complete") {
					failed <- fmt.Sprintf("%s: %d %.500s", want, status, text)
				}
			}
		})
	}
	all.Wait()
	close(failed)
	for text := range failed {
		t.Error(text)
	}
}

// What is not a request gets an error, and no request does harm.
func TestMalformed(t *testing.T) {
	w := newWorld(t)
	_, execd := w.create("")
	for _, c := range [][3]string{
		{"POST", execd + "/command", "[]"},
		{"POST", execd + "/command", strings.Repeat("[", 100_000)},
		{"POST", execd + "/command", `{"command":"` + strings.Repeat("x", 9<<20) + `"}`},
		{"POST", execd + "/command", `{"command":"` + strings.Repeat("x", 5<<20) + `"}`},
		{"POST", execd + "/files/mv", `[{}]`},
		{"POST", execd + "/files/mv", `{}`},
		{"POST", execd + "/files/replace", `{"":{}}`},
		{"POST", execd + "/directories", `{"/proc/x":{}}`},
		{"GET", execd + "/directories/list?path=/&depth=9999", ""},
		{"GET", execd + "/files/search?path=/&path=/tmp", ""},
		{"POST", "/v1/sandboxes/" + strings.Repeat("x", 5000) + "/pause", ""},
		{"POST", execd + "/session/..%2f..%2fx/run", `{"command":"true"}`},
		{"POST", execd + "/session/%00/run", `{"command":"true"}`},
		{"DELETE", execd + "/session/" + strings.Repeat("s", 1000), ""},
	} {
		if status, text := w.call(c[0], c[1], c[2]); status < 400 || status >= 500 && status != 501 && status != 503 {
			t.Errorf("%s %.100s %.100s: %d %.300s", c[0], c[1], c[2], status, text)
		}
	}
	w.is("GET", execd+"/ping", "", 200, "")
}
