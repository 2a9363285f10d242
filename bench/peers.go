package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"wolffia/internal/sys/runsc"
)

const (
	peerFills = 2
	peerTurns = 15 // of one filling of the pool, less than half of it
	peerPool  = 40
)

// A program is a command line that starts true, or bash, as a whole process.
type program struct {
	name    string
	command func() *exec.Cmd
	took    times
	failed  error // the last failure of a peer; one of wolffia ends the part
}

// peers compares programs that run one command in a sandbox, as whole processes, turn by turn. A program that does not
// run here has a row that says so.
func (b *bench) peers() error {
	all := []*program{
		{name: "bash -c :", command: func() *exec.Cmd { return exec.Command("bash", "-c", ":") }},
		{name: "bare bwrap --unshare-all bash -c :", command: bare},
	}
	run := func(more ...string) func() *exec.Cmd {
		args := slices.Concat([]string{"run", "-q", "--codebase", "."}, more, []string{"--", "true"})
		return func() *exec.Cmd { return b.command(args...) }
	}
	all = append(all, &program{name: "cold: wolffia run --codebase . -- true", command: run("--mount-point", coldMount)})
	filled := func(f func() error) error { return f() }
	if os.Geteuid() == 0 {
		b.notMeasured("warm: wolffia run", errNotRoot)
	} else {
		shape, end, err := b.runPool(peerPool)
		if err != nil {
			return err
		}
		defer end()
		all = append(all, &program{name: "warm: wolffia run --codebase . -- true", command: run()})
		filled = func(f func() error) error { return b.allTaken(shape, peerTurns, f) }
	}
	ours := len(all)
	for _, find := range []func() (*program, func(), error){b.srt, b.runscTrue, b.dockerTrue} {
		p, end, err := find()
		if err != nil {
			b.notMeasured(p.name, err)
			continue
		}
		defer end()
		all = append(all, p)
	}
	turns := func() error {
		for range peerTurns {
			for _, p := range all {
				d, err := took(p.run)
				switch {
				case err == nil:
					p.took = append(p.took, d)
				case slices.Contains(all[:ours], p):
					return err
				default:
					p.failed = err
				}
			}
		}
		return nil
	}
	for range peerFills {
		if err := filled(turns); err != nil {
			return err
		}
	}
	for _, p := range all {
		if p.failed != nil {
			b.notMeasured(fmt.Sprintf("%d of %d turns", peerFills*peerTurns-len(p.took), peerFills*peerTurns), p.failed)
		}
		if len(p.took) > 0 {
			b.row(p.name+", whole process", p.took, "")
		}
	}
	return nil
}

// notMeasured prints a row that says why a program or part is left out.
func (b *bench) notMeasured(name string, err error) {
	fmt.Fprintf(b.table, "%s: not measured: %s\t\t\t\t\t\n", name, strings.Join(strings.Fields(err.Error()), " "))
}

// run runs the program once. It has to succeed.
func (p *program) run() error {
	cmd := p.command()
	cmd.Stderr = nil
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", p.name, err, out)
	}
	return nil
}

// tried returns p if it runs here.
func (p *program) tried(end func()) (*program, func(), error) {
	err := p.run()
	if err != nil {
		end()
	}
	return p, end, err
}

// srt is a peer from npm, of the version in testdata/srt/package-lock.json, in its usual configuration: nothing may be
// written, no host may be reached.
func (b *bench) srt() (*program, func(), error) {
	p := &program{name: "srt true"}
	dir, err := npm("bench/testdata/srt", "package.json", "package-lock.json")
	if err != nil {
		return p, nil, err
	}
	p.command = func() *exec.Cmd {
		cmd := exec.Command(filepath.Join(dir, "node_modules", ".bin", "srt"), "true")
		cmd.Dir = b.codebase
		cmd.Env = append(os.Environ(), "HOME="+dir) // without settings
		return cmd
	}
	return p.tried(func() { _ = os.RemoveAll(dir) })
}

// runscTrue is runsc do as a peer of whole processes.
func (b *bench) runscTrue() (*program, func(), error) {
	found, err := runsc.Find(b.ctx, filepath.Dir(b.wolffia))
	if err != nil {
		return &program{name: "runsc do true"}, nil, err
	}
	return runscDo(found.Path)
}

// npm installs the packages that the files name, which it copies from a directory of the checkout to one that the caller
// removes. npm checks their digests.
func npm(from string, files ...string) (dir string, err error) {
	if dir, err = os.MkdirTemp("", "wolffia-bench"); err != nil {
		return "", err
	}
	defer func() {
		if err != nil {
			_ = os.RemoveAll(dir)
		}
	}()
	for _, name := range files {
		text, err := os.ReadFile(filepath.Join(from, name))
		if err != nil {
			return "", fmt.Errorf("run bench at the top of the checkout: %w", err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			return "", err
		}
	}
	install := exec.Command("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
	install.Dir = dir
	if out, err := install.CombinedOutput(); err != nil {
		return "", fmt.Errorf("npm ci: %w: %.200q", err, out)
	}
	return dir, nil
}
