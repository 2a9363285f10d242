// Report runs go test -json for a summary of what failed.
//
//	report run DIR PASS CMD [ARG...]
//	report failed DIR PASS
//	report end DIR
//
// Run prints what failed, with its output, and a line for each package. It writes
// all to DIR/PASS.json, and exits with the command's code. Failed prints the tests of a pass that may have a second try. End reads all passes: it prints
// the ten slowest tests, and those that no pass has run, with the reason. It
// fails if there was a pass as root and one as another user, and one of these needs either, or, with
// WOLFFIA_REQUIRE=all, needs anything.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

func main() {
	if len(os.Args) > 4 && os.Args[1] == "run" {
		code, err := run(os.Args[2], os.Args[3], os.Args[4:])
		if err != nil {
			fmt.Fprintln(os.Stderr, "report:", err)
			code = max(code, 1)
		}
		os.Exit(code)
	}
	if len(os.Args) == 4 && os.Args[1] == "failed" {
		log, err := os.Open(filepath.Join(os.Args[2], os.Args[3]+".json"))
		if err == nil {
			err = failed(log, os.Stdout)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "report: no second try:", err)
			os.Exit(1)
		}
		return
	}
	if len(os.Args) != 3 || os.Args[1] != "end" {
		fmt.Fprintln(os.Stderr, "usage: report run DIR PASS CMD [ARG...]\n       report failed DIR PASS\n       report end DIR")
		os.Exit(2)
	}
	if err := end(os.Args[2], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "report:", err)
		os.Exit(1)
	}
}

// run runs a command that prints the events of tests, and returns its exit code.
func run(dir, pass string, command []string) (code int, err error) {
	// The command gets a ^C too, and ends; what is ignored here it would ignore.
	signal.Notify(make(chan os.Signal, 1), unix.SIGINT)
	log, err := os.OpenFile(filepath.Join(dir, pass+".json"), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return 1, err
	}
	path, err := exec.LookPath(command[0])
	if err != nil {
		return 1, errors.Join(err, log.Close())
	}
	cmd := &exec.Cmd{Path: path, Args: command, Stdin: os.Stdin, Stderr: os.Stderr}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return 1, errors.Join(err, log.Close())
	}
	rerr := newReader(pass, os.Stdout).read(io.TeeReader(out, log))
	err = cmd.Wait()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		code, err = max(1, exit.ExitCode()), nil
	}
	return code, errors.Join(rerr, err, log.Close())
}

// end prints what all passes of a directory come to.
func end(dir string, w io.Writer) error {
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return err
	}
	s := newSummary(os.Getenv("WOLFFIA_REQUIRE") == "all")
	for _, file := range files {
		if err := s.add(file); err != nil {
			return err
		}
	}
	return s.print(w)
}

// events calls f with each event of a stream. What is no event is one of output: go test
// prints some lines of its own.
func events(r io.Reader, f func(*event)) error {
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadString('\n')
		if line != "" {
			e := event{}
			if !strings.HasPrefix(line, "{") || json.Unmarshal([]byte(line), &e) != nil {
				e = event{Action: "build-output", Output: line}
			}
			f(&e)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
