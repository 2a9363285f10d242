package runtimetest

import (
	"strings"

	"wolffia/runtime"
)

// python runs a program that must succeed, and returns what it prints. The
// program is its standard input, which is not as short as an argument.
func (e *env) python(id, program string) string {
	e.Helper()
	r := e.exec(id, &runtime.ExecRequest{
		Command: []string{"/usr/bin/python3", "-I", "-S", "-B", "-"}, Stdin: strings.NewReader(prelude + program),
	})
	if r.ExitCode != 0 {
		e.Errorf("python3: exit code %d\n%s", r.ExitCode, r.Stderr)
	}
	return string(r.Stdout)
}

// prelude is for what has no function of Python's own: sys makes a system call
// and prints its name and what became of it.
const prelude = `
import ctypes, errno, os, socket
libc = ctypes.CDLL(None, use_errno=True)
def sys(name, nr, *args):
    ctypes.set_errno(0)
    r = libc.syscall(nr, *[ctypes.c_long(a) if isinstance(a, int) else a for a in args])
    print(name, 'works' if r >= 0 else errno.errorcode[ctypes.get_errno()])
def attempt(name, f):
    try: f(); print(name, 'works')
    except OSError as e: print(name, errno.errorcode.get(e.errno, str(e)))
`

// refused checks that nothing that a program attempts works, and that each
// attempt was made.
func (e *env) refused(id, program string, attempts int) {
	e.Helper()
	out := e.python(id, program)
	n := 0
	for line := range strings.Lines(out) {
		n++
		if strings.HasSuffix(line, " works\n") {
			e.Errorf("got line %s; want line does not end with %q", line, " works\n")
		}
	}
	if n != attempts {
		e.Errorf("%d of %d attempts were made: %s", n, attempts, out)
	}
}
