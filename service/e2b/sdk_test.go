package e2b_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"wolffia/internal/host/probe"
	"wolffia/internal/test/packaged"
	"wolffia/internal/test/servetest"
	"wolffia/internal/test/testbin"
	"wolffia/internal/test/testenv"
	"wolffia/internal/test/wait"
	"wolffia/service"
	"wolffia/service/quota"
	"wolffia/service/registry"
)

func TestMain(m *testing.M) {
	syscall.Umask(0o077)
	m.Run()
	testbin.Remove()
}

const keyAll, keyZoe = "0123456789abcdef-all", "0123456789abcdef-zoe"

// permissive lets requests choose names to reach, as wolffia serve does.
func permissive(o *service.Options) {
	o.MayReach = func(*service.Params) error { return nil }
}

// sdk returns variables that have E2B's SDK for Python.
func sdk(t *testing.T) (env []string) {
	t.Helper()
	return packaged.Python(t, filepath.Join("testdata", "requirements.txt"), "--no-deps")
}

// E2B's SDK for Python drives a service. The versions are in testdata/requirements.txt.
func TestPython(t *testing.T) {
	env := sdk(t)
	w := servetest.New(t, keyAll+"\n"+keyZoe+" acme/web/zoe\n", permissive)
	if text, err := packaged.Run(t, "testdata", env, "python3", "drive.py", w.Address, keyAll, keyZoe); err != nil {
		t.Errorf("drive.py: %v\n%s\n%s", err, text, w.Log.String())
	}
	if text := w.Log.String(); strings.Contains(text, "a request failed") || strings.Contains(text, keyZoe) {
		t.Errorf("the log has a bug, or a key: %s", text)
	}
}

// E2B's SDK for JavaScript drives a service. Its version, and those of what it depends on, are in
// testdata/sdk/package-lock.json, with their digests.
func TestJavaScript(t *testing.T) {
	dir := packaged.Node(t, filepath.Join("testdata", "sdk"))
	w := servetest.New(t, "")
	if text, err := packaged.Run(t, dir, nil, "node", "drive.mjs", w.Address, "any"); err != nil {
		t.Errorf("drive.mjs: %v\n%s\n%s", err, text, w.Log.String())
	}
}

// E2B's SDK for Python makes snapshots and forks of running sandboxes.
func TestSnapshots(t *testing.T) {
	testenv.Need(t, probe.Runsc)
	packages := sdk(t)
	w := servetest.NewProcess(t, keyAll+"\n"+keyZoe+" acme/web/zoe\n", "--runtime", "gvisor")
	if text, err := packaged.Run(t, "testdata", packages, "python3", "snapshot.py", w.Address, keyAll, keyZoe); err != nil {
		t.Errorf("snapshot.py: %v\n%s\n%s", err, text, w.Log.String())
	}
}

// Without permission requests have no volumes: the refusal names the flag.
func TestNoVolumes(t *testing.T) {
	w := servetest.New(t, "")
	w.NoVolumes = true
	for _, ask := range [][3]string{
		{"POST", "/volumes", `{"name":"v"}`},
		{"GET", "/volumes", ""},
		{"GET", "/volumecontent/e2b-0123456789abcdef-v/dir", ""},
		{"POST", "/v2/sandboxes", `{"templateID":"base","volumeMounts":[{"name":"v","path":"/v"}]}`},
	} {
		status, _, body := w.Do(ask[0], ask[1], strings.NewReader(ask[2]))
		if status != http.StatusNotImplemented || !strings.Contains(body, "--allow-volumes") {
			t.Errorf("%v: %d %s", ask, status, body)
		}
	}
}

// However many requests come at once, a volume is made once, and no more than the owner may have.
// What is done with their tokens counts for the key that has asked for these.
func TestVolumesAreBounded(t *testing.T) {
	w := servetest.New(t, keyZoe+" acme/web/zoe name=team\n", func(o *service.Options) {
		o.Quotas = []quota.Rule{
			{Owner: registry.Owner{OrganizationID: "acme", ProjectID: "web", UserID: "zoe"}, Quota: quota.Quota{Volumes: 2}},
			{Key: "team", Quota: quota.Quota{Requests: 50}},
		}
	})
	token := ""
	for _, c := range []struct {
		name string
		made int
	}{{"one", 1}, {"two", 1}, {"three", 0}} {
		const clients = 8
		statuses, bodies := make(chan int, clients), make(chan string, clients)
		for range clients {
			go func() {
				status, _, body := w.Do("POST", "/volumes", strings.NewReader(`{"name":"`+c.name+`"}`), "X-API-KEY", keyZoe)
				statuses <- status
				bodies <- body
			}()
		}
		count := map[int]int{}
		for range clients {
			body := ""
			status := wait.Receive(t, "a reply", statuses)
			if body = wait.Receive(t, "its body", bodies); strings.Contains(body, "token") {
				var made struct{ VolumeID, Token string }
				if err := json.Unmarshal([]byte(body), &made); err != nil {
					t.Fatal(err)
				}
				token = made.VolumeID + " " + made.Token
			}
			count[status]++
		}
		refused := map[bool]int{true: http.StatusConflict, false: http.StatusForbidden}[c.made > 0]
		if count[http.StatusCreated] != c.made || count[refused] != clients-c.made {
			t.Errorf("volume %s: %v", c.name, count)
		}
	}
	id, token, _ := strings.Cut(token, " ")
	at := "/volumecontent/" + id + "/dir?path=/"
	for _, wrong := range []string{"", "x", strings.Replace(token, ".", ".x", 1), strings.SplitN(token, ".", 2)[0]} {
		if status, _, text := w.Do("GET", at, nil, "Authorization", "Bearer "+wrong); status != http.StatusUnauthorized {
			t.Errorf("token %q: %d %s", wrong, status, text)
		}
	}
	status := 0
	for n := 0; n < 2000 && status != http.StatusTooManyRequests; n++ {
		status, _, _ = w.Do("GET", at, nil, "Authorization", "Bearer "+token)
		if n == 0 && status != http.StatusOK {
			t.Errorf("the first request: %d", status)
		}
	}
	if status != http.StatusTooManyRequests {
		t.Error("no request was refused")
	}
}

// A client that does not send all of a file is at fault: the service's log has no bug, and the
// volume no part of the file.
func TestPartOfVolumeFile(t *testing.T) {
	w := servetest.New(t, "")
	status, _, body := w.Do("POST", "/volumes", strings.NewReader(`{"name":"v"}`))
	var made struct{ VolumeID, Token string }
	if err := json.Unmarshal([]byte(body), &made); err != nil || status != http.StatusCreated {
		t.Fatal(status, body, err)
	}
	conn, err := net.Dial("tcp", w.Address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, err = fmt.Fprintf(conn, "PUT /volumecontent/%s/file?path=/f HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Length: 10\r\n\r\npart",
		made.VolumeID, w.Address, made.Token)
	if err = errors.Join(err, conn.(*net.TCPConn).CloseWrite()); err != nil {
		t.Fatal(err)
	}
	reply, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil || reply.StatusCode != http.StatusBadRequest {
		t.Errorf("got %+v, %v", reply, err)
	}
	if text := w.Log.String(); strings.Contains(text, "a request failed") {
		t.Errorf("the log has a bug: %s", text)
	}
	token := "Bearer " + made.Token
	if status, _, body := w.Do("GET", "/volumecontent/"+made.VolumeID+"/dir?path=/", nil, "Authorization", token); body != "[]" {
		t.Errorf("left: %d %s", status, body)
	}
}

// A token is that of one sandbox and purpose, and stays after a restart.
func TestTokens(t *testing.T) {
	w := servetest.New(t, "")
	token := w.Service.Token("e2b envd", "aaaaaaaaaaaa")
	w.Restart()
	if !w.Service.IsToken(token, "e2b envd", "aaaaaaaaaaaa") {
		t.Error("the token is another one after a restart")
	}
	if w.Service.IsToken(token, "e2b envd", "aaaaaaaaaaab") || w.Service.IsToken(token, "e2b traffic", "aaaaaaaaaaaa") || w.Service.IsToken("", "", "") {
		t.Error("the token is one of another sandbox or purpose, too")
	}
	file := filepath.Join(w.State, "tokens.key")
	if st, err := os.Stat(file); err != nil || st.Mode() != 0o600 {
		t.Errorf("tokens.key: got %v, %v; want mode 0600", st, err)
	}
}

// E2B's SDK for Python builds a template, and creates sandboxes of it.
func TestBuild(t *testing.T) {
	testenv.Busybox(t)
	testenv.Tools(t, "bash", "ldd")
	packages := sdk(t)
	w := servetest.NewProcess(t, keyAll+"\n"+keyZoe+" acme/web/zoe\n", "--allow-builds")
	w.ImportBusybox("busybox:1")
	if text, err := packaged.Run(t, "testdata", packages, "python3", "build.py", w.Address, keyAll, keyZoe); err != nil {
		t.Errorf("build.py: %v\n%s\n%s", err, text, w.Log.String())
	}
	if left, err := os.ReadDir(filepath.Join(w.State, "service", "e2b-builds")); err != nil || len(left) > 2 { // those of a wrong fromTemplate, and of uploads alone, wait
		t.Errorf("contexts are left: %v, %v", left, err)
	}
}

// Without permission nothing is built: the refusal names the flag.
func TestNoBuilds(t *testing.T) {
	w := servetest.New(t, "")
	status, _, body := w.Do("POST", "/v3/templates", strings.NewReader(`{"name":"x"}`))
	if status != http.StatusNotImplemented || !strings.Contains(body, "--allow-builds") {
		t.Errorf("%d %s", status, body)
	}
	if status, _, body := w.Do("PUT", "/templatefiles/aaaaaaaaaaaa/"+strings.Repeat("0", 64)+"?token=x", nil); status != http.StatusUnauthorized {
		t.Errorf("an upload without a token: %d %s", status, body)
	}
}
