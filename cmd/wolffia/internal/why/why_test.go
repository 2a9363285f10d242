package why

import (
	"testing"
	"time"

	"wolffia/cmd/wolffia/internal/history"
)

func TestLastFailed(t *testing.T) {
	all := []history.Entry{
		{Sandbox: "a", ExitCode: 1, Codebase: "/src/app", Dir: "/elsewhere"},
		{Sandbox: "b", ExitCode: 1, Codebase: "/src/other", Dir: "/src/other"},
		{Sandbox: "c", Codebase: "/src/app", Dir: "/src/app"},
		{Sandbox: "d", ExitCode: 1, Dir: "/here"},
		{Sandbox: "e", ExitCode: 1, Codebase: "/src/more", Dir: "/src/more"},
	}
	for here, want := range map[string]string{"/src/app/sub": "a", "/src/application": "e", "/src/other": "b", "/here": "d", "": "e"} {
		if e := lastFailed(all, here); e == nil || e.Sandbox != want {
			t.Errorf("in %q: got %+v, want %s", here, e, want)
		}
	}
	if e := lastFailed(all[2:3], "/src/app"); e != nil {
		t.Errorf("of commands that worked: %+v", e)
	}
}

func TestParseSince(t *testing.T) {
	now := time.Date(2026, 11, 29, 15, 4, 5, 0, time.UTC)
	for text, want := range map[string]string{
		"2h": "2026-11-29 13:04:05", "3d": "2026-11-26 15:04:05", "today": "2026-11-29 00:00:00", "yesterday": "2026-11-28 00:00:00",
		"2026-11-01": "2026-11-01 00:00:00", "2026-11-01 10:00:00": "2026-11-01 10:00:00", "2026-11-01T10:00:00Z": "2026-11-01 10:00:00",
	} {
		if got, ok := parseSince(text, now); !ok || got.Format(time.DateTime) != want {
			t.Errorf("%s: got %v, want %s", text, got, want)
		}
	}
	for _, text := range []string{"", "-2h", "-1d", "soon", "1"} {
		if got, ok := parseSince(text, now); ok {
			t.Errorf("%q is %v, want none", text, got)
		}
	}
}
