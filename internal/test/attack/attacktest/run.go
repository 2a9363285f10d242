// Package attacktest runs the attacks of package attack. It prepares the host that they
// are made against, makes the sandboxes that they run in, and compares.
package attacktest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"wolffia/internal/host/probe"
	"wolffia/internal/test/attack"
	"wolffia/internal/test/shimtest"
	"wolffia/internal/test/suite"
	"wolffia/internal/test/testenv"
	"wolffia/perm"
	"wolffia/runtime"
)

// A Config says what is attacked.
type Config struct {
	Backend string // one of attack.Backends; its end says whether root is inside
	// New returns a runtime over a fresh state directory, which must be empty in the end.
	New func(t testing.TB) *shimtest.Runtime
	// Sample leaves out half of the attacks that have a sandbox of their own, as root three of
	// four, unless the run is full (see [testenv.Full]).
	Sample bool
}

// bench is what all rows of a run share.
type bench struct {
	*Config
	*host
	rt     *shimtest.Runtime
	caller string
	image  string // the id of the image that sandboxes with root inside have; else empty
	root   bool   // they have root inside
}

// Run attacks a backend as the caller that the test runs as. The caller must not
// have called t.Parallel.
func Run(t *testing.T, c *Config) {
	t.Setenv(marker, "the-caller's-own-marker")
	b := &bench{Config: c, host: newHost(t), rt: c.New(t), caller: "user"}
	if os.Geteuid() == 0 {
		b.caller = "root"
	}
	b.root = strings.Contains(c.Backend, attack.WithRoot)
	if b.root && !strings.HasSuffix(c.Backend, attack.OverHost) {
		b.image = shimtest.Busybox(t, b.rt).ID
	}
	every := 2
	if testenv.Second() {
		every = 4
	}
	cgroups := probe.Check(t.Context(), probe.Cgroups).OK
	in := map[attack.Place][]attack.Row{}
	for i, row := range attack.Rows() {
		// Those with a sandbox of their own take the time.
		own := row.In == attack.Alone || row.In == attack.Outside
		limited := strings.HasPrefix(row.ID, "limit.")
		if limited && !cgroups && b.root {
			continue // root's pass shows it
		}
		limited = limited && cgroups // where users have none, root's pass shows it
		if !own || !c.Sample || limited || testenv.Picked(i, every) {
			in[row.In] = append(in[row.In], row)
		}
	}
	t.Run("Shared", func(t *testing.T) {
		t.Parallel()
		b.shared(t, in[attack.Shared], in[attack.Terminal])
	})
	t.Run("HostNet", func(t *testing.T) {
		t.Parallel()
		s := b.sandbox(t, &runtime.SandboxConfig{Network: runtime.NetworkHost})
		b.rows(t, s, in[attack.HostNet], false)
	})
	for _, row := range in[attack.Alone] {
		t.Run(row.ID, func(t *testing.T) {
			t.Parallel()
			b.check(t, row, b.alone(t, row))
		})
	}
	for _, row := range in[attack.Outside] {
		t.Run(row.ID, func(t *testing.T) {
			t.Parallel()
			b.check(t, row, outside[row.ID](&try{T: suite.New(t), bench: b}))
		})
	}
}

// check compares what an attack has come to with the table.
func (b *bench) check(t *testing.T, row attack.Row, observation string) {
	t.Helper()
	if after := afterwards[row.ID]; after != nil {
		observation = after(b.host, observation)
	}
	got, want := attack.Judge(observation), row.On(b.Backend, b.caller)
	if got != want {
		t.Errorf("%s (%s): %s (%s), want %s", row.ID, row.Tries, got, observation, want)
		return
	}
	t.Logf("%s: %s (%s)", row.ID, got, observation)
}

// rules are attack.Rules, parsed; each outranks those before it.
func rules(patterns ...string) []perm.Rule {
	var all []perm.Rule
	for i, p := range patterns {
		r, err := perm.ParseRule(p)
		if err != nil {
			panic(err)
		}
		r.Priority = i
		all = append(all, r)
	}
	return all
}

// program is where the attacker's program is inside.
const program = "/attack/inside"

// create makes a sandbox that has the attacker's program, and destroys it in the end.
func (b *bench) create(t testing.TB, c *runtime.SandboxConfig) (*runtime.Sandbox, error) {
	t.Helper()
	c.Mounts = append(c.Mounts, runtime.Mount{Source: filepath.Join(b.dir, "bin"), Target: filepath.Dir(program)})
	if c.CodebasePath != "" && c.Permissions == nil {
		c.Permissions = rules("**=write")
	}
	c.Root, c.ImageID = b.root, b.image
	s, err := b.rt.Create(t.Context(), c)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), suite.Limit)
		defer cancel()
		if err := b.rt.Destroy(ctx, s.ID); err != nil && !errors.Is(err, runtime.ErrNotFound) {
			t.Error(err)
		}
	})
	return s, nil
}

// sandbox is create, and starts it.
func (b *bench) sandbox(t testing.TB, c *runtime.SandboxConfig) *runtime.Sandbox {
	t.Helper()
	s, err := b.create(t, c)
	if err == nil {
		err = b.rt.Start(t.Context(), s.ID)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// shared does the rows of one sandbox, and then looks whether the host's files are what they were.
func (b *bench) shared(t *testing.T, plain, typed []attack.Row) {
	before := b.protected(t)
	mine := *b.host
	b = &bench{b.Config, &mine, b.rt, b.caller, b.image, b.root} // what its attacker knows, others need not
	other := b.sandbox(t, &runtime.SandboxConfig{CodebasePath: b.path("other")})
	b.leave(t, other)
	s := b.sandbox(t, &runtime.SandboxConfig{
		CodebasePath: b.path("code"), Permissions: rules(attack.Rules...),
		Mounts: []runtime.Mount{{Source: b.path("shown"), Target: "/shown"}},
	})
	b.rows(t, s, plain, false)
	b.rows(t, s, typed, true)
	if after := b.protected(t); after != before {
		t.Errorf("the host has\n%swant\n%s", after, before)
	}
}

// rows does rows in one sandbox, one after the other.
func (b *bench) rows(t *testing.T, s *runtime.Sandbox, rows []attack.Row, tty bool) {
	t.Helper()
	command := []string{program, "rows", b.world(t, s)}
	for _, row := range rows {
		command = append(command, row.ID)
	}
	said := map[string]string{}
	p, err := b.rt.StartProcess(t.Context(), s.ID, &runtime.Command{Command: command, TTY: tty, Merge: !tty})
	if err != nil {
		t.Fatal(err)
	}
	all := suite.New(t).All(p.Stdout())
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	for line := range strings.Lines(all) {
		id, observation, _ := strings.Cut(strings.TrimSpace(line), "\t")
		said[id] = observation
	}
	for _, row := range rows {
		observation, ok := said[row.ID]
		if !ok {
			t.Fatalf("%s: no word of it in %.2000s", row.ID, all)
		}
		b.check(t, row, observation)
		delete(said, row.ID)
	}
	for id, observation := range said {
		t.Errorf("no row asks for: %s %s", id, observation)
	}
}

// alone does a row in a sandbox of its own, and looks whether that lives.
func (b *bench) alone(t *testing.T, row attack.Row) string {
	t.Helper()
	s := b.sandbox(t, &runtime.SandboxConfig{})
	ctx, cancel := context.WithTimeout(t.Context(), suite.Limit)
	defer cancel()
	r, err := b.rt.Exec(ctx, s.ID, &runtime.ExecRequest{Command: []string{program, "row", b.world(t, s), row.ID}})
	observation := ""
	switch {
	case err != nil:
		observation = "lost: " + err.Error()
	case r.Signal != 0:
		observation = fmt.Sprintf("ended by signal %d", int(r.Signal))
	case r.ExitCode != 0:
		observation = fmt.Sprintf("fails: %d, %s", r.ExitCode, r.Stderr)
	default:
		_, observation, _ = strings.Cut(strings.TrimSpace(string(r.Stdout)), "\t")
	}
	if err := b.alive(t, s.ID); err != nil {
		return "the sandbox does not live: " + err.Error() + "; " + observation
	}
	return observation
}

// alive returns an error if a sandbox does not execute commands any more.
func (b *bench) alive(t testing.TB, id string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), suite.Limit/4)
	defer cancel()
	r, err := b.rt.Exec(ctx, id, &runtime.ExecRequest{Command: []string{program, "true"}})
	if err == nil && r.ExitCode != 0 {
		err = fmt.Errorf("exit code %d", r.ExitCode)
	}
	return err
}

// world is what the attacker knows.
func (b *bench) world(t testing.TB, s *runtime.Sandbox) string {
	t.Helper()
	w := b.host.world
	if w.UID = s.UID; s.Root {
		w.UID = 0
	}
	w.State = inFileSystem(t, b.rt.State)
	w.OverHost = b.root && b.image == ""
	text, err := json.Marshal(w)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// inFileSystem returns a directory's path in its file system, which is all that a table of
// mounts shows of one that is bound.
func inFileSystem(t testing.TB, dir string) string {
	t.Helper()
	device := func(dir string) uint64 {
		var st unix.Stat_t
		if err := unix.Stat(dir, &st); err != nil {
			t.Fatal(err)
		}
		return st.Dev
	}
	top := dir
	for up := filepath.Dir(top); up != top && device(up) == device(dir); up = filepath.Dir(top) {
		top = up
	}
	if top == "/" {
		return dir
	}
	return strings.TrimPrefix(dir, top)
}

// leave has another sandbox leave files, a process and a socket.
func (b *bench) leave(t testing.TB, s *runtime.Sandbox) {
	t.Helper()
	r, err := b.rt.Exec(t.Context(), s.ID, &runtime.ExecRequest{Command: []string{"sh", "-c", attack.Leave(b.host.world.Tag)}})
	if err != nil || r.ExitCode != 0 {
		t.Fatal(err, r)
	}
	p, err := b.rt.StartProcess(t.Context(), s.ID, &runtime.Command{Command: []string{program, "listen", b.host.world.Tag}, OpenStdin: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	if _, err := fmt.Fscan(p.Stdout(), &b.host.world.TagPort); err != nil {
		t.Fatal(err)
	}
}
