package code_test

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"wolffia/internal/test/servetest"
	"wolffia/internal/test/testbin"
	"wolffia/internal/test/testenv"
	"wolffia/ops/code"
	"wolffia/runtime"
	"wolffia/service"
)

func TestMain(m *testing.M) {
	syscall.Umask(0o077)
	m.Run()
	testbin.Remove()
}

// A world is a sandbox with kernels.
type world struct {
	*servetest.World
	kernels *code.Kernels
	box     code.Box
}

func newWorld(t *testing.T) *world {
	testenv.Tools(t, "python3", "node")
	w := &world{World: servetest.New(t, "")}
	all := service.Caller{All: true}
	s, _, err := w.Service.Create(w.Ctx, &service.Params{})
	w.OK(err)
	in, err := w.Service.Inside(w.Ctx, all, s.ID)
	w.OK(err)
	w.kernels, w.box = in.Kernels()
	return w
}

// An outcome is what a cell has made known.
type outcome struct {
	stdout, stderr, text, failed string
	count                        int
	results                      []code.Event
}

func (w *world) context(language string) *code.Context {
	w.Helper()
	c, err := w.kernels.Create(w.Ctx, w.box, language, "")
	w.OK(err)
	return c
}

func (w *world) run(ctx context.Context, c *code.Context, text string, env map[string]string) (*outcome, error) {
	o := &outcome{}
	err := c.Run(ctx, code.Cell{Code: text, Env: env}, func(e *code.Event) error {
		switch e.Type {
		case code.Began:
			o.count = e.Count
		case code.Stdout:
			o.stdout += e.Text
		case code.Stderr:
			o.stderr += e.Text
		case code.Failed:
			o.failed = e.Name + ": " + e.Value
		case code.Result:
			o.results = append(o.results, *e)
			if e.Main {
				o.text, _ = e.Data["text/plain"].(string)
			}
		}
		return nil
	})
	return o, err
}

// Each language keeps its state, has its streams apart, and an environment of each cell.
func TestCells(t *testing.T) {
	w := newWorld(t)
	for _, test := range []struct {
		language, code string
		want           outcome
	}{
		{"python", "x = 1\nprint('a')", outcome{stdout: "a\n", count: 1}},
		{"python", "import sys; print('e', file=sys.stderr); x + 1", outcome{stderr: "e\n", text: "2", count: 2}},
		{"python", "y", outcome{failed: "NameError: name 'y' is not defined", count: 3}},
		{"python", "  import os\n  os.environ['CELL']", outcome{text: "'in'", count: 4}},
		{"python", "import asyncio\nawait asyncio.sleep(0, 'waited')", outcome{text: "'waited'", count: 5}},
		{"python", "!echo out; echo err >&2", outcome{stdout: "out\n", stderr: "err\n", count: 6}},
		{"python", "import os; os.write(1, b'{\"type\":\"result\"}\\n'); None", outcome{stdout: "{\"type\":\"result\"}\n", count: 7}},
		{"python", "exit(3)", outcome{failed: "SystemExit: 3", count: 8}},
		{"python", "x", outcome{text: "1", count: 9}},
		{"js", "var x = 1; console.log('a'); console.error('e')", outcome{stdout: "a\n", stderr: "e\n", count: 1}},
		{"js", "x + 1", outcome{text: "2", count: 2}},
		{"js", "y", outcome{failed: "ReferenceError: y is not defined", count: 3}},
		{"js", "process.env.CELL", outcome{text: "in", count: 4}},
		{"js", "const z = await Promise.resolve({a: 1}); z", outcome{text: "{ a: 1 }", count: 5}},
		{"js", "import { readFileSync as r } from 'fs'\ntypeof r", outcome{text: "function", count: 6}},
		{"js", "require('child_process').spawnSync('echo', ['{}'], {stdio: 'inherit'}).status", outcome{stdout: "{}\n", text: "0", count: 7}},
		{"js", "[z.a, process.env.CELL]", outcome{text: "[ 1, 'in' ]", count: 8}},
		{"bash", "x=1; echo $x; echo e >&2", outcome{stdout: "1\n", stderr: "e\n", count: 1}},
		{"bash", "echo $x $CELL; false", outcome{stdout: "1 in\n", failed: "ExitCode: 1", count: 2}},
	} {
		c, err := w.kernels.Default(w.box, test.language, "")
		w.OK(err)
		o, err := w.run(w.Ctx, c, test.code, map[string]string{"CELL": "in"})
		w.OK(err)
		o.results = nil
		if o.stdout != test.want.stdout || o.stderr != test.want.stderr || o.text != test.want.text ||
			o.failed != test.want.failed || o.count != test.want.count {
			t.Errorf("%s %q: got %+v, want %+v", test.language, test.code, *o, test.want)
		}
	}
	c, err := w.kernels.Default(w.box, "python", "")
	w.OK(err)
	if o, err := w.run(w.Ctx, c, "import os; os.environ.get('CELL')", nil); err != nil || o.text != "" {
		t.Errorf("the environment of a cell has stayed: %+v, %v", o, err)
	}
	if _, err := w.kernels.Create(w.Ctx, w.box, "r", ""); !errors.Is(err, runtime.ErrUnsupported) {
		t.Errorf("language r: %v, want %v", err, runtime.ErrUnsupported)
	}
	if _, err := w.kernels.Create(w.Ctx, w.box, "python", "/no/such"); err == nil {
		t.Error("a kernel has started in a directory that does not exist")
	}
}

// A cell can say where the context works from then on.
func TestCwd(t *testing.T) {
	w := newWorld(t)
	for language, where := range map[string]string{
		"python": "import os; print(os.getcwd())", "js": "console.log(process.cwd())", "bash": "pwd",
	} {
		c := w.context(language)
		stdout := ""
		err := c.Run(w.Ctx, code.Cell{Code: where, Cwd: "/usr"}, func(e *code.Event) error {
			stdout += e.Text
			return nil
		})
		if err != nil || stdout != "/usr\n" {
			t.Errorf("%s: %q, %v", language, stdout, err)
		}
		o := &outcome{}
		err = c.Run(w.Ctx, code.Cell{Code: where, Cwd: "/no/such"}, func(e *code.Event) error {
			if e.Type == code.Failed {
				o.failed = e.Name
			}
			return nil
		})
		if err == nil && o.failed == "" {
			t.Errorf("%s: a directory that does not exist is no error", language)
		}
		if o, err := w.run(w.Ctx, c, where, nil); err != nil || strings.TrimSpace(o.stdout) == "/workspace" && language != "bash" {
			t.Errorf("%s: after it: %+v, %v", language, o, err)
		}
	}
}

// The end of a caller's context interrupts the cell, and the kernel goes on with its state.
func TestInterrupt(t *testing.T) {
	w := newWorld(t)
	for language, cells := range map[string][3]string{
		"python": {"x = 1", "print('b', flush=True)\nwhile True: pass", "x"},
		"js":     {"var x = 1", "console.log('b'); await new Promise(() => {})", "x"},
		"bash":   {"x=1", "echo b; sleep 1000", "echo $x"},
	} {
		c := w.context(language)
		if _, err := w.run(w.Ctx, c, cells[0], nil); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(w.Ctx)
		err := c.Run(ctx, code.Cell{Code: cells[1]}, func(e *code.Event) error {
			if e.Type == code.Stdout {
				cancel()
			}
			return nil
		})
		cancel()
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: got %v, want %v", language, err, context.Canceled)
		}
		o, err := w.run(w.Ctx, c, cells[2], nil)
		if err != nil || o.text+strings.TrimSpace(o.stdout) != "1" {
			t.Errorf("%s: after the interrupt: %+v, %v", language, o, err)
		}
	}
}

// Busy and sleeping cells end by Interrupt, and say so.
func TestInterruptByAnother(t *testing.T) {
	w := newWorld(t)
	for language, text := range map[string]string{
		"js": "console.log('b'); for (;;);", "python": "import time\nprint('b')\ntime.sleep(1000)",
	} {
		c := w.context(language)
		o := &outcome{}
		err := c.Run(w.Ctx, code.Cell{Code: text}, func(e *code.Event) error {
			switch e.Type {
			case code.Stdout:
				go c.Interrupt()
			case code.Failed:
				o.failed = e.Name + e.Value
			}
			return nil
		})
		if err != nil || !strings.Contains(o.failed, "nterrupt") {
			t.Errorf("%s: got %q, %v", language, o.failed, err)
		}
	}
}

// A kernel that dies is named, and made again; one that is restarted has lost its state.
func TestDeath(t *testing.T) {
	w := newWorld(t)
	for language, kill := range map[string]string{
		"python": "import os; os.kill(os.getpid(), 9)", "js": "process.exit(3)",
	} {
		c := w.context(language)
		o, err := w.run(w.Ctx, c, kill, nil)
		if err != nil || !strings.HasPrefix(o.failed, "KernelDied: ") {
			t.Errorf("%s: got %+v, %v", language, o, err)
		}
		for range 2 {
			if o, err := w.run(w.Ctx, c, "x = 1", nil); err != nil || o.count != 1 || o.failed != "" {
				t.Errorf("%s: after its end: %+v, %v", language, o, err)
			}
			w.OK(c.Restart(w.Ctx))
		}
	}
	c := w.context("bash")
	if _, err := w.run(w.Ctx, c, "x=1", nil); err != nil {
		t.Fatal(err)
	}
	w.OK(c.Restart(w.Ctx))
	if o, err := w.run(w.Ctx, c, "echo ${x-none}", nil); err != nil || o.stdout != "none\n" {
		t.Errorf("bash, restarted: %+v, %v", o, err)
	}
	w.OK(w.kernels.Remove(w.box.ID, c.ID))
	if _, err := w.run(w.Ctx, c, "true", nil); !errors.Is(err, runtime.ErrNotFound) {
		t.Errorf("a removed context: %v, want %v", err, runtime.ErrNotFound)
	}
}

// A kernel cannot fill the host's memory, nor leave contexts of a sandbox that has ended.
func TestHostile(t *testing.T) {
	w := newWorld(t)
	c := w.context("python")
	o, err := w.run(w.Ctx, c, "import os\nwhile True: os.write(control, b'x' * (1 << 20))", nil)
	if err == nil && o.failed == "" {
		t.Errorf("a kernel that sends no frames: %+v, %v", o, err)
	}
	const forge = "import gc, json, os\n[os.write(n, json.dumps({'cell': c, 'type': 'done'}).encode() + b'\\n') " +
		"for n in range(3, 20) for c in range(9) if os.path.exists(f'/proc/self/fd/{n}') and 'pipe' in os.readlink(f'/proc/self/fd/{n}')]"
	_, _ = w.run(w.Ctx, c, forge, nil) // whatever it says of itself, the next cell runs
	if o, err := w.run(w.Ctx, w.context("python"), "1", nil); err != nil || o.text != "1" {
		t.Errorf("the context beside it: %+v, %v", o, err)
	}
	for len(w.kernels.List(w.box.ID)) < code.MaxContexts {
		w.context("bash")
	}
	if _, err := w.kernels.Create(w.Ctx, w.box, "bash", ""); !errors.Is(err, runtime.ErrConflict) {
		t.Errorf("one context more: %v, want %v", err, runtime.ErrConflict)
	}
	w.OK(w.Service.Destroy(w.Ctx, service.Caller{All: true}, w.box.ID))
	if left := w.kernels.List(w.box.ID); len(left) > 0 {
		t.Errorf("%d contexts are left", len(left))
	}
}

// A kernel that runs no cell for the idle time ends, so that it does not keep its sandbox.
func TestIdle(t *testing.T) {
	w := newWorld(t)
	w.box.Idle = 100 * time.Millisecond
	c := w.context("python")
	for begin := time.Now(); ; {
		o, err := w.run(w.Ctx, c, "x = 1", nil)
		w.OK(err)
		if o.count == 1 && time.Since(begin) > time.Second {
			break
		}
		if time.Since(begin) > time.Minute {
			t.Fatal("the kernel has not ended")
		}
		time.Sleep(300 * time.Millisecond)
	}
}
