package server_test

import (
	"regexp"
	"testing"

	"wolffia/internal/test/doctable"
	"wolffia/internal/test/servetest"
	"wolffia/internal/test/testenv"
	"wolffia/internal/test/transcript"
)

// The transcript in docs/service.md is what the commands print.
func TestDocument(t *testing.T) {
	testenv.Tools(t, "curl", "sed")
	d := &transcript.Document{
		Path: "../../docs/service.md", Place: "127.0.0.1:8080", Address: servetest.New(t, "").Address, Unstable: []transcript.Unstable{
			{Form: regexp.MustCompile(`"(sandboxId|containerName)":"[a-z0-9]{12}"`), Stand: `"$1":"gwrn75xnt7lg"`},
			{Form: regexp.MustCompile(`sandbox [a-z0-9]{12} `), Stand: "sandbox gwrn75xnt7lg "},
			{Form: regexp.MustCompile(`wolffia apply [a-z0-9]{12} `), Stand: "wolffia apply gwrn75xnt7lg "},
			{Form: regexp.MustCompile(`"requestId":"[A-Z0-9]{26}"`), Stand: `"requestId":"F4DXWFGTCBBMVNGVRY2A3LQ3PD"`},
			{Form: regexp.MustCompile(`"createdAt":\d+`), Stand: `"createdAt":1795253828799`},
			{Form: regexp.MustCompile(`"durationMs":\d+`), Stand: `"durationMs":1`},
			{Form: regexp.MustCompile(`"id":"[^"]*"`), Stand: `"id":"1"`},
			{Form: regexp.MustCompile(`"pids":\[[^\]]*\]`), Stand: `"pids":[]`},
			{Form: regexp.MustCompile(`"20\d\d-[^"]*"`), Stand: `"2026-11-22T09:37:08.799Z"`},
		},
	}
	d.Check(t, doctable.Updating())
}
