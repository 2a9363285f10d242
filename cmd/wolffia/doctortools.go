package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"wolffia/cmd/wolffia/internal/console"
	"wolffia/cmd/wolffia/internal/host"
	"wolffia/internal/host/probe"
	"wolffia/local"
	"wolffia/runtime"
	"wolffia/toolchain"
)

// Limits of the programs that doctor --tools runs.
const (
	maxTools   = 50 // of a toolchain
	toolsAtOne = 4  // at the same time
	toolLimit  = 5 * time.Second
)

// missingPart is what a program prints that lacks a part of itself. Other failures are of programs
// that do not know --version.
var missingPart = []string{
	`[Cc]annot find (?:module|package)`, `ModuleNotFoundError`, `ImportError`, `cannot open shared object`,
	`No such file or directory`, `bad interpreter`, `ENOENT`, `EACCES`, `[Pp]ermission denied`, `not found`,
}

// toolsWork runs each program of the toolchains once in a sandbox without a codebase and a network,
// as NAME --version, and returns a result for each toolchain.
func toolsWork(ctx context.Context, h *host.Host, found *toolchain.Found) (results []probe.Result, err error) {
	defer h.During("run each program of PATH inside")()
	rt, err := h.Open("")
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, "--state-dir", rt.StateDir(),
		"create", "--no-config", "--no-codebase", "--ttl", "10m", "-q")
	cmd.Stderr = h.Err.File
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("make a sandbox for --tools: %w", err)
	}
	id := strings.TrimSpace(string(out))
	defer func() { err = errors.Join(err, rt.Destroy(context.WithoutCancel(ctx), id)) }()
	for i := range found.Toolchains {
		t := &found.Toolchains[i]
		if r, any := tryTools(ctx, rt, id, t.Name, t.Dirs); any {
			results = append(results, r)
		}
	}
	return results, nil
}

// tryTools is toolsWork for one toolchain. any is whether it has programs.
func tryTools(ctx context.Context, rt *local.Runtime, id, name string, dirs []string) (r probe.Result, any bool) {
	programs := programsIn(dirs)
	left := max(0, len(programs)-maxTools)
	programs = programs[:len(programs)-left]
	problems := make([]string, len(programs))
	slots := make(chan struct{}, toolsAtOne)
	var all sync.WaitGroup
	for i, file := range programs {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			res, err := rt.Exec(ctx, id, &runtime.Command{
				Command: []string{file, "--version"}, Timeout: toolLimit, MaxOutput: 64 << 10,
			})
			if why := toolProblem(res, err); why != "" {
				problems[i] = filepath.Base(file) + ": " + why
			}
		})
	}
	all.Wait()
	failed := slices.DeleteFunc(problems, func(p string) bool { return p == "" })
	r = probe.Result{
		Feature: "tools", OK: len(failed) == 0, Problem: strings.Join(failed, "\n"),
		Found: fmt.Sprintf("%s: %d of %s work inside", name, len(programs)-len(failed), console.Counted(len(programs), "program")),
	}
	if left > 0 {
		r.Found += fmt.Sprintf("; %d more were not tried", left)
	}
	return r, len(programs) > 0
}

// programsIn returns the executable files in directories.
func programsIn(dirs []string) (files []string) {
	for _, dir := range dirs {
		names, _ := os.ReadDir(dir) // what cannot be read has none
		for _, e := range names {
			file := filepath.Join(dir, e.Name())
			if st, err := os.Stat(file); err == nil && st.Mode().IsRegular() && st.Mode()&0o111 != 0 {
				files = append(files, file)
			}
		}
	}
	return files
}

// toolProblem returns why a program does not work, from how its call with --version ended; empty if
// it works, or does not know --version.
func toolProblem(res *runtime.Result, err error) string {
	switch {
	case err != nil:
		return err.Error()
	case res.TimedOut:
		return fmt.Sprintf("it has not ended within %v", toolLimit)
	case res.ExitCode == 0:
		return ""
	case res.Signal != 0:
		return fmt.Sprintf("signal %d killed it", res.Signal)
	}
	missing := regexp.MustCompile(strings.Join(missingPart, "|"))
	for line := range strings.Lines(string(res.Stderr) + "\n" + string(res.Stdout)) {
		if missing.MatchString(line) {
			return console.Cell(strings.TrimSpace(line), 200)
		}
	}
	return ""
}
