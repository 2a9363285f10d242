package sessiontest

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"

	"wolffia/runtime"
)

var streamTests = []test{
	{"StreamOutput", nil, streamOutput},
	{"StreamInput", nil, streamInput},
	{"StreamNobodyReadsInput", nil, streamNobodyReads},
	{"StreamMaxOutput", nil, streamMaxOutput},
	{"StreamOrder", nil, streamOrder},
	{"StreamIsLive", nil, streamIsLive},
	{"StreamIsTheReaders", nil, streamIsTheReaders},
	{"StreamBackpressure", nil, streamBackpressure},
	{"StreamClosesAlways", nil, streamClosesAlways},
}

// stream runs a command and returns all of its output.
func (s *shell) stream(req *runtime.SessionExecRequest) (string, error) {
	s.Helper()
	return s.Collect(func(output chan<- []byte) error { return s.rt.SessionExecStream(s.Ctx, s.ID, req, output) })
}

// Output comes byte for byte, and each stream by itself.
func streamOutput(e *env) {
	s := e.shell(nil)
	var every []byte
	for i := range 256 {
		every = append(every, byte(i))
	}
	s.prints(`for i in {0..255}; do printf "\\x$(printf %x $i)"; done`, string(every))
	s.does(`printf 'no newline'; printf 'nor here' >&2`, "no newline", "nor here", 0)
	s.does(`printf '\n\n'; printf '\r\n\004\003\032\377' >&2`, "\n\n", "\r\n\x04\x03\x1a\xff", 0)
	s.does("for i in 1 2 3; do echo o$i; echo e$i >&2; done", "o1\no2\no3\n", "e1\ne2\ne3\n", 0)
	s.prints("exec >&- 2>&-", "")
	s.prints("python3 -c 'import os; os.write(1, bytes(range(256)) * 1000)'", strings.Repeat(string(every), 1000))
	s.alive()
	s.same()
}

func streamInput(e *env) {
	s := e.shell(nil)
	s.prints("cat; echo end", "end\n") // none: it is empty
	for _, n := range []int{0, 1, 100_000, 5 << 20} {
		in := bytes.Repeat([]byte("0123456\x00"), n/8+1)[:n]
		for _, script := range []string{"cat", "exec cat"} {
			r := s.exec(&runtime.SessionExecRequest{Command: []string{script}, Stdin: bytes.NewReader(in)})
			if !bytes.Equal(r.Stdout, in) || r.ExitCode != 0 {
				s.Errorf("%s: of %d bytes %d came back, exit code %d", script, n, len(r.Stdout), r.ExitCode)
			}
		}
		s.run(":")
	}
	r := s.exec(&runtime.SessionExecRequest{Command: []string{"read a; read b; x=$a; cat"}, Stdin: strings.NewReader("1\n2\n3\n4")})
	s.is("read", r, "3\n4", "", 0)
	s.prints("echo $x; cat", "1\n")
	s.alive()
}

// zeros never ends.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

// The end of the command is the end, whatever there is left to read, and
// though the reader itself may hang. The rest is not the next command's.
func streamNobodyReads(e *env) {
	s := e.shell(nil)
	hangs, w := io.Pipe()
	defer w.Close()
	for what, in := range map[string]io.Reader{"endless input": zeros{}, "input that hangs": hangs} {
		for _, script := range []string{"(exit 3)", "exec <&-; (exit 3)", "head -c 10 </dev/null; (exit 3)"} {
			r := s.exec(&runtime.SessionExecRequest{Command: []string{script}, Stdin: in})
			s.is(what+", "+script, r, "", "", 3)
			s.prints("cat", "")
		}
	}
	s.same()
}

// What is beyond MaxOutput is counted.
func streamMaxOutput(e *env) {
	s := e.shell(nil)
	r := s.exec(&runtime.SessionExecRequest{Command: []string{"head -c 3000000 /dev/zero; echo complaint >&2"}, MaxOutput: 10})
	if string(r.Stdout) != strings.Repeat("\x00", 10) || r.StdoutDropped != 2999990 || string(r.Stderr) != "complaint\n" || r.StderrDropped != 0 || !r.Truncated() {
		s.Errorf("exec: got r %+v; want r.Stdout == strings.Repeat(%q, 10) and r.StdoutDropped == 2999990 and r.Stderr == %q and r.StderrDropped == 0 and r.Truncated()",
			r, "\x00", "complaint\n")
	}
	r = s.exec(&runtime.SessionExecRequest{Command: []string{"printf 0123456789; printf 0123456789x >&2"}, MaxOutput: 10})
	if r.StdoutDropped != 0 || r.StderrDropped != 1 || string(r.Stdout) != "0123456789" || string(r.Stderr) != "0123456789" {
		s.Errorf(`exec: got r %+v; want r.StdoutDropped == 0 and r.StderrDropped == 1 and r.Stdout == "0123456789" and r.Stderr == "0123456789"`,
			r)
	}
	r = s.exec(&runtime.SessionExecRequest{Command: []string{"echo begin; seq 1 500000; echo end"}, MaxOutput: 100, TailOutput: 10})
	if !strings.HasPrefix(string(r.Stdout), "begin\n1\n2\n") || !strings.HasSuffix(string(r.Stdout), "00000\nend\n") || len(r.Stdout) != 100 || r.StdoutDropped != 3388895+6+4-100 {
		s.Errorf("beginning and end: %+v", r)
	}
	s.alive()
}

// Both streams of SessionExecStream are one.
func streamOrder(e *env) {
	s := e.shell(nil)
	var want strings.Builder
	for i := range 100 {
		fmt.Fprintf(&want, "out%d\nerr%d\n", i, i)
	}
	got, err := s.stream(&runtime.SessionExecRequest{Command: []string{"for ((i=0; i<100; i++)); do echo out$i; sh -c 'echo err$1 >&2' sh $i; done"}})
	if err != nil || got != want.String() {
		s.Errorf("stream: got %q, %v; want want.String(), nil", got, err)
	}
	got, err = s.stream(&runtime.SessionExecRequest{Command: []string{"cat; echo $i"}, Stdin: strings.NewReader("in\n")})
	if err != nil || got != "in\n100\n" {
		s.Errorf("stream: got %q, %v; want %q, nil", got, err, "in\n100\n")
	}
	s.alive()
}

// Output comes when it is written, not at the end, and what was sent is not
// written over.
func streamIsLive(e *env) {
	s := e.shell(nil)
	wait, open := s.gate()
	output, ended := make(chan []byte), make(chan error, 1)
	go func() { // ends with the command
		ended <- s.rt.SessionExecStream(s.Ctx, s.ID, &runtime.SessionExecRequest{Command: []string{"echo first; " + wait + "; echo second"}}, output)
	}()
	first := <-output
	open()
	second := <-output
	if _, more := <-output; more {
		s.Error("there is more")
	}
	if err := <-ended; string(first) != "first\n" || string(second) != "second\n" || err != nil {
		s.Errorf("got %q, %q, %v; want %q, %q, nil", first, second, err, "first\n", "second\n")
	}
}

// What was sent stays as it is, also if it was much.
func streamIsTheReaders(e *env) {
	s := e.shell(nil)
	output, ended := make(chan []byte), make(chan error, 1)
	go func() { // ends with the command
		ended <- s.rt.SessionExecStream(s.Ctx, s.ID, &runtime.SessionExecRequest{Command: []string{"seq 1000000"}}, output)
	}()
	var pieces [][]byte
	for b := range output {
		pieces = append(pieces, b)
	}
	next := 1
	for line := range bytes.Lines(bytes.Join(pieces, nil)) {
		if string(line) != strconv.Itoa(next)+"\n" {
			s.Fatalf("%q in line %d", line, next)
		}
		next++
	}
	if err := <-ended; next != 1000001 || err != nil {
		s.Errorf("%d lines, %v", next-1, err)
	}
}

// 100 MB wait for their reader, and nothing else does.
func streamBackpressure(e *env) {
	s, other := e.shell(nil), e.shell(nil)
	const flood = 100_000_000
	output, ended := make(chan []byte), make(chan error, 1)
	go func() { // ends with the command
		ended <- s.rt.SessionExecStream(s.Ctx, s.ID, &runtime.SessionExecRequest{
			Command: []string{fmt.Sprintf("head -c %d /dev/zero; echo >~/through; sent=all", flood)},
		}, output)
	}()
	n := len(<-output)
	for range 20 {
		other.prints("ls ~; head -c 1000000 /dev/zero | wc -c", "1000000\n")
	}
	for b := range output {
		n += len(b)
	}
	if err := <-ended; n != flood || err != nil {
		s.Errorf("%d bytes of %d, %v", n, flood, err)
	}
	s.prints("ls ~; echo $sent", "through\nall\n")
	s.same()
}

func streamClosesAlways(e *env) {
	s := e.shell(nil)
	_, err := s.stream(&runtime.SessionExecRequest{Command: []string{"echo a\x00b"}})
	s.Wrong("a NUL", err, runtime.ErrInvalid)
	for _, id := range []runtime.SessionID{"no-slash", runtime.SessionIn(e.box, "nobody"), "nobody/main"} {
		_, err = (&shell{e, &runtime.Session{ID: id}}).stream(&runtime.SessionExecRequest{Command: []string{"true"}})
		s.Wrong("stream of "+string(id), err, runtime.ErrNotFound)
	}
	s.alive()
}
