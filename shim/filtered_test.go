package shim

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"testing"
	"time"

	"wolffia/fusefs/audit"
	"wolffia/internal/host/egress"
	"wolffia/internal/host/statedir"
)

// newFiltered returns one without a filter, and the function that reads its log.
func newFiltered(t *testing.T) (*filtered, func() []audit.Record) {
	t.Helper()
	run := t.TempDir()
	e := &filtered{log: audit.NewLog(statedir.NetworkAudit(run), nil)}
	t.Cleanup(func() { e.log.Close(time.Minute) }) // before run is removed
	return e, func() (all []audit.Record) {
		t.Helper()
		e.log.Close(time.Minute)
		logs, err := audit.OpenAll(filepath.Join(run, "network.log"))
		if err != nil {
			t.Fatal(err)
		}
		defer logs.Close()
		for {
			r, err := logs.Next()
			if errors.Is(err, io.EOF) {
				return all
			}
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, r)
		}
	}
}

// A client gets what was refused since it asked, once for each kind, and of many kinds a few.
func TestRefused(t *testing.T) {
	e, _ := newFiltered(t)
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	if r := e.refused(0); r.Refused != nil || r.Seen != 0 {
		t.Errorf("refused: got r %+v; want r.Refused == nil and r.Seen == 0", r)
	}
	ev := egress.Event{Time: at, Op: egress.OpConnect, Name: "a.example", Port: 22, Reason: egress.ReasonPort, Remedy: "--allow-host a.example:22"}
	e.event(ev)
	before := e.refused(1 << 62)
	if before.Refused != nil || before.Seen != 1 {
		t.Errorf("refused: got before %+v; want before.Refused == nil and before.Seen == 1", before)
	}
	if r := e.refused(before.Seen); r.Refused != nil {
		t.Errorf("refused: got %+v, want nil", r.Refused)
	}
	e.event(ev)
	r := e.refused(before.Seen)
	if r.Seen != 2 || r.Refused == nil || len(r.Refused.List) != 1 || r.Refused.More != 0 {
		t.Fatalf("refused: got r.Refused %+v; want r.Seen == 2 and r.Refused != nil and len(r.Refused.List) == 1 and r.Refused.More == 0",
			r.Refused)
	}
	if got := r.Refused.List[0]; got.Name != "a.example" || got.Port != 22 || got.Allow != ev.Remedy || got.Count != 1 || !got.Time.Equal(at) {
		t.Errorf(`got %+v; want got.Name == "a.example" and got.Port == 22 and got.Allow == %v and got.Count == 1 and got.Time.Equal(at)`,
			got, ev.Remedy)
	}
	for i := range 40 {
		e.event(egress.Event{Time: at, Op: egress.OpConnect, Name: fmt.Sprintf("%d.example\x1b", i), Reason: egress.ReasonName})
	}
	r = e.refused(r.Seen)
	if len(r.Refused.List) != maxRefusals || r.Refused.More != 40-maxRefusals {
		t.Errorf("%d and %d more", len(r.Refused.List), r.Refused.More)
	}
	if got := r.Refused.List[0].Name; got != `30.example\x1b` {
		t.Errorf("got %q, want %q", got, `30.example\x1b`)
	}
}

// The log has how often each was refused, and what a policy that learns has let pass, which no client gets.
func TestRefusedLog(t *testing.T) {
	e, read := newFiltered(t)
	ev := egress.Event{Time: time.Now(), Op: egress.OpLookup, Name: "a.example", Reason: egress.ReasonName}
	for range 32 {
		e.event(ev)
	}
	e.event(egress.Event{Time: time.Now(), Op: egress.OpConnect, Name: "b.example", Port: 443, Reason: egress.ReasonLearned, Remedy: "--allow-host b.example:443"})
	if r := e.refused(0); r.Seen != 32 || len(r.Refused.List) != 1 {
		t.Errorf("refused: got r %+v; want r.Seen == 32 and len(r.Refused.List) == 1", r)
	}
	var a, b int64
	for _, r := range read() {
		switch r.Host.Name {
		case "a.example":
			a += r.Count
		case "b.example":
			b += r.Count
		}
	}
	if a != 32 || b != 1 {
		t.Errorf("%d and %d", a, b)
	}
}

// Many refusals at once are not all in the log: it says how many are missing, and has the names of the others. The last
// ones are in the answer to a client whatever came before, with the process that asked last.
func TestRefusedFlood(t *testing.T) {
	e, read := newFiltered(t)
	const flood = 20000
	now := time.Now()
	for i := range flood {
		e.event(egress.Event{Time: now, Op: egress.OpLookup, Name: fmt.Sprintf("%d.example", i), Reason: egress.ReasonName, PID: i + 1})
	}
	for i := range 40 {
		seen := e.refused(1 << 62).Seen
		e.event(egress.Event{Time: now, Op: egress.OpConnect, Name: "last.example", Port: 22, Reason: egress.ReasonPort, PID: i + 1})
		r := e.refused(seen)
		if r.Refused == nil || len(r.Refused.List) != 1 || r.Refused.List[0].Name != "last.example" || r.Refused.List[0].PID != i+1 {
			t.Fatalf("refusal %d: %+v", i+1, r.Refused)
		}
	}
	var lines int
	var count, dropped int64
	for _, r := range read() {
		dropped += r.Dropped
		if r.Dropped > 0 {
			continue
		}
		lines++
		count += r.Count
		if r.Host.Name == "" {
			t.Errorf(`got r %+v; want r.Host.Name != ""`, r)
		}
	}
	if dropped == 0 || count+dropped != flood+40 || lines > flood/10 {
		t.Errorf("%d lines of %d refusals, %d without one", lines, count, dropped)
	}
}
