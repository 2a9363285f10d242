package sessiontest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"wolffia/runtime"
)

// Bench measures what a user of a session waits for:
//
//	Builtin        a command that starts no process
//	Program        one that starts /bin/true
//	Create         a new session, its first command, and its end
//	Output         100 MB of output
func Bench(b *testing.B, c Config) {
	b.Run("Builtin", func(b *testing.B) { benchCommand(b, &c, ":") })
	b.Run("Program", func(b *testing.B) { benchCommand(b, &c, "/bin/true") })
	b.Run("Create", func(b *testing.B) { benchCreate(b, &c) })
	b.Run("Output", func(b *testing.B) { benchOutput(b, &c) })
}

// A series is how long each of many things took.
type series []time.Duration

// report names the median and the 99th percentile, in microseconds.
func (s series) report(b *testing.B, what string) {
	slices.Sort(s)
	for _, p := range []int{50, 99} {
		b.ReportMetric(float64(s[(len(s)-1)*p/100].Nanoseconds())/1e3, fmt.Sprintf("%s-p%d-us", what, p))
	}
}

func benchCommand(b *testing.B, c *Config, script string) {
	s := newEnv(b, c).shell(nil)
	req := &runtime.SessionExecRequest{Command: []string{script}}
	s.exec(req)
	var took series
	for b.Loop() {
		begin := time.Now()
		if r := s.exec(req); r.ExitCode != 0 {
			b.Fatalf("exec: got r %+v; want r.ExitCode == 0", r)
		}
		took = append(took, time.Since(begin))
	}
	took.report(b, "command")
}

func benchCreate(b *testing.B, c *Config) {
	e := newEnv(b, c)
	var ready, gone series
	for b.Loop() {
		begin := time.Now()
		s := e.shell(nil)
		s.run(":")
		ready = append(ready, time.Since(begin))
		begin = time.Now()
		e.OK(e.rt.DestroySession(e.Ctx, s.ID))
		gone = append(gone, time.Since(begin))
	}
	ready.report(b, "ready")
	gone.report(b, "destroy")
}

func benchOutput(b *testing.B, c *Config) {
	const size = 100_000_000
	s := newEnv(b, c).shell(nil)
	b.SetBytes(size) // MB/s
	for b.Loop() {
		output, ended := make(chan []byte), make(chan error, 1)
		go func() { // ends with the command
			ended <- s.rt.SessionExecStream(s.Ctx, s.ID, &runtime.SessionExecRequest{Command: []string{fmt.Sprintf("head -c %d /dev/zero", size)}}, output)
		}()
		n := 0
		for p := range output {
			n += len(p)
		}
		if err := <-ended; n != size || err != nil {
			b.Fatalf("%d bytes, %v", n, err)
		}
	}
}
