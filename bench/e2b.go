package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"time"
)

// e2bDir has E2B's SDK for JavaScript as a test pins it.
const e2bDir = "service/e2b/testdata/sdk"

// large is how many bytes a file has that is sent.
const large = 100_000_000

// e2b measures E2B's API: by its SDK, without and with a pool, and by HTTP from Go.
func (b *bench) e2b() error {
	dir, err := npm(e2bDir, "package.json", "package-lock.json", "bench.mjs")
	if err != nil {
		b.notMeasured("E2B's SDK", err)
		return nil
	}
	defer os.RemoveAll(dir)
	if err := b.e2bServed(dir, false); err != nil {
		return err
	}
	if os.Geteuid() == 0 {
		b.notMeasured("Sandbox.create, E2B's SDK, from a pool", errors.New("root has no pools"))
		return nil
	}
	return b.e2bServed(dir, true)
}

// e2bServed measures one service.
func (b *bench) e2bServed(dir string, pooled bool) error {
	var flags []string
	if pooled {
		flags = []string{"--warm", "8"}
	}
	address, stop, err := b.served("e2b", flags...)
	if err != nil {
		return err
	}
	defer func() { _ = stop() }()
	drive := exec.Command("node", "bench.mjs", address, "40")
	drive.Dir = dir
	out, err := drive.Output()
	if err != nil {
		return fmt.Errorf("node bench.mjs: %w: %s", err, out)
	}
	var took map[string][]float64
	if err := json.Unmarshal(out, &took); err != nil {
		return err
	}
	rows := []struct{ key, name, bar string }{
		{"create", "Sandbox.create, E2B's SDK", "60 ms p50"},
		{"run", "commands.run('true'), E2B's SDK", "8 ms p50"},
		{"up", "100 MB up, E2B's SDK", "500 ms: 200 MB/s"},
		{"down", "100 MB down, E2B's SDK", "500 ms: 200 MB/s"},
	}
	if pooled {
		rows = rows[:1]
		rows[0].name, rows[0].bar = rows[0].name+", from a pool", "15 ms p50"
	}
	for _, r := range rows {
		var t times
		for _, ms := range took[r.key] {
			t = append(t, time.Duration(ms*float64(time.Millisecond)))
		}
		b.row(r.name, t, r.bar)
	}
	if pooled {
		return nil
	}
	return b.e2bPlain("http://" + address)
}

// e2bPlain measures files by HTTP from Go.
func (b *bench) e2bPlain(url string) error {
	var s struct {
		ID    string `json:"sandboxID"`
		Token string `json:"envdAccessToken"`
	}
	if err := post(url+"/v2/sandboxes", `{"templateID":"base"}`, &s); err != nil {
		return err
	}
	data := make([]byte, large)
	ask := func(method string, body io.Reader) (n int64, err error) {
		q, err := http.NewRequest(method, url+"/files?path=/tmp/large", body)
		if err != nil {
			return 0, err
		}
		for name, value := range map[string]string{
			"E2b-Sandbox-Id": s.ID, "E2b-Sandbox-Port": "49983", "X-Access-Token": s.Token, "Content-Type": "application/octet-stream",
		} {
			q.Header.Set(name, value)
		}
		res, err := http.DefaultClient.Do(q)
		if err != nil {
			return 0, err
		}
		defer res.Body.Close()
		n, err = io.Copy(io.Discard, res.Body)
		if err == nil && res.StatusCode != http.StatusOK {
			err = errors.New(res.Status)
		}
		return n, err
	}
	var up, down times
	for range 5 {
		d, err := took(func() error {
			_, err := ask(http.MethodPost, bytes.NewReader(data))
			return err
		})
		if err != nil {
			return err
		}
		up = append(up, d)
		d, err = took(func() error {
			n, err := ask(http.MethodGet, nil)
			if err == nil && n != large {
				err = fmt.Errorf("%d bytes", n)
			}
			return err
		})
		if err != nil {
			return err
		}
		down = append(down, d)
	}
	b.row("100 MB up, HTTP from Go", up, "500 ms: 200 MB/s")
	b.row("100 MB down, HTTP from Go", down, "500 ms: 200 MB/s")
	return nil
}
