package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// stream is events of package p, each a test, an action, and seconds or a text.
func stream(t *testing.T, all ...[2]any) string {
	t.Helper()
	var b strings.Builder
	for _, a := range all {
		test, action, _ := strings.Cut(a[0].(string), " ")
		e := event{Action: action, Package: "wolffia/p", Test: test}
		switch v := a[1].(type) {
		case float64:
			e.Elapsed = v
		case string:
			e.Output = v
		}
		line, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		b.Write(append(line, '\n'))
	}
	return b.String()
}

func TestReader(t *testing.T) {
	for what, tt := range map[string]struct{ in, want string }{
		"one of two fails": {
			stream(t, [2]any{"TestA output", "a says\n"}, [2]any{"TestB output", "b says\n"}, [2]any{"TestA pass", 1.0}, [2]any{"TestB fail", 2.0}, [2]any{" output", "FAIL\n"}, [2]any{" fail", 3.0}),
			"b says\nFAIL\nFAIL user: wolffia/p\n",
		},
		"one does not end": {
			stream(t, [2]any{"TestA output", "panic: x\n"}, [2]any{" fail", 3.0}),
			"panic: x\nFAIL user: wolffia/p\n",
		},
		"it passes": {
			stream(t, [2]any{"TestA output", "a says\n"}, [2]any{"TestA skip", 0.0}, [2]any{" output", "ok wolffia/p 1.2s\n"}, [2]any{" pass", 1.23}),
			"ok   user: wolffia/p 1.2s\n",
		},
		"it is cached":      {stream(t, [2]any{" output", "ok  \twolffia/p\t(cached)\n"}, [2]any{" pass", 1.23}), "ok   user: wolffia/p 1.2s (cached)\n"},
		"it has no tests":   {stream(t, [2]any{" skip", 0.0}), ""},
		"it does not build": {stream(t, [2]any{" build-output", "x.go:1: no\n"}, [2]any{" fail", 0.0}), "x.go:1: no\nFAIL user: wolffia/p\n"},
		"go says something": {"go: no such package", "go: no such package"},
	} {
		var b strings.Builder
		if err := newReader("user", &b).read(strings.NewReader(tt.in)); err != nil || b.String() != tt.want {
			t.Errorf("%s: %v, %q, want %q", what, err, b.String(), tt.want)
		}
	}
}

func TestSummary(t *testing.T) {
	user := stream(t,
		[2]any{"TestRoot output", "    a_test.go:1: NEEDS root: the tests run as another user\n"}, [2]any{"TestRoot skip", 0.0},
		[2]any{"TestLong output", "    a_test.go:1: SOAK: it takes minutes\n"}, [2]any{"TestLong skip", 0.0},
		[2]any{"TestTools output", "    a_test.go:1: NEEDS the program x\n"}, [2]any{"TestTools skip", 0.0},
		[2]any{"TestA/one pass", 3.0}, [2]any{"TestA/two pass", 4.0}, [2]any{"TestA pass", 7.0}, [2]any{" pass", 8.0})
	const times = "the slowest tests:\n    4.0s  user: p.TestA/two\n    3.0s  user: p.TestA/one\n"
	const skipped = "left to make soak: 1 tests\nSKIPPED, in all passes: "
	tools := "  p.TestTools: a_test.go:1: NEEDS the program x \n"
	t.Setenv("WOLFFIA_REQUIRE", "")
	for what, tt := range map[string]struct{ root, want, err string }{
		"one pass":             {"", times + skipped + "2 tests\n  p.TestRoot: a_test.go:1: NEEDS root: the tests run as another user \n" + tools, ""},
		"the other pass has":   {stream(t, [2]any{"TestRoot pass", 0.5}), times + "    0.5s  root: p.TestRoot\n" + skipped + "1 tests\n" + tools, ""},
		"the other has it not": {stream(t, [2]any{"TestB pass", 0.5}), times + "    0.5s  root: p.TestB\n" + skipped, "p.TestRoot"},
	} {
		dir := t.TempDir()
		for pass, text := range map[string]string{"user": user, "root": tt.root} {
			if text == "" {
				continue
			}
			if err := os.WriteFile(filepath.Join(dir, pass+".json"), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		var b strings.Builder
		err := end(dir, &b)
		if !strings.HasPrefix(b.String(), tt.want) || (err != nil) != (tt.err != "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s: %v\n%s\nwant\n%s", what, err, b.String(), tt.want)
		}
	}
}

// A host that must have everything lets nothing be skipped for want of it.
func TestSummaryStrict(t *testing.T) {
	for strict, want := range map[bool]bool{false: false, true: true} {
		s := newSummary(strict)
		text := stream(t, [2]any{"TestA output", "NEEDS cgroups: it has none\n"}, [2]any{"TestA skip", 0.0})
		for _, pass := range []string{"user", "root-p"} {
			if err := s.read(pass, strings.NewReader(text)); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.print(&strings.Builder{}); (err != nil) != want {
			t.Errorf("%v: got err %v; want (err != nil) == %v", strict, err, want)
		}
	}
}

// The exit code is the command's, and what it prints is kept.
func TestRun(t *testing.T) {
	dir := t.TempDir()
	for script, want := range map[string]int{"true": 0, "exit 3": 3, "kill -9 $$": 1} {
		if code, err := run(dir, "user", []string{"sh", "-c", "echo '{\"Action\":\"start\"}'; " + script}); code != want || err != nil {
			t.Errorf("%s: %d, %v, want %d", script, code, err, want)
		}
		if b, err := os.ReadFile(filepath.Join(dir, "user.json")); err != nil || string(b) != "{\"Action\":\"start\"}\n" {
			t.Errorf("%s: got %v, %s; want nil, %q", script, err, b, "{\"Action\":\"start\"}\n")
		}
	}
}

// Single tests that have failed get a second try, and nothing else does.
func TestFailed(t *testing.T) {
	const (
		a    = `{"Action":"run","Package":"p","Test":"TestA"}` + "\n"
		sub  = `{"Action":"fail","Package":"p","Test":"TestA/sub"}` + "\n"
		bad  = `{"Action":"fail","Package":"p","Test":"TestA"}` + "\n"
		good = `{"Action":"pass","Package":"p","Test":"TestA"}` + "\n"
		b    = `{"Action":"run","Package":"p","Test":"TestB"}` + "\n" + `{"Action":"fail","Package":"p","Test":"TestB"}` + "\n"
		end  = `{"Action":"fail","Package":"p"}` + "\n"
		q    = `{"Action":"run","Package":"q","Test":"TestQ"}` + "\n" + `{"Action":"fail","Package":"q","Test":"TestQ"}` + "\n" + `{"Action":"fail","Package":"q"}` + "\n"
	)
	for name, test := range map[string]struct{ events, want string }{
		"one":                {a + sub + bad + end, "p TestA\n"},
		"two of one package": {a + sub + bad + b + end, "p TestA|TestB\n"},
		"of two packages":    {a + bad + end + q, "p TestA\nq TestQ\n"},
		"none":               {a + good, ""},
		"outside of tests":   {a + good + end, ""},
		"one has not ended":  {b + a + end, ""},
		"too many":           {a + bad + strings.Repeat(b, mostFailed) + end, ""},
		"not built":          {a + bad + end + `{"Action":"build-fail","ImportPath":"r"}` + "\n", ""},
	} {
		var out strings.Builder
		err := failed(strings.NewReader(test.events), &out)
		if out.String() != test.want || (err == nil) != (test.want != "") {
			t.Errorf("%s: %q, %v, want %q", name, out.String(), err, test.want)
		}
	}
}
