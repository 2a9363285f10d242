//go:build !small

package serving

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"wolffia/cmd/wolffia/internal/history"
	"wolffia/runtime"
	"wolffia/service"
	page "wolffia/service/console"
)

// The page finds entries page by page, newest first, by each part of a query; and exports the lines as
// the log has them.
func TestEvidence(t *testing.T) {
	state := t.TempDir()
	begin := time.Now()
	for i := range 25 {
		if err := history.Add(state, history.Entry{
			Time: begin.Add(time.Duration(i) * time.Second), Sandbox: fmt.Sprint("box", i%2), Command: []string{"make", fmt.Sprint("Target-", i)},
		}); err != nil {
			t.Fatal(err)
		}
	}
	record := recorder(state, "console", slog.New(slog.DiscardHandler))
	record(&service.Record{Kind: service.RecordApply, Sandbox: &runtime.Sandbox{ID: "box1", CodebasePath: "/src"}, Key: "k", Changes: 2, Paths: []string{"a"}})
	v := &evidence{state}
	find := func(q page.EvidenceQuery) ([]page.EvidenceEntry, bool) {
		t.Helper()
		list, more, err := v.Find(t.Context(), &q)
		if err != nil {
			t.Fatal(err)
		}
		return list, more
	}
	seen := 0
	for before := int64(0); ; {
		list, more := find(page.EvidenceQuery{Limit: 10, Before: before})
		for i, e := range list {
			if want := int64(26 - seen); e.Seq != want || len(e.Hash) != 64 {
				t.Errorf("entry %d of a page is %+v, want number %d", i, e, want)
			}
			seen++
		}
		if !more {
			break
		}
		before = list[len(list)-1].Seq
	}
	if seen != 26 {
		t.Errorf("%d entries were found, want 26", seen)
	}
	for what, c := range map[string]struct {
		q    page.EvidenceQuery
		want int
	}{
		"a text in any case": {page.EvidenceQuery{Text: "target-7"}, 1},
		"a sandbox":          {page.EvidenceQuery{Sandbox: "box1"}, 13},
		"a kind":             {page.EvidenceQuery{Kind: "apply"}, 1},
		"commands":           {page.EvidenceQuery{Kind: "command", Sandbox: "box0"}, 13},
		"a time":             {page.EvidenceQuery{Kind: "command", Since: begin.Add(5 * time.Second).UnixMilli(), Until: begin.Add(8 * time.Second).UnixMilli()}, 3},
		"nothing":            {page.EvidenceQuery{Text: "absent"}, 0},
	} {
		c.q.Limit = 100
		list, more := find(c.q)
		var out bytes.Buffer
		if err := v.Export(t.Context(), &c.q, &out); err != nil {
			t.Fatal(err)
		}
		if lines := strings.Count(out.String(), "\n"); len(list) != c.want || more || lines != c.want {
			t.Errorf("%s: %d entries, %d lines, want %d", what, len(list), lines, c.want)
		}
	}
	list, _ := find(page.EvidenceQuery{Kind: "apply", Limit: 1})
	if e := list[0]; e.Who != "console, key k" || e.Changes != 2 || e.Codebase != "/src" {
		t.Errorf("the record is %+v", e)
	}
	recorder(state, "serve", slog.New(slog.DiscardHandler))(&service.Record{
		Kind: service.RecordCommand, Sandbox: &runtime.Sandbox{ID: "box2"}, Key: "ci", Command: []string{"make"}, ExitCode: 2, Duration: time.Second,
	})
	if list, _ := find(page.EvidenceQuery{Kind: "command", Sandbox: "box2", Limit: 1}); len(list) != 1 || list[0].Who != "serve, key ci" || list[0].ExitCode != 2 || list[0].DurationMS != 1000 {
		t.Errorf("the command of a caller is %+v", list)
	}
	if r, err := v.Verify(t.Context()); err != nil || !r.(*history.Report).OK {
		t.Errorf("the log: %+v, %v", r, err)
	}
}
