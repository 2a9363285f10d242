package runtimetest

import (
	"bytes"
	"io"

	"wolffia/runtime"
)

// flood writes more than anybody may keep, and says so when it is through.
const (
	flood     = 64 << 20
	floodWith = "head -c 67108864 /dev/zero; echo >through"
)

// heldUp checks that a flood does not get through, and nothing else waits for
// it.
func (e *env) heldUp(id string) {
	e.Helper()
	for range 20 {
		e.prints(id, "ls; head -c 1000000 /dev/zero | wc -c", "1000000\n")
	}
}

func streamBackpressure(e *env) {
	s := e.start(nil)
	output := make(chan []byte)
	ended := async(func() error {
		return e.rt.ExecStream(e.Ctx, s.ID, &runtime.ExecRequest{Command: sh(floodWith)}, output)
	})
	n := len(<-output)
	e.heldUp(s.ID)
	for b := range output {
		n += len(b)
	}
	if err := <-ended; n != flood || err != nil {
		e.Errorf("%d bytes of %d, %v", n, flood, err)
	}
	e.prints(s.ID, "ls", "through\n")
}

func processBackpressure(e *env) {
	s := e.start(nil)
	p := e.process(s.ID, &runtime.Command{Command: sh(floodWith)})
	e.Expect(p.Stdout(), string(bytes.Repeat([]byte{0}, 10)))
	e.heldUp(s.ID)
	if n := len(e.All(p.Stdout())); n != flood-10 {
		e.Errorf("%d bytes, want %d", n, flood-10)
	}
	if exit := e.wait(p); exit.ExitCode != 0 {
		e.Errorf("wait: got exit %+v; want exit.ExitCode == 0", exit)
	}
	e.prints(s.ID, "ls", "through\n")
}

// A stream without a reader does not delay the other one.
func processStderrBackpressure(e *env) {
	s := e.start(nil)
	p := e.process(s.ID, &runtime.Command{Command: sh("(" + floodWith + ") >&2 & seq 1 200000; wait")})
	out := make([]byte, 1288895) // all that seq says
	read := make(chan struct{})
	go func() { // ends with the stream
		_, _ = io.ReadFull(p.Stdout(), out)
		close(read)
	}()
	e.Within("stdout beside a stalled stderr", read)
	e.heldUp(s.ID)
	if n := len(e.All(p.Stderr())); n != flood {
		e.Errorf("%d bytes, want %d", n, flood)
	}
}
