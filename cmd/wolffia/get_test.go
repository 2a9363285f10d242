package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"

	"github.com/rogpeppe/go-internal/testscript"

	"wolffia/internal/test/suite"
	"wolffia/internal/test/wait"
)

// get STATUS PATH [KEY] asks the service whose log is the file log, until it answers with
// the status, and prints the answer. The service may be about to start, or to read its keys.
func get(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 || len(args) > 3 {
		ts.Fatalf("usage: get STATUS PATH [KEY]")
	}
	status, err := strconv.Atoi(args[0])
	ts.Check(err)
	client := &http.Client{Timeout: suite.Limit, Transport: &http.Transport{DisableKeepAlives: true}}
	last := "it does not serve"
	if !wait.Poll(func() bool {
		address := servedAt(ts.MkAbs("log"))
		if address == "" {
			return false
		}
		req, err := http.NewRequest(http.MethodGet, "http://"+address+args[1], nil)
		ts.Check(err)
		if len(args) == 3 {
			req.Header.Set("OPEN-SANDBOX-API-KEY", args[2])
		}
		res, err := client.Do(req)
		ts.Check(err)
		text, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		ts.Check(err)
		last = fmt.Sprintf("%d %s", res.StatusCode, text)
		return res.StatusCode == status
	}) {
		ts.Fatalf("get %v: %s", args, last)
	}
	fmt.Fprint(ts.Stdout(), last)
}

// servedAt returns the address that a log says the service listens at; empty if it does not
// say so yet.
func servedAt(log string) string {
	text, err := os.ReadFile(log)
	if err != nil {
		return ""
	}
	for line := range bytes.Lines(text) {
		var entry struct{ Msg, Address string }
		if json.Unmarshal(line, &entry) == nil && entry.Msg == "serving" {
			return entry.Address
		}
	}
	return ""
}
