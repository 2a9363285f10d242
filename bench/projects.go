package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// projectFiles are a small program over net/http, with tests.
var projectFiles = map[string]string{
	".gitignore":   "/hello*\n",
	"go.mod":       "module hello\n\ngo 1.21\n",
	"main.go":      "package main\n\nimport (\n\t\"fmt\"\n\t\"net/http\"\n)\n\nfunc main() { fmt.Println(http.StatusText(404)) }\n",
	"main_test.go": "package main\n\nimport \"testing\"\n\nfunc TestMain(m *testing.M) { main(); m.Run() }\n",
	"sum.test.js":  "require('node:test').test('sum', () => require('node:assert').equal(1 + 1, 2))\n",
}

// projectCommands are what people wait for. before runs on the host, unmeasured.
var projectCommands = []struct {
	name, tool, before, command string
	bar                         float64 // times plain
}{
	{"go build, second, nothing changed", "go", "", "go build -o hello$who .", 1.3},
	{"go build after an edit", "go", "echo // $round >>main.go", "go build -o hello$who .", 1.3},
	{"go test -count=1", "go", "", "go test -count=1 .", 1.3},
	{"node --test", "node", "", "node --test sum.test.js", 1.3},
	{"true", "true", "", "true", 0},
}

// projects compares commands in a project, as whole processes with their caches kept: on the host,
// by srt, and by wolffia run with its defaults, turn by turn.
func (b *bench) projects() error {
	dir, err := os.MkdirTemp("", "wolffia-bench-project")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	for name, text := range projectFiles {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	if err := outputError(exec.Command("git", "init", "-q", dir)); err != nil {
		return err
	}
	runners := []func(script string) *exec.Cmd{
		func(script string) *exec.Cmd { return exec.Command("sh", "-c", script) },
		func(script string) *exec.Cmd { return b.command("run", "-q", "--", "sh", "-c", script) },
	}
	head := "plain p50\twolffia p50"
	switch srt, end, err := b.srtWriting(dir); {
	case err != nil:
		b.notMeasured("srt", err)
	default:
		defer end()
		runners, head = append([]func(string) *exec.Cmd{srt}, runners...), "srt p50\t"+head
	}
	fmt.Fprintf(b.table, "a small Go and Node project\t%s\tratio\tbar\t\n", head)
	for _, c := range projectCommands {
		if _, err := exec.LookPath(c.tool); err != nil {
			b.notMeasured(c.name, err)
			continue
		}
		t := make([]times, len(runners))
		for i := range peerTurns + 2 { // two fill the caches
			for j, in := range runners {
				before := exec.Command("sh", "-c", fmt.Sprintf("round=%d; %s", i*len(runners)+j, c.before))
				before.Dir = dir
				if err := outputError(before); err != nil {
					return err
				}
				d, err := took(func() error {
					cmd := in(fmt.Sprintf("who=%d; %s", j, c.command)) // each its own output: the settings of Go differ
					cmd.Dir, cmd.Stderr = dir, nil
					return outputError(cmd)
				})
				if err != nil {
					return fmt.Errorf("%s: %w", c.name, err)
				}
				if i >= 2 {
					t[j] = append(t[j], d)
				}
			}
		}
		b.ratio(c.name, c.bar, t...)
	}
	return nil
}

// srtWriting returns a function that runs a script by srt, which may write in dir and in Go's cache.
func (b *bench) srtWriting(dir string) (run func(script string) *exec.Cmd, end func(), err error) {
	at, err := npm("bench/testdata/srt", "package.json", "package-lock.json")
	if err != nil {
		return nil, nil, err
	}
	cache, _ := os.UserCacheDir()
	settings := filepath.Join(at, "settings.json")
	text := fmt.Sprintf(`{"network": {"allowedDomains": [], "deniedDomains": []},
		"filesystem": {"denyRead": [], "allowWrite": [%q, %q, "/tmp"], "denyWrite": []}}`, dir, cache)
	end = func() { _ = os.RemoveAll(at) }
	run = func(script string) *exec.Cmd {
		return exec.Command(filepath.Join(at, "node_modules", ".bin", "srt"), "-s", settings, "-c", "TMPDIR=/tmp; "+script) // its own may not exist
	}
	if err = os.WriteFile(settings, []byte(text), 0o600); err == nil {
		cmd := run("true")
		cmd.Dir = dir
		err = outputError(cmd)
	}
	if err != nil {
		end()
	}
	return run, end, err
}
