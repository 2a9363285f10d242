package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// sdkDir has the official SDK of OpenSandbox as a test pins it.
const sdkDir = "service/opensandbox/testdata/sdk"

// sdk measures OpenSandbox's API: by the official SDK, and by HTTP from Go.
func (b *bench) sdk() (err error) {
	address, stop, err := b.served("sdk")
	if err != nil {
		return err
	}
	defer func() { _ = stop() }()
	if err := b.sdkSession("http://" + address); err != nil {
		return err
	}
	return b.sdkClient(address)
}

// served starts a service with a state directory of its own, and returns where it listens, and what
// stops it.
func (b *bench) served(state string, flags ...string) (address string, stop func() error, err error) {
	cmd := exec.Command(b.wolffia, append([]string{"serve", "--codebase", b.codebase, "--listen", "127.0.0.1:0"}, flags...)...)
	cmd.Env = append(os.Environ(), "WOLFFIA_STATE_DIR="+b.state+"-"+state)
	log, err := cmd.StderrPipe()
	if err != nil {
		return "", nil, err
	}
	if err := cmd.Start(); err != nil {
		return "", nil, err
	}
	stop = func() error {
		_ = cmd.Process.Signal(unix.SIGTERM)
		return cmd.Wait()
	}
	if address, err = addressIn(log); err != nil {
		return "", nil, errors.Join(err, stop())
	}
	return address, stop, nil
}

// addressIn returns where the service listens, by its log, the rest of which it drops.
func addressIn(log io.Reader) (string, error) {
	r := bufio.NewReader(log)
	for {
		line, err := r.ReadBytes('\n')
		if err != nil {
			return "", fmt.Errorf("wolffia serve: %w: %s", err, line)
		}
		var entry struct{ Msg, Address string }
		if json.Unmarshal(line, &entry) == nil && entry.Msg == "serving" {
			go func() { _, _ = io.Copy(io.Discard, r) }() // ends with the service
			return entry.Address, nil
		}
	}
}

// post sends JSON and decodes the reply, unless to is nil.
func post(url, body string, to any) error {
	res, err := http.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		return err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err == nil && (res.StatusCode >= 300 || bytes.Contains(text, []byte(`"type":"error"`))) {
		err = fmt.Errorf("%s: %d %s", url, res.StatusCode, text)
	}
	if err != nil || to == nil {
		return err
	}
	return json.Unmarshal(text, to)
}

// sdkSession measures a session over HTTP.
func (b *bench) sdkSession(url string) (err error) {
	var s struct {
		ID string `json:"id"`
	}
	if err := post(url+"/v1/sandboxes", `{"image":{"uri":"host"}}`, &s); err != nil {
		return err
	}
	defer func() {
		req, rerr := http.NewRequest(http.MethodDelete, url+"/v1/sandboxes/"+s.ID, nil)
		if rerr == nil {
			if res, derr := http.DefaultClient.Do(req); derr == nil {
				_ = res.Body.Close()
			}
		}
	}()
	execd := url + "/sandboxes/" + s.ID + "/port/44772"
	var session struct {
		ID string `json:"session_id"`
	}
	if err := post(execd+"/session", "", &session); err != nil {
		return err
	}
	for _, c := range []struct{ name, path, bar string }{
		{"session run of true, HTTP from Go", "/session/" + session.ID + "/run", "0.5 ms p50"},
		{"command true, HTTP from Go", "/command", ""},
	} {
		var t times
		for n := range 550 {
			d, err := took(func() error { return post(execd+c.path, `{"command":"true"}`, nil) })
			if err != nil {
				return err
			}
			if n >= 50 {
				t = append(t, d)
			}
		}
		b.row(c.name, t, c.bar)
	}
	return nil
}

// sdkClient measures the SDK, in node.
func (b *bench) sdkClient(address string) error {
	dir, err := npm(sdkDir, "package.json", "package-lock.json", "bench.mjs")
	if err != nil {
		b.notMeasured("the official SDK", err)
		return nil
	}
	defer os.RemoveAll(dir)
	drive := exec.Command("node", "bench.mjs", address)
	drive.Dir = dir
	out, err := drive.Output()
	if err != nil {
		return fmt.Errorf("node bench.mjs: %w: %s", err, out)
	}
	var took struct{ Create, Run []float64 }
	if err := json.Unmarshal(out, &took); err != nil {
		return err
	}
	for _, m := range []struct {
		name string
		ms   []float64
		bar  string
	}{{"Sandbox.create, official SDK", took.Create, "60 ms p50"}, {"commands.run('true'), official SDK", took.Run, "5 ms p50; OpenSandbox's execd: about 1010 ms"}} {
		var t times
		for _, v := range m.ms {
			t = append(t, time.Duration(v*float64(time.Millisecond)))
		}
		b.row(m.name, t, m.bar)
	}
	return nil
}
